"""Numbered commits of a stream: each is committed exactly once, whatever has expired since."""

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.storage.base.errors import CommitStateUnknownError, CorruptFileError, InvalidInputError
from interbed.storage.commit.stream_commits import EpochCommit
from interbed.storage.meta.snapshot.progress import ConsumerManager
from interbed.storage.table.table import Table
from interbed.storage.version.orphans import remove_orphan_files
from interbed.storage.write.commit_message import CommitMessage

USER = "query-1"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    options = {"bucket": "-1", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    return catalog.create_table("db.t", pa.schema([("id", pa.int64())]), options=options)


def _messages(table: Table, *ids: int) -> list[CommitMessage]:
    write = table.new_write(USER)
    write.write_arrow(pa.table({"id": pa.array(ids, pa.int64())}))
    messages = write.prepare_commit()
    write.close()
    return messages


def _rows(table: Table) -> list[int]:
    column: Any = table.scan().to_arrow()["id"]
    return sorted(column.to_pylist())


def _note(table: Table) -> Path:
    return Path(table.location, "epoch", f"epoch-{USER}")


def test_an_epoch_is_committed_once(table: Table) -> None:
    assert EpochCommit(table.store, USER).commit(_messages(table, 1), 0) == [1]
    again = _messages(table, 1)

    assert EpochCommit(table.store, USER).commit(again, 0) is None
    assert EpochCommit(table.store, USER).commit(_messages(table, 2), 1) == [2]

    assert _rows(table) == [1, 2]
    assert not EpochCommit(table.store, USER).is_committed(2)
    assert not EpochCommit(table.store, "query-2").is_committed(0)


def test_an_epoch_is_known_after_its_snapshot_has_expired(table: Table) -> None:
    EpochCommit(table.store, USER).commit(_messages(table, 1), 0)
    for number in (2, 3, 4):
        table.append(pa.table({"id": pa.array([number], pa.int64())}))

    assert table.store.snapshots.earliest_id() == 4
    assert EpochCommit(table.store, USER).is_committed(0)


def test_an_epoch_that_was_committed_when_its_job_died_is_found_among_the_snapshots(table: Table) -> None:
    EpochCommit(table.store, USER).commit(_messages(table, 1), 0, job="a")
    note = json.loads(_note(table).read_text())
    _note(table).write_text(json.dumps({**note, "done": False}))

    assert EpochCommit(table.store, USER).is_committed(0)
    assert EpochCommit(table.store, USER).commit(_messages(table, 1), 0, job="b") is None
    assert EpochCommit(table.store, USER).is_job_of(0, "a")
    assert json.loads(_note(table).read_text())["done"]


def test_an_epoch_whose_job_died_before_it_was_committed_is_committed(table: Table) -> None:
    _note(table).parent.mkdir()
    _note(table).write_text(json.dumps({"epoch": 0, "job": "a", "after": 0, "done": False}))

    assert EpochCommit(table.store, USER).commit(_messages(table, 1), 0, job="b") == [1]
    assert _rows(table) == [1]


def test_an_epoch_whose_outcome_cannot_be_determined_is_an_error(table: Table) -> None:
    _note(table).parent.mkdir()
    _note(table).write_text(json.dumps({"epoch": 0, "job": "a", "after": 0, "done": False}))
    for number in (2, 3, 4):
        table.append(pa.table({"id": pa.array([number], pa.int64())}))

    with pytest.raises(CommitStateUnknownError, match="from 1 to 2 have expired"):
        EpochCommit(table.store, USER).commit(_messages(table, 1), 0)
    assert _rows(table) == [2, 3, 4]


def test_without_its_progress_file_an_epoch_is_known_by_its_snapshot(table: Table) -> None:
    EpochCommit(table.store, USER).commit(_messages(table, 1), 0)
    EpochCommit(table.store, USER).commit(_messages(table, 2), 1)
    _note(table).unlink()

    assert EpochCommit(table.store, USER).is_committed(1)
    assert EpochCommit(table.store, USER).is_committed(0)
    assert not EpochCommit(table.store, USER).is_committed(2)


def test_an_overwrite_of_an_epoch_is_applied_once(table: Table) -> None:
    EpochCommit(table.store, USER).commit(_messages(table, 1, 2), 0)
    EpochCommit(table.store, USER).overwrite(_messages(table, 3), 1, partition={})
    table.append(pa.table({"id": pa.array([4], pa.int64())}))

    assert EpochCommit(table.store, USER).overwrite(_messages(table, 3), 1, partition={}) is None
    assert _rows(table) == [3, 4]
    assert EpochCommit(table.store, USER).overwrite([], 2, partition={}) != []
    assert _rows(table) == []


def test_an_epoch_without_rows_makes_no_snapshot(table: Table) -> None:
    assert EpochCommit(table.store, USER).commit([], 0) == []
    assert table.store.snapshots.latest_id() is None


def test_invalid_names_and_damaged_progress_files_are_refused(table: Table) -> None:
    with pytest.raises(InvalidInputError, match="slashes"):
        EpochCommit(table.store, "a/b")
    _note(table).parent.mkdir()
    _note(table).write_text("{}")
    with pytest.raises(CorruptFileError, match="epoch-query-1"):
        EpochCommit(table.store, USER).is_committed(0)


def test_progress_files_are_neither_orphans_nor_consumers(table: Table) -> None:
    EpochCommit(table.store, USER).commit(_messages(table, 1), 0)

    assert not ConsumerManager(table.store.file_io, table.store.paths).ids()
    now = time.time() + 3600
    remove_orphan_files(table.store, older_than_millis=int(now - 60) * 1000, clock=lambda: now)
    assert EpochCommit(table.store, USER).is_committed(0)
    assert _rows(table) == [1]


def test_progress_files_unused_for_long_are_deleted_when_another_query_begins(table: Table) -> None:
    for user in (USER, "query-2", "query-3"):
        EpochCommit(table.store, user).commit(_messages(table, 1), 0)
    in_doubt = Path(table.location, "epoch", "epoch-query-2")
    in_doubt.write_text(json.dumps({"epoch": 0, "job": "a", "after": 1, "done": False}))

    def later() -> float:
        return time.time() + 31 * 86_400

    EpochCommit(table.store, "query-3", later).commit(_messages(table, 2), 1)
    assert _note(table).exists()
    EpochCommit(table.store, "query-4", later).commit(_messages(table, 3), 0)
    assert sorted(p.name for p in in_doubt.parent.iterdir()) == ["epoch-query-2", "epoch-query-4"]
