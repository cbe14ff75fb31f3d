"""A table in an object store behind a network: scans, lookups, commits and compaction, against peers and a local disk.

    python -m tests.benchmarks.stores [--rows 4000000] [--json]

The table is that of the main benchmark: a base, five upserts and a deletion, not compacted. The store is S3Proxy over a
directory. A proxy before it adds 15 ms to each request and limits each stream to 80 MB/s
(tests/support/servers/paced_proxy.py). The CPU seconds of the proxy are shown: as long as they are far below the wall
seconds, the proxy was not the bottleneck. Each stage is a separate process that has loaded its code by reading another
table; nothing of the measured table is in any cache. The engines alternate, and the minimal wall time counts, because
waiting for a network takes little CPU time.

pyiceberg reads an Iceberg table that got the same changes (stores_history.py), and one with the same rows and nothing
to merge. A merging scan is compared with both, a scan after the compaction with the latter. During a compaction the
store and the proxy take much of the CPU time. The compaction is therefore also measured without them
(stores_waiting.py), and the goal applies to that.
"""

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from rich.console import Console
from rich.table import Table

import interbed
from interbed.storage.io.resolve import file_io_for
from tests.benchmarks import lookup, stores_history, stores_iceberg
from tests.benchmarks.command import in_process, run_alone
from tests.benchmarks.run_stage import Figures, stage
from tests.support.servers.http_servers import running_s3proxy
from tests.support.servers.paced_proxy import PacedProxy, paced_proxy

LATENCY_SECONDS = 0.015
BYTES_PER_SECOND = 80e6
BUCKET = "lake"
WAREHOUSE = f"s3://{BUCKET}/lake"
TABLE, OTHER = lookup.TABLE, "b.other"
OPTIONS = {"bucket": "4", "write-only": "true"}
TURNS = 3
TIMEOUT_SECONDS = 900

CHANGED, MERGED = "two columns, cold", "two columns of one run, cold"
GOALS: Sequence[tuple[str, str | None, str | None, float | None]] = [
    (CHANGED, CHANGED, "pypaimon-rust", 0.5),
    (CHANGED, CHANGED, "pyiceberg", 0.7),
    (CHANGED, MERGED, "pyiceberg", None),
    (MERGED, MERGED, "pyiceberg", 0.7),
    ("upsert of 1,000 rows", None, None, 0.5),
    ("lookup, warm", None, None, 0.060),
    ("lookup, cold", None, None, 0.150),
    ("full compaction, client alone", "full compaction, client alone", "local disk", 1.3),
]
"""Goals for a release: seconds of interbed in a stage, over those of a peer in a stage if one is named. The goal is
None if the peer has less to do.
"""

Found = dict[str, dict[str, Figures]]


def measure(console: Console, rows: int = 4_000_000) -> Found:
    """Return the figures by stage and engine."""
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as temporary:
        directory = Path(temporary)
        local, stored = directory / "lake", directory / "store"
        stored.mkdir()
        with console.status(f"stores: making {rows:,} rows"):
            lookup.make(directory, local, rows, OPTIONS)
            merged, small = _with_other(local)
            facts = json.loads((directory / "facts.json").read_text())
            (directory / "facts.json").write_text(json.dumps({**facts, "other table": OTHER, "rows": rows}))
        with running_s3proxy(BUCKET, stored) as options:
            with console.status("stores: uploading"):
                _upload(local, options)
                of_iceberg = _iceberg(options["fs.s3a.endpoint"])
                place = f"s3://{BUCKET}/iceberg"
                metadata = {
                    MERGED: stores_iceberg.written(merged, place, of_iceberg, directory),
                    OTHER: stores_iceberg.written(small, place, of_iceberg, directory),
                }
                del merged, small
                metadata[CHANGED] = stores_history.written_with_history(directory, f"{place}-history", options)
            port = urlsplit(options["fs.s3a.endpoint"]).port
            assert port is not None
            with paced_proxy(port, latency_seconds=LATENCY_SECONDS, bytes_per_second=BYTES_PER_SECOND) as proxy:
                return _measure(console, directory, local, proxy, metadata)


def _measure(console: Console, directory: Path, local: Path, proxy: PacedProxy, metadata: Mapping[str, str]) -> Found:
    endpoint = f"http://127.0.0.1:{proxy.port}"
    store, found = _store(endpoint), Found()

    def note(name: str, engine: str, figures: Figures, before: float) -> None:
        known = found.setdefault(name, {}).get(engine)
        if known is None or figures["wall_s"] < known["wall_s"]:
            found[name][engine] = {**figures, "proxy_cpu_s": proxy.cpu_seconds - before}

    def run(name: str, engine: str, of_stage: str, *, far: bool = True) -> None:
        with console.status(f"stores: {name}: {engine}"):
            before = proxy.cpu_seconds
            place = WAREHOUSE if far else str(local)
            figures = stage(engine, of_stage, directory, place, TABLE, store=store if far else None)
            note(name, engine if far else "local disk", figures, before)

    def run_iceberg(name: str, engine: str, shown: str) -> None:
        with console.status(f"stores: {name}: {shown}"):
            before = proxy.cpu_seconds
            asked = (metadata[name], json.dumps(_iceberg(endpoint)), metadata[OTHER])
            figures = in_process("tests.benchmarks.stores_iceberg", engine, *asked, timeout=TIMEOUT_SECONDS)
            note(name, shown, figures, before)

    for _ in range(TURNS):
        for engine in ("interbed", "pypaimon-rust"):
            run(CHANGED, engine, "cold two columns")
        for name in (CHANGED, MERGED):
            run_iceberg(name, "pyiceberg", "pyiceberg")
            run_iceberg(name, "interbed", "interbed, Iceberg")
        run("lookup, cold", "interbed", "first lookup")
        run("lookup, warm", "interbed", "warm lookup")
    counts = {(name, engine): each["rows"] for name in (CHANGED, MERGED) for engine, each in found[name].items()}
    if len(set(counts.values())) != 1:
        raise SystemExit(f"two columns: the engines found {counts} rows.")
    for _ in range(TURNS):
        for name, of_stage in (("interbed", "far"), ("local disk", "near")):
            with console.status(f"stores: full compaction, client alone: {of_stage}"):
                copy = directory / "copy"
                shutil.copytree(local, copy)
                model = (copy, TABLE, OTHER, LATENCY_SECONDS, BYTES_PER_SECOND)
                figures = in_process("tests.benchmarks.stores_waiting", of_stage, *model, timeout=TIMEOUT_SECONDS)
                note("full compaction, client alone", name, figures, proxy.cpu_seconds)
                shutil.rmtree(copy)
    for name, of_stage in (("upsert of 1,000 rows", "small upserts"), ("full compaction", "compaction")):
        run(name, "interbed", of_stage)
        run(name, "interbed", of_stage, far=False)
    for _ in range(TURNS):
        run(MERGED, "interbed", "cold two columns")
    return found


def _with_other(warehouse: Path) -> tuple[pa.Table, pa.Table]:
    """Return the rows of the table, and those of a new small table beside it."""
    catalog = interbed.load_catalog("bench", warehouse=str(warehouse))
    rows = catalog.get_table(TABLE).scan().to_arrow()
    small = rows.slice(0, 1000)
    other = catalog.create_table(OTHER, rows.schema, primary_keys=["id"], options=OPTIONS)
    other.upsert(small)
    return rows, small


def _upload(warehouse: Path, options: Mapping[str, str]) -> None:
    """Copy the files of a local warehouse to the store."""
    file_io, root = file_io_for(WAREHOUSE, options)
    for path in sorted(each for each in warehouse.rglob("*") if each.is_file()):
        with path.open("rb") as source, file_io.open_output(f"{root}/{path.relative_to(warehouse)}") as target:
            shutil.copyfileobj(source, target, 8 << 20)


def _store(endpoint: str) -> dict[str, dict[str, str]]:
    """Return the options of the store, by the names of each engine."""
    paimon = {
        "s3.endpoint": endpoint,
        "s3.access-key": "a",
        "s3.secret-key": "b",
        "s3.region": "us-east-1",
        "s3.path.style.access": "true",
    }
    return {
        # One process writes at a time; S3Proxy ignores conditions without an error.
        "interbed": {**paimon, "s3.conditional-put": "etag"},
        "pypaimon-rust": paimon,
    }


def _iceberg(endpoint: str) -> dict[str, str]:
    return {
        "s3.endpoint": endpoint,
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
        "s3.region": "us-east-1",
    }


def show(found: Found, console: Console) -> None:
    """Print the figures as a table, and then the goals."""
    engines = list(dict.fromkeys(engine for by_engine in found.values() for engine in by_engine))
    view = Table(title="in a store: wall seconds (CPU seconds)", title_justify="left")
    view.add_column("stage")
    for engine in [*engines, "proxy's CPU"]:
        view.add_column(engine, justify="right")
    for name, by_engine in found.items():
        cells = [f"{f['wall_s']:.3f} ({f['cpu_s']:.3f})" if (f := by_engine.get(e)) else "–" for e in engines]
        view.add_row(name, *cells, f"{by_engine['interbed']['proxy_cpu_s']:.2f}")
    console.print(view)
    for name, value, goal, unit in held_to(found):
        held = "" if goal is None else f", goal at most {goal:g}{unit}: {'met' if value <= goal else 'MISSED'}"
        console.print(f"{name}: {value:.3f}{unit}{held}")


def held_to(found: Found) -> list[tuple[str, float, float | None, str]]:
    """Return each goal: its name, the measured value, its limit, and the unit."""
    held: list[tuple[str, float, float | None, str]] = []
    for name, of_stage, peer, goal in GOALS:
        ours = found[name]["interbed"]["wall_s"]
        if of_stage is None or peer is None:
            held.append((name, ours, goal, " s"))
        else:
            of_peer = peer if of_stage == name else f"{peer}, {of_stage}"
            held.append((f"{name} / {of_peer}", ours / found[of_stage][peer]["wall_s"], goal, ""))
    return held


def as_json(found: Found) -> Any:
    """Return the figures for `--json`."""
    goals = [{"name": name, "value": value, "at_most": goal} for name, value, goal, _ in held_to(found)]
    return {"stages": found, "goals": goals}


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    run_alone(__doc__, measure, show, as_json, default=4_000_000)


if __name__ == "__main__":
    main()
