"""A sort compaction keeps the rows, lets filters skip more files, and respects concurrent changes."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CommitConflictError, InvalidInputError, InvalidOptionError, NotSupportedError
from interbed.storage.base.predicate.grammar import parse_filter
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.files.deletion_vectors import BucketDeletions
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.scan.scan import TableScan
from interbed.storage.table.table import Table
from interbed.storage.upkeep.append_compact import sort_unit, sort_units
from interbed.storage.write.commit_message import CommitMessage, DataIncrement
from interbed.storage.write.sort.key import SortOrder

COLUMNS = pa.schema((("a", pa.int64()), ("b", pa.string()), ("c", pa.float64()), ("dt", pa.string())))
SMALL_FILES = {"target-file-size": "10 kb", "file.compression": "none", "write-buffer-size": "1 mb"}
ROWS = 10_000


def rows(seed: int, *, dt: str = "1", count: int = ROWS) -> pa.Table:
    random = np.random.default_rng(seed)
    numbers = random.integers(0, 1_000_000, count)
    return pa.table(
        {
            "a": pa.array(numbers, pa.int64(), mask=numbers % 50 == 0),
            "b": [f"customer-{n:07}" for n in random.integers(0, 1_000_000, count)],
            "c": random.standard_normal(count),
            "dt": [dt] * count,
        },
        schema=COLUMNS,
    )


def create(
    tmp_path: Path,
    options: Mapping[str, str] | None = None,
    *,
    partitioned: bool = False,
    primary_keys: list[str] | None = None,
) -> Table:
    catalog = interbed.load_catalog("lake", warehouse=f"file:{tmp_path}")
    catalog.create_database("db", ignore_if_exists=True)
    return catalog.create_table(
        "db.t",
        COLUMNS,
        primary_keys=primary_keys,
        partition_keys=["dt"] if partitioned else None,
        options={**SMALL_FILES, **(options or {})},
    )


def content(table: Table) -> list[tuple[object, ...]]:
    found = table.scan().to_arrow()
    return sorted(zip(*(found.column(n).to_pylist() for n in COLUMNS.names), strict=True), key=repr)


def share_read(table: Table, filter_text: str) -> float:
    statistics = table.new_scan(predicate=parse_filter(filter_text, table.fields))
    return len([f for s in statistics.plan().splits for f in s.files]) / len(TableScan(table.store).entries())


RANGES = {
    "a": "a between 400000 and 420000",
    "b": "b between 'customer-0400000' and 'customer-0420000'",
    "c": "c between 1.0 and 1.05",
}


@pytest.mark.parametrize("strategy", ["order", "zorder", "hilbert"])
def test_filters_on_the_columns_skip_more_files_and_the_rows_are_kept(tmp_path: Path, strategy: str) -> None:
    table = create(tmp_path)
    for seed in range(3):
        table.append(rows(seed))
    before = content(table)
    assert {share_read(table, text) for text in RANGES.values()} == {1.0}
    (planned,) = table.maintenance.plan_compaction(order_strategy=strategy, order_by=["a", "b"])
    result = table.compact(order_strategy=strategy, order_by="a, b")
    assert (result.rows_before, result.rows_after) == (3 * ROWS, 3 * ROWS)
    assert result.files_before == planned.files_rewritten
    assert table.snapshots()[-1].commit_kind == "COMPACT"
    assert content(table) == before
    shares = {column: share_read(table, text) for column, text in RANGES.items()}
    if strategy == "order":
        assert shares["a"] < 0.15
        first = table.scan(["a"], threads=1).to_arrow().column("a").to_pylist()
        assert first == sorted(first, key=lambda a: (a is not None, a or 0))
    else:
        assert max(shares["a"], shares["b"]) < 0.5
    assert shares["c"] > 0.9


def test_only_the_requested_partitions_are_sorted(tmp_path: Path) -> None:
    table = create(tmp_path, partitioned=True)
    for dt in ("1", "2", "3"):
        table.append(rows(7, dt=dt, count=50))
    names = {e.file.file_name for e in TableScan(table.store, partition_filter={"dt": "2"}).entries()}
    before = content(table)
    assert table.compact(order_strategy="order", order_by=["c"], partitions=[{"dt": "1"}, {"dt": "3"}]).buckets == 2
    assert table.compact(order_strategy="order", order_by=["c"], partitions="dt > '2'").buckets == 1
    assert {e.file.file_name for e in TableScan(table.store, partition_filter={"dt": "2"}).entries()} == names
    assert content(table) == before
    with pytest.raises(InvalidInputError, match="'a' is not a partition column"):
        table.compact(partitions="a > 3")


def test_rows_appended_meanwhile_are_kept_and_a_faster_compaction_wins(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.append(rows(1, count=100))
    order = SortOrder.of(table.schema, "order", "a")
    assert order is not None
    messages = [[sort_unit(table.store, unit, order) for unit in sort_units(table.store)] for _ in range(2)]
    table.append(rows(2, count=100))
    before = content(table)
    FileStoreCommit(table.store, "first").commit(messages[0])
    assert content(table) == before
    with pytest.raises(CommitConflictError, match="another writer compacted or overwrote it"):
        FileStoreCommit(table.store, "second").commit(messages[1])
    assert content(table) == before
    live = {e.file.file_name for e in TableScan(table.store).entries()}
    assert not any((tmp_path / "db.db/t/bucket-0" / f.file_name).exists() for f in messages[1][0].compaction.after)
    assert {f.file_name for f in messages[0][0].compaction.after} <= live


def mark_deleted(table: Table, position: int) -> None:
    """Delete a row of the first file, as a writer with deletion vectors does."""
    restored = restore_buckets(table.store)
    (bucket_id,) = restored.buckets()
    deletions = BucketDeletions.restore(table.store, bucket_id, restored.index_files(bucket_id))
    deletions.delete(restored.files(bucket_id)[0].file_name, [position])
    new, old = deletions.finish()
    message = CommitMessage(
        bucket_id=bucket_id,
        total_buckets=-1,
        data=DataIncrement(new_index_files=new, deleted_index_files=old),
    )
    FileStoreCommit(table.store, f"deletes {position}").commit([message])


@pytest.mark.parametrize("how", [{}, {"order_strategy": "order", "order_by": "c"}], ids=["concatenate", "sort"])
def test_rows_marked_by_deletion_vectors_stay_deleted(tmp_path: Path, how: dict[str, str]) -> None:
    table = create(tmp_path, {"deletion-vectors.enabled": "true"})
    table.append(rows(1, count=100))
    table.append(rows(2, count=100))
    mark_deleted(table, 3)
    before = content(table)
    assert len(before) == 199
    result = table.compact(**how)  # type: ignore[arg-type]
    assert result.rows_after == 199
    assert content(table) == before
    assert not restore_buckets(table.store).index_files(BucketId(b"\0\0\0\0\0\0\0\0", 0))


def test_rows_deleted_during_the_sort_are_a_conflict(tmp_path: Path) -> None:
    table = create(tmp_path, {"deletion-vectors.enabled": "true"})
    table.append(rows(1, count=100))
    order = SortOrder.of(table.schema, "order", "a")
    assert order is not None
    messages = [sort_unit(table.store, unit, order) for unit in sort_units(table.store)]
    mark_deleted(table, 3)
    with pytest.raises(CommitConflictError, match="deleted rows of"):
        FileStoreCommit(table.store, "sorter").commit(messages)
    assert len(content(table)) == 99


@pytest.mark.parametrize(
    ("strategy", "columns", "complaint"),
    [
        ("spiral", "a", "'spiral' is not known"),
        ("order", "", "needs order_by"),
        ("none", "a", "goes with an order_strategy"),
        (None, "a", "goes with an order_strategy"),
        ("hilbert", "a", "at least two columns"),
        ("zorder", "a,nope", "no column 'nope'"),
        ("order", "dt", "is a partition column"),
    ],
)
def test_an_invalid_order_is_refused(tmp_path: Path, strategy: str | None, columns: str, complaint: str) -> None:
    table = create(tmp_path, partitioned=True)
    with pytest.raises(InvalidInputError, match=complaint):
        table.compact(order_strategy=strategy, order_by=columns)


@pytest.mark.parametrize("options", [{"bucket": "2", "bucket-key": "a"}, {}], ids=["bucketed", "primary key"])
def test_sorting_tables_with_buckets_is_refused(tmp_path: Path, options: dict[str, str]) -> None:
    table = create(tmp_path, options, primary_keys=None if options else ["a"])
    with pytest.raises(NotSupportedError, match="takes append tables with 'bucket' = '-1'"):
        table.compact(order_strategy="order", order_by="b")


def test_too_small_a_sample_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path).copy({"sort-compaction.local-sample.magnification": "19"})
    table.append(rows(1, count=10))
    with pytest.raises(InvalidOptionError, match="is 19; a sort needs at least 20"):
        table.compact(order_strategy="zorder", order_by="a,b")
