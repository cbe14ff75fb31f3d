"""Where a filter's literal lies among the values of a column's type, and the literal as a scalar of Arrow."""

import math
from datetime import datetime
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa

from interbed.storage.base.arrow_values import scalar_of
from interbed.storage.base.errors import FilterError, InvalidInputError
from interbed.storage.base.row.values import (
    INTEGER_BITS,
    WIDE,
    as_decimal,
    coerce,
    ticks_to_value,
    value_to_ticks,
)
from interbed.storage.base.types.data_type import INTEGERS, TIMESTAMPS, AtomicType, DataField, TypeRoot


def locate(value: object, field: DataField) -> tuple[object, bool] | None:
    """The greatest value of the column's type that is not above the literal, and whether it is equal to it.

    None when the literal is beyond the type's range. Raises FilterError for a literal of another kind.
    """
    data_type = field.type
    try:
        if isinstance(data_type, AtomicType):
            if data_type.root in INTEGERS or data_type.root is TypeRoot.DECIMAL:
                number = as_decimal(value)
                if number is not None:
                    return _locate_number(number, data_type)
            elif data_type.root in TIMESTAMPS and isinstance(value, datetime):
                return _locate_instant(value, data_type)
        return coerce(value, data_type), True
    except InvalidInputError as error:
        raise FilterError(f"The filter compares the column {field.name!r}, but {error}.") from None


def _locate_number(number: Decimal, data_type: AtomicType) -> tuple[object, bool] | None:
    scale = data_type.scale or 0
    if data_type.root is TypeRoot.DECIMAL:
        limit = 10 ** (data_type.precision or 0)
        low, high = 1 - limit, limit - 1
    else:
        bits = INTEGER_BITS[data_type.root]
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if not number.is_finite() or number.adjusted() > 40:
        return None
    scaled = number.scaleb(scale, context=WIDE)
    floor = int(scaled.to_integral_value(rounding=ROUND_FLOOR))
    exact = Decimal(floor) == scaled
    if floor > high or floor < low:
        # Between the greatest value and the next number counts as beyond, too: nothing lies there.
        return None
    value = Decimal(floor).scaleb(-scale, context=WIDE) if data_type.root is TypeRoot.DECIMAL else floor
    return value, exact


def _locate_instant(value: datetime, data_type: AtomicType) -> tuple[object, bool]:
    ticks = value_to_ticks(value, data_type)
    floor = ticks_to_value(ticks, data_type)
    try:
        value_to_ticks(value, data_type, exact=True)
    except InvalidInputError:
        return floor, False
    return coerce(value, data_type), True


def is_positive(value: object) -> bool:
    """Whether the literal is a number above zero, as NaN is."""
    number = as_decimal(value)
    return number is not None and (number.is_nan() or math.copysign(1, number) > 0)


def literal(value: object, arrow: pa.DataType) -> "pa.Scalar[Any]":
    """A bound literal as a scalar of a column's Arrow type."""
    if isinstance(value, Decimal) and isinstance(arrow, pa.Decimal128Type):
        # Arrow refuses a decimal whose scale is not the type's, so it is given as text.
        return pa.scalar(f"{value:.{arrow.scale}f}").cast(arrow)
    # Of one query each file asks for the same ones. Equal numbers of two types are not the same.
    return _plain(value, arrow) if type(value) in (int, str) else scalar_of(value, arrow)


@lru_cache(maxsize=256)
def _plain(value: object, arrow: pa.DataType) -> "pa.Scalar[Any]":
    return scalar_of(value, arrow)
