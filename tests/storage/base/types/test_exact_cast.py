"""Values of callers are stored unchanged, or refused with their column and row."""

import math
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.errors import SchemaMismatchError
from interbed.storage.base.types.exact_cast import exact_cast
from tests.support.tally import Tally

UTC = "UTC"
ROW = pa.struct([("a", pa.int32()), ("b", pa.string())])
MAP = pa.map_(pa.string(), pa.int32())


def type_name(value: Any) -> str:
    return str(getattr(value, "type", ""))


TAKEN: list[tuple[Any, pa.DataType, Any]] = [
    (pa.array([1, None], pa.uint64()), pa.int8(), [1, None]),
    (pa.array([2.0, -0.0]), pa.int64(), [2, 0]),
    (pa.array([Decimal("2.00")]), pa.int32(), [2]),
    (pa.array([10], pa.int64()), pa.decimal128(4, 2), [Decimal("10.00")]),
    (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(38, 18), [Decimal(2**64 - 1)]),
    (pa.array([0.1, 1e-7, 1e20]), pa.decimal128(38, 10), [Decimal("0.1"), Decimal("1E-7"), Decimal(10**20)]),
    (pa.array([Decimal("1.25")], pa.decimal32(5, 2)), pa.decimal128(5, 2), [Decimal("1.25")]),
    (pa.array([Decimal("1.25")], pa.decimal256(60, 2)), pa.decimal128(5, 2), [Decimal("1.25")]),
    (pa.array([0.5, math.inf]), pa.float32(), [0.5, math.inf]),
    (pa.array([np.float16(1.5)], pa.float16()), pa.float64(), [1.5]),
    (pa.array([date(2024, 1, 2)], pa.date64()), pa.date32(), [date(2024, 1, 2)]),
    (pa.array([datetime(2024, 1, 2)], pa.timestamp("ns")), pa.date32(), [date(2024, 1, 2)]),
    (pa.array([date(2024, 1, 2)]), pa.timestamp("ms"), [datetime(2024, 1, 2)]),
    (pa.array([datetime(2024, 1, 2, 3)], pa.timestamp("ns")), pa.timestamp("ms"), [datetime(2024, 1, 2, 3)]),
    (pa.array([time(1, 2, 3)], pa.time64("ns")), pa.time32("ms"), [time(1, 2, 3)]),
    (pa.array([b"a"]), pa.string(), ["a"]),
    (pa.array([b"ab"], pa.binary(2)), pa.string(), ["ab"]),
    (pa.array(["a"], pa.string_view()), pa.string(), ["a"]),
    (pa.array([b"a"], pa.binary_view()), pa.binary(), [b"a"]),
    (pa.array(["a", None]).dictionary_encode(), pa.string(), ["a", None]),
    (pa.array([7, 7]).dictionary_encode(), pa.int8(), [7, 7]),
    (pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([7, 8])), pa.int8(), [7, 7, 8]),
    (pa.nulls(2), ROW, [None, None]),
    (pa.array([{"b": "x"}, None, {"b": None}]), ROW, [{"a": None, "b": "x"}, None, {"a": None, "b": None}]),
    (pa.array([[1], None, []], pa.list_view(pa.int64())), pa.list_(pa.int8()), [[1], None, []]),
    (pa.array([[1], None, []], pa.large_list_view(pa.int64())), pa.list_(pa.int8()), [[1], None, []]),
    (pa.array([[1], None, []], pa.large_list(pa.int64())), pa.list_(pa.int8()), [[1], None, []]),
    (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), pa.list_(pa.int8()), [[1, 2], None]),
    (
        pa.array([[("a", 1), ("b", 2)], None, []], pa.map_(pa.string(), pa.int64())),
        MAP,
        [[("a", 1), ("b", 2)], None, []],
    ),
    (pa.array([[{"a": 1}]], pa.list_(pa.struct([("a", pa.int64())]))), pa.list_(ROW), [[{"a": 1, "b": None}]]),
]

REFUSED: list[tuple[Any, pa.DataType, str]] = [
    (pa.array([1, 128]), pa.int8(), "row 1 (counted from 0) has 128"),
    (pa.array([1, None, 2.9]), pa.int32(), "row 2 (counted from 0) has 2.9"),
    (pa.array([math.nan]), pa.int32(), "row 0 (counted from 0) has nan"),
    (pa.array([2**53, 2**53 + 1]), pa.float64(), "row 1 (counted from 0) has 9007199254740993"),
    (pa.array([0.5, 1e300]), pa.float32(), "row 1 (counted from 0) has 1e+300"),
    (
        pa.array([0.0, -1e-46]),
        pa.float32(),
        "row 1 (counted from 0) has -1e-46 (double): a number is closer to 0 than any",
    ),
    (pa.array([Decimal("0"), Decimal("1e-50")], pa.decimal256(60, 55)), pa.float32(), "closer to 0 than any float"),
    (pa.array([1.5, 1.239]), pa.decimal128(5, 2), "row 1 (counted from 0) has 1.239"),
    (pa.array([math.inf]), pa.decimal128(5, 2), "row 0 (counted from 0) has inf"),
    (pa.array([1000]), pa.decimal128(5, 2), "row 0 (counted from 0) has 1000"),
    (pa.array([Decimal("1.5")]), pa.int32(), "row 0 (counted from 0) has Decimal('1.5')"),
    (pa.array([Decimal("1.239")]), pa.decimal128(5, 2), "row 0 (counted from 0) has Decimal('1.239')"),
    (pa.array([True]), pa.int32(), "does not fit: booleans"),
    (pa.array([1]), pa.bool_(), "does not fit: booleans"),
    (pa.array(["1"]), pa.int32(), "does not fit: strings are not parsed"),
    (pa.array([b"1"]), pa.int64(), "does not fit: bytes are not parsed"),
    (pa.array([b"1"], pa.binary(1)), pa.int64(), "does not fit: bytes are not parsed"),
    (pa.array(["1"]), pa.binary(), "does not fit: strings are not parsed"),
    (pa.array([1]), pa.string(), "does not fit: other values do not become strings"),
    (pa.array([b"a", b"\xff"]), pa.string(), "row 1 (counted from 0) has b'\\xff'"),
    (pa.array([1]), pa.timestamp("us"), "has no exact cast to"),
    (pa.array([1], pa.timestamp("us")), pa.int64(), "has no exact cast to"),
    (pa.array([1], pa.duration("us")), pa.int64(), "has no exact cast to"),
    (pa.array([1], pa.timestamp("us", UTC)), pa.timestamp("us"), "WITH LOCAL TIME ZONE"),
    (pa.array([1], pa.timestamp("us", UTC)), pa.date32(), "depends on a time zone"),
    (
        pa.array([datetime(2024, 1, 2, 3)]),
        pa.date32(),
        "row 0 (counted from 0) has datetime.datetime(2024, 1, 2, 3, 0)",
    ),
    (pa.array([1], pa.timestamp("ns")), pa.timestamp("us"), "row 0 (counted from 0)"),
    (pa.array([1], pa.time64("us")), pa.time32("ms"), "row 0 (counted from 0)"),
    (pa.array([{"a": 1, "c": 99}]), ROW, "c has the field 'c', its fields are a, b"),
    (pa.array([{"A": 1}]), ROW, "c has the field 'A'"),
    (pa.array([[{"a": 1, "x": 2}]]), pa.list_(ROW), "the field 'x'"),
    (
        pa.array([[("k", {"a": 1, "x": 2})]], pa.map_(pa.string(), pa.struct([("a", pa.int64()), ("x", pa.int64())]))),
        pa.map_(pa.string(), ROW),
        "the field 'x'",
    ),
    (pa.array([[("a", 1)], [("b", 1), ("b", 2)]], MAP), MAP, "row 1 (counted from 0) has [('b', 1), ('b', 2)]"),
    (
        pa.array([[([1], 1), ([1], 2)]], pa.map_(pa.list_(pa.int32()), pa.int32())),
        pa.map_(pa.list_(pa.int32()), pa.int32()),
        "key twice",
    ),
    (pa.array([[1], [2.5]]), pa.list_(pa.int32()), "c.item: Float value 2.5"),
    (pa.array([[b"1"]]), pa.list_(pa.int32()), "bytes are not parsed"),
    (pa.array([[1]]), pa.int32(), "would be a single value (int32) from a list"),
    (pa.array([1]), pa.list_(pa.int32()), "would be a list from a single value (int64)"),
    (pa.array([{"a": 1}]), MAP, "would be a map from a row"),
]


def cast(array: Any, target: pa.DataType, first_row: int = 0) -> list[Any]:
    column = pa.chunked_array([array, array[:0]])
    found: list[Any] = exact_cast(column, target, name="c", what="t", first_row=first_row).to_pylist()
    return found


@pytest.mark.parametrize(("array", "target", "expected"), TAKEN, ids=type_name)
def test_values_that_a_type_can_represent_are_accepted(array: Any, target: pa.DataType, expected: list[Any]) -> None:
    assert cast(array, target) == expected
    # Values before and after a slice must not matter.
    around = pa.concat_arrays([array, array, array]).slice(len(array), len(array))
    assert cast(around, target) == expected


@pytest.mark.parametrize(("array", "target", "text"), REFUSED, ids=type_name)
def test_values_that_a_type_cannot_represent_are_refused(array: Any, target: pa.DataType, text: str) -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        cast(array, target)
    assert text in str(caught.value)
    assert str(caught.value).startswith(f"The column 'c' of t is {target}; ")


def test_the_error_counts_rows_in_the_data_of_the_caller() -> None:
    column = pa.chunked_array([pa.array([1, 2]), pa.array([3, 400])])
    with pytest.raises(SchemaMismatchError, match="row 1003 "):
        exact_cast(column, pa.int8(), name="c", what="t", first_row=1000)


NUMBERS: list[pa.DataType] = [pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64(), pa.float32(), pa.float64()]
DECIMALS: list[pa.DataType] = [pa.decimal128(5, 2), pa.decimal128(38, 10), pa.decimal256(76, 20), pa.decimal64(18, 4)]
TIMES: list[pa.DataType] = [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")] + [pa.date32(), pa.date64()]
CLOCKS: list[pa.DataType] = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
VALUES = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-300, 300),
    st.sampled_from([2**53 + 1, 2**24 + 1, 2**31, 2**63]),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**20), max_value=10**20),
)


def made(value: Any, kind: pa.DataType) -> Any:
    """An array of one value; None where Arrow itself does not build it."""
    try:
        return pa.array([value], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError):
        return None


def test_an_accepted_number_is_stored_unchanged(tally: Tally) -> None:
    casts = 0

    @given(VALUES)
    def check(value: Any) -> None:
        nonlocal casts
        for source in NUMBERS + DECIMALS:
            array = made(value, source)
            for target in NUMBERS + DECIMALS if array is not None else ():
                casts += 1
                try:
                    (found,) = cast(array, target)
                except SchemaMismatchError:
                    continue
                is_same_number(array, target, found)

    check()
    tally("numbers cast from type to type", casts)


def is_same_number(array: Any, target: pa.DataType, found: Any) -> None:
    held = array[0].as_py()
    if pa.types.is_floating(target) and not pa.types.is_integer(array.type):
        # The nearest value, as docs/api.md describes.
        nearest = np.float32(float(held)) if target == pa.float32() else np.float64(float(held))
        assert math.isclose(found, nearest, rel_tol=1e-6)
        assert math.isfinite(found) or not math.isfinite(held)
    elif pa.types.is_floating(array.type) and pa.types.is_decimal(target):
        assert found == Decimal(str(array.cast(pa.string())[0]))
    else:
        assert Fraction(found) == Fraction(held)


def test_an_accepted_time_is_stored_unchanged(tally: Tally) -> None:
    casts = 0

    @given(st.integers(-(2**40), 2**40), st.sampled_from([1, 1000, 10**6, 86_400_000]))
    def check(number: int, factor: int) -> None:
        nonlocal casts
        for kinds in (TIMES, CLOCKS):
            for source in kinds:
                value = number * factor if kinds is TIMES else number * factor % 86_400
                # Days given as milliseconds must be whole days.
                raw = made(value - value % 86_400_000 if source == pa.date64() else value, storage_of(source))
                for target in kinds if raw is not None else ():
                    casts += 1
                    column = pa.chunked_array([raw.view(source)])
                    try:
                        found = exact_cast(column, target, name="c", what="t").chunk(0)
                    except SchemaMismatchError:
                        continue
                    assert seconds(found, target) == seconds(column.chunk(0), source)

    check()
    tally("times cast from type to type", casts)


def storage_of(kind: Any) -> pa.DataType:
    return pa.int32() if kind.bit_width == 32 else pa.int64()


def seconds(array: Any, kind: Any) -> Fraction:
    value = array.view(storage_of(kind))[0].as_py()
    if kind == pa.date32():
        return Fraction(value * 86_400)
    return Fraction(value, 1000 if kind == pa.date64() else TICKS[kind.unit])
