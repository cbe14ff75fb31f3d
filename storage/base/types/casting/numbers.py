"""Casts among numbers and booleans, as Java's: integers wrap around, fractions are cut off and stop at the bounds.

A DECIMAL is rounded half up, and null where it has too many digits. Source: paimon-common `casting.Numeric*CastRule`,
`DecimalTo*CastRule` and `BooleanToNumericCastRule`.
"""

from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.casting.rules import FRACTIONS
from interbed.storage.base.types.casting.values import Array, cast_few, cast_where, from_numpy, to_numpy
from interbed.storage.base.types.data_type import INTEGERS, AtomicType, TypeRoot

_COMPACT_DIGITS = 18
"""Up to so many digits Java keeps a DECIMAL as one integer, and divides that to have a DOUBLE."""
_WIDE_DIGITS = 76
_PLAIN_SCALE = 25
"""More digits than shortest texts of numbers from 0.001 on have behind the point."""
PLAIN_LEAST, PLAIN_LIMIT = 1e-3, 1e7
"""Numbers from the one to the other have a text without an exponent in Java."""
_EXACT = Context(prec=500)


def cast_number(array: Array, source: AtomicType, target: AtomicType) -> Array:
    """Values of a numeric type or BOOLEAN as another such type; raises ValueError for a DECIMAL of NaN or infinity."""
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
    """Numbers as an Arrow type of decimals: rounded half up, null where they have more digits than it."""
    if pa.types.is_floating(array.type):
        return _double_to_decimal(array.cast(pa.float64()), target)
    if pa.types.is_integer(array.type):
        # Arrow wants room for every value of the integer's type.
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
    """One number as a value of an Arrow type of decimals; None where it has more digits than that."""
    if number.adjusted() > target.precision:
        return None if number else Decimal(0)
    # Digits far behind the point round to nothing.
    rounded = number.quantize(Decimal(1).scaleb(-target.scale), ROUND_HALF_UP, context=_EXACT)
    return rounded if abs(rounded) < Decimal(10) ** (target.precision - target.scale) else None


def _double_to_decimal(array: Array, target: Any) -> Array:
    """Doubles by their shortest text, as Java has them: 2.675 is rounded to 2.68."""
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
    """Which numbers have a text without an exponent in Java; nulls have."""
    size = np.abs(to_numpy(array))
    plain: Array = pa.array(((size >= PLAIN_LEAST) & (size < PLAIN_LIMIT)) | (size == 0))
    return plain


def _decimal_to_double(array: Any, source: AtomicType) -> Array:
    if (source.precision or 0) > _COMPACT_DIGITS:
        return cast("Array", array.cast(pa.string()).cast(pa.float64()))
    unscaled = to_numpy(_unscaled(array))
    return from_numpy(unscaled.astype(np.float64) / float(10 ** (source.scale or 0)), array)


def _unscaled(array: Any) -> Array:
    """The integers that decimals of up to 18 digits are kept as: the low half of each 128 bits."""
    if not len(array):
        return pa.array([], pa.int64())
    halves = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array)) : 2]
    return from_numpy(halves, array)


def _to_integer(array: Array, target: AtomicType) -> Array:
    values = np.trunc(np.nan_to_num(to_numpy(array).astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    # Narrow types go by way of INT.
    bounds = np.iinfo(np.int64 if target.root is TypeRoot.BIGINT else np.int32)
    above, below = values >= -float(bounds.min), values <= float(bounds.min)
    inside = np.where(above | below, 0.0, values).astype(np.int64)
    whole = np.where(above, bounds.max, np.where(below, bounds.min, inside))
    return from_numpy(whole, array).cast(type_to_arrow(target), safe=False)
