"""Aggregate functions give the same result for all rows of all keys at once as row by row."""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.data_type import field_from_json
from interbed.storage.lsm.merge_function.api import KeyGroups, Numbers, take_column, validity
from interbed.storage.lsm.merge_function.factory import merge_function_for
from interbed.storage.lsm.merge_function.fields.elements import CollectElements
from interbed.storage.lsm.merge_function.fields.fold import ColumnFold
from interbed.storage.lsm.merge_function.fields.functions import field_function
from interbed.storage.lsm.merge_function.partial_update import PartialUpdate
from interbed.storage.lsm.merge_function.segments import KeyRows, PickedRows
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import Schema
from tests.support.examples import examples

_texts = st.one_of(
    st.sampled_from(["", "a", "a\0", "b", "é"]),
    st.integers(0, 2).map("the same beginning of eight words, and then {}".format),
)
_doubles = st.one_of(st.sampled_from([0.0, -0.0, math.nan, math.inf, 0.1, 0.2, 1e16]), st.floats(width=32))
VALUES: dict[str, tuple[Any, pa.DataType, st.SearchStrategy[Any]]] = {
    "long": ("BIGINT", pa.int64(), st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))),
    "tiny": ("TINYINT", pa.int8(), st.one_of(st.integers(-2, 2), st.integers(-128, 127))),
    "double": ("DOUBLE", pa.float64(), _doubles),
    "float": ("FLOAT", pa.float32(), _doubles),
    # Sums of all rows of a key, at most 7 times 65, have 12 digits, too.
    "short decimal": ("DECIMAL(12, 2)", pa.decimal128(12, 2), st.integers(-2 * 10**9, 2 * 10**9)),
    "decimal": ("DECIMAL(36, 2)", pa.decimal128(36, 2), st.one_of(st.integers(-9, 9), st.integers(-(10**33), 10**33))),
    "text": ("STRING", pa.string(), _texts),
    "boolean": ("BOOLEAN", pa.bool_(), st.booleans()),
    "array": (
        {"type": "ARRAY", "element": "INT"},
        pa.list_(pa.int32()),
        st.lists(st.integers(0, 3) | st.none(), max_size=3),
    ),
}
_ANY = ("last_value", "last_non_null_value", "first_value", "first_non_null_value")
_NUMBER = ("sum", "product", "max", "min", *_ANY)
FUNCTIONS = {
    **dict.fromkeys(("long", "tiny", "double", "float", "short decimal"), _NUMBER),
    "decimal": ("sum", "max", "min", "last_value"),
    "text": ("max", "min", "listagg", *_ANY),
    "boolean": ("bool_and", "bool_or", "last_value"),
    "array": ("collect", "last_non_null_value"),
}
CASES = [(kind, name) for kind, names in FUNCTIONS.items() for name in names]


def _fold(kind: str, name: str, column: Any, slots: int) -> ColumnFold:
    field = field_from_json({"id": 1, "name": "c", "type": VALUES[kind][0]})
    return field_function(field, name, CoreOptions({})).fold(column, slots)


def _column(kind: str, values: list[Any]) -> Any:
    of = VALUES[kind][1]
    if pa.types.is_decimal(of):
        values = [None if v is None else Decimal(v).scaleb(-2) for v in values]
    # A slice of a longer column, as batches of files are.
    return pa.array([values[0], *values, None], of).slice(1, len(values))


def _value_of(result: Any, column: Any) -> list[Any]:
    if isinstance(result, PickedRows):
        result = take_column(result.column or column, Numbers(result.rows), pa.default_memory_pool())
    result.validate(full=True)
    return [repr(v) if isinstance(v, float) else v for v in result.to_pylist()]


def _value_or_refusal(make: Callable[[], Any], column: Any) -> list[Any] | str:
    try:
        return _value_of(make(), column)
    except InvalidInputError as error:
        return "beyond" if "which its type" in str(error) else str(error)


@pytest.mark.parametrize(("kind", "name"), CASES)
@settings(max_examples=examples(25))
@given(st.data())
def test_reducing_equals_adding_row_by_row(kind: str, name: str, data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.lists(st.none() | VALUES[kind][2], min_size=1, max_size=7), min_size=1, max_size=6))
    # Keys with many rows are reduced by another algorithm.
    keys[0] = keys[0] * data.draw(st.sampled_from([1, 1, 1, 65]))
    column = _column(kind, [value for values in keys for value in values])
    # Rows of a key are contiguous and in order, but lie anywhere in the block.
    order = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(len(column))
    sizes = np.array([len(values) for values in keys])
    rows = KeyRows(order, np.cumsum(sizes) - sizes)

    def step_by_step() -> Any:
        step = _fold(kind, name, column, len(keys))
        for position in range(int(sizes.max())):
            slots = np.flatnonzero(sizes > position)
            step.add(slots, order[rows.firsts[slots] + position])
        return step.result()

    expected = _value_or_refusal(step_by_step, column)
    may_decline = kind == "decimal" or (kind, name) == ("short decimal", "product")
    if may_decline and _fold(kind, name, column, 0).reduce(rows) is None:
        return
    assert _value_or_refusal(lambda: _fold(kind, name, column, 0).reduce(rows), column) == expected


def test_distinct_elements_are_not_reduced_at_once() -> None:
    column: Any = pa.array([[1, 1], [2]], pa.list_(pa.int32()))
    fold = CollectElements(column, 0, "function 'collect' of column 'c'", distinct=True)
    assert fold.reduce(KeyRows(np.arange(2), np.array([0]))) is None


@given(st.lists(st.none() | st.sampled_from(["", "a", "bcd"]), min_size=1, max_size=20), st.data())
def test_taking_values_by_index_equals_arrows_take(values: list[str | None], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(values) - 1))
    numbers = data.draw(st.lists(st.integers(-1, len(values) - first - 1), max_size=20))
    for kind in (pa.string(), pa.binary(), pa.int16(), pa.bool_(), pa.list_(pa.int8())):
        column: Any = pa.array([None if v is None else _made(v, kind) for v in values], kind).slice(first)
        wanted: Any = pa.array([None if n < 0 else n for n in numbers], pa.int64())
        taken = take_column(column, Numbers(np.array(numbers, np.int64)), pa.default_memory_pool())
        taken.validate(full=True)
        assert taken.equals(column.take(wanted))
        valid = validity(column)
        assert (valid is None) == (column.null_count == 0)
        assert valid is None or valid.tolist() == column.is_valid().to_pylist()


def _made(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return text if pa.types.is_string(kind) else text.encode()
    if pa.types.is_list(kind):
        return [len(text)] * len(text)
    return len(text) % 2 == 0 if pa.types.is_boolean(kind) else len(text)


GROUPED = [
    *(("id", "INT NOT NULL"), ("g", "INT"), ("h", "INT"), ("a", "INT"), ("b", "STRING"), ("c", "INT"), ("d", "STRING")),
    *(("e", "STRING"), ("f", {"type": "ARRAY", "element": "INT"}), ("p", "INT")),
]
GROUPED_OPTIONS = {
    "bucket": "1",
    "merge-engine": "partial-update",
    "fields.g,h.sequence-group": "a,b,c,d,e,f,p",
    **{
        f"fields.{column}.aggregate-function": function
        for column, function in zip(
            "abcdef", ("sum", "listagg", "first_value", "last_non_null_value", "max", "collect"), strict=True
        )
    },
}
_sequence = st.none() | st.integers(0, 3)
_texts_of_group = st.none() | st.sampled_from(["", "x", "y", "zz"])
_record = st.tuples(_sequence, _sequence, st.none() | st.integers(0, 9), _texts_of_group)


@given(st.lists(st.lists(_record, min_size=1, max_size=7), min_size=1, max_size=5), st.booleans())
def test_late_rows_of_a_sequence_group_merge_as_row_by_row(keys: list[list[Any]], alone: bool) -> None:
    fields = tuple(field_from_json({"id": i, "name": n, "type": t}) for i, (n, t) in enumerate(GROUPED))
    schema = Schema(fields=fields, primary_keys=("id",), options=GROUPED_OPTIONS).to_table_schema()
    function = merge_function_for(schema, CoreOptions(schema.options), drop_deletes=True, merges_alone=alone)
    assert isinstance(function, PartialUpdate)
    records = [
        (key, g, h, number, text, number, text, text, None if number is None else [number], number)
        for key, rows in enumerate(keys)
        for g, h, number, text in rows
    ]
    names = [name for name, _ in GROUPED]
    columns = [pa.array(v, schema.arrow.field(n).type) for n, v in zip(names, zip(*records, strict=True), strict=True)]
    rows = pa.RecordBatch.from_arrays(columns, schema=pa.schema([schema.arrow.field(n) for n in names]))
    starts = np.array([place == 0 for values in keys for place in range(len(values))])
    groups = KeyGroups(rows=rows, order=np.arange(len(records)), starts=starts, kinds=None)
    in_turn, _ = function._merge_in_order(groups, names, False)
    at_once = function._merge_adds(groups, names)
    assert at_once is not None
    for one, other in zip(at_once.to_pylist(), in_turn.to_pylist(), strict=True):
        # Paimon's collect does not keep an order.
        assert {**one, "f": sorted(one["f"] or [])} == {**other, "f": sorted(other["f"] or [])}
        assert (one["f"] is None) == (other["f"] is None)
