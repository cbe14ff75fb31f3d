"""Tables with postponed buckets: the visible rows before and after a compaction moves rows to real buckets."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interbed
from interbed.storage.base.errors import CommitConflictError, InvalidOptionError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.meta.snapshot.snapshot import CommitKind
from interbed.storage.read.change_read import ChangeRead
from interbed.storage.upkeep import append_compact as postponed_compact
from interbed.storage.upkeep import compact_table as table_compact
from interbed.storage.upkeep.append_compact import PostponedPartition
from interbed.storage.write.commit_message import CommitMessage
from tests.storage.write.bucket.tables import expected, make_table, read, restored, rows
from tests.support.examples import examples

OPTIONS = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}
"""Options with which rows wait, including those of batch writes."""
AT_ONCE = {"bucket": "-2", "postpone.default-bucket-num": "2"}


def test_rows_wait_invisibly_in_avro_files_until_a_compaction(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    table.upsert(rows(range(5), "1"))
    table.upsert(rows(range(3, 8), "2"))
    waiting = sorted((tmp_path / "db.db/t/dt=a/bucket-postpone").iterdir())
    assert len(waiting) == 2
    assert all("-s-" in f.name and "-w-" in f.name and f.suffix == ".avro" for f in waiting)
    assert read(table) == {}
    result = table.compact()
    assert (result.rows_before, result.rows_after) == (10, 8)
    assert read(table) == expected(rows(range(5), "1"), rows(range(3, 8), "2"))
    newest = table.latest_snapshot()
    assert newest is not None
    assert newest.commit_kind is CommitKind.COMPACT
    assert {bucket for _, bucket in restored(table).buckets()} == {0}


def test_a_dry_run_reports_the_rows_that_a_compaction_would_move(tmp_path: Path) -> None:
    table = make_table(tmp_path, {**OPTIONS, "postpone.default-bucket-num": "3"})
    table.upsert(rows(range(5)))
    (plan,) = table.maintenance.plan_compaction()
    assert (plan.bucket, plan.rows_rewritten, plan.reason) == (POSTPONE_BUCKET, 5, "postponed rows")
    assert "3 bucket(s)" in plan.detail
    assert read(table) == {}


def test_a_partition_keeps_its_first_number_of_buckets(tmp_path: Path) -> None:
    table = make_table(tmp_path, {**OPTIONS, "postpone.default-bucket-num": "2"})
    table.upsert(rows(range(20), "1", "a"))
    table.compact()
    table = table.copy({"postpone.default-bucket-num": "3"})
    table.upsert(rows(range(10, 30), "2", "a"))
    table.upsert(rows(range(20), "2", "b"))
    table.compact(full=False)
    found = restored(table)
    assert {found.total_buckets(p) for p, _ in found.buckets()} == {2, 3}
    assert read(table) == expected(rows(range(20), "1", "a"), rows(range(10, 30), "2", "a"), rows(range(20), "2", "b"))
    table.compact()
    assert all(len(found.files(b)) == 1 for found in [restored(table)] for b in found.buckets())


@pytest.mark.parametrize("full", [True, False])
def test_a_single_partition_can_be_compacted(tmp_path: Path, full: bool) -> None:
    table = make_table(tmp_path, OPTIONS)
    for dt in "ab":
        table.upsert(rows(range(4), "1", dt))
    table.compact(partitions={"dt": "b"}, full=full)
    assert read(table) == expected(rows(range(4), "1", "b"))
    table.upsert(rows(range(2), "2", "b"))
    table.compact(partitions={"dt": "a"}, full=full)
    assert read(table) == expected(rows(range(4), "1", "b"), rows(range(4), "1", "a"))
    table.compact(full=full)
    assert read(table) == expected(rows(range(4), "1", "b"), rows(range(4), "1", "a"), rows(range(2), "2", "b"))


Change = st.tuples(st.integers(0, 5), st.sampled_from([0, 1, 2, 3]))


@settings(max_examples=examples(20))
@given(commits=st.lists(st.lists(Change, min_size=1, max_size=8), min_size=1, max_size=4))
def test_changes_are_replayed_in_order(
    tmp_path_factory: pytest.TempPathFactory, commits: list[list[tuple[int, int]]]
) -> None:
    table = make_table(tmp_path_factory.mktemp("w"), {**OPTIONS, "postpone.default-bucket-num": "2"})
    model: dict[tuple[str, int], str | None] = {}
    for number, commit in enumerate(commits):
        values = [f"{number}-{i}" for i in range(len(commit))]
        table.write_changes(
            pa.table(
                {
                    "id": [key for key, _ in commit],
                    "v": values,
                    "dt": ["a"] * len(commit),
                    "_row_kind": pa.array([kind for _, kind in commit], pa.int8()),
                }
            )
        )
        for (key, kind), value in zip(commit, values, strict=True):
            if kind % 2:
                model.pop(("a", key), None)
            else:
                model["a", key] = value
    table.compact()
    assert read(table) == model


def test_partial_updates_are_merged_by_the_compaction(tmp_path: Path) -> None:
    table = make_table(tmp_path, {**OPTIONS, "merge-engine": "partial-update"})
    for value in ("1", None, "2", None):
        table.upsert(rows([1], value))
    table.compact()
    assert read(table) == {("a", 1): "2"}


def test_a_lookup_changelog_has_the_changes_of_the_moved_rows(tmp_path: Path) -> None:
    table = make_table(tmp_path, {**OPTIONS, "changelog-producer": "lookup"})
    table.upsert(rows([1, 2], "1"))
    table.compact(full=False)
    table.upsert(rows([2, 3], "2"))
    table.compact(full=False)
    changes = [(c["_row_kind"], c["id"], c["v"]) for c in table.changes().to_arrow().to_pylist()]
    assert sorted(changes) == sorted([(0, 1, "1"), (0, 2, "1"), (1, 2, "1"), (2, 2, "2"), (0, 3, "2")])


def test_deletion_vectors_are_written_by_the_compaction(tmp_path: Path) -> None:
    table = make_table(tmp_path, {**OPTIONS, "deletion-vectors.enabled": "true"})
    table.upsert(rows(range(10), "1"))
    table.compact(full=False)
    table.upsert(rows([3], "2"))
    table.compact(full=False)
    assert read(table) == expected(rows(range(10), "1"), rows([3], "2"))
    assert all(split.raw_convertible for split in table.new_scan().plan().splits)


def test_an_overwrite_replaces_waiting_rows_too_and_its_own_rows_wait(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    table.upsert(rows(range(4), "1"))
    table.compact()
    table.upsert(rows(range(9), "2"))
    table.overwrite(rows([7], "3"))
    assert read(table) == {}
    table.compact()
    assert read(table) == expected(rows([7], "3"))


def test_rows_written_during_a_compaction_wait_for_the_next_one(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    table.upsert(rows([1], "1"))
    with table.new_write("late") as write:
        write.write_arrow(rows([1], "2"))
        messages = write.prepare_commit()
    table.compact()
    table.new_commit("late").commit(messages)
    assert read(table) == {("a", 1): "1"}
    table.compact()
    assert read(table) == {("a", 1): "2"}


def test_one_of_two_compactions_wins_and_the_other_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path, OPTIONS)
    table.upsert(rows(range(5)))
    taken_up = postponed_compact.take_up

    def slower(
        store: FileStore, waiting: list[PostponedPartition], commit_user: str, *, full: bool
    ) -> list[CommitMessage]:
        monkeypatch.undo()
        messages = taken_up(store, waiting, commit_user, full=full)
        table.compact()
        return messages

    monkeypatch.setattr(table_compact, "take_up", slower)
    with pytest.raises(CommitConflictError):
        table.compact()
    assert read(table) == expected(rows(range(5)))
    live = {f.file_name for b in restored(table).buckets() for f in restored(table).files(b)}
    assert {f.name for f in (tmp_path / "db.db/t/dt=a/bucket-0").iterdir()} == live


def test_an_invalid_number_of_buckets_is_refused(tmp_path: Path) -> None:
    table = make_table(tmp_path, {**OPTIONS, "postpone.default-bucket-num": "0"})
    table.upsert(rows([1]))
    with pytest.raises(InvalidOptionError, match=r"postpone\.default-bucket-num"):
        table.compact()


def test_waiting_rows_with_columns_unsupported_by_avro_have_the_tables_format(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("test", warehouse=f"file:{tmp_path}")
    catalog.create_database("db")
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("ns"))])
    table = catalog.create_table("db.t", schema, primary_keys=["id"], options=OPTIONS)
    table.upsert(pa.table({"id": [1], "at": pa.array([5], pa.timestamp("ns"))}, schema=schema))
    (file,) = (tmp_path / "db.db/t/bucket-postpone").iterdir()
    assert file.suffix == ".parquet"
    table.compact()
    assert table.scan().count() == 1


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_a_stream_returns_waiting_rows_unless_a_later_changelog_has_them(tmp_path: Path, producer: str) -> None:
    table = make_table(tmp_path, {**OPTIONS, "changelog-producer": producer})
    table.upsert(rows([1, 2], "1"))
    table.compact()
    table.upsert(rows([2], "2"))
    scan, read_changes = table.new_stream_scan(), ChangeRead(table.store)
    changes = []
    for _ in range(2):
        while (plan := scan.plan()) is not None:
            changes += [
                (r["id"], r["v"], r["_row_kind"]) for r in read_changes.to_reader(plan.splits).read_all().to_pylist()
            ]
        if len(table.snapshots()) == 3:
            table.write_changes(rows([1], "3").append_column("_row_kind", pa.array([3], pa.int8())))
            table.compact(full=False)
    first = sorted(changes[:2])
    assert first == [(1, "1", 0), (2, "1", 0)]
    if producer == "none":
        assert changes[2:] == [(2, "2", 0), (1, "3", 3)]
    else:
        assert sorted(changes[2:]) == [(1, "1", 3), (2, "1", 1), (2, "2", 2)]


def test_rows_of_a_batch_write_are_visible_immediately(tmp_path: Path) -> None:
    table = make_table(tmp_path, AT_ONCE)
    table.upsert(rows(range(20), "1", "a"))
    assert read(table) == expected(rows(range(20), "1", "a"))
    table.upsert(rows(range(10, 30), "2", "a"))
    table.upsert(rows(range(5), "2", "b"))
    table.delete("id = 3")
    seen = expected(rows(range(20), "1", "a"), rows(range(10, 30), "2", "a"), rows(range(5), "2", "b"))
    assert read(table) == {key: value for key, value in seen.items() if key[1] != 3}
    assert not list(tmp_path.rglob("bucket-postpone"))
    found = restored(table)
    assert {found.total_buckets(p) for p, _ in found.buckets()} == {2}
    table.compact()
    assert read(table) == {key: value for key, value in seen.items() if key[1] != 3}


def test_a_partition_keeps_its_number_of_buckets_in_batch_writes(tmp_path: Path) -> None:
    table = make_table(tmp_path, AT_ONCE)
    table.upsert(rows(range(20), "1", "a"))
    more = table.copy({"postpone.default-bucket-num": "3"})
    more.upsert(pa.concat_tables([rows(range(10, 30), "2", "a"), rows(range(9), "2", "b")]))
    assert {found.total_buckets(p) for found in [restored(table)] for p, _ in found.buckets()} == {2, 3}
    assert read(table) == expected(rows(range(20), "1", "a"), rows(range(10, 30), "2", "a"), rows(range(9), "2", "b"))
    more.overwrite(rows([7], "3", "a"), partitions={"dt": "a"})
    assert read(table) == expected(rows(range(9), "2", "b"), rows([7], "3", "a"))


def test_a_batch_write_waits_behind_waiting_rows(tmp_path: Path) -> None:
    table = make_table(tmp_path, AT_ONCE)
    table.copy({"postpone.batch-write-fixed-bucket": "false"}).upsert(rows([1], "1"))
    table.upsert(rows([1], "2"))
    assert read(table) == {}
    table.compact()
    assert read(table) == {("a", 1): "2"}
    builder = table.copy({"postpone.batch-write-fixed-bucket": "false"}).new_postpone_fixed_bucket_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(rows([1], "3"))
        commit.commit(write.prepare_commit())
    assert read(table) == {("a", 1): "3"}


def test_rows_of_a_streaming_write_wait(tmp_path: Path) -> None:
    table = make_table(tmp_path, AT_ONCE)
    builder = table.new_stream_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(rows([1], "1"))
        commit.commit(write.prepare_commit(0), 0)
    assert read(table) == {}
    batch = make_table(tmp_path / "other", AT_ONCE).new_batch_write_builder()
    with batch.new_write() as write_once, batch.new_commit() as commit_once:
        write_once.write_arrow(rows([1], "1"))
        commit_once.commit(write_once.prepare_commit())
    table.compact()
    assert read(table) == expected(rows([1], "1"))


@pytest.mark.parametrize(
    "more",
    [{"changelog-producer": "lookup"}, {"deletion-vectors.enabled": "true"}, {"full-compaction.delta-commits": "1"}],
)
def test_batch_writes_compact_as_in_any_table(tmp_path: Path, more: dict[str, str]) -> None:
    table = make_table(tmp_path, {**AT_ONCE, **more})
    table.upsert(rows(range(10), "1", "a"))
    table.upsert(rows(range(4), "1", "b"))
    table.upsert(rows(range(5), "2", "a"))
    assert read(table) == expected(rows(range(10), "1", "a"), rows(range(4), "1", "b"), rows(range(5), "2", "a"))


def test_a_stream_returns_the_rows_of_batch_writes_that_did_not_wait(tmp_path: Path) -> None:
    table = make_table(tmp_path, AT_ONCE)
    table.upsert(rows([1, 2], "1"))
    scan, read_changes = table.new_stream_scan(), ChangeRead(table.store)
    changes = []
    for value in ("2", "3"):
        while (plan := scan.plan()) is not None:
            changes += [(r["id"], r["v"]) for r in read_changes.to_reader(plan.splits).read_all().to_pylist()]
        table.upsert(rows([2], value))
    assert sorted(changes) == [(1, "1"), (2, "1"), (2, "2")]
