"""Writing tables: the content of files, refused rows, and leftovers."""

import errno
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import (
    InvalidInputError,
    InvalidOptionError,
    SchemaMismatchError,
    StorageAccessError,
)
from interbed.storage.base.row.binary_row import decode_row
from interbed.storage.base.types.data_type import DataField
from interbed.storage.io.local import LocalFileIO
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import EMPTY_ROW, DataFileMeta, FileSource
from interbed.storage.meta.manifest.index_manifest import IndexFileMeta
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.opening import open_store, schema_manager
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.table_write import TableWrite
from tests.support.examples import examples

COLUMNS = pa.schema((("id", pa.int64()), ("dt", pa.string()), ("v", pa.string()), ("n", pa.float64())))
Kinds = Sequence[int]


class ExistingBuckets:
    """A table whose buckets hold files up to a sequence number."""

    snapshot_id: int | None = None

    def __init__(self, highest: int = -1, total: int | None = None) -> None:
        self._highest = highest
        self._total = total

    def max_sequence_number(self, bucket_id: BucketId) -> int:
        return self._highest

    def total_buckets(self, partition: bytes) -> int | None:
        return self._total

    def files(self, bucket_id: BucketId) -> list[DataFileMeta]:
        return []

    def index_files(self, bucket_id: BucketId) -> list[IndexFileMeta]:
        return []

    def buckets(self) -> list[BucketId]:
        return []

    def buckets_of(self, partition: bytes) -> list[int]:
        return []


def create(
    path: Path, columns: pa.Schema = COLUMNS, *, keys: str = "id", partition: str = "", **options: str
) -> FileStore:
    """A write-only table, so that tests see the flushed files without compaction."""
    options = {"write_only": "true", **options}
    schema = Schema.from_pyarrow_schema(
        columns,
        primary_keys=keys.split(),
        partition_keys=partition.split(),
        options={k.replace("__", ".").replace("_", "-"): v for k, v in options.items()},
    )
    schema_manager(str(path)).create_table(schema)
    return open_store(str(path))


def write(
    store: FileStore, *batches: tuple[pa.Table, Kinds | None], existing: ExistingBuckets | None = None
) -> list[CommitMessage]:
    with TableWrite(store, "tester", lambda: existing or ExistingBuckets()) as writer:
        for data, kinds in batches:
            writer.write_arrow(data, None if kinds is None else pa.array(kinds, pa.int8()))
        return writer.prepare_commit()


def rows_of(store: FileStore, message: CommitMessage) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    for file in message.data.new_files:
        path = f"{store.paths.bucket_directory(message.bucket_id)}/{file.file_name}"
        yield file, pq.ParquetFile(path).read().to_pylist()


def files_under(path: Path) -> list[Path]:
    return [p for p in path.rglob("*") if p.is_file() and "schema" not in p.parts]


def table(rows: list[dict[str, Any]], columns: pa.Schema = COLUMNS) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=columns)


ROWS = st.lists(
    st.tuples(
        st.fixed_dictionaries(
            {
                "id": st.integers(0, 12),
                "dt": st.sampled_from(["a", "b"]),
                "v": st.none() | st.text(max_size=20),
                "n": st.none() | st.floats(),
            }
        ),
        st.sampled_from([0, 1, 2, 3]),
    ),
    max_size=30,
)


@settings(max_examples=examples(40), deadline=None)
@given(batches=st.lists(ROWS, max_size=4), first=st.integers(-1, 5))
def test_a_flush_holds_the_last_row_of_each_key_in_order(
    batches: list[list[tuple[dict[str, Any], int]]], first: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = create(tmp_path_factory.mktemp("t"), keys="id dt", partition="dt", bucket="2")
    model: dict[tuple[str, int], tuple[int, dict[str, Any]]] = {}
    for row, kind in (pair for batch in batches for pair in batch):
        model[row["dt"], row["id"]] = (kind, {name: row[name] for name in COLUMNS.names})
    written: dict[tuple[str, int], tuple[int, dict[str, Any]]] = {}
    messages = write(
        store,
        *((table([r for r, _ in b]), [k for _, k in b]) for b in batches),
        existing=ExistingBuckets(first, 2),
    )

    for message in messages:
        (dt,) = decode_row(message.partition, store.schema.partition_types)
        assert isinstance(dt, str)
        assert message.total_buckets == 2
        for file, rows in rows_of(store, message):
            keys = [r["_KEY_id"] for r in rows]
            sequences = [r["_SEQUENCE_NUMBER"] for r in rows]
            assert keys == sorted(set(keys))
            assert min(sequences) == file.min_sequence_number > first
            assert max(sequences) == file.max_sequence_number
            assert file.row_count == len(rows)
            assert file.delete_row_count == sum(r["_VALUE_KIND"] in (1, 3) for r in rows)
            assert decode_row(file.min_key, store.schema.key_types) == (keys[0],)
            assert decode_row(file.max_key, store.schema.key_types) == (keys[-1],)
            assert file.value_stats.null_counts[2] == sum(r["v"] is None for r in rows)
            assert (file.level, file.schema_id, file.file_source) == (0, 0, FileSource.APPEND)
            for row in rows:
                assert row["dt"] == dt
                assert row["_KEY_id"] == row["id"]
                value = {name: row[name] for name in COLUMNS.names}
                assert written.setdefault((dt, row["id"]), (row["_VALUE_KIND"], value))[1] is value
    assert repr(sorted(written.items(), key=lambda i: i[0])) == repr(sorted(model.items(), key=lambda i: i[0]))


def test_sequence_numbers_follow_the_order_of_arrival_and_continue_after_a_commit(tmp_path: Path) -> None:
    store = create(tmp_path, bucket="1")
    with TableWrite(store, "tester", lambda: ExistingBuckets(9)) as writer:
        writer.write_arrow(table([{"id": i} for i in (3, 1, 3)]))
        (first,) = writer.prepare_commit()
        writer.write_arrow(table([{"id": 1}]))
        # The first message is not committed yet, so the restored state is still 9.
        (second,) = writer.prepare_commit()
    assert [[(r["id"], r["_SEQUENCE_NUMBER"]) for r in rows] for _, rows in rows_of(store, first)] == [
        [(1, 11), (3, 12)]
    ]
    assert [[(r["id"], r["_SEQUENCE_NUMBER"]) for r in rows] for _, rows in rows_of(store, second)] == [[(1, 13)]]


def test_sorted_rows_keep_their_order_and_sequence_numbers(tmp_path: Path) -> None:
    store = create(tmp_path, bucket="1")
    (message,) = write(store, (table([{"id": i} for i in range(10)]), None), (table([{"id": 20}]), None))
    ((_, rows),) = rows_of(store, message)
    assert [(r["id"], r["_SEQUENCE_NUMBER"]) for r in rows] == [*((i, i) for i in range(10)), (20, 10)]


def test_a_sequence_field_takes_precedence_over_the_order_of_arrival(tmp_path: Path) -> None:
    store = create(tmp_path, bucket="1", sequence__field="n")
    (message,) = write(
        store,
        (table([{"id": 1, "n": 2.0, "v": "new"}, {"id": 1, "n": 1.0, "v": "old"}, {"id": 1, "v": "older"}]), None),
    )
    ((_, rows),) = rows_of(store, message)
    assert [r["v"] for r in rows] == ["new"]


def test_files_roll_at_the_target_size_without_losing_a_row(tmp_path: Path) -> None:
    store = create(tmp_path, bucket="1", target_file_size="64kb")
    rng = np.random.default_rng(7)
    ids = rng.permutation(20_000)
    data = pa.table({"id": ids, "v": [f"{x:040x}" for x in rng.integers(0, 2**62, 20_000)]})
    (message,) = write(store, (data, None))
    files = message.data.new_files
    assert len(files) > 3
    assert all(f.file_size < 3 * 65536 for f in files)
    found = [r["id"] for _, rows in rows_of(store, message) for r in rows]
    assert found == sorted(ids.tolist())
    bounds: list[Any] = [decode_row(b, store.schema.key_types)[0] for f in files for b in (f.min_key, f.max_key)]
    assert bounds == sorted(bounds)


def test_many_buckets_share_a_tiny_buffer(tmp_path: Path) -> None:
    store = create(tmp_path, bucket="50", write_buffer_size="64kb", write_buffer_spillable="false")
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 3_000, 12_000)
    messages = write(store, *((pa.table({"id": ids[i::4], "v": [str(j) for j in ids[i::4]]}), None) for i in range(4)))
    assert len(messages) == 50
    # The buffer is far smaller than the rows, so buckets were flushed before the end.
    assert sum(len(m.data.new_files) for m in messages) > 60
    found = {r["id"] for m in messages for _, rows in rows_of(store, m) for r in rows}
    assert found == set(ids.tolist())


def test_an_append_table_keeps_the_order_of_rows(tmp_path: Path) -> None:
    store = create(tmp_path, keys="")
    first, second = table([{"id": 3}, {"id": 1}, {"id": 3}]), table([{"id": 2}])
    (message,) = write(store, (first, None), (second, [0]))
    ((file, rows),) = rows_of(store, message)
    assert [r["id"] for r in rows] == [3, 1, 3, 2]
    assert (message.bucket, message.total_buckets) == (0, -1)
    assert (file.min_sequence_number, file.max_sequence_number, file.delete_row_count) == (0, 3, 0)


def test_sequence_numbers_of_a_bucketed_append_table_continue_from_existing_files(tmp_path: Path) -> None:
    store = create(tmp_path, keys="", bucket="2", bucket_key="id")
    messages = write(store, (table([{"id": i} for i in range(50)]), None), existing=ExistingBuckets(99, 2))
    assert {m.bucket for m in messages} == {0, 1}
    for m in messages:
        (file,) = m.data.new_files
        assert (file.min_sequence_number, file.max_sequence_number) == (100, 99 + file.row_count)


def test_partitions_with_nulls_are_distinct(tmp_path: Path) -> None:
    store = create(tmp_path, keys="", partition="dt n")
    rows = [
        {"id": i, "dt": dt, "n": n}
        for i, (dt, n) in enumerate([("a", 1.0), (None, 1.0), ("a", None), ("a", 1.0), ("", 1.0)])
    ]
    messages = write(store, (table(rows), None))
    found = {
        decode_row(m.partition, store.schema.partition_types): [r["id"] for _, rows in rows_of(store, m) for r in rows]
        for m in messages
    }
    assert found == {("a", 1.0): [0, 3], (None, 1.0): [1], ("a", None): [2], ("", 1.0): [4]}


def test_ignored_deletes_are_not_written(tmp_path: Path) -> None:
    store = create(tmp_path, bucket="1", ignore_delete="true")
    (message,) = write(store, (table([{"id": 1}, {"id": 1}, {"id": 2}]), [0, 3, 1]))
    ((_, rows),) = rows_of(store, message)
    assert [(r["id"], r["_VALUE_KIND"]) for r in rows] == [(1, 0)]


def test_defaults_replace_nulls_and_missing_columns(tmp_path: Path) -> None:
    schema = Schema.from_pyarrow_schema(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    fields = tuple(
        DataField(id=f.id, name=f.name, type=f.type, default_value={"v": "none", "n": "2.5"}.get(f.name))
        for f in schema.fields
    )
    schema_manager(str(tmp_path)).create_table(Schema(fields=fields, primary_keys=("id",), options={"bucket": "1"}))
    store = open_store(str(tmp_path))
    (message,) = write(store, (pa.table({"id": [1, 2], "v": ["x", None]}), None))
    ((_, rows),) = rows_of(store, message)
    assert [(r["v"], r["n"]) for r in rows] == [("x", 2.5), ("none", 2.5)]


def test_thin_files_omit_the_key_columns_but_keep_their_statistics(tmp_path: Path) -> None:
    store = create(tmp_path, bucket="1", data_file__thin_mode="true")
    (message,) = write(store, (table([{"id": 2}, {"id": 1}]), None))
    ((file, rows),) = rows_of(store, message)
    assert list(rows[0]) == ["_SEQUENCE_NUMBER", "_VALUE_KIND", *COLUMNS.names]
    assert decode_row(file.key_stats.min_values, store.schema.key_types) == (1,)


@pytest.mark.parametrize(
    ("data", "kinds", "error", "part"),
    [
        (pa.table({"id": [1, None]}), None, SchemaMismatchError, "'id'"),
        (pa.table({"v": ["x"]}), None, SchemaMismatchError, "'id'"),
        (pa.table({"id": [1], "typo": [1]}), None, SchemaMismatchError, "'typo'"),
        (pa.table({"id": ["1"]}), None, SchemaMismatchError, "'id'"),
        (pa.table({"typo": pa.array([], pa.int64())}), None, SchemaMismatchError, "'typo'"),
        (pa.table({"id": [1]}), pa.array([4], pa.int8()), InvalidInputError, "-D"),
        (pa.table({"id": [1]}), pa.array([0, 0], pa.int8()), InvalidInputError, "one for each row"),
        (pa.table({"id": [1]}), pa.array([None], pa.int8()), InvalidInputError, "not None"),
    ],
)
def test_invalid_rows_are_refused_and_change_nothing(
    data: pa.Table, kinds: "pa.Array[Any] | None", error: type[Exception], part: str, tmp_path: Path
) -> None:
    store = create(tmp_path, bucket="1")
    with TableWrite(store, "tester", ExistingBuckets) as writer:
        writer.write_arrow(table([{"id": 7}]))
        with pytest.raises(error, match=part):
            writer.write_arrow(data, kinds)
        (message,) = writer.prepare_commit()
    assert [r["id"] for _, rows in rows_of(store, message) for r in rows] == [7]


def test_an_append_table_refuses_deletes(tmp_path: Path) -> None:
    store = create(tmp_path, keys="")
    with pytest.raises(InvalidInputError, match="no primary key"):
        write(store, (table([{"id": 1}]), [3]))


def test_a_number_of_buckets_other_than_that_of_the_files_is_refused(tmp_path: Path) -> None:
    store = create(tmp_path, bucket="4")
    with pytest.raises(InvalidInputError, match=r"2 buckets\. Rescale"):
        write(store, (table([{"id": 1}]), None), existing=ExistingBuckets(5, 2))
    assert files_under(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "error", "part"),
    [
        ({"file__compression": "lzo", "bucket": "1"}, InvalidOptionError, "file.compression"),
        ({"metadata__stats_mode": "some", "bucket": "1"}, InvalidOptionError, "metadata.stats-mode"),
    ],
)
def test_invalid_options_are_refused_by_name(
    options: dict[str, str], error: type[Exception], part: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=part):
        TableWrite(create(tmp_path, COLUMNS, **options), "tester", ExistingBuckets)


def test_abort_and_close_leave_only_files_of_returned_messages(tmp_path: Path) -> None:
    store = create(tmp_path, bucket="3", write_buffer_size="1kb", write_buffer_spillable="false")
    writer = TableWrite(store, "tester", ExistingBuckets)
    writer.write_arrow(table([{"id": i} for i in range(100)]))
    handed_out = [f.file_name for m in writer.prepare_commit() for f in m.data.new_files]
    writer.write_arrow(table([{"id": i} for i in range(100)]))
    assert len(files_under(tmp_path)) > len(handed_out)
    writer.abort()
    writer.close()
    assert sorted(p.name for p in files_under(tmp_path)) == sorted(handed_out)


@pytest.mark.parametrize("end", ["close", "abort"])
def test_every_call_to_a_closed_writer_says_that_it_is_closed(end: str, tmp_path: Path) -> None:
    store = create(tmp_path, bucket="1", write_only="false")
    writer = TableWrite(store, "tester", ExistingBuckets)
    writer.write_arrow(table([{"id": 1}]))
    getattr(writer, end)()
    asked: list[Callable[[], object]] = [
        lambda: writer.write_arrow(table([{"id": 2}])),
        writer.prepare_commit,
        writer.compact_all,
        lambda: writer.compact(BucketId(EMPTY_ROW, 0)),
    ]
    for ask in asked:
        with pytest.raises(InvalidInputError, match="This writer was closed or failed before; open a new one"):
            ask()
    writer.close()
    writer.abort()
    assert files_under(tmp_path) == []


def test_a_writer_commits_and_compacts_in_any_order(tmp_path: Path) -> None:
    store = create(tmp_path, bucket="2", write_only="false")
    with TableWrite(store, "tester", ExistingBuckets) as writer:
        assert writer.prepare_commit() == []
        writer.compact_all()
        writer.compact(BucketId(EMPTY_ROW, 1), full=True)
        assert writer.prepare_commit() == []
        writer.write_arrow(table([{"id": i} for i in range(10)]))
        assert sum(f.row_count for m in writer.prepare_commit() for f in m.data.new_files) == 10


class FullDisk(LocalFileIO):
    """A disk with `room` bytes of free space."""

    def __init__(self, room: int) -> None:
        self.room = room

    def open_output(self, path: str) -> Any:
        return _FullFile(self, super().open_output(path))


class _FullFile:
    closed = False

    def __init__(self, disk: FullDisk, file: pa.NativeFile) -> None:
        self._disk = disk
        self._file = file

    def write(self, data: bytes) -> int:
        self._disk.room -= len(data)
        if self._disk.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._file.write(data)
        return len(data)

    def tell(self) -> int:
        return int(self._file.tell())

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


@pytest.mark.parametrize("room", [0, 2_000, 30_000])
def test_the_error_of_a_full_disk_names_the_file_and_no_file_is_left(room: int, tmp_path: Path) -> None:
    create(tmp_path, bucket="8")
    store = open_store(str(tmp_path), FullDisk(room))
    writer = TableWrite(store, "tester", ExistingBuckets)
    writer.write_arrow(pa.table({"id": range(5_000), "v": [f"{i * 7919:032x}" for i in range(5_000)]}))
    with pytest.raises(StorageAccessError, match=r"bucket-\d/data-.*No space left"):
        writer.prepare_commit()
    assert files_under(tmp_path) == []
    with pytest.raises(InvalidInputError, match="failed"):
        writer.prepare_commit()


def test_a_file_in_the_place_of_a_bucket_directory_is_an_error_with_the_path(tmp_path: Path) -> None:
    store = create(tmp_path, bucket="1")
    (tmp_path / "bucket-0").write_text("in the way")
    with pytest.raises(StorageAccessError, match="bucket-0/data-"):
        write(store, (table([{"id": 1}]), None))
