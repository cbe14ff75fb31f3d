"""Merging of the columns of rows into a schema."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.storage.base.errors import SchemaMismatchError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.format import MERGE_SCHEMA, TYPE_WIDENING
from interbed.storage.meta.schema.change import AddColumn
from interbed.storage.table.table import Table

POINT = pa.struct([("x", pa.int32())])


def _table(tmp_path: Path, fields: list[tuple[str, Any]], **options: str) -> Table:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    given = {key.replace("_", "-").replace("--", "."): value for key, value in options.items()}
    catalog.create_table("db.t", pa.schema(fields), options=given)
    return catalog.get_table("db.t")


def _newest(table: Table) -> Table:
    return Table(table.name, table.store.refreshed())


def test_columns_and_nested_fields_are_added_and_types_widened(tmp_path: Path) -> None:
    table = _table(
        tmp_path, [("id", pa.int32()), ("p", POINT), ("l", pa.list_(POINT)), ("m", pa.map_(pa.string(), POINT))]
    )
    table.append(pa.table({"id": pa.array([1], pa.int32()), "p": pa.array([{"x": 1}], POINT)}))
    wider = pa.struct([("y", pa.string()), ("x", pa.int64())])
    rows = pa.table(
        {
            "n": ["new"],
            "id": pa.array([2], pa.int64()),
            "p": pa.array([{"x": 2, "y": "a"}], wider),
            "l": pa.array([[{"x": 3, "y": "b"}]], pa.list_(wider)),
            "m": pa.array([[("k", {"x": 4, "y": "c"})]], pa.map_(pa.string(), wider)),
        }
    )

    assert table.append(rows, merge_schema=True) == 2
    assert _newest(table).scan().to_arrow().to_pylist() == [
        {"id": 1, "p": {"x": 1, "y": None}, "l": None, "m": None, "n": None},
        {"id": 2, "p": {"x": 2, "y": "a"}, "l": [{"x": 3, "y": "b"}], "m": [("k", {"x": 4, "y": "c"})], "n": "new"},
    ]


def test_rows_that_fit_change_no_schema(tmp_path: Path) -> None:
    table = _table(tmp_path, [("id", pa.int64()), ("v", pa.string())], write__merge_schema="true")
    nulls = pa.table({"id": pa.array([1], pa.int8()), "v": pa.nulls(1)})

    table.append(nulls)
    table.append(pa.table({"v": pa.array(["a"]).dictionary_encode()}))
    assert _newest(table).schema.id == 0
    table.append(pa.table({"w": [1]}))
    assert _newest(table).field_names == ["id", "v", "w"]
    with pytest.raises(SchemaMismatchError, match="unknown column"):
        table.append(pa.table({"z": [1]}), merge_schema=False)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"k": pa.array([1], pa.int64())}, "'k' is INT, the rows have BIGINT .* bucket key column can't be changed"),
        ({"v": ["text"]}, "'v' is INT, the rows have STRING .*explicit-cast"),
        ({"p": [1]}, "'p' is ROW, the rows have BIGINT"),
        ({"V": [1]}, "'V' differs from 'v', which exists already, by case alone"),
        ({"new": [1], "New": [1]}, "both 'new' and 'New'"),
        ({"p": pa.array([{"x": "t"}])}, "'p.x' is INT, the rows have STRING"),
    ],
)
def test_a_failed_merge_changes_nothing(tmp_path: Path, rows: dict[str, Any], message: str) -> None:
    fields = [("k", pa.int32()), ("v", pa.int32()), ("p", POINT)]
    table = _table(tmp_path, fields, bucket="1", bucket_key="k")

    with pytest.raises(SchemaMismatchError, match=message):
        table.append(pa.table({"also": [1], **rows}), merge_schema=True)
    assert _newest(table).schema.id == 0
    assert table.latest_snapshot() is None


def test_an_explicit_cast_changes_the_column_to_the_type_of_the_rows(tmp_path: Path) -> None:
    table = _table(tmp_path, [("v", pa.int64())])
    table.append(pa.table({"v": [7]}))

    table.merge_schema(pa.schema([("v", pa.int32())]), explicit_cast=True)
    assert table.schema.id == 0, "a type that holds the rows' values stays"
    table.merge_schema(pa.schema([("v", pa.string())]), explicit_cast=True)
    table.append(pa.table({"v": ["x"]}))
    assert table.scan().to_arrow().sort_by("v")["v"].to_pylist() == ["7", "x"]


def test_types_are_kept_when_widening_is_off(tmp_path: Path) -> None:
    table = _table(tmp_path, [("v", pa.int32())]).copy({MERGE_SCHEMA: "true", TYPE_WIDENING: "false"})

    table.append(pa.table({"v": pa.array([1], pa.int64()), "w": [1]}))
    assert [str(f.type) for f in _newest(table).arrow_schema] == ["int32", "int64"]
    with pytest.raises(SchemaMismatchError, match="2147483647"):
        table.append(pa.table({"v": [2**40]}))


def test_another_writer_may_add_the_same_column_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path, [("v", pa.int32())])
    other = _newest(table)
    alter = FileStore.alter

    def late(store: FileStore, changes: Any) -> None:
        monkeypatch.setattr(FileStore, "alter", alter)
        added = next(c for c in changes if isinstance(c, AddColumn))
        other.store.alter([added])
        alter(store, changes)

    monkeypatch.setattr(FileStore, "alter", late)
    table.append(pa.table({"w": [1], "x": [2]}), merge_schema=True)
    assert _newest(table).scan().to_arrow().to_pylist() == [{"v": None, "w": 1, "x": 2}]


def test_kinds_of_changes_can_be_given_as_texts(tmp_path: Path) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("v", pa.int32())])
    catalog.create_table("db.t", schema, primary_keys=["id"], options={"bucket": "1"})
    table = catalog.get_table("db.t")
    table.append(pa.table({"id": [1, 2], "v": [1, 2]}, schema=schema))

    rows = pa.table({"id": pa.array([1, 3], pa.int32()), "w": [1, 3], "_row_kind": ["-D", "+I"]})
    table.write_changes(rows, merge_schema=True)
    assert catalog.get_table("db.t").scan().to_arrow().to_pylist() == [
        {"id": 2, "v": 2, "w": None},
        {"id": 3, "v": None, "w": 3},
    ]
