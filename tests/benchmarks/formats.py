"""Writes and scans of tables with ORC or Avro files: interbed and pypaimon on the same rows in one run.

    python -m tests.benchmarks.formats [--rows 100000] [--json]

The rows are those of `data.py`, written in one commit into four buckets with zstd; both engines scan the table that
interbed wrote. Figures are CPU seconds of all threads of the process of a stage, the minimum of two turns.
"""

import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks import data
from tests.benchmarks.command import run_alone
from tests.benchmarks.run_stage import Figures, better, stage

ROWS = 100_000
ENGINES = ("interbed", "pypaimon")
FORMATS = ("orc", "avro")
STAGES = ("base write", "scan", "two columns")
TURNS = 2

Found = dict[str, dict[str, dict[str, Figures]]]


def measure(console: Console, rows: int = ROWS) -> Found:
    """Return the figures by format, stage and engine."""
    found: Found = {f: {s: {} for s in STAGES} for f in FORMATS}
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as temporary:
        directory, warehouse = Path(temporary), Path(temporary) / "lake"
        data.make(directory, rows)
        for turn in range(TURNS):
            for file_format in FORMATS:
                ours = f"b.{file_format}_interbed_{turn}"
                for name in STAGES:
                    for engine in ENGINES:
                        table = f"b.{file_format}_{engine}_{turn}" if name == "base write" else ours
                        with console.status(f"{file_format}, {name}: {engine}"):
                            figures = stage(engine, name, directory, warehouse, table, file_format)
                        by_engine = found[file_format][name]
                        by_engine[engine] = better(by_engine.get(engine), figures)
    for file_format in FORMATS:
        for name in STAGES[1:]:
            counts = {e: f["rows"] for e, f in found[file_format][name].items()}
            if set(counts.values()) != {rows}:
                raise SystemExit(f"{file_format}, {name}: {counts} rows instead of {rows}")
    return found


def show(found: Found, console: Console) -> None:
    """Print the figures as a table."""
    view = Table(title="ORC and Avro, CPU seconds; ratios are pypaimon / interbed", title_justify="left")
    for column in ("format", "stage"):
        view.add_column(column)
    for column in (*ENGINES, "ratio", "our peak MB"):
        view.add_column(column, justify="right")
    for file_format, stages in found.items():
        for name, by_engine in stages.items():
            ours, peer = by_engine["interbed"], by_engine["pypaimon"]
            cells = [f"{f['cpu_s']:.3f}" for f in (ours, peer)]
            view.add_row(file_format, name, *cells, f"{peer['cpu_s'] / ours['cpu_s']:.2f}", f"{ours['peak_mb']:.0f}")
    console.print(view)


def as_json(found: Found) -> dict[str, Any]:
    """Return the figures for `--json`."""
    return dict(found)


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    run_alone(__doc__, measure, show, as_json, default=ROWS)


if __name__ == "__main__":
    main()
