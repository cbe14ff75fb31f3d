"""The cost of safety: `commit.sync` from full to none, and `read.verify-checksums` on and off.

    python -m tests.benchmarks.safety [--repeats 20] [--json]

The choices alternate in random order, so that a slow minute of the disk does not affect only one of them. Figures are
medians of wall milliseconds, because a sync waits for the disk and takes no CPU time. The ratio is that of the safe
choice to the one without safety: 1.1 is ten percent slower. The goal for `upsert` is 1.15.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as View

import interbed
from interbed.storage.table.table import Table
from tests.benchmarks.data import rows_for

KEYS = 4_000_000
UPSERT_ROWS = 200_000
SMALL_ROWS = 1_000
SCANNED_ROWS = 1_000_000
OPTIONS = {"bucket": "4", "write-only": "true"}
SYNCS = ("full", "snapshot", "none")
CHECKS = ("true", "false")

Medians = dict[str, dict[str, float]]
"""Milliseconds by stage and choice; the first choice is the safe one, the last the one without safety."""


def measure(console: Console, repeats: int = 20) -> Medians:
    """Return the medians of `repeats` runs."""
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as warehouse:
        catalog = interbed.load_catalog("bench", warehouse=f"file:{warehouse}")
        catalog.create_database("b")
        one = rows_for(np.arange(1), 0)

        def make(name: str, **options: str) -> Table:
            return catalog.create_table(f"b.{name}", one.schema, primary_keys=["id"], options=OPTIONS | options)

        def synced(name: str) -> dict[str, Table]:
            return {choice: make(f"{name}_{choice}", **{"commit.sync": choice}) for choice in SYNCS}

        scanned = make("scanned")
        scanned.upsert(rows_for(np.random.default_rng(1).permutation(SCANNED_ROWS), 1))
        readers = {choice: scanned.copy({"read.verify-checksums": choice}) for choice in CHECKS}
        stages: dict[str, tuple[dict[str, Table], Callable[[Table, pa.Table], object], int]] = {
            f"upsert of {UPSERT_ROWS:,} rows": (synced("upsert"), Table.upsert, UPSERT_ROWS),
            f"upsert of {SMALL_ROWS:,} rows": (synced("small"), Table.upsert, SMALL_ROWS),
            "the same, and expiry": (synced("expiry"), _upsert_and_expire, SMALL_ROWS),
            f"scan of {SCANNED_ROWS:,} rows": (readers, lambda table, _: table.scan().to_arrow(), 0),
        }
        found: Medians = {}
        for name, (tables, work, rows) in stages.items():
            with console.status(name):
                found[name] = _medians(tables, work, rows, repeats)
        return found


def _upsert_and_expire(table: Table, rows: pa.Table) -> None:
    table.upsert(rows)
    table.maintenance.expire_snapshots(retain_max=5, retain_min=1, older_than=datetime.now())


def _medians(
    tables: Mapping[str, Table], work: Callable[[Table, pa.Table], object], rows: int, repeats: int
) -> dict[str, float]:
    numbers, turns = np.random.default_rng(3), random.Random(3)
    took: dict[str, list[float]] = {choice: [] for choice in tables}
    for repeat in range(repeats + repeats // 5):
        batch = rows_for(numbers.choice(KEYS, rows, replace=False), repeat)
        for choice in turns.sample(list(tables), len(tables)):
            started = time.perf_counter()
            work(tables[choice], batch)
            took[choice].append((time.perf_counter() - started) * 1000)
    # The first runs fill caches and create directories.
    return {choice: statistics.median(times[repeats // 5 :]) for choice, times in took.items()}


def show(found: Medians, console: Console) -> None:
    """Print the figures as a table."""
    view = View(title="what safety costs: medians, wall ms; the ratio is safe / unsafe", title_justify="left")
    for column in ("stage", "by choice", "ratio"):
        view.add_column(column, justify="left" if column == "stage" else "right")
    for name, by_choice in found.items():
        cells = ", ".join(f"{choice} {ms:,.1f}" for choice, ms in by_choice.items())
        view.add_row(name, cells, f"{_ratio(by_choice):.2f}")
    console.print(view)


def as_json(found: Medians) -> Any:
    """Return the figures for `--json`, with the ratios."""
    return {
        name: {f"{choice}_ms": round(ms, 1) for choice, ms in by_choice.items()} | {"ratio": _ratio(by_choice)}
        for name, by_choice in found.items()
    }


def _ratio(by_choice: Mapping[str, float]) -> float:
    safe, *_, unsafe = by_choice.values()
    return safe / unsafe


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json)
    found = measure(console, arguments.repeats)
    show(found, console)
    if arguments.json:
        print(json.dumps(as_json(found), indent=2))


if __name__ == "__main__":
    main()
