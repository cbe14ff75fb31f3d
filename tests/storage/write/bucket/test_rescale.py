"""Tables and partitions whose rows are redistributed to another number of buckets."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from interbed.storage.base.errors import CommitConflictError, CorruptFileError, InvalidInputError, NotSupportedError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import ManifestEntry
from interbed.storage.meta.options.core import BUCKET
from interbed.storage.meta.schema.change import SetOption
from interbed.storage.meta.snapshot.snapshot import CommitKind
from interbed.storage.table.table import Table
from interbed.storage.upkeep import rescale
from interbed.storage.write.commit_message import CommitMessage
from tests.storage.write.bucket.tables import expected, make_table, read, restored, rows

OPTIONS = {"bucket": "2"}


def totals(table: Table) -> dict[str, int | None]:
    """The number of buckets of each partition."""
    found = restored(table)
    return {table.store.paths.partition_directory(p): found.total_buckets(p) for p, _ in found.buckets()}


def option(table: Table) -> str:
    """The option `bucket` in the newest schema file."""
    schema = table.store.schemas.latest()
    assert schema is not None
    return schema.options[BUCKET]


def test_a_table_is_rescaled_with_its_option_in_one_overwrite(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    parts = [rows(range(20), "1"), rows(range(10, 30), "2"), rows(range(5), "3", "b")]
    for part in parts:
        table.upsert(part)
    table.delete("id = 3 and dt = 'a'")
    before = read(table)
    newest = table.latest_snapshot()
    assert newest is not None
    result = table.maintenance.rescale(5)
    assert result.snapshot_id == newest.id + 1
    assert (result.partitions, result.rows) == (2, len(before))
    assert table.store.snapshots.snapshot(newest.id + 1).commit_kind is CommitKind.OVERWRITE
    assert (option(table), totals(table)) == ("5", {"dt=a": 5, "dt=b": 5})
    assert read(table) == before
    assert all(len(restored(table).files(b)) == 1 for b in restored(table).buckets())
    table.upsert(rows([100], "after"))
    assert read(table) == {**before, ("a", 100): "after"}
    assert table.scan(snapshot_id=newest.id).count() == len(before)


def test_a_partition_may_have_its_own_number_of_buckets(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    for dt in "abc":
        table.upsert(rows(range(9), "1", dt))
    before = read(table)
    assert table.maintenance.rescale(3, {"dt": "a"}).partitions == 1
    assert table.maintenance.rescale(4, [{"dt": "b"}, {"dt": "a"}]).partitions == 2
    assert (option(table), totals(table)) == ("2", {"dt=a": 4, "dt=b": 4, "dt=c": 2})
    assert read(table) == before
    assert table.scan(filter="dt = 'b' and id = 7").count() == 1
    with pytest.raises(InvalidInputError, match=r"dt=a .* spread over 4 buckets.*rescale"):
        table.upsert(rows([1], "2", "a"))
    table.upsert(rows([1], "2", "c"))
    assert read(table) == {**before, ("c", 1): "2"}
    table.maintenance.rescale()
    assert totals(table) == {"dt=a": 2, "dt=b": 2, "dt=c": 2}


def test_a_changed_option_is_refused_until_the_partition_is_rescaled(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    for dt in "ab":
        table.upsert(rows(range(9), "1", dt))
    table.store.alter([SetOption(BUCKET, "3")])
    table = Table(table.name, table.store.refreshed())
    with pytest.raises(InvalidInputError, match=r"table\.maintenance\.rescale"):
        table.upsert(rows([1], "2"))
    table.maintenance.rescale(partitions={"dt": "a"})
    table.upsert(rows([1], "2"))
    table.upsert(rows([1], "2", "new"))
    assert totals(table) == {"dt=a": 3, "dt=b": 2, "dt=new": 3}
    assert read(table) == expected(rows(range(9), "1"), rows(range(9), "1", "b"), rows([1], "2"), rows([1], "2", "new"))


def test_a_table_that_has_the_number_of_buckets_already_is_not_rewritten(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    assert table.maintenance.rescale(2).snapshot_id is None
    table.upsert(rows(range(4)))
    newest = table.latest_snapshot()
    assert str(table.maintenance.rescale(2)) == "nothing to rescale to 2 bucket(s)"
    assert table.latest_snapshot() == newest


def test_rescaling_an_empty_table_changes_only_its_option(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    assert table.maintenance.rescale(7).snapshot_id is None
    assert option(table) == "7"
    table.upsert(rows(range(4)))
    assert totals(table) == {"dt=a": 7}


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "partial-update"},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"},
        {"merge-engine": "first-row"},
        {"deletion-vectors.enabled": "true"},
        {"deletion-vectors.enabled": "true", "write-only": "true"},
        {"changelog-producer": "lookup", "write-only": "true"},
        {"changelog-producer": "full-compaction"},
        {"file.format": "orc"},
        {"write-only": "true"},
        {"sequence.field": "v"},
    ],
    ids=lambda o: ",".join(o.values()),
)
def test_rescaling_keeps_the_rows(tmp_path: Path, options: dict[str, str]) -> None:
    table = make_table(tmp_path, {**OPTIONS, **options})
    for value in ("1", "2", None) if "sequence.field" not in options else ("2", "1"):
        table.upsert(rows(range(12), value))
    table.upsert(rows(range(6, 20), "3"))
    # With deletion vectors, rows in level 0 are visible after their compaction.
    merged = table.copy({"write-only": "false"})
    before = {}
    if "write-only" not in options:
        before = read(table)
    table.maintenance.rescale(3)
    after = read(table)
    if not before:
        before = read(Table(table.name, merged.store.refreshed()))
    assert after == before
    assert len(after) == 20
    table.upsert(rows([0], "4"))
    table.compact()
    assert len(read(table)) == 20


def test_a_pending_changelog_is_written_before_the_rescale(tmp_path: Path) -> None:
    table = make_table(tmp_path, {**OPTIONS, "changelog-producer": "lookup", "write-only": "true"})
    table.upsert(rows([1, 2], "1"))
    table.maintenance.rescale(3)
    assert sorted((c["_row_kind"], c["id"]) for c in table.changes().to_arrow().to_pylist()) == [(0, 1), (0, 2)]


def test_an_append_table_with_buckets_can_be_rescaled(tmp_path: Path) -> None:
    table = make_table(tmp_path, {**OPTIONS, "bucket-key": "id"}, primary_keys=())
    for _ in range(2):
        table.append(rows(range(8)))
    table.maintenance.rescale(4)
    assert totals(table) == {"dt=a": 4}
    assert Counter(table.scan().to_arrow().column("id").to_pylist()) == Counter([*range(8), *range(8)])


def test_partitions_of_a_postponed_table_are_rescaled_and_waiting_rows_keep_waiting(tmp_path: Path) -> None:
    table = make_table(tmp_path, {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"})
    table.upsert(rows(range(9), "1"))
    table.compact()
    table.upsert(rows([1], "2"))
    with pytest.raises(InvalidInputError, match="how many"):
        table.maintenance.rescale()
    table.maintenance.rescale(3)
    assert (option(table), totals(table)) == ("-2", {"dt=a": 3})
    assert read(table) == expected(rows(range(9), "1"))
    table.compact()
    assert totals(table) == {"dt=a": 3}
    assert read(table) == expected(rows(range(9), "1"), rows([1], "2"))


def test_rows_written_during_a_rescale_are_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(tmp_path, OPTIONS)
    table.upsert(rows(range(9), "1"))
    messages = waiting_write(table, "late", rows([1, 50], "late"))
    read_again = rescale._old_files

    def with_a_writer(
        store: FileStore, snapshot_id: int, target: int, partitions: Sequence[Mapping[str, object]] | None
    ) -> list[ManifestEntry]:
        monkeypatch.undo()
        old = read_again(store, snapshot_id, target, partitions)
        table.new_commit("late").commit(messages)
        return old

    monkeypatch.setattr(rescale, "_old_files", with_a_writer)
    table.maintenance.rescale(3)
    assert read(table) == expected(rows(range(9), "1"), rows([1, 50], "late"))
    assert totals(table) == {"dt=a": 3}


@pytest.mark.parametrize("whole", [True, False])
def test_a_writer_with_the_old_number_of_buckets_conflicts(tmp_path: Path, whole: bool) -> None:
    table = make_table(tmp_path, OPTIONS)
    table.upsert(rows(range(9), "1"))
    old = Table(table.name, table.store)
    messages = [CommitMessage.from_bytes(m.to_bytes()) for m in waiting_write(old, "late", rows([1], "late"))]
    table.maintenance.rescale(3, None if whole else {"dt": "a"})
    with pytest.raises(CommitConflictError, match="rescale"):
        old.new_commit("late").commit(messages)
    assert read(table) == expected(rows(range(9), "1"))


def test_a_failed_rescale_leaves_the_table_unchanged(tmp_path: Path) -> None:
    table = make_table(tmp_path, OPTIONS)
    table.upsert(rows(range(9), "1"))
    before, files = read(table), data_files(tmp_path)
    content = files[1].read_bytes()
    files[1].write_bytes(content[:-50])
    with pytest.raises(CorruptFileError, match=files[1].name):
        table.maintenance.rescale(3)
    files[1].write_bytes(content)
    assert data_files(tmp_path) == files
    assert (option(table), totals(table)) == ("2", {"dt=a": 2})
    assert read(table) == before
    table.upsert(rows([9], "1"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "dynamic-bucket.target-row-num"),
        ({"bucket": "2"}, "positive"),
    ],
)
def test_tables_that_cannot_be_rescaled_are_refused(tmp_path: Path, options: dict[str, str], message: str) -> None:
    table = make_table(tmp_path, options)
    with pytest.raises((NotSupportedError, InvalidInputError), match=message):
        table.maintenance.rescale(0)


def waiting_write(table: Table, user: str, data: pa.Table) -> list[CommitMessage]:
    """Messages of rows that are written and not yet committed."""
    with table.new_write(user) as write:
        write.write_arrow(data)
        return write.prepare_commit()


def data_files(directory: Path) -> list[Path]:
    """The data files of all buckets."""
    return sorted(directory.rglob("bucket-*/*"))
