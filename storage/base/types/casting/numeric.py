"""Casts among numbers, booleans, dates, times and timestamps, as Java Paimon's.

Integers wrap around. Fractions are cut off and stop at the bounds of the type. A DECIMAL is rounded half up, and is
null where it has too many digits. A timestamp with local time zone is an instant; it becomes another type as the clock
of this machine shows it. Java Paimon takes the time zone of its JVM, which is the machine's unless it is started with
another. One difference: a TIME of a timestamp before 1970 is the time of day, where Paimon 1.4.2 gives a negative time
(corrected in Paimon 2).

Source: paimon-common `casting.Numeric*CastRule`, `DecimalTo*CastRule`, `BooleanToNumericCastRule`,
`TimestampTo*CastRule`, `DateToTimestampCastRule`, `TimeToTimestampCastRule` and `NumericPrimitiveToTimestamp`, of
Paimon 1.4.2.
"""

import os
import time
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base import arrow_values
from interbed.storage.base.arrow_values import array_of, from_numpy, scalar_of, to_numpy
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.casting.rules import FRACTIONS
from interbed.storage.base.types.data_type import INTEGERS, TIMESTAMPS, AtomicType, TypeRoot

Array: TypeAlias = "pa.Array[Any]"
Int64s: TypeAlias = npt.NDArray[np.int64]


def to_filled_numpy(array: Array) -> npt.NDArray[Any]:
    """Return the values of a column of numbers, 0 for nulls."""
    filled: Any = array.fill_null(0) if array.null_count else array
    values: npt.NDArray[Any] = arrow_values.to_numpy(filled)
    return values


def to_counts(array: Array) -> Int64s:
    """Return the stored integers of a column of dates or times, 0 for nulls."""
    width = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return to_filled_numpy(array.view(width)).astype(np.int64)


def with_nulls_of(values: npt.NDArray[Any], like: Array) -> Array:
    """Return the values as a column of their own type, null where the column `like` is."""
    mask = arrow_values.to_numpy(like.is_null()) if like.null_count else None
    made: Array = pa.array(values, mask=mask)
    return made


def cast_few(array: Array, arrow: pa.DataType, convert: Callable[[Any], Any]) -> Array:
    """Return a column with each distinct value cast by a function; for rare forms, because it makes Python values."""
    encoded: Any = array.dictionary_encode()
    # A loop over the distinct values: Arrow has no function for their forms.
    distinct = array_of([convert(value) for value in encoded.dictionary.to_pylist()], arrow)
    result: Array = distinct.take(encoded.indices)
    return result


def cast_where(common: Array, array: Array, many: Callable[[Array], Array], few: Callable[[Array], Array]) -> Array:
    """Return the column with `many` applied where `common` (BOOLEAN, no nulls) is true, and `few` elsewhere."""
    if pc.all(common).as_py() in (True, None):
        return many(array)
    rest = few(array.filter(pc.invert(common)))
    kept = many(pc.if_else(common, array, scalar_of(None, array.type)))
    result: Array = pc.replace_with_mask(kept, pc.invert(common), rest)
    return result


# -- numbers and booleans ----------------------------------------------------------------------------------------------

_COMPACT_DIGITS = 18
"""Up to this number of digits Java stores a DECIMAL as one integer, and divides it for a DOUBLE."""
_WIDE_DIGITS = 76
_PLAIN_SCALE = 25
"""More fractional digits than the shortest text of a number from 0.001 on has."""
PLAIN_LEAST, PLAIN_LIMIT = 1e-3, 1e7
"""The range of numbers whose text in Java has no exponent."""
_EXACT = Context(prec=500)


def cast_number(array: Array, source: AtomicType, target: AtomicType) -> Array:
    """Return numbers or booleans as another such type. Raises ValueError for a DECIMAL of NaN or infinity."""
    arrow = type_to_arrow(target)
    if target.root is TypeRoot.BOOLEAN:
        return cast("Array", pc.not_equal(array, pa.scalar(0, array.type)))
    if source.root is TypeRoot.BOOLEAN:
        array = array.cast(pa.int8())
    if target.root is TypeRoot.DECIMAL:
        return to_decimal(array, arrow)
    if source.root is TypeRoot.DECIMAL:
        if target.root in INTEGERS:
            # Java takes the low 64 bits of all digits before the point, and then those of the type.
            return array.cast(pa.int64(), safe=False).cast(arrow, safe=False)
        return _decimal_to_double(array, source).cast(arrow, safe=False)
    if source.root in FRACTIONS and target.root in INTEGERS:
        return _to_integer(array, target)
    return array.cast(arrow, safe=False)


def to_decimal(array: Array, target: Any) -> Array:
    """Return numbers as an Arrow type of decimals: rounded half up, null where they have too many digits."""
    if pa.types.is_floating(array.type):
        return _double_to_decimal(array.cast(pa.float64()), target)
    if pa.types.is_integer(array.type):
        # Arrow requires enough digits for every value of the integer type.
        array = array.cast(pa.decimal128(19, 0))
    digits, scale = array.type.precision, array.type.scale
    if scale <= target.scale and digits - scale <= target.precision - target.scale:
        return array.cast(target)
    # Rounding may need one digit more, and moving the point more than 38.
    wide: Any = array.cast(pa.decimal256(_WIDE_DIGITS, scale))
    if scale > target.scale:
        wide = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
    limit = pa.scalar(Decimal(10) ** (target.precision - target.scale), pa.decimal256(_WIDE_DIGITS, scale))
    fitting: Any = pc.if_else(pc.less(pc.abs(wide), limit), wide, pa.scalar(None, wide.type))
    return cast("Array", fitting.cast(target))


def fitted(number: Decimal, target: Any) -> Decimal | None:
    """Return one number as a value of an Arrow type of decimals; None where it has too many digits."""
    if number.adjusted() > target.precision:
        return None if number else Decimal(0)
    # Digits far after the point are rounded away.
    rounded = number.quantize(Decimal(1).scaleb(-target.scale), ROUND_HALF_UP, context=_EXACT)
    return rounded if abs(rounded) < Decimal(10) ** (target.precision - target.scale) else None


def _double_to_decimal(array: Array, target: Any) -> Array:
    """Return doubles as decimals by their shortest text, as in Java: 2.675 is rounded to 2.68."""
    infinite = array.filter(pc.invert(pc.is_finite(array)))
    if len(infinite):
        raise ValueError(f"{infinite[0]} is no DECIMAL")
    plain: Any = pa.decimal256(_WIDE_DIGITS, _PLAIN_SCALE)

    def few(values: Array) -> Array:
        return cast_few(values, target, lambda value: None if value is None else fitted(Decimal(repr(value)), target))

    def many(values: Array) -> Array:
        return to_decimal(values.cast(pa.string()).cast(plain), target)

    return cast_where(has_plain_text(array), array, many, few)


def has_plain_text(array: Array) -> Array:
    """Return for each number whether its text in Java has no exponent; true for nulls."""
    size = np.abs(to_filled_numpy(array))
    plain: Array = pa.array(((size >= PLAIN_LEAST) & (size < PLAIN_LIMIT)) | (size == 0))
    return plain


def _decimal_to_double(array: Any, source: AtomicType) -> Array:
    if (source.precision or 0) > _COMPACT_DIGITS:
        return cast("Array", array.cast(pa.string()).cast(pa.float64()))
    unscaled = to_filled_numpy(_unscaled(array))
    return with_nulls_of(unscaled.astype(np.float64) / float(10 ** (source.scale or 0)), array)


def _unscaled(array: Any) -> Array:
    """Return the unscaled integers of decimals of up to 18 digits: the low half of each 128 bits."""
    if not len(array):
        return pa.array([], pa.int64())
    halves = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array)) : 2]
    return with_nulls_of(halves, array)


def _to_integer(array: Array, target: AtomicType) -> Array:
    values = np.trunc(np.nan_to_num(to_filled_numpy(array).astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    # Narrow types are cast by way of INT.
    bounds = np.iinfo(np.int64 if target.root is TypeRoot.BIGINT else np.int32)
    above, below = values >= -float(bounds.min), values <= float(bounds.min)
    inside = np.where(above | below, 0.0, values).astype(np.int64)
    whole = np.where(above, bounds.max, np.where(below, bounds.min, inside))
    return with_nulls_of(whole, array).cast(type_to_arrow(target), safe=False)


# -- local times of this machine ---------------------------------------------------------------------------------------

_DATABASE = "zoneinfo/"
_DAY_SECONDS = 86_400


def local_zone() -> str:
    """Return the name of the machine's time zone, as `Europe/Berlin`, by the variable TZ or /etc/localtime.

    Raises InvalidInputError when neither names a zone.
    """
    named = os.environ.get("TZ", "").removeprefix(":") or str(Path("/etc/localtime").resolve())
    _, _, below = named.rpartition(_DATABASE)
    zone = below.removeprefix("posix/").removeprefix("right/")
    if zone and not zone.startswith("/"):
        return zone
    if time.timezone == 0 and not time.daylight:
        return "UTC"
    raise InvalidInputError(
        "The name of this machine's time zone is not known, which casts from and to TIMESTAMP WITH LOCAL TIME ZONE "
        "need. Set the environment variable TZ, for example to Europe/Berlin."
    )


def to_local(seconds: Int64s, zone: str) -> Int64s:
    """Return the local times of instants in the zone, both in seconds since 1970."""
    return seconds + _offsets(seconds, zone)


def from_local(seconds: Int64s, zone: str) -> Int64s:
    """Return the instants of local times in the zone, both in seconds since 1970.

    Of two instants the earlier; a local time in a gap of the clock moves forward by the gap, as in Java.
    """
    before = _offsets(seconds - _DAY_SECONDS, zone)
    after = _offsets(seconds + _DAY_SECONDS, zone)
    early, late = seconds - before, seconds - after
    only_late = (_offsets(early, zone) != before) & (_offsets(late, zone) == after)
    return np.where(only_late, late, early)


def _offsets(seconds: Int64s, zone: str) -> Int64s:
    if zone in ("UTC", "Etc/UTC", "GMT", "Etc/GMT"):
        return np.zeros_like(seconds)
    try:
        instants: Any = from_numpy(seconds).view(pa.timestamp("s", zone))
        shown: Any = pc.local_timestamp(instants)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            f"The time zone {zone!r} of this machine is not known: {error}. Set the environment variable TZ."
        ) from error
    offsets: Int64s = to_numpy(shown.view(pa.int64())) - seconds
    return offsets


# -- dates, times and timestamps ---------------------------------------------------------------------------------------

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_MILLIS = 86_400_000
_MILLIS_DIGITS = 3
_SECOND_MILLIS = 1000


def cast_time(array: Array, source: AtomicType, target: AtomicType) -> Array:
    """Return values of a DATE, TIME or timestamp as another such type, or as INT or BIGINT.

    Raises ValueError for a timestamp that does not fit 64 bits.
    """
    if source.root in TIMESTAMPS:
        if target.root in TIMESTAMPS:
            return _timestamps(array, source, target)
        if target.root is TypeRoot.DATE:
            return _dates(array, source)
        if target.root is TypeRoot.TIME:
            millis = _millis(_shown(array, source), array) % _DAY_MILLIS
            return with_nulls_of(millis.astype(np.int32), array).view(pa.time32("ms"))
        seconds = _toward_zero(_millis(to_counts(array), array), _SECOND_MILLIS)
        return with_nulls_of(seconds, array).cast(type_to_arrow(target), safe=False)
    if source.root is TypeRoot.TIME:
        # For both types of timestamps the TIME is on 1970-01-01.
        return array if target.root is TypeRoot.TIME else _of_millis(to_counts(array), array, target)
    millis = to_counts(array) * _DAY_MILLIS
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        millis = _instants(millis, _SECOND_MILLIS)
    return _of_millis(millis, array, target)


def seconds_to_timestamps(array: Array, target: AtomicType) -> Array:
    """Return INT or BIGINT seconds since 1970 as timestamps.

    With local time zone they are, as in Java Paimon, the local times of the machine's zone taken for UTC.
    """
    seconds = to_filled_numpy(array).astype(np.int64)
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        seconds = to_local(seconds, local_zone())
    return with_unit(seconds, "s", array, target)


def local_counts(array: Array) -> Array:
    """Return instants as local times of the machine's zone, in the same unit, without a zone."""
    unit = array.type.unit
    return with_nulls_of(_clock(to_counts(array), PER_SECOND[unit]), array).view(pa.timestamp(unit))


def with_unit(counts: Int64s, unit: str, like: Array, target: AtomicType) -> Array:
    """Return counts of a unit as timestamps of the target type. Raises ValueError where they don't fit."""
    arrow: Any = type_to_arrow(target)
    had, wanted = PER_SECOND[unit], PER_SECOND[arrow.unit]
    if wanted < had:
        return with_nulls_of(counts // (had // wanted), like).view(arrow)
    factor = wanted // had
    most = (2**63 - 1) // factor
    outside = (counts > most) | (counts < -most)
    if factor > 1 and outside.any():
        raise ValueError(f"a timestamp of {counts[outside][0]} {unit} since 1970 is beyond what {target} holds")
    return with_nulls_of(counts * factor, like).view(arrow)


def instants_of(array: Array) -> Array:
    """Return local times of the machine's zone as instants, in the same unit."""
    unit = array.type.unit
    return with_nulls_of(_instants(to_counts(array), PER_SECOND[unit]), array).view(pa.timestamp(unit, "UTC"))


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
    return with_nulls_of(days.astype(np.int32), array).view(pa.date32())


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
