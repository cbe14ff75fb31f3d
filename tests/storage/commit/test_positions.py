"""Commits with the position of a stream: after a death, an expiry, a rollback, and beside another process."""

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


def note(table: Table) -> Path:
    return Path(table.location, "position", f"position-{USER}")


def reopened(table: Table) -> Table:
    """The table as another process would see it."""
    return Table(table.name, open_store(table.location))


def test_a_position_is_that_of_the_rows_that_are_there(table: Table) -> None:
    assert opened(table).position is None
    assert commit(table, opened(table), 1, "a") == [1]
    assert opened(table).position == "a"
    assert commit(table, opened(table), 2, "b") == [2]
    assert opened(table).position == "b"
    latest = table.latest_snapshot()
    assert latest is not None
    assert latest.properties == {POSITION_PROPERTY: "b"}
    assert rows(table) == [1, 2]


def test_a_commit_that_was_begun_and_did_not_happen_leaves_the_position_before(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    begun = json.loads(note(table).read_text())
    note(table).write_text(json.dumps({**begun, "epoch": 2, "position": "b", "before": "a", "after": 1, "done": False}))
    stream = opened(table)
    assert stream.position == "a"
    commit(table, stream, 2, "b")
    assert opened(table).position == "b"


def test_a_position_is_kept_with_what_it_is_in(table: Table) -> None:
    opened(table).commit(table.store, messages(table, 1), "a", "one")
    assert opened(table).source == "one"
    latest = table.latest_snapshot()
    assert latest is not None
    assert latest.properties == {POSITION_PROPERTY: "a", SOURCE_PROPERTY: "one"}
    # A commit that was begun and did not happen leaves this, too.
    done = json.loads(note(table).read_text())
    begun = {"epoch": 2, "position": "b", "before": "a", "after": 1, "source": "two", "source_before": "one"}
    note(table).write_text(json.dumps({**done, **begun, "done": False}))
    assert (opened(table).position, opened(table).source) == ("a", "one")
    note(table).unlink()
    assert (opened(table).position, opened(table).source) == ("a", "one")
    # A source that becomes known is noted without a commit.
    opened(table).advance("a", "two")
    assert opened(table).source == "two"


def test_notes_and_snapshots_of_earlier_versions_do_not_say_what_positions_are_in(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    kept = json.loads(note(table).read_text())
    note(table).write_text(json.dumps({n: v for n, v in kept.items() if not n.startswith("source")}))
    assert (opened(table).position, opened(table).source) == ("a", None)
    note(table).unlink()
    assert (opened(table).position, opened(table).source) == ("a", None)


def test_a_commit_that_happened_before_its_process_died_holds(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    before = json.loads(note(table).read_text())
    commit(table, opened(table), 2, "b")
    table.append(pa.table({"id": [3]}))
    begun = {**before, "epoch": 2, "position": "b", "before": "a", "after": 1, "done": False}
    note(table).write_text(json.dumps(begun))
    assert opened(table).position == "b"


def test_without_its_note_the_newest_snapshot_says_the_position(table: Table) -> None:
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


def test_what_expired_in_doubt_is_not_guessed(table: Table) -> None:
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


def test_a_rollback_takes_the_position_back(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    commit(table, opened(table), 2, "b")
    table.versions.rollback_to(1)
    stream = opened(table)
    assert stream.position == "a"
    commit(table, stream, 3, "c")
    assert (opened(table).position, rows(table)) == ("c", [1, 3])


def test_a_rollback_is_seen_when_others_have_written_since(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    commit(table, opened(table), 2, "b")
    table.versions.rollback_to(1)
    for i in (10, 11):
        table.append(pa.table({"id": [i]}))
    assert opened(table).position == "a"


def test_of_two_processes_the_later_one_is_refused_and_finds_what_the_other_did(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    first, second = opened(table), opened(table)
    commit(table, first, 2, "b")
    with pytest.raises(CommitConflictError, match="as the user 'ingest'"):
        commit(table, second, 2, "b2")
    # The one that was refused had noted what it was about to do.
    assert opened(table).position == "b"
    assert rows(table) == [1, 2]


def test_a_process_that_fell_behind_does_not_take_the_position_back(table: Table) -> None:
    commit(table, opened(table), 1, "a")
    slow = opened(table)
    commit(table, opened(table), 2, "b")
    slow.advance("a2")
    assert opened(table).position == "b"


def test_a_position_moves_on_without_rows(table: Table) -> None:
    stream = opened(table)
    stream.advance("a")
    assert opened(table).position == "a"
    assert table.latest_snapshot() is None
    commit(table, opened(table), 1, "b")
    opened(table).advance("c")
    assert opened(table).position == "c"


def test_all_rows_go_with_a_position(table: Table) -> None:
    stream = opened(table)
    commit(table, stream, 1, "a")
    stream.overwrite(table.store, [], "b")
    assert (rows(table), opened(table).position) == ([], "b")
    commit(table, stream, 2, "c")
    assert (rows(table), opened(table).position) == ([2], "c")


def test_a_name_that_has_committed_otherwise_is_no_streams(table: Table) -> None:
    FileStoreCommit(table.store, USER).commit(messages(table, 1), identifier=4)
    with pytest.raises(InvalidInputError, match="without a position in a stream"):
        opened(table)
    with pytest.raises(InvalidInputError, match="It has no slashes"):
        PositionedCommit(table.store, "a/b")


def test_a_damaged_note_is_named(table: Table) -> None:
    opened(table).advance("a")
    note(table).write_text("{}")
    with pytest.raises(CorruptFileError, match="is not a note of a stream's position"):
        opened(table)


def test_notes_are_no_orphans(table: Table) -> None:
    opened(table).advance("a")
    now = time.time() + 3600
    remove_orphan_files(table.store, older_than_millis=int(now - 60) * 1000, clock=lambda: now)
    assert opened(table).position == "a"
