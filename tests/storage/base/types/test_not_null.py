"""Nulls under a null parent do not violate NOT NULL; visible nulls do, and the error names their position."""

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from interbed.storage.base.errors import SchemaMismatchError
from interbed.storage.base.types.arrow import cast_to_schema
from interbed.storage.base.types.nested import NullInsideError, nullable_inside, without_hidden_nulls

REQUIRED_INT = pa.field("n", pa.int32(), nullable=False)
REQUIRED_TEXT = pa.field("s", pa.string(), nullable=False)
INNER = pa.struct([REQUIRED_INT, REQUIRED_TEXT])
INNER_VALUE: Any = pa.field("value", INNER)
REQUIRED_VALUE: Any = pa.field("value", pa.int32(), nullable=False)
TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (INNER, [{"n": 1, "s": "a"}, None, {"n": 2, "s": ""}]),
    (pa.struct([pa.field("r", INNER, nullable=False)]), [None, {"r": {"n": 1, "s": "a"}}, None]),
    (pa.list_(pa.field("element", pa.int32(), nullable=False)), [[1, 2], None, [], [3]]),
    (pa.list_(pa.field("element", INNER)), [[None, {"n": 1, "s": "a"}], None, []]),
    (pa.map_(pa.string(), INNER_VALUE), [[("k", None)], None, [("l", {"n": 1, "s": "a"})]]),
    (pa.map_(pa.string(), REQUIRED_VALUE), [None, [("l", 1), ("m", 2)]]),
    (
        pa.struct([pa.field("t", pa.timestamp("ms"), nullable=False), pa.field("r", INNER)]),
        [{"t": datetime(2024, 2, 29), "r": None}, None],
    ),
    (pa.struct([pa.field("l", pa.list_(REQUIRED_INT), nullable=False)]), [None, {"l": [1]}, {"l": []}]),
]


def with_hidden_nulls(values: list[Any], arrow: pa.DataType) -> Any:
    """An array of the type whose hidden slots are null: the same buffers under another type."""
    source: Any = pa.array(values, nullable_inside(arrow))
    return _retyped(source, arrow)


def _retyped(array: Any, arrow: pa.DataType) -> Any:
    if isinstance(arrow, pa.StructType):
        nothing = array.is_null()
        parts = [_retyped(child, f.type) for child, f in zip(array.flatten(), arrow, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(arrow), mask=nothing)
    if isinstance(arrow, pa.MapType):
        items = _retyped(array.items, arrow.item_type)
        maps: Any = pa.MapArray
        return maps.from_arrays(array.offsets, array.keys, items, type=arrow, mask=array.is_null())
    if isinstance(arrow, pa.ListType):
        values = _retyped(array.values, arrow.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, type=arrow, mask=array.is_null())
    return array


@pytest.mark.parametrize(("arrow", "values"), TYPES, ids=lambda v: str(v)[:40])
@pytest.mark.parametrize("start", [0, 1])
def test_hidden_nulls_are_replaced_and_values_are_kept(arrow: pa.DataType, values: list[Any], start: int) -> None:
    given = with_hidden_nulls(values, arrow).slice(start)
    found = without_hidden_nulls(given, arrow, "c")
    found.validate(full=True)
    assert found.type.equals(arrow)
    assert found.to_pylist() == values[start:]
    assert _nulls_refused(found) == 0


def _nulls_refused(array: Any) -> int:
    """Return the number of null slots in parts declared NOT NULL, hidden or not, as a Parquet writer counts them."""
    if isinstance(array, pa.StructArray):
        children = [(f, array.field(i)) for i, f in enumerate(array.type)]
    elif isinstance(array, pa.MapArray):
        children = [(array.type.item_field, array.items)]
    elif isinstance(array, pa.ListArray):
        children = [(array.type.value_field, array.values)]
    else:
        children = []
    return sum((0 if f.nullable else child.null_count) + _nulls_refused(child) for f, child in children)


@pytest.mark.parametrize(
    ("arrow", "values", "place"),
    [
        (INNER, [None, {"n": None, "s": "a"}], "c.n"),
        (pa.list_(pa.field("element", pa.int32(), nullable=False)), [None, [1, None]], "c.element"),
        (pa.struct([pa.field("r", INNER)]), [{"r": {"n": 1, "s": None}}], "c.r.s"),
        (pa.map_(pa.string(), REQUIRED_VALUE), [[("k", None)]], "c.value"),
    ],
)
def test_a_visible_null_is_refused_with_its_position(arrow: pa.DataType, values: list[Any], place: str) -> None:
    given = with_hidden_nulls(values, arrow)
    with pytest.raises(NullInsideError, match=place):
        without_hidden_nulls(given, arrow, "c")
    with pytest.raises(SchemaMismatchError, match=place):
        cast_to_schema(pa.table({"c": given}), pa.schema([pa.field("c", arrow)]), what="table t")
    # It is refused as well when the data do not declare NOT NULL.
    with pytest.raises(SchemaMismatchError, match="'c'"):
        cast_to_schema(
            pa.table({"c": pa.array(values, nullable_inside(arrow))}), pa.schema([pa.field("c", arrow)]), what="table t"
        )


@pytest.mark.parametrize(("arrow", "values"), TYPES, ids=lambda v: str(v)[:40])
def test_rows_are_cast_whether_or_not_their_types_declare_not_null(arrow: pa.DataType, values: list[Any]) -> None:
    for data in (with_hidden_nulls(values, arrow), with_hidden_nulls(values, nullable_inside(arrow))):
        (batch,) = cast_to_schema(pa.table({"c": data}), pa.schema([pa.field("c", arrow)]), what="table t")
        assert batch.column(0).to_pylist() == values
        assert batch.schema.field("c").type.equals(arrow)


def test_rows_are_cast_beside_hidden_nulls() -> None:
    fields = [pa.field("t", pa.timestamp("s")), pa.field("r", INNER)]
    inner = with_hidden_nulls([None, {"n": 1, "s": "a"}], INNER)
    given = pa.StructArray.from_arrays([pa.array([1, 2], pa.timestamp("s")), inner], fields=fields)
    target = pa.struct([pa.field("t", pa.timestamp("ms"), nullable=False), pa.field("r", INNER)])
    (batch,) = cast_to_schema(pa.table({"c": given}), pa.schema([pa.field("c", target)]), what="table t")
    cast_rows: Any = batch.column(0)
    assert [row["r"] for row in cast_rows.to_pylist()] == [None, {"n": 1, "s": "a"}]
