"""Arrays built without pandas equal those that Arrow builds."""

import datetime
import decimal
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.arrow_values import array_of, from_numpy, rows_taken, scalar_of, taken, to_numpy

WHOLE = st.integers(min_value=-(2**70), max_value=2**70)
VALUES = st.one_of(
    st.lists(st.one_of(st.none(), WHOLE)),
    st.lists(st.one_of(st.none(), st.integers(-100, 100))),
    st.lists(st.one_of(st.none(), st.floats())),
    st.lists(st.one_of(st.none(), st.booleans())),
    st.lists(st.one_of(st.none(), st.text())),
    st.lists(st.one_of(st.none(), st.text(st.characters()))),
    st.lists(st.one_of(st.none(), st.binary())),
    st.lists(st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.text())),
    st.lists(st.one_of(st.none(), st.dates())),
    st.lists(st.one_of(st.none(), st.datetimes())),
    st.lists(st.one_of(st.none(), st.datetimes().map(lambda moment: moment.replace(microsecond=5000)))),
    st.lists(st.one_of(st.none(), st.datetimes(timezones=st.just(datetime.UTC)))),
    st.lists(st.one_of(st.none(), st.decimals(-10, 10, places=2))),
)
TYPES: list[pa.DataType | None] = [
    None,
    pa.int8(),
    pa.int32(),
    pa.int64(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.binary(),
    pa.binary(3),
    pa.date32(),
    pa.timestamp("ms"),
    pa.timestamp("us"),
    pa.timestamp("us", "Asia/Tokyo"),
    pa.decimal128(10, 2),
    pa.list_(pa.int32()),
]


def by_arrow(values: Any, arrow: Any) -> Any:
    """The array that Arrow builds."""
    return pa.array(values, arrow)


def outcome(make: Any) -> Any:
    """Return the array that is built, or the class of the error."""
    try:
        return make()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        return type(error)


def without_pandas(values: list[object], arrow: pa.DataType | None) -> "pa.Array[Any]":
    """Build the array as in a process that has not loaded pandas."""
    with patch("interbed.storage.base.arrow_values._is_pandas_check_free", return_value=False):
        return array_of(values, arrow)


@given(values=VALUES, arrow=st.sampled_from(TYPES))
def test_an_array_of_values_equals_arrows(values: list[object], arrow: pa.DataType | None) -> None:
    ours, theirs = outcome(lambda: without_pandas(values, arrow)), outcome(lambda: by_arrow(values, arrow))
    assert ours is theirs or (ours.type == theirs.type and repr(ours.to_pylist()) == repr(theirs.to_pylist()))
    if isinstance(ours, pa.Array):
        ours.validate(full=True)
        assert ours.null_count == theirs.null_count


@given(values=st.lists(st.tuples(st.integers(-128, 127), st.booleans())), kind=st.sampled_from("bhilBHILfd?"))
def test_an_array_of_numbers_equals_arrows(values: list[tuple[int, bool]], kind: str) -> None:
    numbers = np.array([v for v, _ in values], np.int64).astype(kind)
    missing = np.array([m for _, m in values], np.bool_)
    for mask in (None, missing):
        made = from_numpy(numbers, mask)
        made.validate(full=True)
        assert made.equals(pa.array(numbers, mask=mask))
    # Every other element: the values are not contiguous in memory.
    assert from_numpy(numbers[::2]).equals(pa.array(numbers[::2]))


@given(values=VALUES, arrow=st.sampled_from(TYPES), cut=st.integers(0, 12))
def test_numbers_are_returned_as_arrow_returns_them(values: list[object], arrow: pa.DataType | None, cut: int) -> None:
    made = outcome(lambda: by_arrow(values, arrow))
    if not isinstance(made, pa.Array):
        return
    for column in (made, made[cut:], pa.chunked_array([made[cut:]]), pa.chunked_array([made, made])):
        ours = to_numpy(column)
        theirs = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
        assert ours.dtype == theirs.dtype
        assert repr(ours.tolist()) == repr(theirs.tolist())


def test_uncommon_values_are_left_to_arrow() -> None:
    assert scalar_of(datetime.date(2026, 1, 2), pa.date32()).as_py() == datetime.date(2026, 1, 2)
    assert scalar_of(decimal.Decimal("1.50"), pa.decimal128(5, 2)).as_py() == decimal.Decimal("1.50")
    assert scalar_of(None, pa.int64()).as_py() is None
    days = [pa.scalar(datetime.date(2026, 1, d)) for d in (1, 2)]
    assert without_pandas(list(days), pa.date32()).equals(pa.array([d.as_py() for d in days]))
    with pytest.raises(pa.ArrowInvalid):
        array_of(["x"], pa.int64())
    assert array_of([1, None]).equals(pa.array([1, None]))


@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1, max_size=20), st.data())
def test_values_taken_by_position_equal_arrows(values: list[str | None], data: st.DataObject) -> None:
    whole: Any = pa.array([None, *values], pa.string())
    column = whole.slice(1)
    place = st.integers(0, len(values) - 1)
    start, end = sorted((data.draw(place), data.draw(place)))
    for places in (np.arange(start, end), np.arange(start, end + 1), np.array(data.draw(st.lists(place)), np.int64)):
        indices: Any = from_numpy(places)
        assert taken(column, places).equals(column.take(indices))
        rows = pa.RecordBatch.from_arrays([column], names=["name"])
        assert rows_taken(rows, places).equals(rows.take(indices))
        assert rows_taken(rows.select([]), places).num_rows == rows.select([]).take(indices).num_rows


def test_values_taken_by_position_do_not_keep_their_column_in_memory() -> None:
    column = array_of(list(range(100_000)))
    assert taken(column, np.arange(5, 7)).get_total_buffer_size() < 1_000
