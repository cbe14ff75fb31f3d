"""A fast-forward to a branch: what versions, streams and positions of streams see of the replaced history."""

from pathlib import Path

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.storage.base.errors import CommitStateUnknownError, SnapshotNotFoundError
from interbed.storage.commit.stream_commits import PositionedCommit
from interbed.storage.table.table import Table

USER = "ingest"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Return a table with two snapshots, the second of which has the tag "start"."""
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    for number in (1, 2):
        table.append([{"id": number}])
    table.versions.create_tag("start", 2)
    table.versions.create_branch("b", tag="start")
    return table


def ids(table: Table) -> list[int]:
    return sorted(row["id"] for row in table.scan().to_arrow().to_pylist())


def changes(table: Table, between: str) -> list[int]:
    return ids(table.copy({"incremental-between": between}))


def snapshots(table: Table) -> list[int]:
    return [snapshot.id for snapshot in table.snapshots()]


def committed(table: Table, number: int, position: str) -> None:
    """Commit a row of a stream with its position."""
    write = table.new_write(USER)
    write.write_arrow(pa.table({"id": pa.array([number], pa.int64())}))
    PositionedCommit(table.store, USER).commit(table.store, write.prepare_commit(), position)
    write.close()


def position(table: Table) -> str | None:
    return PositionedCommit(table.store, USER).position


def extended(table: Table, *numbers: int, expires: bool) -> Table:
    """Append rows to the branch, and expire all but its newest snapshot."""
    branch = table.copy({"branch": "b"})
    for number in numbers:
        branch.append([{"id": number}])
    if expires:
        branch.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    return branch


def test_snapshots_before_the_branch_remain_when_it_still_has_its_first_one(table: Table) -> None:
    table.append([{"id": 3}])
    extended(table, 13, 14, expires=False)
    table.versions.fast_forward("b")
    assert snapshots(table) == [1, 2, 3, 4]
    assert changes(table, "1,4") == [2, 13, 14]
    assert not any(snapshot.begins_history for snapshot in table.snapshots())


def test_snapshots_that_may_not_be_of_the_branch_are_replaced(table: Table) -> None:
    for number in (3, 4):
        table.append([{"id": number}])
    table.versions.create_tag("mine", 1)
    extended(table, 13, 14, 15, expires=True)
    table.versions.fast_forward("b")
    assert (ids(table), snapshots(table)) == ([1, 2, 13, 14, 15], [5])
    for between in ("1,5", "2,5", "4,5"):
        with pytest.raises(SnapshotNotFoundError):
            changes(table, between)
    assert ids(table.copy({"scan.tag-name": "mine"})) == [1]
    assert table.maintenance.fsck().is_sound
    table.append([{"id": 16}])
    assert changes(table, "5,6") == [16]


def test_a_history_that_ends_before_that_of_the_branch_has_no_gap_then(table: Table) -> None:
    extended(table, 13, 14, 15, expires=True)
    table.versions.fast_forward("b")
    assert (ids(table), snapshots(table)) == ([1, 2, 13, 14, 15], [5])


def test_a_table_that_has_expired_further_than_the_branch_keeps_the_snapshots_of_the_branch(table: Table) -> None:
    for number in range(3, 9):
        table.append([{"id": number}])
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    extended(table, 13, 14, 15, expires=True)
    table.versions.fast_forward("b")
    assert snapshots(table) == [5]
    assert not table.snapshots()[0].begins_history


@pytest.mark.parametrize("resumes", [False, True])
def test_a_stream_that_has_read_replaced_snapshots_ends_with_an_error(table: Table, resumes: bool) -> None:
    for number in (3, 4):
        table.append([{"id": number}])
    stream = table.new_stream_scan()
    assert stream.plan() is not None
    checkpoint = stream.checkpoint()
    assert checkpoint == 5
    extended(table, 13, 14, 15, expires=True)
    table.versions.fast_forward("b")
    if resumes:
        stream = table.new_stream_scan()
        stream.restore(checkpoint)
    with pytest.raises(SnapshotNotFoundError, match="has no changes to read"):
        stream.plan()


@pytest.mark.parametrize("mode", ["auto", "delta"])
def test_a_new_history_has_changes_after_its_first_snapshot(table: Table, mode: str) -> None:
    for number in (3, 4):
        table.append([{"id": number}])
    extended(table, 13, 14, 15, expires=True)
    table.versions.fast_forward("b")
    assert table.copy({"incremental-between-scan-mode": mode}).changes().to_arrow()["id"].to_pylist() == []
    table.append([{"id": 16}])
    assert table.copy({"incremental-between-scan-mode": mode}).changes().to_arrow()["id"].to_pylist() == [16]
    # A stream from the beginning has the rows of the first snapshot whose changes can't be read.
    assert [each.to_arrow()["id"].to_pylist() for each in table.stream(6, idle_seconds=0)] == [[16]]


@pytest.mark.parametrize("rows_before", [0, 1])
def test_an_ingestion_whose_commits_were_replaced_ends_with_an_error(table: Table, rows_before: int) -> None:
    for number in range(rows_before):
        table.append([{"id": 100 + number}])
    for number, text in ((3, "a"), (4, "b")):
        committed(table, number, text)
    extended(table, *range(13, 16 + rows_before), expires=True)
    table.versions.fast_forward("b")
    for _ in range(2):
        with pytest.raises(CommitStateUnknownError, match="is not known"):
            position(table)
        table.append([{"id": 50}])


@pytest.mark.parametrize(("count", "expected"), [(1, None), (3, None)])
def test_an_ingestion_that_began_after_the_branch_begins_again(table: Table, count: int, expected: str | None) -> None:
    for number, text in ((3, "a"), (4, "b")):
        committed(table, number, text)
    extended(table, *range(13, 13 + count), expires=False)
    table.versions.fast_forward("b")
    assert position(table) == expected


def test_an_ingestion_into_the_branch_has_the_position_of_its_rows(table: Table) -> None:
    committed(table, 3, "of the table")
    committed(table.copy({"branch": "b"}), 13, "of the branch")
    committed(table, 4, "later")
    extended(table, 14, expires=False)
    table.versions.fast_forward("b")
    assert (ids(table), position(table)) == ([1, 2, 13, 14], "of the branch")


def test_a_position_from_before_the_branch_remains(tmp_path: Path) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    committed(table, 1, "a")
    table.append([{"id": 2}])
    table.versions.create_tag("start", 2)
    table.versions.create_branch("b", tag="start")
    table.append([{"id": 3}])
    extended(table, 13, 14, expires=False)
    table.versions.fast_forward("b")
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert position(table) == "a"
