"""Full write buffers: spilled rows are merged once and in order by the flush, and no file is left."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interbed
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.table.table import Table
from tests.support.examples import examples

SCHEMA = pa.schema(
    (
        pa.field("id", pa.int64(), nullable=False),
        pa.field("s", pa.int64()),
        pa.field("v", pa.string()),
        pa.field("n", pa.int64()),
    )
)
ENGINES: list[dict[str, str]] = [
    {},
    {"sequence.field": "s"},
    {"sequence.field": "s", "sequence.field.sort-order": "descending"},
    {"merge-engine": "partial-update"},
    {"merge-engine": "partial-update", "fields.s.sequence-group": "v,n", "fields.n.aggregate-function": "sum"},
    {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "fields.v.aggregate-function": "listagg"},
    {"merge-engine": "first-row"},
    {"changelog-producer": "input"},
]


def create(
    warehouse: Path, options: Mapping[str, str], *, bucket: str, keys: bool = True, partitioned: bool = False
) -> Table:
    catalog = interbed.load_catalog("test", warehouse=f"file:{warehouse}")
    catalog.create_database("db", ignore_if_exists=True)
    return catalog.create_table(
        "db.t",
        SCHEMA,
        primary_keys=["id"] if keys else [],
        partition_keys=["s"] if partitioned else [],
        options={"write-only": "true", "bucket": bucket, **options},
    )


def rows(start: int, count: int, v: str = "x") -> pa.Table:
    """Rows with scattered keys, so that every batch covers the same range."""
    ids = [(start + i) * 7919 % 100_003 for i in range(count)]
    return pa.table({"id": ids, "s": [i % 20 for i in range(count)], "v": [v] * count, "n": ids}, schema=SCHEMA)


def data_files(table: Table) -> list[Any]:
    return [f for split in table.new_scan().plan().splits for f in split.files]


def scratch_files(write: Any) -> list[Path]:
    """The spilled files of a writer."""
    home = write._spill_files._directory
    return [] if home is None else list(home.iterdir())


_ROW = st.tuples(st.integers(0, 12), st.integers(0, 3), st.sampled_from("abc"), st.integers(0, 9))
_BATCH = st.lists(_ROW, max_size=9)


@pytest.mark.parametrize("engine", range(len(ENGINES)))
@settings(max_examples=examples(12), deadline=None)
@given(batches=st.lists(st.tuples(_BATCH, st.booleans()), min_size=1, max_size=7))
def test_a_spilled_commit_equals_one_in_memory(
    engine: int, batches: list[tuple[list[tuple[int, int, str, int]], bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With a tiny buffer each batch is spilled; some batches have row kinds."""
    deletes = ENGINES[engine].get("merge-engine") in (None, "aggregation") and "listagg" not in str(ENGINES[engine])
    found = []
    for size in ("1 kb", "64 mb"):
        table = create(
            tmp_path_factory.mktemp("lake"),
            {**ENGINES[engine], "write-buffer-size": size, "local-sort.max-num-file-handles": "2"},
            bucket="1",
        )
        with table.new_write("tester") as write:
            for rows, with_kinds in batches:
                data = pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in rows], schema=SCHEMA)
                kinds = pa.array([3 * (r[3] == 0) for r in rows], pa.int8()) if with_kinds and deletes else None
                write.write_arrow(data, kinds)
            table.new_commit("tester").commit(write.prepare_commit())
            assert scratch_files(write) == []
        files = [(f.row_count, f.min_key, f.max_key, f.max_sequence_number) for f in data_files(table)]
        told = table.changes().to_arrow().to_pylist() if "changelog-producer" in ENGINES[engine] else []
        found.append((files, table.scan().to_arrow().to_pylist(), told))
    assert found[0] == found[1]


def test_one_commit_is_one_sorted_run_with_any_buffer_size(tmp_path: Path) -> None:
    table = create(tmp_path, {"write-buffer-size": "64 kb"}, bucket="1")
    with table.new_write("tester") as write:
        for i in range(20):
            write.write_arrow(rows(1000 * i, 1000))
        assert len(scratch_files(write)) == 10
        assert list(Path(table.location).glob("bucket-0/*")) == []
        table.new_commit("tester").commit(write.prepare_commit())
        assert scratch_files(write) == []
        home = write._spill_files._directory
    (file,) = data_files(table)
    assert file.row_count == 20_000
    assert home is not None
    assert not home.exists()
    column: Any = table.scan().to_arrow()["id"]
    assert sorted(column.to_pylist()) == sorted(i * 7919 % 100_003 for i in range(20_000))


def test_without_spilling_a_full_buffer_is_flushed_to_a_file(tmp_path: Path) -> None:
    table = create(tmp_path, {"write-buffer-size": "64 kb", "write-buffer-spillable": "false"}, bucket="1")
    with table.new_write("tester") as write:
        for i in range(5):
            write.write_arrow(rows(1000 * i, 1000))
        assert scratch_files(write) == []
        table.new_commit("tester").commit(write.prepare_commit())
    assert sorted(f.row_count for f in data_files(table)) == [1000, 2000, 2000]


def test_rows_that_make_a_large_file_are_not_spilled(tmp_path: Path) -> None:
    table = create(tmp_path, {"write-buffer-size": "64 kb", "target-file-size": "64 kb"}, bucket="1")
    with table.new_write("tester") as write:
        write.write_arrow(rows(0, 5000))
        assert scratch_files(write) == []
        assert len(list(Path(table.location).glob("bucket-0/*"))) == 1


def test_the_buffer_is_flushed_when_spilling_has_reached_its_disk_size(tmp_path: Path) -> None:
    table = create(tmp_path, {"write-buffer-size": "64 kb", "write-buffer-spill.max-disk-size": "20 kb"}, bucket="1")
    with table.new_write("tester") as write:
        for i in range(20):
            write.write_arrow(rows(1000 * i, 1000))
            assert write._spill_files.bytes < 100 << 10
        table.new_commit("tester").commit(write.prepare_commit())
    assert 1 < len(data_files(table)) < 8
    assert table.scan().to_arrow().num_rows == 20_000


def test_a_writer_that_ends_without_a_commit_leaves_nothing_on_local_disk(tmp_path: Path) -> None:
    table = create(tmp_path, {"write-buffer-size": "64 kb"}, bucket="2")
    write = table.new_write("tester")
    for i in range(5):
        write.write_arrow(rows(1000 * i, 1000))
    (home, *_) = {p.parent for p in scratch_files(write)}
    write.close()
    assert not home.exists()
    assert [p for p in Path(table.location).rglob("*") if p.is_file() and p.parent.name != "schema"] == []


def test_a_damaged_spilled_run_fails_the_writer_and_leaves_the_table_unchanged(tmp_path: Path) -> None:
    table = create(tmp_path, {"write-buffer-size": "64 kb"}, bucket="1")
    table.upsert(rows(0, 10))
    before = set(Path(table.location).rglob("*"))
    with table.new_write("tester") as write:
        for i in range(5):
            write.write_arrow(rows(1000 * i, 1000))
        victim = scratch_files(write)[0]
        victim.write_bytes(victim.read_bytes()[:-100])
        with pytest.raises(CorruptFileError, match=str(victim)):
            write.prepare_commit()
    assert set(Path(table.location).rglob("*")) == before
    table.upsert(rows(0, 10, v="again"))
    assert set(table.scan().to_arrow()["v"].to_pylist()) == {"again"}


def test_a_stream_spills_again_after_each_commit(tmp_path: Path) -> None:
    table = create(tmp_path, {"write-buffer-size": "64 kb", "write-only": "false"}, bucket="1")
    builder = table.new_stream_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        for identifier in range(3):
            for _ in range(4):
                write.write_arrow(rows(0, 1000, v=str(identifier)))
            commit.commit(write.prepare_commit(identifier), identifier)
    found = table.scan().to_arrow()
    assert (found.num_rows, set(found["v"].to_pylist())) == (1000, {"2"})
    assert len(data_files(table)) == 3


@pytest.mark.parametrize("options", [{}, {"write-buffer-for-append": "true"}, {"write-max-writers-to-spill": "5"}])
@pytest.mark.parametrize("bucket", ["-1", "1"])
def test_append_tables_write_one_file_a_bucket_in_order(tmp_path: Path, options: dict[str, str], bucket: str) -> None:
    keyed = {"bucket-key": "id"} if bucket == "1" else {}
    table = create(
        tmp_path, {"write-buffer-size": "64 kb", **options, **keyed}, bucket=bucket, keys=False, partitioned=True
    )
    with table.new_write("tester") as write:
        for i in range(10):
            # Four partitions first, twenty at the end.
            write.write_arrow(rows(1000 * i, 4 if i < 5 else 1000))
        spills = bool(scratch_files(write))
        table.new_commit("tester").commit(write.prepare_commit())
        assert scratch_files(write) == []
    assert spills
    files = data_files(table)
    assert len(files) == 20
    for partition in range(20):
        found = table.scan(filter=f"s = {partition}").to_arrow()["id"].to_pylist()
        expected = [
            i
            for n in range(10)
            for i, s in zip(*rows(1000 * n, 4 if n < 5 else 1000).select([0, 1]).to_pydict().values(), strict=True)
            if s == partition
        ]
        assert found == expected
    assert sorted(f.max_sequence_number - f.min_sequence_number + 1 for f in files) == sorted(
        f.row_count for f in files
    )


def test_rows_of_an_append_table_with_few_partitions_are_written_without_spilling(tmp_path: Path) -> None:
    table = create(tmp_path, {"write-buffer-size": "64 kb"}, bucket="-1", keys=False)
    with table.new_write("tester") as write:
        for i in range(10):
            write.write_arrow(rows(1000 * i, 1000))
        assert scratch_files(write) == []
        table.new_commit("tester").commit(write.prepare_commit())
        write.write_arrow(rows(0, 10))
        write.write_arrow(rows(0, 10_000))
    (file,) = data_files(table)
    assert (file.row_count, file.min_sequence_number, file.max_sequence_number) == (10_000, 0, 9_999)
    # Files that were open when the writer ended without a commit are deleted.
    assert [p.name for p in Path(table.location).glob("bucket-0/*")] == [file.file_name]


def test_an_append_table_with_a_buffer_that_cannot_be_spilled_is_flushed(tmp_path: Path) -> None:
    options = {"write-buffer-size": "64 kb", "write-buffer-for-append": "true", "write-buffer-spillable": "false"}
    table = create(tmp_path, options, bucket="-1", keys=False)
    table.append(rows(0, 10))
    with table.new_write("tester") as write:
        for i in range(10):
            write.write_arrow(rows(1000 * i, 1000))
        table.new_commit("tester").commit(write.prepare_commit())
    assert len(data_files(table)) > 3
