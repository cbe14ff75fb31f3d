"""Spark on tables of interbed, Iceberg and Delta and on plain Parquet files: the same work in one session.

    python -m tests.benchmarks.spark_peers [--rows 4000000] [--peers iceberg,delta] [--json]

The rows are those of tests/benchmarks/data.py: a base, three upserts of a twentieth, two more by MERGE INTO, and a
fiftieth that two DELETEs remove. Reads are repeated, the engines in turn, so that a slow minute of the machine does not
affect only one of them; the minimum of each figure counts. The base is written once, after some small writes of each
engine; upserts, MERGEs and DELETEs happen several times, and the first one is the warm-up. A ratio is ours over the
peer's: below 1 interbed is faster.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from tests.benchmarks import data
from tests.benchmarks.spark_engines import BUCKETS, COLUMNS, ENGINES, Engine, session
from tests.benchmarks.spark_figures import Figures, least, timed
from tests.benchmarks.spark_first_query import PLAIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Query = Callable[[DataFrame], DataFrame]

REPEATS = 5
FIRST_QUERY_TURNS = 2
WARM_UPS = 3
MERGES = 2
"""Number of the data's upserts, the last ones, that are done by MERGE INTO."""
DELETES = 2
PARQUET = "parquet"
PEERS = tuple(engine.name for engine in ENGINES[1:])
TIMEOUT_SECONDS = 600

GOALS = {
    ("full scan", "iceberg"): 1.0,
    ("two columns", "iceberg"): 1.1,
    ("compacted: full scan", PARQUET): 1.15,
    ("compacted: two columns", PARQUET): 1.15,
    ("deletion vectors: full scan", PARQUET): 1.15,
    ("deletion vectors: two columns", PARQUET): 1.15,
    ("upsert", "iceberg"): 0.25,
    ("merge into", "iceberg"): 0.5,
    ("delete", "iceberg"): 0.6,
    ("full compaction", "iceberg"): 0.34,
}
"""Maximal wall (reads) or CPU (writes) ratios for a release."""
FIRST_QUERY_GOAL_SECONDS = 1.5
"""Maximal extra time of the first query of a session over plain Parquet."""

Found = dict[str, dict[str, Figures]]


def measure(console: Console, rows: int, peers: Collection[str] = PEERS) -> Found:
    """Return the figures by stage and engine, of the named peers only."""
    with tempfile.TemporaryDirectory(prefix="interbed-bench-spark-", ignore_cleanup_errors=True) as temporary:
        directory = Path(temporary)
        with console.status(f"making {rows:,} rows"):
            data.make(directory, rows)
            for file in directory.glob("*.arrow"):
                _to_parquet(file)
        spark = session(directory)
        try:
            found = _measure(spark, directory, peers, console)
        finally:
            spark.stop()
        found["first query"] = _first_queries(directory, peers, console)
        return found


def _to_parquet(file: Path) -> None:
    """Replace an Arrow file by Parquet; the keys to delete are divided among the DELETEs."""
    rows = data.read(file)
    parts = [(file.stem, rows)]
    if file.stem == "delete":
        size = -(-rows.num_rows // DELETES)
        parts = [(f"delete-{turn}", rows.slice(turn * size, size)) for turn in range(DELETES)]
    for name, part in parts:
        pq.write_table(part, file.with_name(f"{name}.parquet"), compression="zstd")
    file.unlink()


def _measure(spark: "SparkSession", directory: Path, peers: Collection[str], console: Console) -> Found:
    facts = json.loads((directory / "facts.json").read_text())
    for file in directory.glob("*.parquet"):
        spark.read.parquet(str(file)).createOrReplaceTempView(file.stem.replace("-", "_"))
    engines: list[Engine] = [e(spark, directory) for e in ENGINES if e is ENGINES[0] or e.name in peers]
    queries = _queries(facts["lookup"])
    found: Found = {}

    def once(stage: str, engine: Engine, work: Callable[[], object]) -> Figures:
        with console.status(f"{stage}: {engine.name}"):
            figures = timed(work)
        known = found.setdefault(stage, {}).get(engine.name)
        found[stage][engine.name] = figures if known is None else least([known, figures])
        return figures

    # The first writer would pay for the compilation of Spark's own code.
    for engine in engines * WARM_UPS:
        engine.create()
        engine.append("upsert_0")
        engine.drop()
    for engine in engines:
        engine.create()
        once("base write", engine, lambda e=engine: e.append("base"))  # type: ignore[misc]
    upserts = data.UPSERTS - MERGES
    for turn in range(data.UPSERTS):
        for engine in engines:
            if turn < upserts:
                once("upsert", engine, lambda e=engine, t=turn: e.upsert(f"upsert_{t}"))  # type: ignore[misc]
            else:
                once("merge into", engine, lambda e=engine, t=turn: e.merge(f"upsert_{t}"))  # type: ignore[misc]
    for turn in range(DELETES):
        for engine in engines:
            once("delete", engine, lambda e=engine, t=turn: e.delete(f"delete_{t}"))  # type: ignore[misc]
    _read(found, "", queries, {e.name: e.frame for e in engines}, facts["rows_at_the_end"], console)
    for engine in engines:
        once("full compaction", engine, engine.compact)
    plain = str(directory / PLAIN)
    engines[0].frame().write.parquet(plain)
    frames = {e.name: e.frame for e in engines} | {PARQUET: lambda: spark.read.parquet(plain)}
    _read(found, "compacted: ", queries, frames, facts["rows_at_the_end"], console)
    _read_with_deletions(found, spark, directory, queries, console)
    return found


def _read_with_deletions(
    found: Found, spark: "SparkSession", directory: Path, queries: "dict[str, Query]", console: Console
) -> None:
    """Measure scans of a table with deletion vectors, against Parquet files of the remaining rows."""
    table, plain = "lake.b.marked", str(directory / "plain-marked")
    with console.status("deletion vectors: writing"):
        spark.sql(
            f"CREATE TABLE {table} ({COLUMNS}) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '{BUCKETS}', "
            "'file.compression' = 'zstd', 'deletion-vectors.enabled' = 'true')"
        )
        for source in ("base", "upsert_0"):
            spark.sql(f"INSERT INTO {table} SELECT * FROM {source}")
        spark.sql(f"DELETE FROM {table} WHERE id IN (SELECT id FROM delete_0)")
        spark.table(table).write.parquet(plain)
        rows = spark.read.parquet(plain).count()
    scans = {name: queries[name] for name in ("full scan", "two columns")}
    frames = {ENGINES[0].name: lambda: spark.table(table), PARQUET: lambda: spark.read.parquet(plain)}
    _read(found, "deletion vectors: ", scans, frames, rows, console)


def _queries(lookup: int) -> "dict[str, Query]":
    return {
        "full scan": lambda frame: frame,
        "two columns": lambda frame: frame.select("id", "amount"),
        "filter": lambda frame: frame.where("amount < 10000000000"),
        "count": lambda frame: frame.selectExpr("count(*)"),
        "point query": lambda frame: frame.where(f"id = {lookup}"),
    }


def _read(
    found: Found,
    prefix: str,
    queries: "dict[str, Query]",
    frames: "dict[str, Callable[[], DataFrame]]",
    rows: int,
    console: Console,
) -> None:
    """Run each query of each engine in turn; the first turn is a warm-up and does not count."""
    for name, frame in frames.items():
        if (counted := frame().selectExpr("sum(1)").collect()[0][0]) != rows:
            raise SystemExit(f"{name} has {counted} rows, {rows} are there.")
    for stage, query in queries.items():
        runs: dict[str, list[Figures]] = {name: [] for name in frames}
        for _ in range(REPEATS + 1):
            for name, frame in frames.items():
                with console.status(f"{prefix}{stage}: {name}"):
                    runs[name].append(timed(lambda f=frame, q=query: _drain(q(f()))))  # type: ignore[misc]
        found[f"{prefix}{stage}"] = {name: least(figures[1:]) for name, figures in runs.items()}


def _drain(frame: "DataFrame") -> None:
    # Not by the sink "noop": Delta can't write a table with deletion vectors to it.
    frame._jdf.queryExecution().toRdd().count()


def _first_queries(warehouse: Path, peers: Collection[str], console: Console) -> dict[str, Figures]:
    runs: dict[str, list[Figures]] = {}
    for _ in range(FIRST_QUERY_TURNS):
        for name in (PARQUET, ENGINES[0].name, *peers):
            command = [sys.executable, "-m", "tests.benchmarks.spark_first_query", str(warehouse), name]
            with console.status(f"first query: {name}"):
                done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
            if done.returncode:
                raise SystemExit(f"first query, {name}: {done.stderr[-2000:]}")
            runs.setdefault(name, []).append(json.loads(done.stdout.splitlines()[-1]))
    return {name: least(figures) for name, figures in runs.items()}


def show(found: Found, console: Console) -> None:
    """Print the figures, ratios and goals as a table."""
    names = [n for n in (*(engine.name for engine in ENGINES), PARQUET) if n in found["first query"]]
    view = Table(title="Spark: wall seconds (CPU seconds); ratios are ours / peer's, wall (CPU)", title_justify="left")
    view.add_column("stage")
    for name in names:
        view.add_column(name, justify="right")
    for name in names[1:]:
        view.add_column(f"to {name}", justify="right")
    view.add_column("goal", justify="right")
    for stage, figures in found.items():
        cells = [f"{f['wall_s']:.2f} ({f['cpu_s']:.2f})" if (f := figures.get(n)) else "–" for n in names]
        ours = figures.get(names[0])
        ratios = [_ratio(ours, figures.get(peer)) for peer in names[1:]]
        view.add_row(stage, *cells, *ratios, "; ".join(_goals(stage)))
    console.print(view)
    first = found["first query"]
    more = first[names[0]]["wall_s"] - first[PARQUET]["wall_s"]
    console.print(f"First query of a session: {more:.2f} s over plain Parquet's (goal {FIRST_QUERY_GOAL_SECONDS}).")


def _ratio(ours: Figures | None, peers: Figures | None) -> str:
    if ours is None or peers is None:
        return "–"
    return f"{ours['wall_s'] / peers['wall_s']:.2f} ({ours['cpu_s'] / max(peers['cpu_s'], 0.01):.2f})"


def _goals(stage: str) -> Iterator[str]:
    for (name, peer), goal in GOALS.items():
        if name == stage:
            yield f"{goal:.2f} {peer}"


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 200)
    found = measure(console, arguments.rows, arguments.peers.split(","))
    show(found, console)
    if arguments.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
