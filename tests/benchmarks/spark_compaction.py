"""Compaction by statements of Spark: `CALL sys.compact` on interbed against Iceberg's `rewrite_data_files`.

    python -m tests.benchmarks.spark_compaction [--rows 1000000] [--json]

Merging: a base and five upserts of a twentieth in four buckets; Iceberg's table is of version 3 with merge-on-read.
Sorting: the same rows without a key, written by eight tasks, along a Z-order of two columns. Each engine works on new
tables in turn; the first turn is a warm-up, the minimum of the others counts. A ratio is ours over Iceberg's: below 1
interbed is faster.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from tests.benchmarks import data
from tests.benchmarks.spark_engines import COLUMNS, ENGINES, session
from tests.benchmarks.spark_figures import Figures, least, timed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TURNS = 3
GOALS = {"full compaction": 0.34}
"""Maximal ratios of CPU seconds for a release."""
_SORTS = {
    "interbed": (
        "lake.b.s",
        "TBLPROPERTIES ('file.compression' = 'zstd')",
        "CALL lake.sys.compact(table => 'b.s', order_strategy => 'zorder', order_by => 'amount,price')",
    ),
    "iceberg": (
        "ice.b.s",
        "USING iceberg TBLPROPERTIES ('format-version' = '3', 'write.parquet.compression-codec' = 'zstd')",
        "CALL ice.system.rewrite_data_files(table => 'b.s', strategy => 'sort', sort_order => 'zorder(amount, price)', "
        "options => map('rewrite-all', 'true'))",
    ),
}

Found = dict[str, dict[str, Figures]]


def measure(console: Console, rows: int) -> Found:
    """Return the figures by stage and engine."""
    with tempfile.TemporaryDirectory(prefix="interbed-bench-spark-", ignore_cleanup_errors=True) as temporary:
        directory = Path(temporary)
        data.make(directory, rows)
        for file in directory.glob("*.arrow"):
            pq.write_table(data.read(file), file.with_suffix(".parquet"), compression="zstd")
            file.unlink()
        spark = session(directory)
        try:
            return _measure(spark, directory, console)
        finally:
            spark.stop()


def _measure(spark: "SparkSession", directory: Path, console: Console) -> Found:
    for file in directory.glob("*.parquet"):
        spark.read.parquet(str(file)).createOrReplaceTempView(file.stem.replace("-", "_"))
    runs: dict[str, dict[str, list[Figures]]] = {"full compaction": {}, "z-order": {}}
    # All turns of one stage end before the next stage begins, so that each is measured fully warmed up.
    for turn in range(TURNS):
        for engine in (e(spark, directory) for e in ENGINES if e.name in _SORTS):
            with console.status(f"full compaction, turn {turn}: {engine.name}"):
                if turn:
                    spark.sql(f"DROP TABLE {engine.table}")
                    spark.sql(f"DROP DATABASE {engine.table.rpartition('.')[0]} CASCADE")
                engine.create()
                engine.append("base")
                for upsert in range(data.UPSERTS):
                    engine.upsert(f"upsert_{upsert}")
                runs["full compaction"].setdefault(engine.name, []).append(timed(engine.compact))
    for turn in range(TURNS):
        for name, (table, properties, statement) in _SORTS.items():
            with console.status(f"z-order, turn {turn}: {name}"):
                spark.sql(f"DROP TABLE IF EXISTS {table}")
                spark.sql(f"CREATE TABLE {table} ({COLUMNS}) {properties}")
                spark.table("base").repartition(8).writeTo(table).append()
                figures = timed(lambda s=statement: spark.sql(s).collect())  # type: ignore[misc]
                runs["z-order"].setdefault(name, []).append(figures)
    return {stage: {name: least(found[1:]) for name, found in by.items()} for stage, by in runs.items()}


def show(found: Found, console: Console) -> None:
    """Print the figures, ratios and goals as a table."""
    view = Table(title="Compaction in Spark: wall s (CPU s); ratios are ours / Iceberg's", title_justify="left")
    for heading in ("stage", "interbed", "iceberg", "wall", "CPU", "goal (CPU)"):
        view.add_column(heading, justify="left" if heading == "stage" else "right")
    for stage, by in found.items():
        ours, peer = by["interbed"], by["iceberg"]
        cells = [f"{f['wall_s']:.2f} ({f['cpu_s']:.2f})" for f in (ours, peer)]
        ratios = [f"{ours[key] / max(peer[key], 0.01):.2f}" for key in ("wall_s", "cpu_s")]
        view.add_row(stage, *cells, *ratios, f"{GOALS[stage]:.2f}" if stage in GOALS else "")
    console.print(view)


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 200)
    found = measure(console, arguments.rows)
    show(found, console)
    if arguments.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
