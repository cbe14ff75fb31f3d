"""Upserts of tables whose primary key does not include the partition columns, against a model of each merge engine."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.errors import CommitConflictError, InvalidInputError, NotSupportedError
from interbed.storage.meta.manifest.index_manifest import HASH_INDEX
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.scan.scan import TableScan
from interbed.storage.table.table import Table
from interbed.storage.write.bucket.cross_partition import CrossPartition
from tests.storage.write.bucket.tables import expected, make_table, read, restored, rows
from tests.support.examples import examples

Row = tuple[int, str, int, str | None]
"""Key, partition, kind and value."""
Where = dict[int, tuple[str, str | None]]
"""Partition and value by key."""


def cross_table(directory: Path, **options: str) -> Table:
    return make_table(
        directory,
        {"dynamic-bucket.target-row-num": "3", **{k.replace("_", "-"): v for k, v in options.items()}},
        primary_keys=["id"],
    )


def write(table: Table, changes: list[Row]) -> None:
    table.write_changes(
        pa.table(
            {
                "id": pa.array([c[0] for c in changes], pa.int64()),
                "v": pa.array([c[3] for c in changes], pa.string()),
                "dt": pa.array([c[1] for c in changes], pa.string()),
                "_row_kind": pa.array([c[2] for c in changes], pa.int8()),
            }
        )
    )


def apply(engine: str, model: Where, places: dict[int, str], change: Row) -> None:
    """Apply one change to the model; `places` are the partitions of keys at their last write, deleted or not."""
    key, partition, kind, value = change
    if engine == "deduplicate":
        places[key] = partition
        if kind % 2:
            model.pop(key, None)
        else:
            model[key] = (partition, value)
        return
    own = places.setdefault(key, partition)
    if engine == "first-row":
        if own == partition:
            model.setdefault(key, (own, value))
    elif engine == "partial-update":
        old = model.get(key, (own, None))[1]
        model[key] = (own, old if value is None else value)
    else:
        old = model.get(key, (own, None))[1]
        model[key] = (own, value if old is None else old if value is None else f"{old},{value}")


@settings(max_examples=examples(15))
@given(data=st.data(), engine=st.sampled_from(["deduplicate", "partial-update", "aggregation", "first-row"]))
def test_a_key_is_in_one_partition_with_the_row_of_its_merge_engine(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, engine: str
) -> None:
    extra = {"fields.v.aggregate-function": "listagg"} if engine == "aggregation" else {}
    table = cross_table(tmp_path_factory.mktemp("w"), merge_engine=engine, **extra)
    kinds = st.sampled_from([0, 0, 2, 3]) if engine == "deduplicate" else st.just(0)
    row = st.tuples(st.integers(0, 8), st.sampled_from("abc"), kinds, st.sampled_from([None, "x", "y"]))
    model: Where = {}
    places: dict[int, str] = {}
    for commit in data.draw(st.lists(st.lists(row, min_size=1, max_size=12), min_size=1, max_size=4)):
        write(table, commit)
        for change in commit:
            apply(engine, model, places, change)
        if data.draw(st.booleans()):
            table.compact()
        # A first-row table shows only compacted rows.
        if engine == "first-row":
            table.compact(full=False)
        assert read(table) == {(partition, key): value for key, (partition, value) in model.items()}


def test_keys_fill_buckets_and_free_space_when_they_move(tmp_path: Path) -> None:
    table = cross_table(tmp_path)
    table.upsert(rows(range(7), "1", "a"))
    table.upsert(rows(range(5), "2", "b"))
    table.upsert(rows(range(10, 14), "3", "a"))
    found = restored(table)
    numbers = {table.store.paths.partition_directory(p): found.buckets_of(p) for p, _ in found.buckets()}
    assert numbers == {"dt=a": [0, 1, 2], "dt=b": [0, 1]}
    assert not any(f.index_type == HASH_INDEX for b in found.buckets() for f in found.index_files(b))
    assert read(table) == expected(rows([5, 6], "1", "a"), rows(range(5), "2", "b"), rows(range(10, 14), "3", "a"))


def test_a_key_may_be_part_of_the_partition(tmp_path: Path) -> None:
    table = make_table(tmp_path, {}, primary_keys=["id", "dt"], partition_keys=["dt", "v"])
    table.upsert(rows([1, 2], "x", "a"))
    table.upsert(rows([1], "y", "a"))
    table.upsert(rows([1], "y", "b"))
    assert sorted(table.scan().to_arrow().to_pylist(), key=str) == sorted(
        [
            {"id": 1, "v": "y", "dt": "a"},
            {"id": 2, "v": "x", "dt": "a"},
            {"id": 1, "v": "y", "dt": "b"},
        ],
        key=str,
    )


def test_null_is_a_partition_like_any_other(tmp_path: Path) -> None:
    table = cross_table(tmp_path)
    write(table, [(1, "a", 0, "1"), (2, None, 0, "1")])  # type: ignore[list-item]  # A null partition.
    write(table, [(1, None, 0, "2"), (2, "a", 0, "2")])  # type: ignore[list-item]  # A null partition.
    found = sorted((r["id"], r["dt"], r["v"]) for r in table.scan().to_arrow().to_pylist())
    assert found == [(1, None, "2"), (2, "a", "2")]


def test_a_long_lived_writer_knows_its_own_keys_and_reloads_after_other_writers(tmp_path: Path) -> None:
    table = cross_table(tmp_path)
    writer, commit = table.new_write("stream"), table.new_commit("stream")
    prepared = []
    for number, dt in enumerate("aba"):
        writer.write_arrow(rows(range(number, number + 4), str(number), dt))
        prepared.append(writer.prepare_commit())
    for identifier, messages in enumerate(prepared):
        commit.commit(messages, identifier=identifier)
    assert read(table) == expected(rows([0], "0", "a"), rows([1], "1", "b"), rows(range(2, 6), "2", "a"))
    table.upsert(rows([0, 1], "other", "c"))
    writer.write_arrow(rows([0], "3", "a"))
    commit.commit(writer.prepare_commit(), identifier=3)
    writer.close()
    assert read(table) == expected(rows([0], "3", "a"), rows([1], "other", "c"), rows(range(2, 6), "2", "a"))


def test_a_long_lived_writer_survives_the_expiry_of_its_first_snapshots(tmp_path: Path) -> None:
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    table = cross_table(tmp_path, **options)
    writer, commit = table.new_write("stream"), table.new_commit("stream")
    for number in range(6):
        writer.write_arrow(rows([number, 0], str(number), "abc"[number % 3]))
        commit.commit(writer.prepare_commit(), identifier=number)
    writer.close()
    assert [s.id for s in table.snapshots()] == [5, 6]
    assert read(table) == {("c", 0): "5", **{("abc"[i % 3], i): str(i) for i in range(1, 6)}}


def test_the_second_of_two_writers_conflicts_and_an_upsert_is_retried(tmp_path: Path) -> None:
    table = cross_table(tmp_path)
    table.upsert(rows([1], "1", "a"))
    with table.new_write("late") as writer:
        writer.write_arrow(rows([2], "late", "b"))
        messages = writer.prepare_commit()
    table.upsert(rows([2], "2", "c"))
    with pytest.raises(CommitConflictError, match="moved keys"):
        table.new_commit("late").commit(messages)
    assert read(table) == expected(rows([1], "1", "a"), rows([2], "2", "c"))


def test_a_concurrent_compaction_is_no_conflict(tmp_path: Path) -> None:
    table = cross_table(tmp_path)
    for value in "12":
        table.upsert(rows([1, 2], value, "a"))
    with table.new_write("late") as writer:
        writer.write_arrow(rows([2], "late", "b"))
        messages = writer.prepare_commit()
    table.compact()
    table.new_commit("late").commit(messages)
    assert read(table) == expected(rows([1], "2", "a"), rows([2], "late", "b"))


@pytest.mark.parametrize("partition", [None, {"dt": "a"}], ids=["dynamic", "static"])
@pytest.mark.parametrize("options", [{}, {"changelog-producer": "lookup"}, {"deletion-vectors.enabled": "true"}])
def test_an_overwrite_of_a_partition_removes_its_keys_from_others(
    tmp_path: Path, partition: dict[str, object] | None, options: dict[str, str]
) -> None:
    table = cross_table(tmp_path, **options)
    table.upsert(rows(range(4), "1", "a"))
    table.upsert(rows(range(4, 8), "1", "b"))
    table.overwrite(rows([1, 5], "2", "a"), partitions=partition)
    assert read(table) == expected(rows([1, 5], "2", "a"), rows([4, 6, 7], "1", "b"))
    table.compact()
    assert read(table) == expected(rows([1, 5], "2", "a"), rows([4, 6, 7], "1", "b"))
    table.upsert(rows([4, 5], "3", "c"))
    assert read(table) == expected(rows([1], "2", "a"), rows([4, 5], "3", "c"), rows([6, 7], "1", "b"))


def test_an_overwrite_without_rows_empties_its_partition(tmp_path: Path) -> None:
    table = cross_table(tmp_path)
    table.upsert(rows(range(4), "1", "a"))
    table.upsert(rows(range(4, 8), "1", "b"))
    assert table.overwrite(rows([], "2", "a")) is None
    table.overwrite(rows([], "2", "a"), partitions={"dt": "a"})
    assert read(table) == expected(rows(range(4, 8), "1", "b"))


def test_an_overwrite_of_a_partition_refuses_rows_of_others(tmp_path: Path) -> None:
    table = cross_table(tmp_path)
    table.upsert(rows(range(4), "1", "a"))
    files = {f.name for f in tmp_path.rglob("*.parquet")}
    with pytest.raises(InvalidInputError, match="not among the partitions to be overwritten"):
        table.overwrite(rows([5], "2", "b"), partitions={"dt": "a"})
    assert {f.name for f in tmp_path.rglob("*.parquet")} == files


def test_only_the_whole_table_may_be_overwritten_where_keys_keep_their_partition(tmp_path: Path) -> None:
    table = cross_table(tmp_path, **{"merge-engine": "partial-update"})
    table.upsert(rows(range(4), "1", "a"))
    table.upsert(rows(range(4, 8), "1", "b"))
    files = {f.name for f in tmp_path.rglob("*.parquet")}
    for partition in (None, {"dt": "a"}):
        with pytest.raises(NotSupportedError, match="leaves out a partition column"):
            table.overwrite(rows([5], "2", "a"), partitions=partition)
    assert {f.name for f in tmp_path.rglob("*.parquet")} == files
    table.overwrite(rows([5], "2", "a"), partitions={})
    assert read(table) == expected(rows([5], "2", "a"))


def test_keys_of_files_older_than_the_index_ttl_are_ignored(tmp_path: Path) -> None:
    table = cross_table(tmp_path, **{"cross-partition-upsert.index-ttl": "1 h"})
    table.upsert(rows([1], "1", "a"))
    (file,) = (e.file for e in TableScan(table.store).entries())
    for hours, found in ((0, True), (2, False)):
        later = file.creation_time_millis + hours * 3_600_000

        def clock(now: int = later) -> int:
            return now

        index = CrossPartition(table.store, "user", lambda: restore_buckets(table.store), clock=clock)
        placed = index.place(rows([1], "2", "b").combine_chunks().to_batches()[0], None)
        assert (placed.batch.num_rows == 2) is found
        index.close()


def test_the_writer_finds_keys_in_tables_with_deletion_vectors(tmp_path: Path) -> None:
    table = cross_table(tmp_path, **{"deletion-vectors.enabled": "true", "write-only": "true"})
    table.upsert(rows([1, 2], "1", "a"))
    table.upsert(rows([1], "2", "b"))
    table = table.copy({"write-only": "false"})
    table.compact()
    assert read(table) == expected(rows([2], "1", "a"), rows([1], "2", "b"))


def test_many_keys_are_moved_in_bounded_memory(tmp_path: Path) -> None:
    options = {"lookup.cache-max-memory-size": "100 kb", "dynamic-bucket.target-row-num": "4000"}
    table = make_table(tmp_path, options, primary_keys=["id"])
    table.upsert(rows(range(30_000), "1", "a"))
    table.upsert(rows(range(10_000, 40_000), "2", "b"))
    found = table.scan().to_arrow()
    assert found.num_rows == 40_000
    assert Counter(found.column("dt").to_pylist()) == {"a": 10_000, "b": 30_000}
