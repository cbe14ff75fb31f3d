"""Damaged records of unfinished changes: the marks and plans of expiries, and journals.

Reads continue where every possible state of the table is safe to read. Changes of versions are refused with the name of
the file. fsck names and repairs it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import interbed
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.io.local import LocalFileIO
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from tests.storage.version.crash_points import LATER, new_table, put, rows_of
from tests.support.dying_disk import DyingDisk, SimulatedKill

ROWS = {n: tuple((i, v) for i, v in [(1, n), *((100 + k, k) for k in range(1, n + 1))]) for n in range(7)}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with five snapshots and a tag on the second one."""
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    assert isinstance(catalog, FileSystemCatalog)
    catalog.create_database("d")
    made = new_table(catalog)
    put(made, 1, 2)
    made.versions.create_tag("early", 2)
    put(made, 3, 4, 5)
    return made


def killed(table: Table, change: Callable[[Table], object], dies_before: str) -> None:
    with pytest.raises(SimulatedKill):
        change(Table("t", open_store(table.location, LocalFileIO(DyingDisk(dies_before)))))


def expire(table: Table) -> None:
    table.maintenance.expire_snapshots(retain_max=2, retain_min=1, clock=lambda: LATER)


def roll_back(table: Table) -> None:
    table.versions.rollback_to(3)


def spoil(file: Path, content: bytes = b'{"id') -> None:
    file.write_bytes(content)


def found_wrong(table: Table, **how: Any) -> list[tuple[str, bool]]:
    return [(f.what, f.mended) for f in Table("t", open_store(table.location)).maintenance.fsck(**how).findings]


@pytest.mark.parametrize("dies_before", ["link .expired-files-", "unlink snapshot-2", "unlink data-"])
def test_a_damaged_expiry_mark_hides_no_row_and_is_repaired(table: Table, dies_before: str) -> None:
    table.compact()
    killed(table, expire, dies_before)
    spoil(Path(table.location) / "snapshot" / ".expiring")
    again = interbed.load_table(table.location)
    # A snapshot whose file exists has all files that it names, because expiry deletes its file first.
    assert {s.id: rows_of(again.copy({"scan.snapshot-id": str(s.id)})) for s in again.snapshots() if s.id < 6} == {
        s.id: ROWS[s.id] for s in again.snapshots() if s.id < 6
    }
    put(again, 6)
    for change in (expire, lambda t: t.create_tag("new"), lambda t: t.rollback_to(6)):
        with pytest.raises(CorruptFileError, match=r"\.expiring .*fsck --repair"):
            change(again)
    assert found_wrong(table) == [("expiry", False)]
    assert found_wrong(table, repair=True)[0] == ("expiry", True)
    assert found_wrong(table) == []
    expire(again)
    again.maintenance.remove_orphan_files(older_than=1)
    assert rows_of(again) == ROWS[6]
    assert rows_of(again.copy({"scan.tag-name": "early"})) == ROWS[2]
    assert not list(Path(table.location).rglob(".expir*"))


def test_a_damaged_plan_of_an_expiry_is_repaired(table: Table) -> None:
    table.compact()
    killed(table, expire, "unlink snapshot-2")
    spoil(next(Path(table.location).rglob(".expired-files-*")))
    again = interbed.load_table(table.location)
    assert rows_of(again) == ROWS[5]
    put(again, 6)
    with pytest.raises(CorruptFileError, match=r"\.expired-files-\S+ .*fsck --repair"):
        expire(again)
    assert found_wrong(table) == [("expiry", False)]
    assert found_wrong(table, repair=True)[0] == ("expiry", True)
    assert found_wrong(table) == []
    assert [s.id for s in again.snapshots()] == [2, 3, 4, 5, 6, 7]
    assert rows_of(again) == ROWS[6]


def journal_of(table: Table) -> Path:
    return Path(table.location) / "schema" / ".journal"


@pytest.mark.parametrize("half", [0, 1])
def test_a_journal_with_one_damaged_half_is_replayed(table: Table, half: int) -> None:
    killed(table, roll_back, "unlink snapshot-4")
    content = bytearray(journal_of(table).read_bytes())
    middle = len(content) // 4 + half * len(content) // 2
    content[middle] ^= 1
    spoil(journal_of(table), bytes(content))
    again = interbed.load_table(table.location)
    assert [s.id for s in again.snapshots()] == [1, 2, 3]
    assert rows_of(again) == ROWS[3]
    assert not journal_of(table).exists()


@pytest.mark.parametrize(
    ("dies_before", "rows", "left"),
    [
        ("replace snapshot-5", ROWS[5], []),
        ("unlink snapshot-4", ROWS[3], []),
        # The owner decides which snapshots exist when one is missing between others.
        ("unlink snapshot-5", ROWS[3], ["snapshots"]),
    ],
)
def test_a_damaged_journal_leaves_the_rows_of_before_or_after_and_is_repaired(
    table: Table, dies_before: str, rows: object, left: list[str]
) -> None:
    killed(table, roll_back, dies_before)
    spoil(journal_of(table), journal_of(table).read_bytes()[:99])
    again = interbed.load_table(table.location)
    assert rows_of(again) == rows
    files = sorted(Path(table.location).rglob("data-*"))
    for change in (roll_back, lambda t: put(t, 6), lambda t: t.update_schema().add_column("w", "INT").commit()):
        with pytest.raises(CorruptFileError, match=r"\.journal .*fsck --repair"):
            change(again)
    assert (sorted(Path(table.location).rglob("data-*")), rows_of(again)) == (files, rows)
    assert found_wrong(table)[0] == ("journal", False)
    assert found_wrong(table, repair=True)[0] == ("journal", True)
    assert [what for what, _ in found_wrong(table)] == left
    roll_back(again)
    assert rows_of(again) == ROWS[3]
    assert found_wrong(table) == []
