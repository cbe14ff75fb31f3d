"""Dates and timestamps as text, in the form that Arrow gives them; those of far years as Java and Spark write them.

Arrow's text of what is beyond its reach is `<value out of range: 2147483647>`; the year 10000 it writes without a sign.
"""

from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import TRUE
from interbed.storage.base.types.casting.values import Array, cast_where
from interbed.storage.base.types.far_times import date_text, timestamp_text

_TICKS_A_DAY = {"ms": 86_400_000, "us": 86_400_000_000}
_DIGITS = {"ms": 3, "us": 6}
_EPOCH = date(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = (date.min - _EPOCH).days, (date.max - _EPOCH).days


def has_far_times(array: Array) -> bool:
    """Whether some date or timestamp of the array is one of a year before 1 or after 9999."""
    if not _may_be_far(array.type):
        return False
    bounds: Any = pc.min_max(_numbers(array))
    if not bounds["min"].is_valid:
        return False
    low, high = _reach(array.type)
    return bool(bounds["min"].as_py() < low or bounds["max"].as_py() > high)


def text_of_times(array: Array) -> Array:
    """Values of a plain type as Arrow casts them to text, and far dates and timestamps as Java and Spark write them."""
    if not has_far_times(array):
        plain: Array = array.cast(pa.string())
        return plain
    ends: Any = _reach(array.type)
    low, high = ends
    numbers = _numbers(array)
    near: Any = pc.fill_null(pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high)), TRUE)
    return cast_where(near, array, lambda some: some.cast(pa.string()), _far_texts)


def _far_texts(array: Array) -> Array:
    kind: Any = array.type
    numbers = _numbers(array).to_pylist()
    if pa.types.is_date32(kind):
        return pa.array([date_text(number) for number in numbers], pa.string())
    unit, zone = str(kind.unit), "Z" if kind.tz is not None else ""
    return pa.array([timestamp_text(number, unit, _DIGITS[unit]) + zone for number in numbers], pa.string())


def _may_be_far(kind: Any) -> bool:
    # 64 bits of nanoseconds end in the year 2262.
    return pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and str(kind.unit) in _TICKS_A_DAY)


def _numbers(array: Any) -> Any:
    return array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64())


def _reach(kind: Any) -> tuple[int, int]:
    """The first and the last number of a year of four digits."""
    ticks = 1 if pa.types.is_date32(kind) else _TICKS_A_DAY[str(kind.unit)]
    return _FIRST_DAY * ticks, (_LAST_DAY + 1) * ticks - 1
