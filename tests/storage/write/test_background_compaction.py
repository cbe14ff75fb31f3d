"""Writers that compact their buckets: when they compact, the messages that they return, and the files that they clean
up.
"""

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interbed
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.io.faults import FaultyFileIO
from interbed.storage.io.local import LocalFileIO
from interbed.storage.lsm.compact.rewriter import CompactedFiles, CompactIncrement
from interbed.storage.lsm.levels import Levels
from interbed.storage.meta.manifest.entry import EMPTY_ROW
from interbed.storage.meta.snapshot.snapshot import CommitKind
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from interbed.storage.write import table_write
from tests.storage.commit.tables import data_file
from tests.support.waits import at_most


def create(warehouse: Path, **options: str) -> Table:
    """A table (id BIGINT, v STRING) with one bucket."""
    catalog = interbed.load_catalog("test", warehouse=f"file:{warehouse}")
    catalog.create_database("db", ignore_if_exists=True)
    schema = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())))
    return catalog.create_table(
        "db.t",
        schema,
        primary_keys=["id"],
        options={"bucket": "1", **{k.replace("_", "-"): v for k, v in options.items()}},
    )


def rows(*ids: int, v: str = "x") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([f"{v}{i}" for i in ids])})


def runs(table: Table) -> int:
    """The number of sorted runs of the only bucket."""
    files = restore_buckets(table.store).files(BucketId(EMPTY_ROW, 0))
    return len(Levels.of(files, table.options.num_levels).runs)


def values(table: Table) -> dict[int, str]:
    found = table.scan().to_arrow().to_pydict()
    return dict(zip(found["id"], found["v"], strict=True))


def data_files(table: Table) -> set[str]:
    return {p.name for p in Path(table.location).glob("bucket-*/*")}


def referenced(table: Table) -> set[str]:
    """The names of the data files of all snapshots."""
    return {
        f.file_name
        for s in table.snapshots()
        for split in table.new_scan(snapshot_id=s.id).plan().splits
        for f in split.files
    }


def test_many_small_upserts_leave_few_sorted_runs(tmp_path: Path) -> None:
    table = create(tmp_path)
    expected: dict[int, str] = {}
    for commit in range(25):
        ids = range(commit % 7, commit % 7 + 5)
        table.upsert(rows(*ids, v=f"{commit}-"))
        expected |= {i: f"{commit}-{i}" for i in ids}
        assert values(table) == expected
        assert runs(table) <= 5
    kinds = [s.commit_kind for s in table.snapshots()]
    assert kinds.count(CommitKind.APPEND) == 25
    assert 1 < kinds.count(CommitKind.COMPACT) < 25
    # Files that compactions wrote and replaced are in some snapshot; no other file is left.
    assert data_files(table) == referenced(table)


def test_a_write_only_table_is_compacted_only_by_a_dedicated_compaction(tmp_path: Path) -> None:
    table = create(tmp_path, write_only="true")
    for commit in range(12):
        table.upsert(rows(commit))
    assert runs(table) == 12
    (planned,) = table.maintenance.plan_compaction(full=False)
    assert (planned.reason, planned.runs_before, planned.runs_after) == ("size amplification", 12, 1)
    assert table.snapshots()[-1].id == 12
    result = table.compact(full=False)
    assert (result.files_before, runs(table)) == (12, 1)
    assert table.maintenance.plan_compaction(full=False) == []
    assert table.compact(full=False).snapshot_id is None
    assert values(table) == {i: f"x{i}" for i in range(12)}


def test_a_stream_does_not_wait_for_its_compactions(tmp_path: Path) -> None:
    table = create(tmp_path)
    builder = table.new_stream_write_builder()
    expected: dict[int, str] = {}
    with builder.new_write() as write, builder.new_commit() as commit:
        for identifier in range(40):
            write.write_arrow(rows(identifier % 9, 100, v=f"{identifier}-"))
            expected |= {i: f"{identifier}-{i}" for i in (identifier % 9, 100)}
            commit.commit(write.prepare_commit(identifier), identifier)
            # Too many runs stop the writer, whatever the machine's load.
            assert runs(table) <= 5 + 3 + 2
    assert values(table) == expected
    assert data_files(table) == referenced(table)


def test_a_compaction_that_another_writer_made_first_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = create(tmp_path)
    for commit in range(4):
        table.upsert(rows(commit))
    write = table.new_write("slow")
    write.write_arrow(rows(4))
    messages = write.prepare_commit()
    assert any(m.compaction.after for m in messages)
    table.compact(full=True)
    with caplog.at_level(logging.INFO):
        ids = table.new_commit("slow").commit(messages)
    write.close()
    assert ids == [6]
    assert "its compaction was given up" in caplog.text
    assert values(table) == {i: f"x{i}" for i in range(5)}
    assert data_files(table) == referenced(table)


def test_concurrent_writers_lose_no_row(tmp_path: Path) -> None:
    table = create(tmp_path)

    def work(writer: int) -> None:
        for commit in range(8):
            table.upsert(rows(writer * 100 + commit))

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(work, n) for n in range(3)]:
            done.result(timeout=at_most(120))
    assert values(table) == {n * 100 + c: f"x{n * 100 + c}" for n in range(3) for c in range(8)}
    assert data_files(table) == referenced(table)


def test_a_failed_compaction_fails_the_commit(tmp_path: Path) -> None:
    table = create(tmp_path)
    for commit in range(4):
        table.upsert(rows(commit))
    before = data_files(table)
    victim = next(Path(table.location).glob("bucket-0/*.parquet"))
    content = victim.read_bytes()
    victim.write_bytes(content[: len(content) // 2])
    with pytest.raises(CorruptFileError, match=victim.name):
        table.upsert(rows(4))
    assert (data_files(table), len(table.snapshots())) == (before, 4)
    victim.write_bytes(content)
    table.upsert(rows(4))
    assert values(table) == {i: f"x{i}" for i in range(5)}


def test_an_abandoned_writer_leaves_no_file(tmp_path: Path) -> None:
    table = create(tmp_path)
    for commit in range(4):
        table.upsert(rows(commit))
    before = data_files(table)
    write = table.new_write("gone")
    for commit in range(6):
        write.write_arrow(rows(10 + commit))
        write.compact(BucketId(EMPTY_ROW, 0))
    write.close()
    assert data_files(table) == before


def test_full_compactions_can_be_requested_from_a_writer(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.upsert(rows(1))
    table.upsert(rows(2))
    with table.new_write("w") as write:
        write.write_arrow(rows(3))
        write.compact(BucketId(EMPTY_ROW, 0), full=True)
        messages = write.prepare_commit()
    assert table.new_commit("w").commit(messages) == [3, 4]
    assert (runs(table), values(table)) == (1, {1: "x1", 2: "x2", 3: "x3"})


@settings(deadline=None)
@given(st.data())
def test_several_compactions_are_combined_to_one_change(data: st.DataObject) -> None:
    """Files of the table (0-4) and new ones are moved and merged at random; replaying the sum results in the same
    bucket.
    """
    start = {f.file_name: f for f in (data_file(name=f"t{i}") for i in range(5))}
    bucket, total = dict(start), CompactedFiles()
    needless: set[str] = set()
    for step in range(data.draw(st.integers(1, 5))):
        if not bucket:
            break
        chosen = data.draw(st.lists(st.sampled_from(sorted(bucket)), min_size=1, unique=True))
        moved = data.draw(st.booleans())
        before = [bucket.pop(name) for name in chosen]
        after = [f.upgraded(f.level + 1) for f in before] if moved else [data_file(name=f"n{step}", level=5)]
        bucket |= {f.file_name: f for f in after}
        thrown = total.add(CompactIncrement(before=tuple(before), after=tuple(after)))
        needless |= {f.file_name for f in thrown.after}
    outcome: Any = total.outcome()
    assert outcome is not None
    replayed = {name: f for name, f in start.items() if name not in {b.file_name for b in outcome.before}}
    replayed |= {f.file_name: f for f in outcome.after}
    assert replayed == bucket
    assert all(start[b.file_name] == b for b in outcome.before)
    assert not needless & (set(start) | set(bucket))


def test_all_buckets_are_compacted_fully_after_a_number_of_commits(tmp_path: Path) -> None:
    table = create(
        tmp_path, **{"full-compaction.delta-commits": "3", "changelog-producer": "full-compaction", "bucket": "3"}
    )
    for commit in range(9):
        table.upsert(rows(commit % 4, v=f"{commit}-"))
    kinds = [s.commit_kind for s in table.snapshots()]
    assert kinds == [CommitKind.APPEND, CommitKind.APPEND, CommitKind.APPEND, CommitKind.COMPACT] * 3
    planned = table.maintenance.plan_compaction()
    assert planned == []
    changes = table.changes().to_arrow()
    assert changes["_row_kind"].to_pylist().count(0) == 4
    assert values(table) == {0: "8-0", 1: "5-1", 2: "6-2", 3: "7-3"}


def test_compactions_of_all_buckets_begin_with_the_largest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_write, "COMPACTION_THREADS", 1)
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    columns: list[Any] = [pa.field("p", pa.int64(), nullable=False), pa.field("id", pa.int64(), nullable=False)]
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "9"}
    table = catalog.create_table(
        "db.t", pa.schema(columns), partition_keys=["p"], primary_keys=["p", "id"], options=options
    )
    sizes = (40, 3, 5000, 900)
    rows = pa.table(
        {"p": [p for p, n in enumerate(sizes) for _ in range(n)], "id": [i for n in sizes for i in range(n)]}
    )
    for _ in range(2):
        table.upsert(rows)
    file_io = FaultyFileIO(LocalFileIO())
    watched = Table("db.t", open_store(table.location, file_io))

    with watched.new_write("w") as write:
        write.compact_all()
        messages = write.prepare_commit(wait_compaction=True)

    places = [path.partition("/p=")[2][0] for done, path in file_io.calls if done == "open_output" and "/p=" in path]
    assert list(dict.fromkeys(places)) == ["2", "3", "0", "1"]
    assert [watched.access.partition_spec(m.partition)["p"] for m in messages] == ["0", "1", "2", "3"]
