"""Hypothesis strategies for key columns of every type, and the order that Paimon defines for their values."""

import datetime as dt
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from interbed.storage.base.types.data_type import AtomicType, TypeRoot

_DAY_MILLIS = 86_400_000


@dataclass(frozen=True)
class KeyKind:
    """A key type, some values of it (few distinct ones, so that equal keys are frequent) and the sort key in Paimon's
    order.
    """

    name: str
    type: AtomicType
    values: st.SearchStrategy[Any]
    order: Callable[[Any], Any] = lambda value: value


def _java_float_order(value: float) -> tuple[int, float, int]:
    if math.isnan(value):
        return (1, 0.0, 0)
    return (0, value, 0 if math.copysign(1.0, value) < 0 else 1)


def _integers(bits: int) -> st.SearchStrategy[int]:
    top = 1 << (bits - 1)
    return st.one_of(st.integers(-4, 4), st.sampled_from([-top, top - 1, top >> 1]), st.integers(-top, top - 1))


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


_NAN_WITH_PAYLOAD = struct.unpack("d", struct.pack("Q", 0xFFF8_0000_0000_0001))[0]
_FLOATS = [0.0, -0.0, math.nan, _NAN_WITH_PAYLOAD, math.inf, -math.inf, 1.5, -1.5, 5e-324, 1e300]
_STRINGS = st.one_of(
    st.text("ab\0", max_size=4),
    st.text("abcé漢\x01\U0001f986", max_size=20).map(lambda tail: "prefix/long/common/" + tail),
    st.integers(0, 60).map(lambda number: f"{number:06d}"),
    st.sampled_from([7, 8, 9, 15, 16, 17, 31, 32, 33, 60]).map(lambda length: "a" * length),
)
_EPOCH = dt.datetime(1970, 1, 1)

KEY_KINDS = (
    KeyKind("boolean", AtomicType(TypeRoot.BOOLEAN), st.booleans()),
    KeyKind("tinyint", AtomicType(TypeRoot.TINYINT), _integers(8)),
    KeyKind("smallint", AtomicType(TypeRoot.SMALLINT), _integers(16)),
    KeyKind("int", AtomicType(TypeRoot.INT), _integers(32)),
    KeyKind("bigint", AtomicType(TypeRoot.BIGINT), _integers(64)),
    KeyKind(
        "float",
        AtomicType(TypeRoot.FLOAT),
        st.sampled_from([v for v in _FLOATS if v != 1e300]).map(_single),
        _java_float_order,
    ),
    KeyKind("double", AtomicType(TypeRoot.DOUBLE), st.sampled_from(_FLOATS), _java_float_order),
    KeyKind(
        "short_decimal",
        AtomicType(TypeRoot.DECIMAL, precision=9, scale=2),
        st.integers(-(10**9) + 1, 10**9 - 1).map(lambda unscaled: Decimal(unscaled).scaleb(-2)),
    ),
    KeyKind(
        "long_decimal",
        AtomicType(TypeRoot.DECIMAL, precision=30, scale=5),
        st.one_of(st.integers(-3, 3), st.sampled_from([2**64, 2**64 - 1, -(2**64), 10**30 - 1, 1 - 10**30])).map(
            lambda unscaled: Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -5))
        ),
    ),
    KeyKind("varchar", AtomicType(TypeRoot.VARCHAR, length=200), _STRINGS, lambda value: value.encode()),
    KeyKind(
        "varbinary",
        AtomicType(TypeRoot.VARBINARY, length=200),
        st.one_of(st.binary(max_size=3), st.sampled_from([b"\xff" * 9, b"\x80", b"\x7f", b"\x80\x00", b"x" * 40])),
    ),
    KeyKind("date", AtomicType(TypeRoot.DATE), st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))),
    KeyKind(
        "time",
        AtomicType(TypeRoot.TIME, precision=3),
        st.integers(0, _DAY_MILLIS - 1).map(lambda millis: (_EPOCH + dt.timedelta(milliseconds=millis)).time()),
    ),
    KeyKind(
        "timestamp_millis",
        AtomicType(TypeRoot.TIMESTAMP, precision=3),
        st.integers(-3, 3).map(lambda millis: _EPOCH + dt.timedelta(milliseconds=millis)),
    ),
    KeyKind(
        "timestamp_micros",
        AtomicType(TypeRoot.TIMESTAMP, precision=6),
        st.datetimes(dt.datetime(1600, 1, 1), dt.datetime(2200, 1, 1)),
    ),
    # As bare numbers, because datetime has no nanoseconds.
    KeyKind("timestamp_nanos", AtomicType(TypeRoot.TIMESTAMP, precision=9), st.integers(-(10**12), 10**12)),
    KeyKind("timestamp_ltz", AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=9), st.integers(-2, 2)),
)


def key_order(kinds: tuple[KeyKind, ...], key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the sort key of rows with this key, as a tuple that Python compares."""
    return tuple(kind.order(value) for kind, value in zip(kinds, key, strict=True))


def key_array(values: list[Any], arrow_type: pa.DataType) -> "pa.Array[Any]":
    """The values as an Arrow array; timestamps may be given as numbers."""
    if pa.types.is_timestamp(arrow_type) and values and isinstance(values[0], int):
        return pa.array(values, pa.int64()).cast(arrow_type)
    return pa.array(values, arrow_type)
