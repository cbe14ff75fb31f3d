"""Planning: the files that are pruned, the files that must be kept, and tables that are refused."""

import io
from dataclasses import replace
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import (
    CorruptFileError,
    FilterError,
    InvalidInputError,
    NotSupportedError,
    SnapshotNotFoundError,
    TagNotFoundError,
)
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.predicate.grammar import parse_filter
from interbed.storage.base.row.binary_row import encode_row
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, SimpleStats
from interbed.storage.meta.schema.change import AddColumn, DropColumn, RenameColumn, UpdateColumnType
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.scan.scan import TableScan
from interbed.storage.table.opening import open_store, schema_manager
from interbed.storage.write.commit_message import CommitMessage
from tests.storage.commit.tables import data_file, message, partition, primary_key_table


def condition(store: FileStore, text: str) -> Predicate:
    return parse_filter(text, store.schema.fields)


def names(store: FileStore, text: str | None = None, **arguments: object) -> set[str]:
    predicate = None if text is None else condition(store, text)
    plan = TableScan(store, predicate=predicate, **arguments).plan()  # type: ignore[arg-type]
    return {f.file_name for s in plan.splits for f in s.files}


def described(file: DataFileMeta, store: FileStore, low: list[object], high: list[object]) -> DataFileMeta:
    """The file with statistics of all columns, and of its key."""
    types = [f.type for f in store.schema.fields]
    key_types = store.schema.key_types if store.schema.has_primary_key else ()
    index = [store.schema.names.index(n) for n in store.schema.trimmed_primary_keys] if key_types else []
    return replace(
        file,
        schema_id=store.schema.id,
        value_stats=SimpleStats(
            min_values=encode_row(low, types), max_values=encode_row(high, types), null_counts=(0,) * len(types)
        ),
        key_stats=SimpleStats(
            min_values=encode_row([low[i] for i in index], key_types),
            max_values=encode_row([high[i] for i in index], key_types),
            null_counts=(0,) * len(index),
        ),
    )


def test_a_table_without_snapshots_has_an_empty_plan(tmp_path: Path) -> None:
    plan = TableScan(primary_key_table(tmp_path)).plan()
    assert (plan.snapshot_id, plan.splits, plan.statistics.files_total) == (None, (), 0)


def test_partitions_are_pruned_by_filter_and_by_specification(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    files = {dt: data_file() for dt in ("d1", "d2", "d3", None)}
    FileStoreCommit(store, "u").commit([message(f, dt=dt) for dt, f in files.items()])
    FileStoreCommit(store, "u").commit([message(data_file(), dt="d9")])
    assert names(store, "dt = 'd2' AND v = 'x'") == {files["d2"].file_name}
    assert names(store, "dt = 'd1' OR (dt = 'd3' AND id > 0)") == {files["d1"].file_name, files["d3"].file_name}
    assert names(store, "dt IS NULL") == {files[None].file_name}
    assert names(store, partition_filter={"dt": None}) == {files[None].file_name}
    assert names(store, partition_filter={"dt": "__DEFAULT_PARTITION__"}) == {files[None].file_name}
    assert names(store, "dt > 'd1'", partition_filter=condition(store, "dt < 'd3'")) == {files["d2"].file_name}
    statistics = TableScan(store, predicate=condition(store, "dt = 'd9'")).plan().statistics
    assert (statistics.manifests_total, statistics.manifests_read) == (2, 1)
    # Files of pruned manifests count as pruned.
    assert (statistics.files_total, statistics.files_after_partitions, statistics.files_planned) == (5, 1, 1)
    with pytest.raises(InvalidInputError, match="'id' is not a partition column"):
        names(store, partition_filter={"id": 1})


def test_a_manifest_may_delete_files_of_a_pruned_manifest(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    first, second, merged = data_file(), data_file(), data_file(level=5)
    FileStoreCommit(store, "u").commit([message(first, dt="d1", bucket=0)])
    FileStoreCommit(store, "u").commit([message(second, dt="d2", bucket=1)])
    compacted = [
        message(dt="d1", bucket=0, before=[first], after=[merged]),
        message(dt="d2", bucket=1, before=[second], after=[data_file(level=5, name="d2.parquet")]),
    ]
    FileStoreCommit(store, "u").commit(compacted)
    assert names(store, "dt = 'd2'") == {"d2.parquet"}
    assert names(store, buckets=[1]) == {"d2.parquet"}
    statistics = TableScan(store, predicate=condition(store, "dt = 'd2'")).plan().statistics
    assert (statistics.manifests_total, statistics.manifests_read) == (3, 2)
    assert (statistics.files_total, statistics.files_after_partitions) == (2, 1)


def test_buckets_are_pruned_by_equal_keys(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    zero, one = data_file(0, 99), data_file(0, 99)
    FileStoreCommit(store, "u").commit([message(zero, bucket=0), message(one, bucket=1)])
    found = [names(store, f"id = {i}") for i in range(20)]
    assert all(len(f) == 1 for f in found)
    assert {n for f in found for n in f} == {zero.file_name, one.file_name}
    assert names(store, "id IN (1, 2, 3, 4, 5, 6, 7, 8)") == {zero.file_name, one.file_name}
    assert names(store, "id > 5") == {zero.file_name, one.file_name}
    assert names(store, "id = 1 AND id = 2") <= {zero.file_name, one.file_name}
    assert names(store, buckets=[1]) == {one.file_name}


def test_files_without_the_key_are_pruned_and_all_versions_of_it_are_kept(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path, bucket="1")
    low = described(data_file(0, 9, level=5), store, [0, "d1", "a"], [9, "d1", "c"])
    high = described(data_file(10, 19, level=5), store, [10, "d1", "a"], [19, "d1", "c"])
    newer = described(data_file(5, 12), store, [5, "d1", "y"], [12, "d1", "z"])
    FileStoreCommit(store, "u").commit([message(low, high, newer, total=1)])
    assert names(store, "id < 5") == {low.file_name}
    assert names(store, "id = 7") == {low.file_name, newer.file_name}
    assert names(store, "id = 15") == {high.file_name}
    # A newer version without a match hides an older one that matches: both must be read.
    assert names(store, "v = 'b'") == {low.file_name, high.file_name, newer.file_name}
    assert names(store, "v = 'q'") == set()
    assert names(store, "id = 15 AND v = 'z'") == set()


def test_filters_on_values_prune_only_whole_sections(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path, bucket="1")
    one = described(data_file(0, 4), store, [0, "d1", "a"], [4, "d1", "b"])
    two = described(data_file(5, 9), store, [5, "d1", "x"], [9, "d1", "y"])
    FileStoreCommit(store, "u").commit([message(one, two, total=1)])
    assert names(store, "v = 'a'") == {one.file_name}
    statistics = TableScan(store, predicate=condition(store, "v = 'a'")).plan().statistics
    assert (statistics.files_after_buckets, statistics.files_after_statistics) == (2, 1)
    assert statistics.files_by_level == {0: 1}


def append_table(location: Path) -> FileStore:
    schema = Schema.from_pyarrow_schema(pa.schema((("id", pa.int32()), ("v", pa.string()))))
    schema_manager(str(location)).create_table(schema)
    return open_store(str(location))


def append_message(*files: DataFileMeta) -> CommitMessage:
    return replace(message(*files, total=-1), bucket_id=BucketId(encode_row([], []), 0))


def test_statistics_of_older_schemas_are_found_by_column_id(tmp_path: Path) -> None:
    store = append_table(tmp_path)
    old = described(data_file(), store, [1, "a"], [5, "b"])
    FileStoreCommit(store, "u").commit([append_message(old)])
    store.schemas.change(
        [
            RenameColumn("v", "w"),
            UpdateColumnType("id", AtomicType(TypeRoot.BIGINT)),
            AddColumn("v", AtomicType(TypeRoot.INT)),
        ]
    )
    store = store.refreshed()
    assert names(store, "w = 'a' AND id = 3") == {old.file_name}
    assert names(store, "w = 'c'") == set()
    assert names(store, "id > 5") == set()
    # The statistics of a column that was added later are unknown; it may have a default.
    assert names(store, "v = 7") == {old.file_name}
    store.schemas.change([DropColumn("w")])
    assert names(store.refreshed(), "id = 3") == {old.file_name}
    with pytest.raises(FilterError, match="w"):
        names(store.refreshed(), "w = 'a'")


def test_a_limit_is_planned_with_as_few_raw_files_as_possible(tmp_path: Path) -> None:
    store = append_table(tmp_path)
    files = [data_file(rows=10) for _ in range(4)]
    FileStoreCommit(store, "u").commit([append_message(*files)])
    assert len(names(store, limit=15)) == 2
    assert len(names(store, limit=0)) == 0
    assert len(names(store, limit=99)) == 4
    assert len(names(store, "id > 0", limit=1)) == 4


def test_a_limit_never_counts_rows_that_merging_may_drop(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    merged = [data_file(0, 9, rows=10), data_file(5, 14, rows=10)]
    FileStoreCommit(store, "u").commit([message(*merged)])
    assert len(names(store, limit=1)) == 2
    raw = data_file(0, 9, rows=10)
    FileStoreCommit(store, "u").commit([message(raw, bucket=1)])
    assert names(store, limit=5) == {raw.file_name}


def test_levels_can_be_planned_one_by_one(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    fresh, settled = data_file(), data_file(level=5)
    FileStoreCommit(store, "u").commit([message(fresh, settled)])
    assert names(store, level_filter=lambda level: level == 0) == {fresh.file_name}


def test_a_writer_restores_the_state_of_its_buckets(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    assert restore_buckets(store).max_sequence_number(BucketId(partition("d1"), 0)) == -1
    files = [data_file(rows=3), data_file(rows=8)]
    FileStoreCommit(store, "u").commit([message(*files)])
    restored = restore_buckets(store)
    assert restored.max_sequence_number(BucketId(partition("d1"), 0)) == 8
    assert restored.max_sequence_number(BucketId(partition("d1"), 1)) == -1
    assert (restored.total_buckets(partition("d1")), restored.total_buckets(partition("d2"))) == (2, None)
    assert restored.files(BucketId(partition("d1"), 0)) == files
    assert restored.buckets() == [(partition("d1"), 0)]


def test_snapshots_are_chosen_by_argument_and_by_option(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    one, two = data_file(), data_file()
    FileStoreCommit(store, "u").commit([message(one)])
    FileStoreCommit(store, "u").commit([message(two)])
    assert names(store, snapshot_id=1) == {one.file_name}
    assert names(store.with_options({"scan.snapshot-id": "1"})) == {one.file_name}
    millis = store.snapshots.snapshot(2).time_millis
    assert names(store.with_options({"scan.timestamp-millis": str(millis)})) == {one.file_name, two.file_name}
    with pytest.raises(SnapshotNotFoundError, match="no snapshot 9; the table has the snapshots 1 to 2"):
        names(store, snapshot_id=9)
    # A writer starts from the newest snapshot, whichever snapshot is read.
    assert restore_buckets(store.with_options({"scan.snapshot-id": "1"})).snapshot_id == 2
    with pytest.raises(TagNotFoundError, match="no tag 'x'"):
        names(store.with_options({"scan.tag-name": "x"}))


@pytest.mark.parametrize("prefix", ["manifest-list-", "manifest-"])
@pytest.mark.parametrize("content", [None, b"", b"Obj\x01 torn"])
def test_the_error_names_a_damaged_manifest(tmp_path: Path, prefix: str, content: bytes | None) -> None:
    store = primary_key_table(tmp_path)
    FileStoreCommit(store, "u").commit([message(data_file())])
    for path in (tmp_path / "manifest").iterdir():
        if path.name.startswith("manifest-list-") == (prefix == "manifest-list-"):
            path.unlink()
            if content is not None:
                path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=prefix):
        TableScan(store).plan()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sequence.snapshot-ordering", "true"),
        ("type", "materialized-table"),
    ],
)
def test_tables_with_unsupported_features_are_refused_by_their_option(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(NotSupportedError, match=key):
        TableScan(primary_key_table(tmp_path, None, **{key: value})).plan()


def index_manifest(store: FileStore, kinds: dict[str, str]) -> str:
    """Write an index manifest with one file of the given kind for each partition, and an unknown field."""
    schema = {
        "type": "record",
        "name": "record",
        "fields": [
            {"name": "_VERSION", "type": "int"},
            {"name": "_KIND", "type": "int"},
            {"name": "_PARTITION", "type": "bytes"},
            {"name": "_INDEX_TYPE", "type": "string"},
            {"name": "_FUTURE", "type": "string"},
        ],
    }
    records = [
        {"_VERSION": 1, "_KIND": 0, "_PARTITION": partition(dt), "_INDEX_TYPE": kind, "_FUTURE": dt}
        for dt, kind in kinds.items()
    ]
    name = store.paths.new_index_manifest_name()
    with store.file_io.open_output(store.paths.manifest(name)) as target:
        buffer = io.BytesIO()
        fastavro.writer(buffer, schema, records)
        target.write(buffer.getvalue())
    return name


def with_index(store: FileStore, name: str) -> None:
    """Add a snapshot that refers to the index manifest, as another writer does."""
    latest = store.snapshots.latest()
    assert latest is not None
    store.publisher.publish(replace(latest, id=latest.id + 1, uuid="index", index_manifest=name, statistics="stat-1"))


def test_index_files_are_kept_by_later_snapshots_except_in_overwritten_partitions(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    commit = FileStoreCommit(store, "u")
    commit.commit([message(data_file(), dt="d1"), message(data_file(), dt="d2")])
    first = index_manifest(store, {"d1": "HASH", "d2": "HASH"})
    with_index(store, first)
    commit.commit([message(data_file())])
    assert (store.snapshots.read(3).index_manifest, store.snapshots.read(3).statistics) == (first, "stat-1")
    commit.overwrite([], partition={"dt": "d1"})
    second = store.snapshots.read(4).index_manifest
    assert second is not None
    assert second != first
    records = list(fastavro.reader(io.BytesIO(store.file_io.read_bytes(store.paths.manifest(second)))))
    assert [r["_FUTURE"] for r in records] == ["d2"]  # type: ignore[index, call-overload]
    commit.overwrite([], partition={"dt": "d1"})
    assert store.snapshots.read(5).index_manifest == second
    commit.overwrite([], partition={"dt": "d2"})
    assert store.snapshots.read(6).index_manifest is None
    assert len(TableScan(store).plan().splits) == 0
