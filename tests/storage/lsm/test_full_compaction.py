"""Full compaction: the plan, and that the table's rows stay the same."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.errors import CorruptFileError, InvalidInputError
from interbed.storage.base.row.binary_row import encode_row
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.lsm.compact.strategy import CompactionUnit, LevelUpgrade, Rewrite, plan_full_compaction
from interbed.storage.lsm.levels import Levels
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.scan import TableScan
from interbed.storage.table.opening import open_store, schema_manager
from interbed.storage.upkeep.compact_table import compact_table
from interbed.storage.write.commit_message import CompactionResult
from interbed.storage.write.table_write import TableWrite
from tests.support.examples import examples

INT = AtomicType(TypeRoot.INT, nullable=False)
COLUMNS = pa.schema((("id", pa.int32()), ("dt", pa.string()), ("v", pa.string())))


# -- the plan ----------------------------------------------------------------------------------------------------------


def file(
    name: str, low: int, high: int, *, level: int = 0, size: int = 100, sequence: int = 0, deletes: int | None = 0
) -> DataFileMeta:
    return DataFileMeta(
        file_name=name,
        file_size=size,
        row_count=high - low + 1,
        min_key=encode_row([low], [INT]),
        max_key=encode_row([high], [INT]),
        min_sequence_number=sequence,
        max_sequence_number=sequence + high - low,
        schema_id=0,
        level=level,
        creation_time_millis=0,
        delete_row_count=deletes,
    )


def plan(*files: DataFileMeta) -> CompactionUnit | None:
    return plan_full_compaction(Levels.of(files, 6), [INT], small_file_bytes=70)


def described(unit: CompactionUnit | None) -> list[str]:
    assert unit is not None
    return [
        "rewrite " + " ".join(sorted(f.file_name for f in s.files))
        if isinstance(s, Rewrite)
        else f"move {s.file.file_name}"
        for s in unit.steps
    ]


def test_levels_put_the_newest_flush_first_and_higher_levels_last() -> None:
    levels = Levels.of(
        [file("a", 0, 1), file("b", 0, 1, sequence=9), file("c", 0, 3, level=5), file("d", 4, 5, level=5)], 6
    )
    assert [[f.file_name for f in r.run.files] for r in levels.runs] == [["b"], ["a"], ["c", "d"]]
    assert levels.max_level == 5
    assert Levels.of([file("a", 0, 1, level=8)], 6).max_level == 8


def test_an_empty_or_compacted_bucket_needs_no_compaction() -> None:
    assert plan() is None
    assert plan(file("a", 0, 5, level=5, size=1), file("b", 6, 9, level=5, size=1)) is None


def test_overlapping_files_are_rewritten_together() -> None:
    assert described(plan(file("a", 0, 5), file("b", 3, 9), file("c", 0, 9, level=5))) == ["rewrite a b c"]


def test_large_files_without_overlap_are_moved() -> None:
    assert described(plan(file("a", 0, 5), file("b", 6, 9))) == ["move a", "move b"]


def test_large_files_of_the_highest_level_stay_without_overlap() -> None:
    assert described(plan(file("a", 0, 5, level=5), file("b", 6, 9))) == ["move b"]


def test_files_with_deletes_or_an_unknown_number_of_them_are_not_moved() -> None:
    assert described(plan(file("a", 0, 5, deletes=1), file("b", 6, 9, deletes=None))) == ["rewrite a", "rewrite b"]


def test_small_neighbours_are_rewritten_together_but_not_across_a_large_file() -> None:
    small = [file(n, low, low + 1, size=10) for n, low in (("a", 0), ("b", 2), ("d", 8), ("e", 10))]
    assert described(plan(*small, file("c", 4, 7))) == ["rewrite a b", "move c", "rewrite d e"]
    assert described(plan(small[0], file("c", 4, 7))) == ["move a", "move c"]


def test_the_output_is_the_highest_level_and_drops_deletes() -> None:
    unit = plan(file("a", 0, 5), file("b", 0, 5))
    assert unit is not None
    assert (unit.output_level, unit.drop_deletes) == (5, True)
    assert LevelUpgrade(file=file("a", 0, 5)).file.upgraded(5).level == 5


# -- a table -----------------------------------------------------------------------------------------------------------


def create(path: Path, **options: str) -> FileStore:
    schema = Schema.from_pyarrow_schema(
        COLUMNS, primary_keys=["dt", "id"], partition_keys=["dt"], options={"bucket": "2"} | options
    )
    schema_manager(str(path)).create_table(schema)
    return open_store(str(path))


_users = iter(range(10**9))


def upsert(store: FileStore, rows: list[dict[str, Any]], kinds: list[int]) -> None:
    with TableWrite(store, "u") as writer:
        writer.write_arrow(pa.Table.from_pylist(rows, schema=COLUMNS), pa.array(kinds, pa.int8()))
        FileStoreCommit(store, f"u{next(_users)}", new_user=True).commit(writer.prepare_commit())


def rows_of(store: FileStore) -> dict[tuple[str, int], str | None]:
    read = TableRead(store)
    batches = [b for split in TableScan(store).plan().splits for b in read.to_batches(split)]
    rows = [r for b in batches for r in b.to_pylist()]
    found = {(r["dt"], r["id"]): r["v"] for r in rows}
    assert len(found) == len(rows)
    return found


def files_of(store: FileStore) -> list[DataFileMeta]:
    return [e.file for e in TableScan(store).entries()]


def compact(store: FileStore, **arguments: Any) -> CompactionResult:
    return compact_table(store, f"c{next(_users)}", **arguments)


ROWS = st.lists(
    st.tuples(
        st.fixed_dictionaries(
            {"id": st.integers(0, 9), "dt": st.sampled_from(["a", "b"]), "v": st.none() | st.text("xyz", max_size=3)}
        ),
        st.sampled_from([0, 2, 3]),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(15), deadline=None)
@given(rounds=st.lists(ROWS, min_size=1, max_size=4), tail=ROWS)
def test_compaction_keeps_the_rows_and_leaves_no_delete(
    rounds: list[list[tuple[dict[str, Any], int]]],
    tail: list[tuple[dict[str, Any], int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    store = create(tmp_path_factory.mktemp("t"))
    model: dict[tuple[str, int], str | None] = {}

    def apply(changes: list[tuple[dict[str, Any], int]]) -> None:
        upsert(store, [r for r, _ in changes], [k for _, k in changes])
        for row, kind in changes:
            model.pop((row["dt"], row["id"]), None)
            if kind != 3:
                model[row["dt"], row["id"]] = row["v"]

    for changes in rounds:
        apply(changes)
    assert rows_of(store) == model
    result = compact(store)
    assert rows_of(store) == model
    if result.snapshot_id is not None:
        assert store.snapshots.snapshot(result.snapshot_id).commit_kind == "COMPACT"
        assert result.rows_after == len(model)
    assert all(f.level == 5 and f.delete_row_count == 0 for f in files_of(store))
    assert compact(store).snapshot_id is None
    apply(tail)
    assert rows_of(store) == model
    compact(store)
    assert rows_of(store) == model


def test_a_single_partition_or_bucket_can_be_compacted(tmp_path: Path) -> None:
    store = create(tmp_path)
    rows = [{"id": i, "dt": dt, "v": "x"} for i in range(20) for dt in "ab"]
    for _ in range(2):
        upsert(store, rows, [0] * len(rows))
    assert compact(store, partition={"dt": "a"}).buckets == 2
    assert sorted(f.level for f in files_of(store)) == [0, 0, 0, 0, 5, 5]
    assert compact(store, bucket=1).buckets == 1
    assert sorted(f.level for f in files_of(store)) == [0, 0, 5, 5, 5]
    assert len(rows_of(store)) == 40
    with pytest.raises(InvalidInputError, match="no bucket 2"):
        compact(store, bucket=2)


def test_a_bucket_of_deletes_only_becomes_empty(tmp_path: Path) -> None:
    store = create(tmp_path)
    upsert(store, [{"id": 1, "dt": "a", "v": "x"}], [0])
    upsert(store, [{"id": 1, "dt": "a", "v": None}], [3])
    result = compact(store)
    assert (result.files_before, result.files_after) == (2, 0)
    assert files_of(store) == []
    assert rows_of(store) == {}


def test_a_corrupt_file_stops_compaction_which_leaves_no_file(tmp_path: Path) -> None:
    store = create(tmp_path)
    rows = [{"id": i, "dt": dt, "v": "x"} for i in range(20) for dt in "ab"]
    for _ in range(2):
        upsert(store, rows, [0] * len(rows))
    files = sorted(tmp_path.rglob("data-*.parquet"))
    files[-1].write_bytes(b"PAR1 not a file PAR1")
    with pytest.raises(CorruptFileError, match=files[-1].name):
        compact(store)
    assert sorted(tmp_path.rglob("data-*.parquet")) == files
    assert store.snapshots.latest_id() == 2


def test_compaction_of_thin_files_and_of_several_target_files(tmp_path: Path) -> None:
    store = create(tmp_path, **{"data-file.thin-mode": "true", "target-file-size": "16kb"})
    model = {}
    for turn in range(3):
        rows = [{"id": i, "dt": "a", "v": f"{i * 7919 * (turn + 1):020x}"} for i in range(turn, 9000, turn + 1)]
        upsert(store, rows, [0] * len(rows))
        model.update({("a", r["id"]): r["v"] for r in rows})
    compact(store)
    assert len(files_of(store)) > 2
    assert rows_of(store) == model


def test_each_commit_compacts_fully_where_full_compactions_write_the_changelog(tmp_path: Path) -> None:
    store = create(tmp_path, **{"changelog-producer": "full-compaction"})
    upsert(store, [{"id": 1, "dt": "a", "v": "x"}], [0])
    upsert(store, [{"id": 1, "dt": "a", "v": "y"}], [0])

    kept = [s for s in store.snapshots.descending() if s.changelog_manifest_list is not None]
    assert [s.commit_kind for s in kept] == ["COMPACT", "COMPACT"]
    assert rows_of(store) == {("a", 1): "y"}
