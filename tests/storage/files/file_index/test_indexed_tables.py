"""Tables with file indexes: where indexes are written, which files they exclude, and that rows stay correct."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interbed
from interbed.storage.base.errors import CorruptFileError, InvalidOptionError
from interbed.storage.base.predicate.grammar import parse_filter
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.files.format.parquet import ParquetReader
from interbed.storage.lsm.file_read import FileRead, ReadOptions
from interbed.storage.meta.schema.change import AddColumn, RemoveOption, RenameColumn
from interbed.storage.scan.scan import TableScan
from interbed.storage.table.table import Table
from tests.support.examples import examples

SCHEMA = pa.schema(
    (pa.field("id", pa.int64(), nullable=False), pa.field("city", pa.string()), pa.field("amount", pa.int32()))
)
BOTH = {
    "file-index.bloom-filter.columns": "id",
    "file-index.bloom-filter.id.items": "1000",
    "file-index.bitmap.columns": "city",
}


def make(tmp_path: Path, options: dict[str, str], *, primary_keys: list[str] | None = None) -> Table:
    catalog = interbed.load_catalog("lake", warehouse=f"file:{tmp_path}")
    catalog.create_database("d", ignore_if_exists=True)
    bucket = {"bucket": "1", **({} if primary_keys else {"bucket-key": "amount"})}
    return catalog.create_table("d.t", SCHEMA, primary_keys=primary_keys or [], options={**bucket, **options})


def rows(ids: "list[int]", cities: "list[str | None]") -> pa.Table:
    return pa.table({"id": ids, "city": cities, "amount": pa.array([1] * len(ids), pa.int32())}, schema=SCHEMA)


def files(table: Table) -> list[Any]:
    return [f for split in table.new_scan().plan().splits for f in split.files]


def spoil(table: Table, which: int) -> None:
    """Overwrite a data file with garbage, so that any reader that opens it fails."""
    split = table.new_scan().plan().splits[0]
    Path(split.path_of(split.files[which])).write_bytes(b"not a data file")


def found(table: Table, text: str) -> list[int]:
    column: Any = table.scan(columns=["id"], filter=text).to_arrow().column("id")
    return sorted(column.to_pylist())


@pytest.mark.parametrize("threshold", ["1 mb", "0 b"])
def test_a_file_excluded_by_its_index_is_not_opened(tmp_path: Path, threshold: str) -> None:
    table = make(tmp_path, {**BOTH, "file-index.in-manifest-threshold": threshold})
    table.append(rows([1, 9], ["Berlin", "Rome"]))
    table.append(rows([2, 8], ["Oslo", None]))
    embedded = [f.embedded_file_index is not None for f in files(table)]
    beside = [f.extra_files for f in files(table)]
    if threshold == "0 b":
        assert embedded == [False, False]
        assert beside == [(f.file_name + ".index",) for f in files(table)]
    else:
        assert (embedded, beside) == ([True, True], [(), ()])
    spoil(table, 0)
    # By their statistics, all of these values could be in either file.
    assert found(table, "id = 8") == [8]
    assert found(table, "id in (2, 5)") == [2]
    assert found(table, "city = 'Oslo'") == [2]
    assert found(table, "city = 'Oslo' or id = 8") == [2, 8]
    assert found(table, "city is null") == [8]
    with pytest.raises(CorruptFileError):
        found(table, "city <> 'Oslo'")
    with pytest.raises(CorruptFileError):
        found(table.copy({"file-index.read.enabled": "false"}), "id = 8")


def test_explain_reports_the_files_left_by_indexes(tmp_path: Path) -> None:
    table = make(tmp_path, {**BOTH, "file-index.in-manifest-threshold": "1 mb"})
    table.append(rows([1, 9], ["Berlin", "Rome"]))
    table.append(rows([2, 8], ["Oslo", None]))
    plan = table.new_scan(predicate=parse_filter("id = 8", table.fields)).plan()
    assert (plan.statistics.files_after_statistics, plan.statistics.files_after_indexes) == (2, 1)
    assert "file indexes 1 left" in str(table.explain(filter="id = 8"))
    beside = make(tmp_path / "other", {**BOTH, "file-index.in-manifest-threshold": "0 b"})
    beside.append(rows([1], ["a"]))
    assert "file indexes 1 left, 1 with an index to look at" in str(beside.explain())


def test_a_bitmap_selects_rows_and_skips_row_groups(tmp_path: Path) -> None:
    table = make(tmp_path, {"file-index.bitmap.columns": "city"})
    count = 300_000
    table.append(rows(list(range(count)), ["rare" if i == 200_000 else "often" for i in range(count)]))
    query = table.scan(filter="city = 'rare'")
    assert query.to_arrow().column("id").to_pylist() == [200_000]
    (split,) = table.new_scan().plan().splits
    (file,) = split.files
    read = FileRead(table.store, table.fields)
    chosen = read.selected(file, split.path_of(file), parse_filter("city = 'rare'", table.fields)).positions()
    batches = list(read.batches(file, split.path_of(file), ReadOptions(batch_rows=count, wanted=chosen)))
    assert [b.column("id").to_pylist() for b in batches if b.num_rows] == [[200_000]]
    parts = ParquetReader().positioned(
        split.path_of(file), table.fields, file_io=table.store.file_io, batch_rows=count, wanted=chosen
    )
    # Row groups and pages without any of the rows are not read.
    ((position, batch),) = parts
    assert 0 <= 200_000 - position < batch.num_rows <= 20_000


def test_rows_of_a_primary_key_table_are_found_through_updates_and_deletions(tmp_path: Path) -> None:
    options = {**BOTH, "deletion-vectors.enabled": "true", "file-index.in-manifest-threshold": "1 mb"}
    table = make(tmp_path, options, primary_keys=["id"])
    table.upsert(rows([1, 2, 3], ["Oslo", "Rome", "Oslo"]))
    table.upsert(rows([1, 4], ["Rome", "Oslo"]))
    table.delete("id = 3")
    assert found(table, "city = 'Oslo'") == [4]
    assert found(table, "city = 'Rome'") == [1, 2]
    table.compact(full=True)
    assert all(f.embedded_file_index for f in files(table))
    assert found(table, "city = 'Rome'") == [1, 2]
    assert found(table, "id = 3") == []


def test_a_newer_row_without_a_match_hides_an_older_matching_one(tmp_path: Path) -> None:
    table = make(tmp_path, {**BOTH, "write-only": "true"}, primary_keys=["id"])
    table.upsert(rows([1, 5], ["Oslo", "Oslo"]))
    table.upsert(rows([1, 5], ["Rome", "Rome"]))
    assert found(table, "city = 'Oslo'") == []
    assert found(table, "city = 'Rome'") == [1, 5]


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_a_merged_row_is_found_although_none_of_its_files_matches(tmp_path: Path, engine: str) -> None:
    options = {"merge-engine": engine, "write-only": "true", "fields.default-aggregate-function": "last_non_null_value"}
    if engine == "partial-update":
        del options["fields.default-aggregate-function"]
    table = make(tmp_path, {**options, "file-index.bitmap.columns": "city"}, primary_keys=["id"])
    table.upsert(pa.table({"id": [1], "city": ["Oslo"], "amount": pa.array([None], pa.int32())}, schema=SCHEMA))
    table.upsert(pa.table({"id": [1], "city": pa.array([None], pa.string()), "amount": pa.array([7], pa.int32())}))
    assert found(table, "city = 'Oslo' and amount = 7") == [1]


def test_compaction_of_an_append_table_rewrites_indexes(tmp_path: Path) -> None:
    table = make(tmp_path, {**BOTH, "file-index.in-manifest-threshold": "0 b"})
    table.append(rows([1], ["Oslo"]))
    table.append(rows([2], ["Rome"]))
    table.compact(full=True)
    (file,) = files(table)
    assert file.extra_files == (file.file_name + ".index",)
    assert found(table, "city = 'Rome'") == [2]


def test_a_renamed_column_keeps_its_index_and_a_new_column_of_its_name_has_none(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=f"file:{tmp_path}")
    table = make(tmp_path, {**BOTH, "file-index.in-manifest-threshold": "1 mb"})
    table.append(rows([1, 9], ["Oslo", "Rome"]))
    table.append(rows([2, 8], ["Bonn", "Rome"]))
    changes = [
        RemoveOption("file-index.bitmap.columns"),
        RenameColumn("city", "town"),
        AddColumn("city", AtomicType(TypeRoot.VARCHAR, length=20)),
    ]
    catalog.alter_table("d.t", changes)
    table = catalog.get_table("d.t")
    assert found(table, "city is null") == [1, 2, 8, 9]
    spoil(table, 0)
    assert found(table, "town = 'Bonn'") == [2]


def test_an_aborted_write_leaves_no_index_file(tmp_path: Path) -> None:
    table = make(tmp_path, {**BOTH, "file-index.in-manifest-threshold": "0 b"})
    write = table.new_write("u")
    write.write_arrow(rows([1], ["Oslo"]))
    (message,) = write.prepare_commit()
    assert message.data.new_files[0].extra_files
    write.write_arrow(rows([2], ["Oslo"]))
    write.abort()
    left = {p.name for p in Path(table.location).rglob("data-*")}
    assert left == set(message.data.new_files[0].names)


def test_the_error_of_a_missing_or_damaged_index_says_how_to_repair_it(tmp_path: Path) -> None:
    table = make(tmp_path, {**BOTH, "file-index.in-manifest-threshold": "0 b"})
    table.append(rows([1, 9], ["Oslo", "Rome"]))
    (path,) = Path(table.location).rglob("*.index")
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    with pytest.raises(CorruptFileError, match=r"\.index ends within"):
        found(table, "city = 'Rome'")
    path.write_bytes(b"\1" + content[1:])
    with pytest.raises(CorruptFileError, match="is not a file index"):
        found(table, "city = 'Rome'")
    path.unlink()
    with pytest.raises(CorruptFileError, match=r"file-index\.read\.enabled"):
        found(table, "city = 'Rome'")
    assert found(table.copy({"file-index.read.enabled": "false"}), "city = 'Rome'") == [9]


def test_an_invalid_index_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    table = make(tmp_path, {})
    with pytest.raises(InvalidOptionError, match="'town'"):
        table.copy({"file-index.bitmap.columns": "town"}).append(rows([1], ["a"]))
    assert table.latest_snapshot() is None


CITIES = st.none() | st.sampled_from(["a", "b", "c"])
FILTERS = ["city = 'a'", "city <> 'a'", "city in ('a', 'c')", "city not in ('a')", "city is null", "city is not null"]


@settings(deadline=None, max_examples=examples(15))
@given(
    commits=st.lists(st.lists(st.tuples(st.integers(0, 5), CITIES), min_size=1, max_size=6), min_size=1, max_size=4),
    vectors=st.booleans(),
    threshold=st.sampled_from(["0 b", "1 mb"]),
    text=st.sampled_from(FILTERS).flatmap(lambda f: st.sampled_from([f, f"{f} or id = 3", f"({f}) and id > 1"])),
)
def test_a_scan_with_indexes_finds_the_same_rows_as_one_without(
    tmp_path_factory: pytest.TempPathFactory,
    commits: list[list[tuple[int, str | None]]],
    vectors: bool,
    threshold: str,
    text: str,
) -> None:
    options = {
        "file-index.bitmap.columns": "city",
        "file-index.bloom-filter.columns": "city,id",
        "file-index.bsi.columns": "id",
        "file-index.range-bitmap.columns": "id,city",
        "file-index.bloom-filter.id.items": "10",
        "file-index.bloom-filter.city.items": "10",
        "file-index.in-manifest-threshold": threshold,
        "deletion-vectors.enabled": str(vectors).lower(),
    }
    table = make(tmp_path_factory.mktemp("lake"), options, primary_keys=["id"])
    for commit in commits:
        table.upsert(rows([i for i, _ in commit], [c for _, c in commit]))
    plain = table.copy({"file-index.read.enabled": "false"})
    assert found(table, text) == found(plain, text)
    assert TableScan(table.store).plan().statistics.files_planned > 0
