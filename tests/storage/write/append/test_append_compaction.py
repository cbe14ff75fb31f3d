"""Compaction of append tables: fewer files and the same rows, in their order where it matters."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from interbed.storage.base.predicate.grammar import parse_filter
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.scan import TableScan
from interbed.storage.table.opening import open_store, schema_manager
from interbed.storage.upkeep.append_compact import plan_append_compaction
from interbed.storage.upkeep.changed_rows import delete_rows
from interbed.storage.upkeep.compact_table import compact_table
from interbed.storage.write.table_write import TableWrite


def file(name: str, first: int, *, size: int = 10) -> DataFileMeta:
    return DataFileMeta(
        file_name=name,
        file_size=size,
        row_count=5,
        min_sequence_number=first,
        max_sequence_number=first + 4,
        schema_id=0,
        level=0,
        creation_time_millis=0,
    )


def names(files: list[DataFileMeta], *, keep_order: bool) -> list[list[str]]:
    groups = plan_append_compaction(files, small_file_bytes=70, keep_order=keep_order)
    return [[f.file_name for f in group] for group in groups]


def test_a_single_small_file_is_not_compacted() -> None:
    assert names([file("a", 0), file("b", 5, size=100)], keep_order=False) == []


def test_only_neighbours_are_joined_where_order_matters() -> None:
    files = [file("d", 15), file("a", 0), file("big", 10, size=100), file("b", 5), file("e", 20)]
    assert names(files, keep_order=True) == [["a", "b"], ["d", "e"]]
    assert names(files, keep_order=False) == [["a", "b", "d", "e"]]


def append(store: FileStore, ids: range) -> None:
    with TableWrite(store, "u") as writer:
        writer.write_arrow(pa.table({"id": ids, "v": [f"v{i}" for i in ids]}))
        FileStoreCommit(store, f"u{ids}", new_user=True).commit(writer.prepare_commit())


def ids_of(store: FileStore) -> list[int]:
    read = TableRead(store)
    columns: list[Any] = [b.column("id") for s in TableScan(store).plan().splits for b in read.to_batches(s)]
    return [i for column in columns for i in column.to_pylist()]


def create(path: Path, **options: str) -> FileStore:
    columns = pa.schema((("id", pa.int32()), ("v", pa.string())))
    schema_manager(str(path)).create_table(Schema.from_pyarrow_schema(columns, options=options))
    return open_store(str(path))


def test_small_files_become_one_with_the_same_rows(tmp_path: Path) -> None:
    store = create(tmp_path)
    for start in range(0, 50, 10):
        append(store, range(start, start + 10))
    before = sorted(ids_of(store))
    result = compact_table(store, "c")
    assert (result.files_before, result.files_after, result.rows_after) == (5, 1, 50)
    assert sorted(ids_of(store)) == before == list(range(50))
    assert compact_table(store, "c").snapshot_id is None


def test_a_bucket_keeps_the_order_and_the_sequence_numbers_of_its_rows(tmp_path: Path) -> None:
    store = create(tmp_path, **{"bucket": "1", "bucket-key": "id"})
    for start in (30, 10, 20):
        append(store, range(start, start + 10))
    before = ids_of(store)
    compact_table(store, "c")
    assert ids_of(store) == before
    (entry,) = TableScan(store).entries()
    assert (entry.file.min_sequence_number, entry.file.max_sequence_number) == (0, 29)
    append(store, range(5))
    assert max(e.file.max_sequence_number for e in TableScan(store).entries()) == 34


def test_a_compaction_that_is_not_full_waits_for_five_small_files(tmp_path: Path) -> None:
    store = create(tmp_path, bucket="-1")
    for start in range(0, 40, 10):
        append(store, range(start, start + 10))
    assert compact_table(store, "c", full=False).snapshot_id is None
    fewer = store.with_options({"compaction.min.file-num": "4"})
    assert compact_table(fewer, "c", full=False).snapshot_id is not None
    assert sorted(ids_of(store)) == list(range(40))


def test_a_file_with_many_deleted_rows_is_rewritten(tmp_path: Path) -> None:
    options = {"bucket": "-1", "deletion-vectors.enabled": "true", "target-file-size": "1 b"}
    store = create(tmp_path, **options)
    append(store, range(100))
    append(store, range(100, 200))
    delete_rows(store, parse_filter("id < 10 or id in (100, 120)", store.schema.fields), "d")
    before = {f.file_name for s in TableScan(store).plan().splits for f in s.files}
    assert compact_table(store, "c", full=False).snapshot_id is None
    sooner = store.with_options({"compaction.delete-ratio-threshold": "0.05"})
    assert compact_table(sooner, "c", full=False).snapshot_id is not None
    after = {f.file_name for s in TableScan(store).plan().splits for f in s.files}
    assert len(before & after) == 1
    assert compact_table(store, "c", full=True).snapshot_id is not None
    splits = TableScan(store).plan().splits
    assert not any(split.deletion_files for split in splits)
    assert sorted(ids_of(store)) == [i for i in range(10, 200) if i not in (100, 120)]
