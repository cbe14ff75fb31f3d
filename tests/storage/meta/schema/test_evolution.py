"""Columns of files with older schemas are converted to the columns of the schema that is read."""

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from interbed.storage.base.errors import NotSupportedError, SchemaMismatchError
from interbed.storage.base.predicate.expr import And, Comparison, Not, Op, Or
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    parse_atomic,
)
from interbed.storage.meta.schema.evolution import conform, map_fields


def _field(number: int, name: str, kind: str | DataType) -> DataField:
    return DataField(id=number, name=name, type=parse_atomic(kind) if isinstance(kind, str) else kind)


def _cast(values: list[Any], old: str, new: str) -> list[Any]:
    source, target = parse_atomic(old), parse_atomic(new)
    result = conform(pa.array(values, type_to_arrow(source)), source, target, column="c")
    assert result.type == type_to_arrow(target)
    result.validate(full=True)
    return result.to_pylist()


def test_columns_are_matched_by_id_not_by_name() -> None:
    file_fields = [_field(0, "id", "INT"), _field(1, "old name", "STRING"), _field(2, "dropped", "INT")]
    read_fields = [_field(1, "new name", "STRING"), _field(3, "dropped", "INT"), _field(0, "id", "BIGINT")]
    mapping = map_fields(read_fields, file_fields)
    assert [f.name for f in mapping.file_fields] == ["old name", "id"]
    batch = pa.record_batch({"id": pa.array([1, 2], pa.int32()), "old name": pa.array(["a", None])})
    rows = mapping.apply(batch)
    assert rows.schema == pa.schema((("new name", pa.string()), ("dropped", pa.int32()), ("id", pa.int64())))
    assert rows.to_pylist() == [
        {"new name": "a", "dropped": None, "id": 1},
        {"new name": None, "dropped": None, "id": 2},
    ]


def test_a_batch_of_the_same_schema_is_not_copied() -> None:
    fields = [_field(0, "id", "BIGINT"), _field(1, "tags", ArrayType(parse_atomic("STRING")))]
    mapping = map_fields(fields, fields)
    batch = pa.record_batch(
        [pa.array([1, 2]), pa.array([["a"], None], type_to_arrow(fields[1].type))], schema=mapping.schema
    )
    rows = mapping.apply(batch)
    assert rows.equals(batch)
    found, given = rows.column(0).buffers()[1], batch.column(0).buffers()[1]
    assert found is not None
    assert given is not None
    assert found.address == given.address


def test_rows_are_matched_field_by_field_inside_arrays_and_maps() -> None:
    old = RowType((_field(1, "a", "INT"), _field(2, "gone", "INT"), _field(3, "b", "STRING")))
    new = RowType((_field(3, "b2", "STRING"), _field(4, "added", "DATE"), _field(1, "a", "BIGINT")))
    text = AtomicType(parse_atomic("STRING").root, length=20, nullable=False)
    source, target = MapType(text, ArrayType(old)), MapType(text, ArrayType(new))
    rows: list[Any] = [[("k", [{"a": 1, "gone": 9, "b": "x"}, None])], None, [], [("l", None), ("m", [])]]
    for offset in (0, 1, 3):
        array = pa.array(rows, type_to_arrow(source)).slice(offset)
        result = conform(array, source, target, column="c")
        result.validate(full=True)
        assert result.type == type_to_arrow(target)
        expected: list[Any] = [[("k", [{"b2": "x", "added": None, "a": 1}, None])], None, [], [("l", None), ("m", [])]]
        assert result.to_pylist() == expected[offset:]


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_nested_types_may_differ_in_field_names_and_nullability(offset: int) -> None:
    logical = ArrayType(ArrayType(AtomicType(parse_atomic("INT").root, nullable=False)))
    stored = pa.list_(pa.field("item", pa.list_(pa.field("array", pa.int32()))))
    array: Any = pa.array([[[1], [2, 3]], None, [], [None, [4]]], stored).slice(offset)
    result = conform(array, logical, logical, column="c")
    result.validate(full=True)
    assert result.type == type_to_arrow(logical)
    assert result.to_pylist() == array.to_pylist()


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("old", "new", "values", "expected"),
    [
        ("TINYINT", "BIGINT", [1, None, -128], [1, None, -128]),
        ("INT", "DOUBLE", [1, -7], [1.0, -7.0]),
        ("FLOAT", "DOUBLE", [0.5, None], [0.5, None]),
        ("INT", "DECIMAL(12, 2)", [3, None], [Decimal("3.00"), None]),
        ("BIGINT", "DECIMAL(4, 1)", [999, 1000], [Decimal("999.0"), None]),
        ("DECIMAL(10, 2)", "DECIMAL(20, 4)", [Decimal("1.25"), None], [Decimal("1.2500"), None]),
        ("DECIMAL(10, 2)", "DECIMAL(3, 1)", [Decimal("1.25"), Decimal("-1.25"), Decimal("100.00")], [
            Decimal("1.3"),
            Decimal("-1.3"),
            None,
        ]),
        ("VARCHAR(3)", "STRING", ["äöü", None], ["äöü", None]),
        ("STRING", "VARCHAR(2)", ["äöü", "a"], ["äö", "a"]),
        ("INT", "STRING", [5, None], ["5", None]),
        ("BOOLEAN", "STRING", [True, False], ["true", "false"]),
        ("BYTES", "VARBINARY(2)", [b"abc"], [b"ab"]),
    ],
)  # fmt: skip
def test_values_are_cast_to_a_changed_type(old: str, new: str, values: list[Any], expected: list[Any]) -> None:
    assert _cast(values, old, new) == expected


def test_timestamps_get_the_unit_and_zone_of_their_column() -> None:
    for text in ("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9) WITH LOCAL TIME ZONE"):
        logical = parse_atomic(text)
        for stored in (pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.timestamp("ms", "Europe/Berlin")):
            array = pa.array([1_500, None], pa.int64()).cast(pa.timestamp("ms")).cast(pa.timestamp(stored.unit))
            result = conform(array.view(pa.int64()).view(stored), logical, logical, column="c")
            assert result.type == type_to_arrow(logical)
            millis = result.view(pa.int64()).cast(pa.int64()).to_pylist()[0]
            assert millis == 1_500 * {"ms": 1, "us": 1_000, "ns": 1_000_000}[result.type.unit]


def test_a_change_without_a_cast_is_refused_by_column() -> None:
    with pytest.raises(NotSupportedError, match="'born' can't be read as DATE: its files hold BOOLEAN"):
        conform(pa.array([True]), parse_atomic("BOOLEAN"), parse_atomic("DATE"), column="born")
    with pytest.raises(NotSupportedError, match="'born'"):
        conform(pa.array(["x"]), parse_atomic("STRING"), ArrayType(parse_atomic("STRING")), column="born")


def test_the_error_names_a_value_that_cannot_be_cast_and_its_column() -> None:
    with pytest.raises(SchemaMismatchError, match=r"'c' can't be read as INT: its type was STRING, .* 'x' is no INT"):
        _cast(["1", "x"], "STRING", "INT")
    with pytest.raises(SchemaMismatchError, match="nan is no DECIMAL"):
        _cast([1.0, float("nan")], "DOUBLE", "DECIMAL(4, 2)")
    with pytest.raises(SchemaMismatchError, match="too many digits, and the column admits no nulls"):
        _cast([1, 1000], "INT NOT NULL", "DECIMAL(2, 0) NOT NULL")
    with pytest.raises(SchemaMismatchError, match="beyond what TIMESTAMP\\(9\\) holds"):
        _cast([date(9999, 12, 31)], "DATE", "TIMESTAMP(9)")


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_nested_values_of_a_sliced_batch_are_cast_to_text(offset: int) -> None:
    point = RowType((_field(1, "a", "INT"), _field(2, "b", ArrayType(parse_atomic("DOUBLE")))))
    for source, values, texts in (
        (point, [{"a": 1, "b": [1.0, None]}, None, {"a": None, "b": []}], ["{1, [1.0, null]}", None, "{null, []}"]),
        (ArrayType(point), [[None], [], None], ["[null]", "[]", None]),
        (MapType(parse_atomic("INT"), point), [None, [(1, None)], []], [None, "{1 -> null}", "{}"]),
    ):
        array: pa.Array[Any] = pa.array(values, type_to_arrow(source))
        result = conform(array.slice(offset), source, parse_atomic("STRING"), column="c")
        result.validate(full=True)
        assert result.to_pylist() == texts[offset:]


def test_a_filter_is_translated_to_the_files_names_where_types_agree() -> None:
    read = [_field(0, "a", "INT"), _field(1, "b", "BIGINT"), _field(2, "c", "INT")]
    mapping = map_fields(read, [_field(0, "was_a", "INT NOT NULL"), _field(1, "b", "INT")])
    a, b, c = (Comparison(Op.GT, name, 5) for name in "abc")
    was_a = Comparison(Op.GT, "was_a", 5)
    assert mapping.file_predicate(And((a, b, c))) == was_a
    assert mapping.file_predicate(And((a, Or((a, c))))) == was_a
    assert mapping.file_predicate(Not(a)) == Comparison(Op.LE, "was_a", 5)
    assert mapping.file_predicate(None) is None
