"""Scans of a table with deletion vectors: interbed against pypaimon-rust on the same files.

    python -m tests.benchmarks.deletion_vectors [--rows 1000000]

The rows are those of the main benchmark. interbed writes them, and its compactions mark the replaced rows.
"""

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

import interbed
from tests.benchmarks import data
from tests.benchmarks.command import run_alone
from tests.benchmarks.engines import show_pair
from tests.benchmarks.run_stage import Figures, better, stage

GOALS = {"deletion vectors: scan": 1.3, "deletion vectors: streamed scan": 1.3}
TABLE = "b.vectors"
OPTIONS = {"bucket": "4", "deletion-vectors.enabled": "true"}
TURNS = 2


def measure(console: Console, rows: int = 1_000_000) -> dict[str, dict[str, Figures]]:
    """Return the figures by stage and engine."""
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as temporary:
        directory, warehouse = Path(temporary), Path(temporary) / "lake"
        with console.status(f"deletion vectors: making {rows:,} rows"):
            data.make(directory, rows)
            make(directory, warehouse)
        found: dict[str, dict[str, Figures]] = {}
        for _ in range(TURNS):
            for name in ("scan", "streamed scan", "two columns"):
                for engine in ("interbed", "pypaimon-rust"):
                    with console.status(f"{name}: {engine}"):
                        figures = stage(engine, name, directory, warehouse, TABLE)
                    known = found.setdefault(f"deletion vectors: {name}", {})
                    known[engine] = better(known.get(engine), figures)
        for name, by_engine in found.items():
            counts = {engine: figures["rows"] for engine, figures in by_engine.items()}
            if len(set(counts.values())) != 1:
                raise SystemExit(f"{name}: the engines found {counts} rows.")
        return found


def make(directory: Path, warehouse: Path) -> None:
    """Write the table, and compact it."""
    base = data.read(directory / "base.arrow")
    catalog = interbed.load_catalog("bench", warehouse=f"file:{warehouse}")
    catalog.create_database("b")
    table = catalog.create_table(TABLE, base.schema, primary_keys=["id"], options=OPTIONS)
    table.upsert(base)
    for i in range(data.UPSERTS):
        table.upsert(data.read(directory / f"upsert-{i}.arrow"))
    gone = data.read(directory / "delete.arrow")
    kinds = pa.array([3] * gone.num_rows, pa.int8())
    table.write_changes(gone.append_column("_row_kind", kinds))
    if not any(split.deletion_files for split in table.new_scan().plan().splits):
        raise SystemExit("The table has no deletion vectors to measure.")


def show(found: dict[str, dict[str, Figures]], console: Console) -> None:
    """Print the figures as a table."""
    show_pair("deletion vectors", found, GOALS, console)


def as_json(found: dict[str, dict[str, Figures]]) -> Any:
    """Return the figures for `--json`."""
    return found


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    run_alone(__doc__, measure, show, as_json, default=1_000_000)


if __name__ == "__main__":
    main()
