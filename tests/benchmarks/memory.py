"""Memory of the LSM engine under loads that exhaust other engines: peaks of whole processes.

    python -m tests.benchmarks.memory [--rows 20000000] [--runs 20] [--buckets 1000] [--json]

`writer` has this number of buckets open at once and spills; its limit is `write-buffer-size` plus WRITER_CONSTANT_MB.
`compaction` merges this number of runs, with keys of the whole range, into one, and `scan` reads the same runs merged.
Their limit is MERGE_LIMIT_MB for any number of rows. Each stage is a separate process, including its imports.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as View

import interbed
from interbed.storage.table.table import Table
from tests.benchmarks import command
from tests.benchmarks.command import Figures, print_figures
from tests.benchmarks.data import rows_for

MERGE_LIMIT_MB = 700.0
WRITER_CONSTANT_MB = 450.0
"""Limit of a writer's memory beside its buffer: the interpreter and its libraries (about 200 MB), the current batch and
its rows by bucket, LOOSE_BYTES of the write buffer, and a block for each flushing thread.
"""
BUFFER_MB = 128
BATCH_ROWS = 250_000
TIMEOUT_SECONDS = 3600
SCHEMA = pa.schema([f.with_nullable(f.name != "id") for f in rows_for(np.arange(1), 0).schema])


def _table(warehouse: str, **options: str) -> Table:
    catalog = interbed.load_catalog("bench", warehouse=f"file:{warehouse}")
    catalog.create_database("b", ignore_if_exists=True)
    return catalog.create_table("b.t", SCHEMA, primary_keys=["id"], options=options, ignore_if_exists=True)


def write_buckets(warehouse: str, rows: int, buckets: int, buffer_mb: int) -> Figures:
    """Upsert random keys in one commit with that many buckets open."""
    table = _table(warehouse, bucket=str(buckets), **{"write-buffer-size": f"{buffer_mb} mb", "write-only": "true"})
    random = np.random.default_rng(1)
    with table.new_write("bench") as write:
        for start in range(0, rows, BATCH_ROWS):
            ids = random.integers(0, rows, min(BATCH_ROWS, rows - start))
            write.write_arrow(rows_for(ids, start).cast(SCHEMA))
        messages = write.prepare_commit()
    table.new_commit("bench").commit(messages)
    return {"files": sum(len(m.data.new_files) for m in messages)}


def write_runs(warehouse: str, rows: int, runs: int) -> Figures:
    """Write one sorted run per commit, with keys of the whole range; a third of the keys are also in other runs."""
    options = {"bucket": "1", "write-only": "true", "write-buffer-size": "1 gb"}
    table = _table(warehouse, **options)
    random = np.random.default_rng(2)
    each = rows // runs
    for run in range(runs):
        table.upsert(rows_for(random.integers(0, rows, each), run).cast(SCHEMA))
    return {"files": runs}


def compact_runs(warehouse: str) -> Figures:
    """Merge all runs into one."""
    result = _table(warehouse).compact(full=True)
    return {"files": result.files_after, "rows": result.rows_after}


def scan_runs(warehouse: str) -> Figures:
    """Read the runs merged, and drop each batch."""
    return {"rows": sum(batch.num_rows for batch in _table(warehouse).scan().to_arrow_batch_reader())}


STAGES: dict[str, Callable[..., Figures]] = {
    f.__name__: f for f in (write_buckets, write_runs, compact_runs, scan_runs)
}


def in_process(stage: str, *arguments: object) -> Figures:
    """Return the figures of one stage in a separate process, with its `peak_mb` and `cpu_s`."""
    return command.in_process("tests.benchmarks.memory", stage, *arguments, timeout=TIMEOUT_SECONDS)


def measure(
    console: Console, *, rows: int = 20_000_000, runs: int = 20, buckets: int = 1_000, buffer_mb: int = BUFFER_MB
) -> dict[str, Figures]:
    """Return the figures by stage; the writer gets a quarter of the rows."""
    found: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as directory:
        with console.status(f"{buckets:,} buckets open"):
            found["writer"] = in_process("write_buckets", f"{directory}/wide", rows // 4, buckets, buffer_mb)
            found["writer"]["limit_mb"] = buffer_mb + WRITER_CONSTANT_MB
        with console.status(f"{runs} runs of {rows:,} rows"):
            in_process("write_runs", f"{directory}/deep", rows, runs)
            found["scan"] = in_process("scan_runs", f"{directory}/deep")
            found["compaction"] = in_process("compact_runs", f"{directory}/deep")
    for name in ("scan", "compaction"):
        found[name]["limit_mb"] = MERGE_LIMIT_MB
    return found


def show(found: dict[str, Figures], console: Console) -> None:
    """Print the figures as a table."""
    view = View(title="Memory: peaks of whole processes, imports included", title_justify="left")
    for column in ("stage", "peak MB", "limit MB", "CPU s", "rows", "files"):
        view.add_column(column, justify="left" if column == "stage" else "right")
    for name, figures in found.items():
        cells = [
            f"{figures[k]:,.0f}" if k in figures else "" for k in ("peak_mb", "limit_mb", "cpu_s", "rows", "files")
        ]
        view.add_row(name, *cells)
    console.print(view)


def as_json(found: dict[str, Figures]) -> dict[str, Figures]:
    """Return the figures as a JSON object."""
    return found


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--buckets", type=int, default=1_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--stage", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stage:
        stage, warehouse, *numbers = arguments.stage
        print_figures(STAGES[stage](warehouse, *map(int, numbers)))
        return
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 120)
    found = measure(console, rows=arguments.rows, runs=arguments.runs, buckets=arguments.buckets)
    show(found, console)
    if arguments.json:
        print(json.dumps(as_json(found), indent=2))


if __name__ == "__main__":
    main()
