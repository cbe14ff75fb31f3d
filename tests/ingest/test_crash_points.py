"""A run of ingestion that crashes before any of its steps, and the runs after it: no row is lost or duplicated."""

import contextlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.ingest.tables.source_tables import TableNames
from tests.ingest.memory_source import MemorySource
from tests.ingest.shop import event, job, rows_of
from tests.support.dying_disk import DyingDisk, SimulatedKill, opened
from tests.support.shares import each_run
from tests.support.tally import Tally

ORDERS = [
    event("c", None, {"id": 0, "v": "a"}),
    event("c", None, {"id": 1, "v": "a"}),
    event("u", {"id": 1, "v": "a"}, {"id": 2, "v": "b"}),
    event("c", None, {"id": 3, "v": "c", "w": 1}),
    event("c", None, {"id": 4, "l": [], "s": {}}),
    event("c", None, {"id": 5, "l": [1], "s": {"a": 1}}),
    event("c", None, {"id": 6, "l": [], "s": {}}),
    event("t", None, None, "items"),
    event("d", {"id": 0, "v": "a"}, None),
]
LOG = [
    [event("c", None, {"n": 0}, "log", "none"), event("c", None, {"n": 1, "x": 1}, "log", "none")],
    [event("c", None, {"n": n}, "log", "none") for n in (2, 3, 4)],
]
TOPICS = {"log": LOG, "orders": [ORDERS], "more": [[event("c", None, {"n": 5}, "log", "none")]]}
"""Two tables, one without a key, in which every duplicate shows.

There are columns that are added late, with empty values before the first one, several topics and partitions for one
table, and a truncation.
"""


def read_on(catalog: FileSystemCatalog) -> None:
    """Run once, with a commit after a few rows, so that one table is ahead of the other at times."""
    names = TableNames(database="shop")
    job(catalog, MemorySource(TOPICS, sizes=[1, 2, 3]), names=names, commit_rows=2).run()


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """A warehouse with empty tables."""
    warehouse = tmp_path / "template"
    catalog = opened(warehouse)
    catalog.create_database("shop")
    catalog.create_table("shop.log", [{"n": 1}])
    catalog.create_table("shop.items", [{"id": 1}], primary_keys=["id"], options={"bucket": "1"})
    return warehouse


def check(warehouse: Path) -> None:
    catalog = opened(warehouse)
    assert rows_of(catalog, "shop.log", "n") == [{"n": 0}, {"n": 1, "x": 1}, *({"n": n} for n in (2, 3, 4, 5))]
    assert rows_of(catalog) == [
        {"id": 2, "v": "b"},
        {"id": 3, "v": "c", "w": 1},
        {"id": 4},
        {"id": 5, "l": [1], "s": {"a": 1}},
        {"id": 6, "l": [], "s": {"a": None}},
    ]
    for snapshot in catalog.get_table("shop.log").snapshots():
        rows = rows_of_snapshot(catalog, snapshot.id)
        assert len(rows) == len(set(rows)), f"snapshot {snapshot.id} holds a row twice: {rows}"


def rows_of_snapshot(catalog: FileSystemCatalog, snapshot_id: int) -> list[int]:
    table = catalog.get_table("shop.log").copy({"scan.snapshot-id": str(snapshot_id)})
    numbers: list[Any] = table.scan().to_arrow()["n"].to_pylist()
    return numbers


@pytest.mark.parametrize("every", each_run([7, 1], lambda every: every == 7))
def test_a_crash_at_any_step_loses_and_duplicates_nothing(
    template: Path, tmp_path: Path, every: int, tally: Tally
) -> None:
    warehouse = tmp_path / "lake"
    shutil.copytree(template, warehouse)
    counting = DyingDisk()
    read_on(opened(warehouse, counting))
    check(warehouse)
    points = range(0, len(counting.steps), every)
    for point in points:
        shutil.rmtree(warehouse)
        shutil.copytree(template, warehouse)
        with contextlib.suppress(SimulatedKill):
            read_on(opened(warehouse, DyingDisk(point)))
        # Another process crashes a little later, and the third one finishes.
        with contextlib.suppress(SimulatedKill):
            read_on(opened(warehouse, DyingDisk(17)))
        read_on(opened(warehouse))
        try:
            check(warehouse)
        except AssertionError as error:
            raise AssertionError(f"killed before step {point}, {counting.steps[point]}") from error
    tally("crash points of a run of ingestion", len(points))
