"""Casts among DATE, TIME and timestamps, and between timestamps and seconds.

A timestamp with local time zone is an instant, and becomes another type as the machine's clock shows it. Source:
paimon-common `casting.TimestampTo*CastRule`, `DateToTimestampCastRule`, `TimeToTimestampCastRule` and
`NumericPrimitiveToTimestamp`, of Paimon 1.4.2. One difference: a TIME of a timestamp before 1970 is the time of day,
where 1.4.2 gives a negative one (mended in Paimon 2).
"""

from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.casting.values import Array, Int64s, from_numpy, to_counts, to_numpy
from interbed.storage.base.types.casting.zone import from_local, local_zone, to_local
from interbed.storage.base.types.data_type import TIMESTAMPS, AtomicType, TypeRoot

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_MILLIS = 86_400_000
_MILLIS_DIGITS = 3
_SECOND_MILLIS = 1000


def cast_time(array: Array, source: AtomicType, target: AtomicType) -> Array:
    """Values of a DATE, TIME or timestamp as another such type, or as INT or BIGINT.

    Raises ValueError for a timestamp that does not fit 64 bits.
    """
    if source.root in TIMESTAMPS:
        if target.root in TIMESTAMPS:
            return _timestamps(array, source, target)
        if target.root is TypeRoot.DATE:
            return _dates(array, source)
        if target.root is TypeRoot.TIME:
            millis = _millis(_shown(array, source), array) % _DAY_MILLIS
            return from_numpy(millis.astype(np.int32), array).view(pa.time32("ms"))
        seconds = _toward_zero(_millis(to_counts(array), array), _SECOND_MILLIS)
        return from_numpy(seconds, array).cast(type_to_arrow(target), safe=False)
    if source.root is TypeRoot.TIME:
        # Both kinds of timestamps are the milliseconds after the start of 1970.
        return array if target.root is TypeRoot.TIME else _of_millis(to_counts(array), array, target)
    millis = to_counts(array) * _DAY_MILLIS
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        millis = _instants(millis, _SECOND_MILLIS)
    return _of_millis(millis, array, target)


def seconds_to_timestamps(array: Array, target: AtomicType) -> Array:
    """INT or BIGINT seconds since 1970 as timestamps.

    With local time zone, they are what Java Paimon makes of them: what the machine's clock shows, taken for UTC.
    """
    seconds = to_numpy(array).astype(np.int64)
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        seconds = to_local(seconds, local_zone())
    return with_unit(seconds, "s", array, target)


def local_counts(array: Array) -> Array:
    """The instants of a column of timestamps as the machine's clock shows them, in the same unit, without a zone."""
    unit = array.type.unit
    return from_numpy(_clock(to_counts(array), PER_SECOND[unit]), array).view(pa.timestamp(unit))


def with_unit(counts: Int64s, unit: str, like: Array, target: AtomicType) -> Array:
    """Counts of a unit as the column's timestamps; raises ValueError where they don't fit."""
    arrow: Any = type_to_arrow(target)
    had, wanted = PER_SECOND[unit], PER_SECOND[arrow.unit]
    if wanted < had:
        return from_numpy(counts // (had // wanted), like).view(arrow)
    factor = wanted // had
    most = (2**63 - 1) // factor
    outside = (counts > most) | (counts < -most)
    if factor > 1 and outside.any():
        raise ValueError(f"a timestamp of {counts[outside][0]} {unit} since 1970 is beyond what {target} holds")
    return from_numpy(counts * factor, like).view(arrow)


def instants_of(array: Array) -> Array:
    """Local times of a column of timestamps as the instants at which the machine's clock shows them, in its unit."""
    unit = array.type.unit
    return from_numpy(_instants(to_counts(array), PER_SECOND[unit]), array).view(pa.timestamp(unit, "UTC"))


def _timestamps(array: Array, source: AtomicType, target: AtomicType) -> Array:
    unit = array.type.unit
    counts = to_counts(array)
    if source.root is not target.root:
        counts = (_instants if target.root is TypeRoot.TIMESTAMP_LTZ else _clock)(counts, PER_SECOND[unit])
    old, new = source.precision or 0, target.precision or 0
    if new < old and new <= _MILLIS_DIGITS:
        millis = _millis(counts, array)
        step = 10 ** (_MILLIS_DIGITS - new)
        return with_unit(_toward_zero(millis, step) * step, "ms", array, target)
    if new < old:
        step = PER_SECOND[unit] // 10**new
        counts = counts // step * step
    return with_unit(counts, unit, array, target)


def _dates(array: Array, source: AtomicType) -> Array:
    millis = _millis(_shown(array, source), array)
    # Paimon 1.4.2 rounds a local time before 1970 up to the next day, and an instant down.
    days = _toward_zero(millis, _DAY_MILLIS) if source.root is TypeRoot.TIMESTAMP else millis // _DAY_MILLIS
    return from_numpy(days.astype(np.int32), array).view(pa.date32())


def _of_millis(millis: Int64s, like: Array, target: AtomicType) -> Array:
    return with_unit(millis, "ms", like, target)


def _shown(array: Array, source: AtomicType) -> Int64s:
    counts = to_counts(array)
    return _clock(counts, PER_SECOND[array.type.unit]) if source.root is TypeRoot.TIMESTAMP_LTZ else counts


def _millis(counts: Int64s, array: Array) -> Int64s:
    return counts // (PER_SECOND[array.type.unit] // 1000)


def _clock(counts: Int64s, per_second: int) -> Int64s:
    seconds, rest = np.divmod(counts, per_second)
    return to_local(seconds, local_zone()) * per_second + rest


def _instants(counts: Int64s, per_second: int) -> Int64s:
    seconds, rest = np.divmod(counts, per_second)
    return from_local(seconds, local_zone()) * per_second + rest


def _toward_zero(counts: Int64s, step: int) -> Int64s:
    quotient: Int64s = np.where(counts < 0, -(-counts // step), counts // step)
    return quotient
