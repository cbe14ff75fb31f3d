"""Changelogs that outlive their snapshots: reading them, keeping their files, and their expiry."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interbed
from interbed.storage.base.errors import SnapshotNotFoundError
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.snapshot import CommitKind, Snapshot
from interbed.storage.table.table import Table
from interbed.storage.version.maintenance import expire_changelogs, first_kept_changelog
from interbed.storage.version.orphans import remove_orphan_files

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())))
_ONE_SNAPSHOT = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
LATER = 4_102_444_800
NewTable = Callable[..., Table]


@pytest.fixture
def new_table(tmp_path: Path) -> NewTable:
    """Creates a table with five commits and a changelog, of which one snapshot is kept."""
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")

    def make(**retention: str) -> Table:
        given = {
            f"changelog.{key.replace('_', '-').replace('num-retained-', 'num-retained.')}": value
            for key, value in retention.items()
        }
        options = {"bucket": "1", "changelog-producer": "input", "write-only": "true", **_ONE_SNAPSHOT, **given}
        table = catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options=options)
        for value in range(5):
            table.upsert(pa.table({"id": [value], "v": [value]}, schema=SCHEMA))
        table.maintenance.expire_snapshots(retain_max=2, retain_min=1, clock=lambda: LATER)
        return table

    return make


def kept(table: Table) -> list[int]:
    return ChangelogManager(table.store.file_io, table.store.paths).ids()


def changed(table: Table, first: int, last: int) -> list[int]:
    found: list[Any] = table.changes(first, last).to_arrow()["v"].to_pylist()
    return found


def test_changes_of_expired_snapshots_are_read_from_their_changelogs(new_table: NewTable) -> None:
    table = new_table(time_retained="9999 d")
    assert [snapshot.id for snapshot in table.snapshots()] == [5]
    assert kept(table) == [1, 2, 3, 4]
    assert changed(table, 2, 5) == [1, 2, 3, 4]
    between = table.copy({"incremental-between": "1,4"})
    column: Any = between.scan().to_arrow()["v"]
    assert sorted(column.to_pylist()) == [1, 2, 3]
    scan = table.copy({"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}).new_stream_scan()
    plans = [scan.plan() for _ in range(5)]
    assert [None if plan is None else plan.snapshot_id for plan in plans] == [2, 3, 4, 5, None]
    since = table.copy({"scan.mode": "from-timestamp", "scan.timestamp-millis": "1"}).new_stream_scan()
    first = since.plan()
    assert first is not None
    assert first.snapshot_id == 1
    with pytest.raises(SnapshotNotFoundError):
        table.copy({"scan.snapshot-id": "2"}).scan().to_arrow()


def test_files_of_unexpired_changelogs_are_no_orphans(new_table: NewTable) -> None:
    table = new_table(num_retained_max="3", num_retained_min="3")
    assert kept(table) == [1, 2, 3, 4]
    assert remove_orphan_files(table.store, older_than_millis=LATER * 1000, clock=lambda: LATER + 1).files == ()
    assert expire_changelogs(table.store, lambda: LATER) == [1, 2]
    assert kept(table) == [3, 4]
    with pytest.raises(SnapshotNotFoundError):
        changed(table, 2, 5)
    assert changed(table, 3, 5) == [2, 3, 4]
    assert remove_orphan_files(table.store, older_than_millis=LATER * 1000, clock=lambda: LATER + 1).files == ()


def test_commits_expire_changelogs_and_a_purge_deletes_all(new_table: NewTable) -> None:
    table = new_table(num_retained_max="9", num_retained_min="1", time_retained="1 ms")
    assert kept(table) == [1, 2, 3, 4]
    often = table.copy({"write-only": "false"})
    often.upsert(pa.table({"id": [9], "v": [9]}, schema=SCHEMA))
    # The newest changelog is always kept; the commit's compaction may have added another one.
    assert kept(table) == [table.snapshots()[0].id - 1]
    table.maintenance.purge_files()
    assert all(number > 6 for number in kept(table))


def test_a_rollback_to_an_expired_version_deletes_the_later_changelogs(new_table: NewTable, tmp_path: Path) -> None:
    table = new_table(time_retained="9999 d")
    table.upsert(pa.table({"id": [9], "v": [9]}, schema=SCHEMA))
    table.versions.create_tag("t", 5)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)
    assert kept(table) == [1, 2, 3, 4, 5]
    table.versions.rollback_to("t")
    assert kept(table) == [1, 2, 3, 4, 5]
    assert changed(table, 4, 5) == [3, 4]


def _changelog(number: int) -> Snapshot:
    return Snapshot(
        id=number,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user="u",
        commit_identifier=number,
        commit_kind=CommitKind.APPEND,
        time_millis=number,
        total_record_count=0,
        delta_record_count=0,
    )


@given(
    earliest=st.integers(1, 20),
    count=st.integers(1, 20),
    snapshots=st.integers(1, 10),
    retain_min=st.integers(1, 20),
    more=st.integers(0, 20),
    older_than=st.integers(0, 60),
    limit=st.integers(1, 20),
    consumed=st.none() | st.integers(1, 60),
)
def test_the_first_kept_changelog_satisfies_every_bound(
    earliest: int,
    count: int,
    snapshots: int,
    retain_min: int,
    more: int,
    older_than: int,
    limit: int,
    consumed: int | None,
) -> None:
    changelogs = [_changelog(number) for number in range(earliest, earliest + count)]
    latest = changelogs[-1].id + snapshots
    first = first_kept_changelog(
        changelogs,
        latest,
        retain_max=retain_min + more,
        retain_min=retain_min,
        older_than_millis=older_than,
        max_deletes=limit,
        consumed=consumed,
    )
    assert earliest <= first <= changelogs[-1].id
    if first > earliest:
        assert latest - first + 1 >= retain_min
        assert first - earliest <= limit
        assert consumed is None or first <= consumed
        assert first <= max(latest - retain_min - more + 1, older_than)


@pytest.mark.parametrize("retention", [{}, {"time_retained": "9 d"}])
def test_a_fast_forwarded_table_keeps_the_changelog_of_the_branch(
    new_table: NewTable, retention: dict[str, str]
) -> None:
    table = new_table(**retention)
    table.versions.create_tag("here")
    table.versions.create_branch("b", "here")
    branch = table.branch("b")
    for value in (7, 8):
        branch.upsert(pa.table({"id": [value], "v": [value]}, schema=SCHEMA))
    table.versions.fast_forward("b")
    table.upsert(pa.table({"id": [9], "v": [9]}, schema=SCHEMA))
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)
    expire_changelogs(table.store, clock=lambda: LATER)
    assert changed(branch, 6, 7) == [7, 8]
    assert remove_orphan_files(table.store, older_than_millis=(LATER - 1) * 1000, clock=lambda: LATER).unjudged == ()
    assert changed(branch, 6, 7) == [7, 8]


def test_changelogs_of_compactions_expire_with_their_files(new_table: NewTable) -> None:
    table = new_table(time_retained="9999 d")
    for value in range(5, 8):
        table.upsert(pa.table({"id": [value], "v": [value]}, schema=SCHEMA))
        table.compact(full=True)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)
    manager = ChangelogManager(table.store.file_io, table.store.paths)
    before = manager.all()
    assert any(each.changelog_manifest_list is None for each in before[:-1])
    soon = {"changelog.num-retained.max": "2", "changelog.num-retained.min": "1", "changelog.time-retained": "1 h"}
    expired = expire_changelogs(table.copy(soon).store, lambda: LATER)
    assert expired == [each.id for each in before[: len(expired)]]
    assert any(each.changelog_manifest_list is None for each in before if each.id in expired)
    assert kept(table) == [each.id for each in before if each.id not in expired]
    assert remove_orphan_files(table.store, older_than_millis=LATER * 1000, clock=lambda: LATER + 1).files == ()
