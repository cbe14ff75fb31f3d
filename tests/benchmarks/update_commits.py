"""The cost of reads as updates are committed, with and without compaction: an Iceberg table and one of interbed.

    python -m tests.benchmarks.update_commits [--commits 100] [--json] [--picture docs/images/updates.svg]

A table of a million rows gets commits of 5,000 existing rows. In Iceberg (version 3) they have the form of a stream:
old rows deleted by key, new ones appended. In interbed they are an upsert without compaction by the writer. `kept` is
compacted after each tenth commit, and the cost of that is shown too. Reads are of all rows, the minimum of three, in
CPU seconds of interbed for both.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from rich.console import Console
from rich.table import Table as View

import interbed
from interbed.storage.views.figure import COLORS, light_grid, new_figure, require_drawing, save_figure, style
from tests.benchmarks.spark_figures import least, timed
from tests.iceberg.python_tables import delete_by_key

ROWS = 1_000_000
ROWS_OF_A_COMMIT = 5_000
EACH = 10
"""Commits between two measurements, and between two compactions."""
REPEATS = 3

Found = dict[str, list[dict[str, float]]]


class UpdatedTable(Protocol):
    """Table that gets updates."""

    def update(self, rows: pa.Table) -> None:
        """Commit rows that replace those with their keys."""
        ...

    def compact(self) -> object:
        """Run the compaction that is due."""
        ...

    def read(self) -> int:
        """Read all rows, and return their number."""
        ...


def rows_of(ids: Sequence[int]) -> pa.Table:
    """Return rows with these keys."""
    keys = np.asarray(ids, np.int64)
    return pa.table(
        {
            "id": keys,
            "amount": keys * 37 % 100_003 / 100,
            "city": [f"city {number % 997}" for number in keys.tolist()],
            "note": [f"a note about order {number * 7919 % 1_000_003}" for number in keys.tolist()],
        }
    )


class OfIceberg:
    """Table of Iceberg in a catalog of pyiceberg."""

    def __init__(self, directory: Path) -> None:
        self._catalog = SqlCatalog("ice", uri=f"sqlite:///{directory}/ice.db", warehouse=f"file://{directory}/ice")
        self._catalog.create_namespace("shop")
        rows = rows_of(range(ROWS))
        self._catalog.create_table("shop.orders", rows.schema).append(rows)

    def _table(self) -> interbed.IcebergTable:
        return interbed.IcebergTable("shop.orders", self._catalog.load_table("shop.orders"))

    def update(self, rows: pa.Table) -> None:
        ids: list[Any] = rows["id"].to_pylist()
        delete_by_key(self._table(), "id", ids)
        self._catalog.load_table("shop.orders").append(rows)

    def compact(self) -> object:
        return self._table().compact(mode="major")

    def read(self) -> int:
        return sum(batch.num_rows for batch in self._table().scan().to_arrow_batch_reader())


class OfInterbed:
    """Table of interbed with a primary key."""

    def __init__(self, directory: Path) -> None:
        catalog = interbed.load_catalog(warehouse=directory / "lake")
        catalog.create_database("shop")
        rows = rows_of(range(ROWS))
        options = {"bucket": "2", "write-only": "true"}
        self._table = catalog.create_table("shop.orders", rows.schema, primary_keys=["id"], options=options)
        self._table.upsert(rows)
        self._table.compact()

    def update(self, rows: pa.Table) -> None:
        self._table.upsert(rows)

    def compact(self) -> object:
        return self._table.compact(full=False)

    def read(self) -> int:
        return sum(batch.num_rows for batch in self._table.scan().to_arrow_batch_reader())


CONTENDERS: dict[str, Callable[[Path], UpdatedTable]] = {"Iceberg": OfIceberg, "interbed": OfInterbed}


def measure(console: Console, commits: int) -> Found:
    """Return the points by contender and by whether the table is compacted: after a number of commits, the seconds of a
    read and of the compactions.
    """
    found: Found = {}
    for name, make in CONTENDERS.items():
        for kept in (False, True):
            label = f"{name}, {'kept in shape' if kept else 'left alone'}"
            with console.status(label), tempfile.TemporaryDirectory(prefix="interbed-bench-") as directory:
                found[label] = _line(make(Path(directory)), commits, kept=kept)
    return found


def _line(table: UpdatedTable, commits: int, *, kept: bool) -> list[dict[str, float]]:
    dice = np.random.default_rng(5)
    points = [{"commits": 0.0, "upkeep_cpu_s": 0.0, **_read(table)}]
    for number in range(1, commits + 1):
        table.update(rows_of(np.sort(dice.choice(ROWS, ROWS_OF_A_COMMIT, replace=False)).tolist()))
        if number % EACH:
            continue
        upkeep = timed(table.compact)["cpu_s"] if kept else 0.0
        points.append({"commits": float(number), "upkeep_cpu_s": upkeep, **_read(table)})
    return points


def _read(table: UpdatedTable) -> dict[str, float]:
    if table.read() != ROWS:
        raise SystemExit("Rows were lost, or are there twice.")
    return least([timed(table.read) for _ in range(REPEATS)])


def show(found: Found, console: Console) -> None:
    """Print the figures as a table."""
    view = View(title="Reading all rows as updates are committed: CPU seconds", title_justify="left")
    view.add_column("commits", justify="right")
    for name in found:
        view.add_column(name, justify="right")
    for points in zip(*found.values(), strict=True):
        view.add_row(f"{points[0]['commits']:.0f}", *(f"{point['cpu_s']:.2f}" for point in points))
    sums = [sum(point["upkeep_cpu_s"] for point in points) for points in found.values()]
    view.add_row("upkeep, all", *(f"{total:.2f}" if total else "" for total in sums))
    console.print(view)


def draw(found: Found, path: Path) -> None:
    """Draw the figures as a picture."""
    with style():
        figure = new_figure(path, 7.0, 3.4)
        axes = figure.subplots()
        for place, (name, points) in enumerate(found.items()):
            axes.plot(
                [point["commits"] for point in points],
                [point["cpu_s"] for point in points],
                "-o" if place % 2 else "--",
                color=COLORS[place // 2],
                label=name,
                markersize=2.5,
                linewidth=1.2,
            )
        axes.set_title("CPU seconds to read a million rows")
        axes.set_xlabel(f"commits of {ROWS_OF_A_COMMIT:,} updated rows")
        axes.set_ylim(bottom=0)
        light_grid(axes)
        axes.legend(fontsize=8)
        save_figure(figure, path)


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    if given.picture is not None:
        require_drawing(given.picture)
    console = Console(stderr=given.json, width=None if sys.stdout.isatty() else 160)
    found = measure(console, given.commits)
    show(found, console)
    if given.picture is not None:
        draw(found, given.picture)
    if given.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
