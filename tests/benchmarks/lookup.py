"""Rows by primary key: interbed's Table.get against a filtered read of pypaimon-rust, which has no lookup.

    python -m tests.benchmarks.lookup [--rows 1000000]

The table is that of the main benchmark: a base, five upserts, a deletion, not compacted, with a bloom filter on the
key. `cold` is the first lookup of a process, including loading its code. `warm` is the mean of a hundred keys that were
looked up before.
"""

import json
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

import interbed
from tests.benchmarks import data
from tests.benchmarks.command import run_alone
from tests.benchmarks.engines import show_pair
from tests.benchmarks.run_stage import Figures, stage

GOALS = {"warm lookup": 1.0}
KEYS = 100
TABLE = "b.lookup"
OPTIONS = {"bucket": "4", "write-only": "true", "file-index.bloom-filter.columns": "id"}


def measure(console: Console, rows: int = 1_000_000) -> dict[str, dict[str, Figures]]:
    """Return the figures by stage and engine."""
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as temporary:
        directory, warehouse = Path(temporary), Path(temporary) / "lake"
        with console.status(f"lookup: making {rows:,} rows"):
            make(directory, warehouse, rows)
        found: dict[str, dict[str, Figures]] = {}
        for name in ("cold lookup", "warm lookup"):
            for engine in ("interbed", "pypaimon-rust"):
                with console.status(f"{name}: {engine}"):
                    found.setdefault(name, {})[engine] = stage(engine, name, directory, warehouse, TABLE)
            counts = {engine: figures["rows"] for engine, figures in found[name].items()}
            if len(set(counts.values())) != 1:
                raise SystemExit(f"{name}: the engines found {counts} rows.")
        return found


def make(directory: Path, warehouse: Path, rows: int, options: Mapping[str, str] = OPTIONS) -> None:
    """Write the table, and the keys to look up to facts.json."""
    data.make(directory, rows)
    base = data.read(directory / "base.arrow")
    catalog = interbed.load_catalog("bench", warehouse=f"file:{warehouse}")
    catalog.create_database("b")
    table = catalog.create_table(TABLE, base.schema, primary_keys=["id"], options=options)
    table.upsert(base)
    for i in range(data.UPSERTS):
        table.upsert(data.read(directory / f"upsert-{i}.arrow"))
    gone = data.read(directory / "delete.arrow")
    kinds = pa.array([3] * gone.num_rows, pa.int8())
    table.write_changes(gone.append_column("_row_kind", kinds))
    facts = {"lookups": random.Random(5).sample(range(rows), KEYS)}
    (directory / "facts.json").write_text(json.dumps(facts))


def show(found: dict[str, dict[str, Figures]], console: Console) -> None:
    """Print the figures as a table."""
    show_pair("lookup by primary key", found, GOALS, console)


def as_json(found: dict[str, dict[str, Figures]]) -> Any:
    """Return the figures for `--json`."""
    return found


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    run_alone(__doc__, measure, show, as_json, default=1_000_000)


if __name__ == "__main__":
    main()
