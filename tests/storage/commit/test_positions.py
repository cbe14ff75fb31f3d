"""Commits with the position of a stream: after a crash, an expiry and a rollback, and beside another process."""

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.storage.base.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    CorruptFileError,
    InvalidInputError,
)
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.commit.stream_commits import POSITION_PROPERTY, SOURCE_PROPERTY, PositionedCommit
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from interbed.storage.version.orphans import remove_orphan_files
from interbed.storage.write.commit_message import CommitMessage

USER = "ingest"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    return catalog.create_table("db.t", pa.schema([("id", pa.int64())]))


def messages(table: Table, *ids: int) -> list[CommitMessage]:
    write = table.new_write(USER)
    write.write_arrow(pa.table({"id": pa.array(ids, pa.int64())}))
    found = write.prepare_commit()
    write.close()
    return found


def opened(table: Table) -> PositionedCommit:
    return PositionedCommit(table.store, USER)


def commit(table: Table, stream: PositionedCommit, id_: int, position: str) -> list[int]:
    return stream.commit(table.store, messages(table, id_), position)


def rows(table: Table) -> list[int]:
    column: Any = table.scan().to_arrow()["id"]
    return sorted(column.to_pylist())


def compacted_without_commits(table: Table) -> None:
    """Two commits, whose snapshots expire, and their compaction, which is snapshot 3."""
    for id_, position in ((1, "a"), (2, "b")):
        opened(table).commit(table.store, messages(table, id_), position, "one")
    assert table.compact().snapshot_id == 3
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)


def note(table: Table) -> Path:
    return Path(table.location, "position", f"position-{USER}")


def reopened(table: Table) -> Table:
    """The table as another process opens it."""
    return Table(table.name, open_store(table.location))


def test_the_position_matches_the_committed_rows(table: Table) -> None:
    assert opened(table).position is None
    assert commit(table, opened(table), 1, "a") == [1]
    assert opened(table).position == "a"
    assert commit(table, opened(table), 2, "b") == [2]
    assert opened(table).position == "b"
    latest = table.latest_snapshot()
    assert latest is not None
    assert latest.properties == {POSITION_PROPERTY: "b"}
    assert rows(table) == [1, 2]


def test_a_commit_that_did_not_happen_leaves_the_previous_position(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    begun = json.loads(note(table).read_text())
    note(table).write_text(json.dumps({**begun, "epoch": 2, "position": "b", "before": "a", "after": 1, "done": False}))
    stream = opened(table)
    assert stream.position == "a"
    commit(table, stream, 2, "b")
    assert opened(table).position == "b"


def test_a_position_is_stored_with_its_source(table: Table) -> None:
    opened(table).commit(table.store, messages(table, 1), "a", "one")
    assert opened(table).source == "one"
    latest = table.latest_snapshot()
    assert latest is not None
    assert latest.properties == {POSITION_PROPERTY: "a", SOURCE_PROPERTY: "one"}
    # A commit that was begun and did not happen leaves the source, too.
    done = json.loads(note(table).read_text())
    begun = {"epoch": 2, "position": "b", "before": "a", "after": 1, "source": "two", "source_before": "one"}
    note(table).write_text(json.dumps({**done, **begun, "done": False}))
    assert (opened(table).position, opened(table).source) == ("a", "one")
    note(table).unlink()
    assert (opened(table).position, opened(table).source) == ("a", "one")
    # A source that becomes known is recorded without a commit.
    opened(table).advance("a", "two")
    assert opened(table).source == "two"


def test_progress_files_and_snapshots_of_earlier_versions_name_no_source(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    kept = json.loads(note(table).read_text())
    note(table).write_text(json.dumps({n: v for n, v in kept.items() if not n.startswith("source")}))
    assert (opened(table).position, opened(table).source) == ("a", None)
    note(table).unlink()
    assert (opened(table).position, opened(table).source) == ("a", None)


def test_a_commit_holds_when_its_process_died_after_it(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    before = json.loads(note(table).read_text())
    commit(table, opened(table), 2, "b")
    table.append(pa.table({"id": [3]}))
    begun = {**before, "epoch": 2, "position": "b", "before": "a", "after": 1, "done": False}
    note(table).write_text(json.dumps(begun))
    assert opened(table).position == "b"


def test_without_a_progress_file_the_newest_snapshot_has_the_position(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    table.append(pa.table({"id": [3]}))
    note(table).unlink()
    assert opened(table).position == "a"


def test_a_position_outlives_its_snapshot(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    for i in range(3):
        table.append(pa.table({"id": [i]}))
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert [s.commit_user == USER for s in table.snapshots()] == [False]
    assert opened(table).position == "a"


def test_a_commit_in_doubt_whose_snapshots_have_expired_is_an_error(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    before = json.loads(note(table).read_text())
    commit(table, opened(table), 2, "b")
    for i in range(3):
        table.append(pa.table({"id": [i]}))
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    begun = {**before, "epoch": 2, "position": "b", "before": "a", "after": 1, "done": False}
    note(table).write_text(json.dumps(begun))
    with pytest.raises(CommitStateUnknownError, match=r'write "done": true into .*position-ingest'):
        opened(reopened(table))


def test_a_rollback_restores_the_earlier_position(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    commit(table, opened(table), 2, "b")
    table.versions.rollback_to(1)
    stream = opened(table)
    assert stream.position == "a"
    commit(table, stream, 3, "c")
    assert (opened(table).position, rows(table)) == ("c", [1, 3])


def test_a_rollback_is_noticed_when_others_have_written_since(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    commit(table, opened(table), 2, "b")
    table.versions.rollback_to(1)
    for i in (10, 11):
        table.append(pa.table({"id": [i]}))
    assert opened(table).position == "a"


def test_a_rollback_to_a_compaction_restores_a_position_whose_snapshot_has_expired(table: Table) -> None:
    compacted_without_commits(table)
    opened(table).commit(table.store, messages(table, 3), "c", "two")
    table.versions.rollback_to(3)
    table = reopened(table)
    stream = opened(table)
    assert (stream.position, stream.source, rows(table)) == ("b", "one", [1, 2])
    assert commit(table, stream, 3, "c") == [4]
    assert (opened(table).position, rows(table)) == ("c", [1, 2, 3])


def test_the_restored_position_holds_when_others_have_written_since_the_rollback(table: Table) -> None:
    compacted_without_commits(table)
    commit(table, opened(table), 3, "c")
    table.versions.rollback_to(3)
    for i in (10, 11):
        table.append(pa.table({"id": [i]}))
    assert opened(reopened(table)).position == "b"


@pytest.mark.parametrize("writes_since", [0, 3])
def test_a_position_that_a_rollback_and_an_expiry_have_deleted_is_an_error(table: Table, writes_since: int) -> None:
    compacted_without_commits(table)
    for id_, position in ((3, "c"), (4, "d")):
        commit(table, opened(table), id_, position)
    reopened(table).versions.rollback_to(3)
    for i in range(writes_since):
        table.append(pa.table({"id": [10 + i]}))
    with pytest.raises(CommitStateUnknownError, match=r"delete .*position-ingest instead"):
        opened(reopened(table))
    note(table).unlink()
    assert opened(reopened(table)).position is None


def expired_after_rollback(table: Table, target: int) -> Table:
    """The table as another process opens it, after a rollback, later commits of others and the expiry of all before."""
    table.versions.rollback_to(target)
    for i in range(4):
        table.append(pa.table({"id": [10 + i]}))
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    return reopened(table)


def test_an_expiry_does_not_hide_a_rollback(table: Table) -> None:
    for id_, position in ((1, "a"), (2, "b")):
        opened(table).commit(table.store, messages(table, id_), position, "one")
    table = expired_after_rollback(table, 1)
    stream = opened(table)
    assert (stream.position, stream.source, rows(table)) == ("a", "one", [1, 10, 11, 12, 13])
    commit(table, stream, 2, "b")
    assert opened(reopened(table)).position == "b"


def test_an_expiry_does_not_hide_a_rollback_to_a_compaction(table: Table) -> None:
    compacted_without_commits(table)
    commit(table, opened(table), 3, "c")
    assert opened(expired_after_rollback(reopened(table), 3)).position == "b"


def test_an_expiry_does_not_hide_that_a_rollback_deleted_the_position(table: Table) -> None:
    compacted_without_commits(table)
    for id_, position in ((3, "c"), (4, "d")):
        commit(table, opened(table), id_, position)
    table = expired_after_rollback(reopened(table), 3)
    for _ in range(2):
        with pytest.raises(CommitStateUnknownError, match="is not known: the table was rolled back"):
            opened(table)


def test_a_damaged_progress_file_does_not_hinder_a_rollback(table: Table) -> None:
    for id_, position in ((1, "a"), (2, "b")):
        commit(table, opened(table), id_, position)
    note(table).write_text("{}")
    table.versions.rollback_to(1)
    assert rows(table) == [1]


def test_after_a_rollback_to_before_its_first_commit_a_stream_begins_again(table: Table) -> None:
    table.append(pa.table({"id": [7]}))
    for id_, position in ((1, "a"), (2, "b")):
        commit(table, opened(table), id_, position)
    table.versions.rollback_to(1)
    assert opened(table).position is None


def test_the_later_of_two_processes_is_refused_and_finds_the_position_of_the_other(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    first, second = opened(table), opened(table)
    commit(table, first, 2, "b")
    with pytest.raises(CommitConflictError, match="as the user 'ingest'"):
        commit(table, second, 2, "b2")
    # The process that was refused had recorded its intended commit.
    assert opened(table).position == "b"
    assert rows(table) == [1, 2]


def test_a_process_that_fell_behind_does_not_move_the_position_back(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    slow = opened(table)
    commit(table, opened(table), 2, "b")
    slow.advance("a2")
    assert opened(table).position == "b"


def test_a_position_advances_without_rows(table: Table) -> None:
    stream = opened(table)
    stream.advance("a")
    assert opened(table).position == "a"
    assert table.latest_snapshot() is None
    commit(table, opened(table), 1, "b")
    opened(table).advance("c")
    assert opened(table).position == "c"


def test_an_overwrite_of_all_rows_commits_its_position(table: Table) -> None:
    stream = opened(table)
    commit(table, stream, 1, "a")
    stream.overwrite(table.store, [], "b")
    assert (rows(table), opened(table).position) == ([], "b")
    commit(table, stream, 2, "c")
    assert (rows(table), opened(table).position) == ([2], "c")


def test_the_name_of_a_user_with_ordinary_commits_is_refused_for_a_stream(table: Table) -> None:
    FileStoreCommit(table.store, USER).commit(messages(table, 1), identifier=4)
    with pytest.raises(InvalidInputError, match="without a position in a stream"):
        opened(table)
    with pytest.raises(InvalidInputError, match="It has no slashes"):
        PositionedCommit(table.store, "a/b")


def test_the_error_names_a_damaged_progress_file(table: Table) -> None:
    opened(table).advance("a")
    note(table).write_text("{}")
    with pytest.raises(CorruptFileError, match="is not a note of a stream's position"):
        opened(table)


def test_progress_files_are_no_orphans(table: Table) -> None:
    opened(table).advance("a")
    now = time.time() + 3600
    remove_orphan_files(table.store, older_than_millis=int(now - 60) * 1000, clock=lambda: now)
    assert opened(table).position == "a"
