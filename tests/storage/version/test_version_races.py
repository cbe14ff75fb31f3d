"""Two processes change the versions of one table: the second runs completely before some call of the first, for every
call.

Nothing here depends on time.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

import interbed
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.base.errors import InterbedError
from interbed.storage.io.api import FileIO
from interbed.storage.meta.snapshot import history_journal
from interbed.storage.table.table import Table
from tests.storage.version.crash_points import (
    LATER,
    NAME,
    DyingFileIO,
    VisibleState,
    begin,
    catalog_of,
    go_on,
    new_table,
    put,
    rows_of,
    seen,
    unsynced,
)
from tests.storage.version.test_crash_points import expired, history, with_branch
from tests.support.shares import LONG
from tests.support.tally import Tally

pytestmark = pytest.mark.usefixtures("both_kinds_of_store")

Change = Callable[[Table], Any]


class InterruptedFileIO(DyingFileIO):
    """A FileIO that runs a callback before its n-th call."""

    def __init__(self, inner: Any, call: int, happens: Callable[[], None]) -> None:
        super().__init__(inner)
        self._call = call
        self._happens = happens

    def _count(self, name: str, path: object) -> None:
        super()._count(name, path)
        if len(self.calls) == self._call:
            self._happens()


@dataclass(slots=True)
class ChangeOutcome:
    """Outcome of a change: the error of a refused one, or None."""

    change: Change | None = None
    error: InterbedError | None = None

    def of(self, change: Change, table: Table) -> None:
        self.change = change
        try:
            change(table)
        except InterbedError as error:
            self.error = error


def expire(table: Table) -> None:
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)


def tag_the_second(table: Table) -> None:
    table.versions.create_tag("late", 2)


def replace_by_the_second(table: Table) -> None:
    table.versions.replace_tag("early", 3)


def branch_off(table: Table) -> None:
    table.versions.create_branch("late", "early")


def untag(table: Table) -> None:
    table.versions.delete_tag("early")


def roll_back(table: Table) -> None:
    table.versions.rollback_to(3)


def forward(table: Table) -> None:
    table.versions.fast_forward("work")


def write(table: Table) -> None:
    put(table, 60)


def check_names(before: VisibleState, after: VisibleState, first: ChangeOutcome, second: ChangeOutcome) -> None:
    """Check that a change that returned is there, and that one that was refused is not; and that a tag that was kept
    has its rows. All listed versions were read before.
    """
    for name, was in before.tags.items():
        if name in after.tags and after.tags[name][0] == was[0]:
            assert after.tags[name] == was
    assert after.rows == before.rows
    for outcome in (first, second):
        assert outcome.change is not None
        is_there = _IS_THERE[outcome.change](before, after)
        assert is_there == (outcome.error is None), f"{outcome.change.__name__} is {'' if is_there else 'not '}there"


_IS_THERE: dict[Change, Callable[[VisibleState, VisibleState], bool]] = {
    tag_the_second: lambda before, after: after.tags.get("late") == (2, _rows_of_the_second(before)),
    replace_by_the_second: lambda before, after: after.tags.get("early") == (3, before.snapshots[3]),
    branch_off: lambda before, after: after.branches.get("late", [None])[0] == before.tags["early"][1],
    untag: lambda before, after: "early" not in after.tags,
    expire: lambda before, after: list(after.snapshots) == [max(before.snapshots)],
}
"""Whether a change is visible, by the states before both changes and after them."""


def _rows_of_the_second(before: VisibleState) -> Any:
    """Return the rows of snapshot 2, which may have expired; it is tagged."""
    return before.tags["early"][1]


def check_rows(before: VisibleState, after: VisibleState, first: ChangeOutcome, second: ChangeOutcome) -> None:
    """Check that the rows are those of the two changes one after the other, and that ids have no gap."""
    ids = sorted(after.snapshots)
    assert ids == list(range(ids[0], ids[-1] + 1))
    assert after.rows == after.snapshots[ids[-1]]
    for number in ids[1:]:
        # Each snapshot has the rows of the one before and those of its own commit.
        old, new = dict(after.snapshots[number - 1]), dict(after.snapshots[number])
        assert old.keys() <= new.keys(), f"snapshot {number} is not based on the one before"
        assert len(new) <= len(old) + 1


Check = Callable[[VisibleState, VisibleState, ChangeOutcome, ChangeOutcome], None]
RACES: dict[str, tuple[Callable[[FileSystemCatalog], Any], Change, Change, Check]] = {
    "create_tag, expiry": (history, tag_the_second, expire, check_names),
    "expiry, create_tag": (history, expire, tag_the_second, check_names),
    "replace_tag, expiry": (history, replace_by_the_second, expire, check_names),
    "expiry, replace_tag": (history, expire, replace_by_the_second, check_names),
    "create_branch, delete_tag": (expired, branch_off, untag, check_names),
    "delete_tag, create_branch": (expired, untag, branch_off, check_names),
    "create_tag of a tagged snapshot, delete_tag": (expired, tag_the_second, untag, check_names),
    "delete_tag, create_tag of a tagged snapshot": (expired, untag, tag_the_second, check_names),
    "expiry, expiry": (history, expire, expire, check_names),
    "rollback, writer": (history, roll_back, write, check_rows),
    "writer, rollback": (history, write, roll_back, check_rows),
    "rollback, expiry": (history, roll_back, expire, check_rows),
    "expiry, rollback": (history, expire, roll_back, check_rows),
    "rollback, rollback": (history, roll_back, lambda t: t.versions.rollback_to(2), check_rows),
    "fast-forward, writer": (with_branch, forward, write, check_rows),
    "writer, fast-forward": (with_branch, write, forward, check_rows),
    "fast-forward, expiry": (with_branch, forward, expire, check_rows),
    "expiry, fast-forward": (with_branch, expire, forward, check_rows),
}


@pytest.fixture(autouse=True)
def unsynced_and_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for other changes: the second change runs within the first one, so waiting would never end."""
    unsynced(monkeypatch)
    monkeypatch.setattr(history_journal, "WAIT_SECONDS", 0.0)


def interrupted(warehouse: Path, call: int, happens: Callable[[], None]) -> tuple[Table, InterruptedFileIO]:
    catalog = interbed.load_catalog("lake", warehouse=str(warehouse))
    assert isinstance(catalog, FileSystemCatalog)
    file_io = InterruptedFileIO(catalog.file_io, call, happens)
    catalog._file_io = cast(FileIO, file_io)
    return catalog.get_table(NAME), file_io


@pytest.mark.sample(5)
@pytest.mark.longer
@pytest.mark.parametrize("race", RACES)
def test_each_of_two_concurrent_changes_is_done_or_refused(race: str, tmp_path: Path, tally: Tally) -> None:
    prepare, first, second, check = RACES[race]
    template = tmp_path / "template"
    before = begin(catalog_of(template), prepare)
    shutil.copytree(template, tmp_path / "alone")
    table, counting = interrupted(tmp_path / "alone", -1, lambda: None)
    first(table)
    calls, points = len(counting.calls), 0
    # The critical calls are those on a snapshot that was read just before.
    first_gone = [n for n, name in enumerate(counting.calls, 1) if name.startswith("delete ") and "/snapshot-" in name]
    for call in sorted({*range(1, calls + 1, 1 if LONG else 11), *first_gone[:1]}):
        warehouse = tmp_path / f"race-{call}"
        shutil.copytree(template, warehouse)
        one, other = ChangeOutcome(), ChangeOutcome()
        # The other process opened the table before.
        rival = catalog_of(warehouse).get_table(NAME)
        table, _ = interrupted(warehouse, call, lambda o=other, r=rival: o.of(second, r))  # type: ignore[misc]
        one.of(first, table)
        where = f"{race} before call {call} of {calls}, {counting.calls[call - 1]}: {one.error} / {other.error}"
        try:
            after = seen(catalog_of(warehouse))
            assert after is not None
            check(before, after, one, other)
            go_on(catalog_of(warehouse).get_table(NAME))
            assert one.error is None or other.error is None, "both were refused"
        except (AssertionError, InterbedError) as error:
            raise AssertionError(f"{where}: {error}") from error
        shutil.rmtree(warehouse)
        points += 1
    tally("interleavings of changes of versions", points)


def test_a_tag_that_was_returned_can_be_read(tmp_path: Path) -> None:
    """A tag created at any moment of an expiry has the rows of its snapshot."""
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path / "w"))
    assert isinstance(catalog, FileSystemCatalog)
    catalog.create_database("d")
    new_table(catalog)
    table = history(catalog)
    rows = rows_of(table.copy({"scan.snapshot-id": "2"}))
    other = ChangeOutcome()
    rival = catalog_of(tmp_path / "w").get_table(NAME)
    table, file_io = interrupted(tmp_path / "w", 20, lambda: other.of(tag_the_second, rival))
    expire(table)
    assert len(file_io.calls) > 20
    found = {tag.name for tag in table.versions.tags()}
    assert ("late" in found) == (other.error is None)
    if "late" in found:
        assert rows_of(table.copy({"scan.tag-name": "late"})) == rows


def test_snapshots_expire_in_order_for_any_number_of_them(tmp_path: Path) -> None:
    """A writer that finds an id free again can rely on it that all snapshots before it were deleted."""
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path / "w"))
    assert isinstance(catalog, FileSystemCatalog)
    catalog.create_database("d")
    put(new_table(catalog), *range(40))
    table, file_io = interrupted(tmp_path / "w", -1, lambda: None)
    assert len(table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER).snapshots) == 39
    about = [call.rpartition("/snapshot-") for call in file_io.calls if "/snapshot-" in call]
    gone = [place for place, (call, _, _) in enumerate(about) if call.startswith("delete ")]
    assert [int(about[place][2]) for place in gone] == list(range(1, 40))
    # Each was checked after the one before had been deleted.
    assert all(about[place - 1][2] == about[place][2] and "read" in about[place - 1][0] for place in gone)
