"""Deletion vectors of a primary-key table whose buckets several writers compact at the same time.

No row is visible twice, and no replaced row becomes visible again, in any order of commits.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.lsm.compact.rewriter import NO_COMPACTION
from interbed.storage.table.table import Table
from interbed.storage.upkeep import compact_table
from interbed.storage.upkeep.compact_table import compact_buckets, restored_buckets
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.table_write import TableWrite
from tests.support.shares import pairwise

pytestmark = pytest.mark.usefixtures("each_kind_of_store")

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())))
Messages = Sequence[CommitMessage]


VECTORS = {"deletion-vectors.enabled": "true"}
ENGINES = {
    "deduplicate": VECTORS,
    "partial-update": {**VECTORS, "merge-engine": "partial-update"},
    "aggregation": {**VECTORS, "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row"},
}
ORDERS = sorted({"".join(order) for order in permutations("aabb")})
"""Order in which two writers commit, each its rows and then its compaction."""


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with four rows in one file of the highest level, without a deletion vector."""
    return made(tmp_path, VECTORS)


def made(directory: Path, options: dict[str, str]) -> Table:
    catalog = interbed.load_catalog("lake", warehouse=str(directory))
    catalog.create_database("d")
    new = catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options={"bucket": "1", **options})
    new.upsert(batch({1: 0, 2: 0, 3: 0, 4: 0}))
    new.compact(full=True)
    return new


def batch(rows: dict[int, int]) -> pa.Table:
    return pa.table({"id": list(rows), "v": list(rows.values())}, schema=SCHEMA)


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.scan(["id", "v"]).to_arrow().to_pylist())


def written(table: Table, rows: dict[int, int], *, full: bool = False) -> Messages:
    """The messages of a writer that has compacted its rows, or the whole bucket, and has not committed yet."""
    with table.new_write("a") as write:
        write.write_arrow(batch(rows))
        if full:
            write.compact_all()
        messages = write.prepare_commit()
    assert all(m.compaction for m in messages)
    return messages


def compacted(table: Table) -> Messages:
    messages = compact_buckets(table.store, restored_buckets(table.store, None, None, None), full=True)
    assert messages
    return messages


def commit(table: Table, user: str, messages: Messages) -> None:
    table.new_commit(user).commit(messages)


def test_two_writers_can_mark_rows_of_the_same_file(table: Table) -> None:
    first, second = written(table, {1: 1}), written(table, {2: 2})
    commit(table, "a", first)
    commit(table, "b", second)
    # The next compaction does the work of the one that was given up.
    assert set(rows_of(table)) <= {(1, 1), (2, 0), (3, 0), (4, 0)}
    table.compact()
    assert rows_of(table) == [(1, 1), (2, 2), (3, 0), (4, 0)]


def test_rows_of_a_file_that_was_compacted_meanwhile_can_be_marked(table: Table) -> None:
    late = written(table, {1: 1})
    table.upsert(batch({2: 2}))
    table.compact(full=True)
    commit(table, "a", late)
    assert rows_of(table) == [(1, 0), (2, 2), (3, 0), (4, 0)]
    table.compact()
    assert rows_of(table) == [(1, 1), (2, 2), (3, 0), (4, 0)]


def test_rows_marked_while_their_file_is_compacted_stay_deleted(table: Table) -> None:
    table.upsert(batch({5: 5}))
    late = compacted(table)
    table.upsert(batch({1: 1}))
    with pytest.raises(interbed.CommitConflictError, match=r"while it was compacted|not in the table any more"):
        commit(table, "a", late)
    assert rows_of(table) == [(1, 1), (2, 0), (3, 0), (4, 0), (5, 5)]


def test_rows_are_visible_after_a_write_whose_compaction_lost_the_race(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = written(table, {1: 1})
    commits = iter([lambda: commit(table, "a", other)])

    class OvertakenCommit(FileStoreCommit):
        """The commit of a writer that another writer overtakes."""

        def commit(self, *arguments: Any, **more: Any) -> list[int]:
            next(commits, lambda: None)()
            return super().commit(*arguments, **more)

    monkeypatch.setattr(compact_table, "FileStoreCommit", OvertakenCommit)
    table.upsert(batch({2: 2}))
    assert rows_of(table) == [(1, 1), (2, 2), (3, 0), (4, 0)]


@pytest.mark.parametrize(("engine", "full", "order"), pairwise(list(ENGINES), ["", "a", "b", "ab"], ORDERS))
def test_a_key_inserted_by_both_writers_is_visible_once(tmp_path: Path, engine: str, full: str, order: str) -> None:
    table = made(tmp_path, ENGINES[engine])
    values = {"a": 10, "b": 200}
    steps = {user: two_steps(written(table, {9: values[user]}, full=user in full)) for user in "ab"}
    for user in order:
        try_commit(table, user, steps[user].pop(0))
        assert [row for row in rows_of(table) if row[0] == 9] in ([], [(9, 10)], [(9, 200)], [(9, 210)])
    table.compact()
    (found,) = (v for key, v in rows_of(table) if key == 9)
    assert found in ((210,) if engine == "aggregation" else (10, 200))
    assert [row for row in rows_of(table) if row[0] != 9] == [(1, 0), (2, 0), (3, 0), (4, 0)]


def test_a_compaction_of_all_files_above_level_0_is_committed_beside_new_rows(table: Table) -> None:
    table.upsert(batch({5: 5}))
    late = compacted(table)
    with TableWrite(table.store.with_options({"write-only": "true"}), "b") as write:
        write.write_arrow(batch({5: 6}))
        commit(table, "b", write.prepare_commit())
    commit(table, "a", late)
    assert rows_of(table)[-1] == (5, 5)
    table.compact()
    assert rows_of(table)[-1] == (5, 6)


def test_a_compaction_is_committed_beside_one_of_other_keys(table: Table) -> None:
    late = written(table, {9: 1}, full=True)
    commit(table, "a", written(table, {20: 1}))
    commit(table, "b", late)
    # No compaction was given up: no row is left in level 0, where no reader sees it.
    assert rows_of(table)[-2:] == [(9, 1), (20, 1)]


def two_steps(messages: Messages) -> list[Messages]:
    """Split messages into those of the new rows and those of their compaction, as a commit does."""
    return [
        [replace(m, compaction=NO_COMPACTION) for m in messages],
        [CommitMessage.of_compaction(m.bucket_id, m.total_buckets, m.compaction) for m in messages],
    ]


def try_commit(table: Table, user: str, messages: Messages) -> None:
    with suppress(interbed.CommitConflictError):
        commit(table, user, messages)
