"""Deletion vectors of a table with a primary key, whose buckets several writers compact at the same time: no row is
there twice, and none that was replaced returns, whoever commits first.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.table import table_writes
from interbed.storage.table.table import Table
from interbed.storage.upkeep.compact_table import compact_buckets, restored_buckets
from interbed.storage.write.commit_message import CommitMessage

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())))
Messages = Sequence[CommitMessage]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Four rows in one file of the highest level, without a vector."""
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    made = catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options=options)
    made.upsert(batch({1: 0, 2: 0, 3: 0, 4: 0}))
    made.compact(full=True)
    return made


def batch(rows: dict[int, int]) -> pa.Table:
    return pa.table({"id": list(rows), "v": list(rows.values())}, schema=SCHEMA)


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.scan(["id", "v"]).to_arrow().to_pylist())


def written(table: Table, rows: dict[int, int]) -> Messages:
    """The messages of a writer that has compacted its rows and has yet to commit."""
    with table.new_write("a") as write:
        write.write_arrow(batch(rows))
        messages = write.prepare_commit()
    assert all(m.compaction for m in messages)
    return messages


def compacted(table: Table) -> Messages:
    messages = compact_buckets(table.store, restored_buckets(table.store, None, None, None), full=True)
    assert messages
    return messages


def commit(table: Table, user: str, messages: Messages) -> None:
    table.new_commit(user).commit(messages)


def test_each_of_two_writers_marks_rows_of_one_file(table: Table) -> None:
    first, second = written(table, {1: 1}), written(table, {2: 2})
    commit(table, "a", first)
    commit(table, "b", second)
    # What was given up is done by the next compaction.
    assert set(rows_of(table)) <= {(1, 1), (2, 0), (3, 0), (4, 0)}
    table.compact()
    assert rows_of(table) == [(1, 1), (2, 2), (3, 0), (4, 0)]


def test_a_file_whose_rows_are_to_be_marked_was_compacted(table: Table) -> None:
    late = written(table, {1: 1})
    table.upsert(batch({2: 2}))
    table.compact(full=True)
    commit(table, "a", late)
    assert rows_of(table) == [(1, 0), (2, 2), (3, 0), (4, 0)]
    table.compact()
    assert rows_of(table) == [(1, 1), (2, 2), (3, 0), (4, 0)]


def test_rows_were_marked_while_their_file_was_compacted(table: Table) -> None:
    table.upsert(batch({5: 5}))
    late = compacted(table)
    table.upsert(batch({1: 1}))
    with pytest.raises(interbed.CommitConflictError, match=r"while it was compacted|not in the table any more"):
        commit(table, "a", late)
    assert rows_of(table) == [(1, 1), (2, 0), (3, 0), (4, 0), (5, 5)]


def test_rows_are_seen_when_the_write_has_returned_although_its_compaction_lost(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = written(table, {1: 1})
    commits = iter([lambda: commit(table, "a", other)])

    class Slow(FileStoreCommit):
        """The commit of a writer that another one comes before."""

        def commit(self, *arguments: Any, **more: Any) -> list[int]:
            next(commits, lambda: None)()
            return super().commit(*arguments, **more)

    monkeypatch.setattr(table_writes, "FileStoreCommit", Slow)
    table.upsert(batch({2: 2}))
    assert rows_of(table) == [(1, 1), (2, 2), (3, 0), (4, 0)]
