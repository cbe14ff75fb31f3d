"""Changes of nested fields and of column defaults."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.storage.base.errors import InterbedError, InvalidInputError, NotSupportedError
from interbed.storage.base.types.data_type import (
    ArrayType,
    AtomicType,
    DataField,
    RowType,
    TypeRoot,
    field_to_json,
    parse_atomic,
)
from interbed.storage.meta.schema.change import (
    AddColumn,
    DropColumn,
    Position,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
)
from interbed.storage.meta.schema.table_schema import Schema, TableSchema
from interbed.storage.table.option_rules import changed_schema
from interbed.storage.table.table import Table

INT = AtomicType(TypeRoot.INT)
BIGINT = AtomicType(TypeRoot.BIGINT)
STRING = parse_atomic("STRING")

POINT = pa.struct([("x", pa.int32()), ("y", pa.int32())])
COLUMNS = pa.schema(
    [
        ("id", pa.int32()),
        ("s", POINT),
        ("a", pa.list_(POINT)),
        ("m", pa.map_(pa.string(), pa.list_(pa.field("element", POINT)))),
        ("k", pa.map_(POINT, pa.int32())),
        ("n", pa.list_(pa.int32())),
    ]
)


def nested() -> TableSchema:
    return Schema.from_pyarrow_schema(COLUMNS).to_table_schema()


def test_fields_are_changed_at_any_depth_and_ids_are_never_reused() -> None:
    changed = changed_schema(
        nested(),
        [
            AddColumn(("s", "z"), STRING, "third", Position(after="x")),
            DropColumn(("a", "element", "y")),
            AddColumn(("a", "element", "y"), RowType((DataField(id=0, name="deep", type=INT),))),
            RenameColumn(("m", "value", "element", "x"), "left"),
            UpdateColumnType(("m", "value", "element", "y"), BIGINT),
            UpdateColumnPosition(("m", "value", "element", "y"), Position()),
            UpdateColumnComment(("m", "value", "element", "left"), "to the left"),
            UpdateColumnType(("n", "element"), BIGINT),
        ],
        time_millis=1,
    )
    highest = nested().highest_field_id
    told = {f.name: field_to_json(f)["type"] for f in changed.fields}

    assert [f["name"] for f in told["s"]["fields"]] == ["x", "z", "y"]
    assert told["s"]["fields"][1] == {"id": highest + 1, "name": "z", "type": "STRING", "description": "third"}
    again = told["a"]["element"]["fields"][1]
    assert (again["name"], again["id"]) == ("y", highest + 2)
    assert again["type"]["fields"] == [{"id": highest + 3, "name": "deep", "type": "INT"}]
    y, left = told["m"]["value"]["element"]["fields"]
    assert (y["name"], y["type"]) == ("y", "BIGINT")
    assert (left["name"], left["description"]) == ("left", "to the left")
    assert told["n"]["element"] == "BIGINT"
    assert changed.highest_field_id == highest + 3


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (AddColumn(("s", "x"), INT), InvalidInputError, "'s.x' already"),
        (AddColumn(("s", "z"), INT.with_nullable(False)), InvalidInputError, "NOT NULL"),
        (AddColumn(("s", "z"), INT, position=Position(after="id")), InvalidInputError, "'id'"),
        (AddColumn(("a", "z"), INT), InvalidInputError, "no field of a ROW"),
        (AddColumn(("k", "key", "z"), INT), NotSupportedError, "part of a map's key"),
        (DropColumn(("s", "nope")), InvalidInputError, "'s.nope'"),
        (DropColumn(("n", "element")), InvalidInputError, "no field of a ROW"),
        (RenameColumn(("s", "x"), "y"), InvalidInputError, "'s.y' already"),
        (UpdateColumnType(("s", "x"), AtomicType(TypeRoot.DATE)), NotSupportedError, "INT to DATE"),
        (UpdateColumnType(("k", "key"), BIGINT), NotSupportedError, "part of a map's key"),
        (UpdateColumnType(("n", "value"), BIGINT), InvalidInputError, "'element'"),
        (UpdateColumnType(("id", "element"), BIGINT), InvalidInputError, "nothing is nested"),
        (UpdateColumnNullability(("s", "x"), False), InvalidInputError, "NOT NULL"),
        (UpdateColumnDefault("id", "'five'"), InvalidInputError, "'id'"),
        (UpdateColumnDefault("s", "{1}"), InvalidInputError, "1 fields, not 2"),
    ],
)
def test_invalid_changes_are_refused(change: SchemaChange, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        changed_schema(nested(), [change])


def test_dropping_the_last_field_is_refused() -> None:
    one = changed_schema(nested(), [DropColumn(("s", "x"))])
    with pytest.raises(InvalidInputError, match="only one"):
        changed_schema(one, [DropColumn(("s", "y"))])


def test_options_allow_changes_that_may_lose_data() -> None:
    loose = changed_schema(
        nested(),
        [
            SetOption("alter-column-null-to-not-null.disabled", "false"),
            UpdateColumnType("id", STRING),
            UpdateColumnType("n", STRING),
            UpdateColumnNullability(("s", "x"), False),
        ],
    )
    assert loose.by_name["id"].type == STRING
    assert loose.by_name["n"].type == STRING
    strict = changed_schema(nested(), [SetOption("disable-explicit-type-casting", "true")])
    assert changed_schema(strict, [UpdateColumnType("id", BIGINT)]).by_name["id"].type == BIGINT
    with pytest.raises(NotSupportedError, match="'disable-explicit-type-casting' is true"):
        changed_schema(strict, [UpdateColumnType("id", STRING)])
    with pytest.raises(NotSupportedError, match="from ARRAY<INT> to ARRAY<BIGINT>: there is no such cast"):
        changed_schema(nested(), [UpdateColumnType("n", ArrayType(BIGINT))])


def test_new_columns_are_added_before_the_partition_columns_when_the_option_is_set() -> None:
    schema = Schema.from_pyarrow_schema(
        pa.schema((("id", pa.int32()), ("dt", pa.string()))),
        partition_keys=["dt"],
        options={"add-column-before-partition": "true"},
    ).to_table_schema()
    assert changed_schema(schema, [AddColumn("v", INT)]).names == ("id", "v", "dt")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    return catalog.create_table("db.t", COLUMNS)


def alter(table: Table, *changes: SchemaChange) -> Table:
    table.store.schemas.change(changes)
    return Table(table.name, table.store.refreshed())


ROW: dict[str, Any] = {
    "id": 1,
    "s": {"x": 1, "y": 2},
    "a": [{"x": 3, "y": 4}, None],
    "m": [("p", [{"x": 5, "y": 6}])],
    "k": [({"x": 7, "y": 8}, 9)],
    "n": [10, None],
}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_files_of_older_schemas_are_read_by_field_id(table: Table, file_format: str) -> None:
    table.copy({"file.format": file_format}).append(pa.Table.from_pylist([ROW], COLUMNS))
    table = alter(
        table,
        RenameColumn(("s", "x"), "east"),
        DropColumn(("a", "element", "x")),
        AddColumn(("a", "element", "x"), STRING),
        AddColumn(("m", "value", "element", "z"), BIGINT, position=Position()),
        UpdateColumnType(("n", "element"), BIGINT),
    )
    assert table.scan().to_arrow().to_pylist() == [
        {
            "id": 1,
            "s": {"east": 1, "y": 2},
            "a": [{"y": 4, "x": None}, None],
            "m": [("p", [{"z": None, "x": 5, "y": 6}])],
            "k": [({"x": 7, "y": 8}, 9)],
            "n": [10, None],
        }
    ]


def test_a_default_replaces_nulls_of_later_rows(table: Table) -> None:
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    table = alter(
        table,
        UpdateColumnDefault("s", "STRUCT(1, NULL)"),
        UpdateColumnDefault("m", "{a -> [{1, 2}]}"),
        UpdateColumnDefault("n", "ARRAY(1, 2)"),
        AddColumn("words", STRING),
        UpdateColumnDefault("words", "'it's, or not'"),
    )
    table.append(pa.table({"id": pa.array([2], pa.int32())}))
    old, new = table.scan(columns=["id", "s", "m", "n", "words"]).to_arrow().sort_by("id").to_pylist()

    assert old == {"id": 1, "s": None, "m": None, "n": None, "words": None}
    assert new == {
        "id": 2,
        "s": {"x": 1, "y": None},
        "m": [("a", [{"x": 1, "y": 2}])],
        "n": [1, 2],
        "words": "it's, or not",
    }
    without = alter(table, UpdateColumnDefault("n", None))
    assert without.schema.by_name["n"].default_value is None


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("BOOLEAN", "yes", True),
        ("DECIMAL(5, 2)", "'1.25'", 1.25),
        ("DOUBLE", "1e3", 1000.0),
        ("DATE", "'2026-01-31'", "2026-01-31"),
        ("TIMESTAMP(3)", "2026-01-31 10:00:00.5", "2026-01-31 10:00:00.500000"),
        ("BYTES", "'ab'", b"ab"),
    ],
)
def test_defaults_are_parsed_as_in_java(kind: str, text: str, expected: object) -> None:
    from interbed.storage.base.types.default_value import default_scalar

    found = default_scalar(text, parse_atomic(kind), column="c").as_py()
    assert (str(found) if isinstance(expected, str) else found) == expected


def test_a_default_that_the_new_type_cannot_represent_refuses_the_change() -> None:
    schema = changed_schema(nested(), [UpdateColumnDefault("id", "5")])
    assert changed_schema(schema, [UpdateColumnType("id", BIGINT)]).by_name["id"].default_value == "5"
    with pytest.raises(InterbedError):
        changed_schema(schema, [UpdateColumnType("id", AtomicType(TypeRoot.TIMESTAMP))])
