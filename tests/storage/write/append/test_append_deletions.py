"""Rows of append tables deleted by deletion vectors: compaction, and concurrent writers."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CommitConflictError
from interbed.storage.lsm.compact.rewriter import CompactIncrement
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.table.table import Table
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.deleted_rows import vector_messages


def _table(tmp_path: Path, **options: str) -> Table:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    fields = pa.schema((("id", pa.int64()), ("v", pa.string())))
    own = {"deletion-vectors.enabled": "true", "deletion-vectors.modifiable": "true"}
    made = catalog.create_table("db.t", fields, options={**own, **options})
    for start in (0, 10, 20):
        made.append(pa.table({"id": range(start, start + 10), "v": ["x"] * 10}))
    return made


def _ids(table: Table) -> list[int]:
    column: Any = table.scan().to_arrow()["id"]
    return sorted(column.to_pylist())


def _data_files(table: Table) -> set[str]:
    return {f.file_name for s in table.new_scan().plan().splits for f in s.files}


@pytest.mark.parametrize("bitmap64", ["false", "true"])
def test_deleted_rows_are_marked_and_files_are_kept(tmp_path: Path, bitmap64: str) -> None:
    table = _table(tmp_path, **{"deletion-vectors.bitmap64": bitmap64})
    files = _data_files(table)

    assert table.delete("id in (3, 15)") is not None
    assert table.delete("id in (3, 4, 29)") is not None
    assert table.delete("id = 3") is None

    assert _ids(table) == [i for i in range(30) if i not in (3, 4, 15, 29)]
    assert _data_files(table) == files


def test_a_compaction_drops_marked_rows_and_their_vectors(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.delete("id in (3, 15)")
    table.compact()

    assert _ids(table) == [i for i in range(30) if i not in (3, 15)]
    (split,) = table.new_scan().plan().splits
    assert not split.deletion_files
    assert len(split.files) == 1


def test_files_are_rewritten_without_vectors_once_the_option_is_off(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.delete("id in (3, 15)")
    table.copy({"deletion-vectors.enabled": "false"}).delete("id in (4, 25)")

    assert _ids(table) == [i for i in range(30) if i not in (3, 4, 15, 25)]
    table.delete("id = 5")
    assert 3 not in _ids(table)


def test_marking_a_file_that_was_compacted_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    table = _table(tmp_path)
    restored = restore_buckets(table.store)
    (name, *_) = sorted(_data_files(table))
    messages = vector_messages(table.store, restored, {BucketId(_partition(table), 0): {name: [0, 1]}})
    table.compact()

    with pytest.raises(CommitConflictError, match="not in the table any more"):
        table.new_commit("late").commit(messages)
    assert len(_ids(table)) == 30


@pytest.mark.parametrize("buckets", [{}, {"bucket": "1", "bucket-key": "id"}])
def test_a_compaction_does_not_restore_rows_that_were_deleted_meanwhile(
    tmp_path: Path, buckets: dict[str, str]
) -> None:
    table = _table(tmp_path, **buckets)
    with table.new_write("writer") as write:
        for split in table.new_scan().plan().splits:
            for batch in table.new_read().to_batches(split):
                write.write_arrow(batch)
        (message,) = write.prepare_commit()
    files = tuple(f for s in table.new_scan().plan().splits for f in s.files)
    table.delete("id = 3")

    compacted = CommitMessage.of_compaction(
        message.bucket_id, message.total_buckets, CompactIncrement(before=files, after=message.data.new_files)
    )
    with pytest.raises(CommitConflictError, match="deleted rows"):
        table.new_commit("compactor").commit([compacted])
    assert 3 not in _ids(table)


def _partition(table: Table) -> bytes:
    return table.new_scan().plan().splits[0].partition
