"""Splits are read as the merged rows of their records, for any format, schema and overlap of the files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interbed
from interbed.storage.base.errors import CorruptFileError, InvalidInputError, NotSupportedError, StorageAccessError
from interbed.storage.base.predicate.grammar import parse_filter
from interbed.storage.files.format.readers import reader_for
from interbed.storage.lsm.compact.rewriter import kv_batches
from interbed.storage.lsm.file_read import block_rows
from interbed.storage.lsm.levels import SortedRun, interval_partition
from interbed.storage.lsm.merge_read import MergeRead, file_ages, merge_function_for
from interbed.storage.lsm.sort_merge import BLOCK_ROWS
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from interbed.storage.read.table_read import TableRead
from tests.storage.read.kv_table import KeyValueTable, Record, Row
from tests.support.examples import examples

SCHEMA = pa.schema(
    (pa.field("id", pa.int32(), nullable=False), pa.field("name", pa.string()), pa.field("amount", pa.int64()))
)
FORMATS = ("parquet", "orc", "avro")
SIZES = (40, 3, 500, 90)


def _table(path: Path, **options: str) -> KeyValueTable:
    return KeyValueTable.create(path, SCHEMA, ["id"], **options)


def _rows(table: KeyValueTable, *, raw: bool = False, columns: Any = None, where: str | None = None) -> list[Row]:
    store = table.store()
    predicate = None if where is None else parse_filter(where, store.schema.fields)
    reader = TableRead(store, columns, predicate).to_reader([table.split(raw=raw)], threads=1)
    return sorted(tuple(r.values()) for r in reader.read_all().to_pylist())


def _records(ids: range, sequence: int, name: str, kind: int = 0) -> list[Record]:
    return [Record((i, f"{name}{i}", i * 10), sequence + n, kind) for n, i in enumerate(ids)]


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("thin", [False, True])
def test_newer_records_replace_and_delete_older_ones(tmp_path: Path, file_format: str, thin: bool) -> None:
    table = _table(tmp_path)
    table.add_file(_records(range(10), 0, "a"), file_format=file_format, thin=thin, level=5)
    table.add_file(_records(range(3, 6), 10, "b"), file_format=file_format, thin=thin)
    table.add_file(_records(range(5, 8), 13, "c", kind=3), file_format=file_format, thin=thin)
    expected = [(i, f"{'b' if i in (3, 4) else 'a'}{i}", i * 10) for i in range(10) if i not in (5, 6, 7)]
    assert _rows(table) == expected
    assert _rows(table, columns=["amount"]) == [(r[2],) for r in expected]
    assert _rows(table, where="amount >= 30 and name like 'a%'") == [r for r in expected if r[2] >= 30 and r[1] < "b"]


def test_a_split_may_mix_file_formats(tmp_path: Path) -> None:
    table = _table(tmp_path)
    for turn, file_format in enumerate(FORMATS):
        table.add_file(_records(range(turn, 6), turn * 10, file_format), file_format=file_format)
    names = {0: "parquet", 1: "orc"}
    assert [r[1] for r in _rows(table)] == [f"{names.get(i, 'avro')}{i}" for i in range(6)]


def test_row_kinds_are_read_when_the_count_of_deletes_is_unknown(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.add_file([*_records(range(2), 0, "a"), *_records(range(2, 4), 2, "a", kind=3)], count_deletes=False)
    assert [r[0] for r in _rows(table)] == [0, 1]


def test_interleaved_sequence_numbers_are_compared_record_by_record(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.add_file([Record((1, "a", 1), 5), Record((2, "a", 2), 1), Record((3, "a", 3), 7, 3), Record((4, "a", 4), 9)])
    table.add_file([Record((1, "b", 1), 4), Record((2, "b", 2), 6), Record((3, "b", 3), 7), Record((4, "b", 4), 9, 3)])
    assert _rows(table) == [(1, "a", 1), (2, "b", 2), (3, "b", 3), (4, "a", 4)]


def test_a_sequence_field_takes_precedence_over_sequence_numbers(tmp_path: Path) -> None:
    table = _table(tmp_path, **{"sequence.field": "amount"})
    table.add_file([Record((1, "first", 7), 0), Record((2, "first", None), 1), Record((3, "first", 1), 2)])
    table.add_file([Record((1, "second", 5), 3), Record((2, "second", -9), 4), Record((3, "second", 1), 5)])
    assert _rows(table) == [(1, "first", 7), (2, "second", -9), (3, "second", 1)]


def test_a_filter_on_values_does_not_return_replaced_rows(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.add_file(_records(range(9), 0, "old"), row_group_size=3)
    table.add_file([Record((i, "new", -1), 10 + i) for i in range(9)], row_group_size=3)
    assert _rows(table, where="amount >= 0") == []
    assert _rows(table, where="amount < 0 and id >= 7") == [(7, "new", -1), (8, "new", -1)]


_SEGMENTS = st.lists(
    st.tuples(st.sets(st.integers(0, 30), min_size=1), st.sampled_from([0, 2, 3]), st.booleans()),
    min_size=1,
    max_size=6,
)


@given(segments=_SEGMENTS, rows_of_block=st.sampled_from([1, 2, 5, 1000]), low=st.integers(0, 30))
@settings(max_examples=examples(60), deadline=None)
def test_any_files_read_with_any_block_size_equal_the_model(
    tmp_path_factory: pytest.TempPathFactory, segments: list[tuple[set[int], int, bool]], rows_of_block: int, low: int
) -> None:
    table = _table(tmp_path_factory.mktemp("t"))
    model: dict[int, Row] = {}
    sequence = 0
    for turn, (ids, kind, counted) in enumerate(segments):
        records = [Record((i, f"t{turn}", i), sequence + n, kind) for n, i in enumerate(sorted(ids))]
        sequence += len(records)
        table.add_file(records, count_deletes=counted)
        for record in records:
            if kind == 3:
                model.pop(record.row[0], None)
            else:
                model[record.row[0]] = record.row
    expected = sorted(model.values())
    assert _rows(table) == expected
    assert _rows(table, where=f"id >= {low}") == [r for r in expected if r[0] >= low]
    store = table.store()
    merge = MergeRead(store, store.schema.fields, merge_function_for(store, drop_deletes=True))
    for ordered in (True, False):
        got = [
            tuple(row.values())
            for section in interval_partition(table.files, store.schema.key_types)
            for batch in merge.section(section, table.split().path_of, ordered=ordered, rows_of_block=rows_of_block)
            for row in batch.to_pylist()
        ]
        assert (got if ordered else sorted(got)) == expected


def test_compaction_reads_whole_records_in_key_order(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.add_file([Record((1, "a", 1), 0), Record((2, "a", 2), 1), Record((9, "a", 9), 2)], level=5)
    table.add_file([Record((2, "b", 2), 3, 2), Record((3, "b", 3), 4, 3)])
    store = table.store()
    sections = interval_partition(table.files, store.schema.key_types)
    kept = pa.Table.from_batches(kv_batches(store, sections, table.split().path_of, drop_deletes=False))
    assert kept.column_names == ["_KEY_id", SEQUENCE_NUMBER, VALUE_KIND, "id", "name", "amount"]
    assert [tuple(r.values()) for r in kept.to_pylist()] == [
        (1, 0, 0, 1, "a", 1),
        (2, 3, 2, 2, "b", 2),
        (3, 4, 3, 3, "b", 3),
        (9, 2, 0, 9, "a", 9),
    ]
    dropped = pa.Table.from_batches(kv_batches(store, sections, table.split().path_of, drop_deletes=True))
    assert dropped.column("_KEY_id").to_pylist() == [1, 2, 9]


def _file(name: str, sequences: tuple[int, int] = (0, 0), size: int = 1) -> DataFileMeta:
    return DataFileMeta(
        file_name=name,
        file_size=size,
        row_count=1,
        min_sequence_number=sequences[0],
        max_sequence_number=sequences[1],
        schema_id=0,
        level=0,
        creation_time_millis=0,
    )


def _run(*ranges: tuple[int, int], name: str) -> SortedRun:
    return SortedRun(files=tuple(_file(f"{name}{i}", sequences) for i, sequences in enumerate(ranges)))


def test_ages_follow_sequences_and_are_none_where_runs_overlap() -> None:
    base = _run((0, 50), (10, 60), name="base")
    assert file_ages([_run((61, 70), name="new"), base]) == {"base0": 0, "base1": 1, "new0": 2}
    assert file_ages([base, _run((60, 70), name="new")]) is None
    assert file_ages([_run((5, 5), name="x"), base]) is None
    assert file_ages([base]) == {"base0": 0, "base1": 1}


def test_wide_rows_and_many_readers_make_blocks_smaller() -> None:
    narrow = _file("narrow")
    assert block_rows([narrow]) == block_rows([narrow], readers=2) == block_rows([narrow], readers=8) == BLOCK_ROWS
    wide = _file("wide", size=2_000)
    assert block_rows([wide], readers=8) == block_rows([wide]) // 4
    assert block_rows([wide]) < BLOCK_ROWS // 10
    assert block_rows([_file("empty", size=0)]) == BLOCK_ROWS
    assert block_rows([_file("huge", size=1 << 40)]) > 0


def test_the_error_names_a_missing_file_and_a_likely_cause(tmp_path: Path) -> None:
    table = _table(tmp_path)
    meta = table.add_file(_records(range(3), 0, "a"))
    (tmp_path / "bucket-0" / meta.file_name).unlink()
    with pytest.raises(StorageAccessError, match=r"data-0\.parquet is missing: the snapshot .* expired"):
        _rows(table)


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("damage", ["empty", "cut", "text"])
def test_the_error_names_a_damaged_file(tmp_path: Path, file_format: str, damage: str) -> None:
    table = _table(tmp_path)
    meta = table.add_file(_records(range(50), 0, "a"), file_format=file_format)
    path = tmp_path / "bucket-0" / meta.file_name
    content = path.read_bytes()
    path.write_bytes({"empty": b"", "cut": content[: len(content) // 2], "text": b"not a data file" * 20}[damage])
    with pytest.raises(CorruptFileError, match=f"data-0.{file_format} can't be decoded"):
        _rows(table)


def test_files_that_this_version_cannot_read_are_refused_by_name(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.add_file(_records(range(3), 0, "a"))
    with pytest.raises(InvalidInputError, match="no column 'nme'; it has id, name, amount"):
        TableRead(table.store(), ["nme"])
    with pytest.raises(
        NotSupportedError, match=r"data-0\.lance is of the format 'lance'; this version reads avro, orc"
    ):
        reader_for("lance", "data-0.lance")


@pytest.mark.parametrize("merged", [False, True])
def test_a_limit_reads_the_first_rows_of_one_split_in_small_blocks(tmp_path: Path, merged: bool) -> None:
    table = _table(tmp_path)
    table.add_file(_records(range(20_000), 0, "a"), level=5)
    if merged:
        table.add_file(_records(range(0, 20_000, 2), 20_000, "b"))
    split = table.split(raw=not merged)
    read = TableRead(table.store())
    without = next(read.to_batches(split)).num_rows
    reader = read.to_reader([split, split], limit=5)
    first = reader.read_next_batch()
    reader.close()
    assert 5 <= first.num_rows < min(without, 5_000)
    expected = [{"id": i, "name": f"{'a' if i % 2 or not merged else 'b'}{i}", "amount": i * 10} for i in range(20_000)]
    assert all(row in expected for row in first.slice(0, 5).to_pylist())


def test_the_largest_splits_are_read_first_when_there_are_more_than_threads(tmp_path: Path) -> None:
    table = _table(tmp_path)
    files = [table.add_file(_records(range(10_000 * n, 10_000 * n + rows), 1, "x")) for n, rows in enumerate(SIZES)]
    splits = [replace(table.split(raw=True), files=(file,)) for file in files]
    read = TableRead(table.store(), ["id"])

    def turns(threads: int) -> list[int]:
        ids: Any = read.to_reader(splits, threads=threads).read_all()["id"].to_pylist()
        return list(dict.fromkeys(i // 10_000 for i in ids))

    assert turns(1) == turns(4) == [0, 1, 2, 3]
    assert turns(2) == [2, 3, 0, 1]


def test_narrow_rows_are_merged_in_longer_blocks(tmp_path: Path) -> None:
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("d")
    table = catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    ids = pa.array(range(2 * BLOCK_ROWS), pa.int32())
    rows = pa.table([ids, ids.cast(pa.string()), ids.cast(pa.int64())], schema=SCHEMA)
    for some in (rows, rows.slice(0, BLOCK_ROWS)):
        table.upsert(some)

    def longest(*columns: str) -> int:
        return max(batch.num_rows for batch in table.scan(columns=columns).to_arrow_batch_reader())

    assert longest("id", "amount") > BLOCK_ROWS >= longest("id", "name")
