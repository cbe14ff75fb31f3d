"""Operands of conditions: a column or a value inside of one, and the literal that it is compared with.

`locate` finds the place of a literal among the values of a column's type; `literal` makes it a scalar of Arrow. A
literal of another type than the column's is cast by the table in docs/sql.md ("Literals of other types"), which is
Spark's of ANSI mode: text is cast to the column's type, numbers are compared as numbers, dates and timestamps as times.
All other pairs of types are refused: a number is no date, and a text column is compared with text alone.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import exact_decimals, scalar_of
from interbed.storage.base.errors import FilterError, InvalidInputError
from interbed.storage.base.row.values import (
    EPOCH,
    EPOCH_UTC,
    INTEGER_BITS,
    WIDE,
    as_decimal,
    coerce,
    days_to_value,
    has_zone,
    millis_to_time,
    parse_date,
    parse_time_nanos,
    parse_timestamp_nanos,
    plain_datetime,
    ticks_to_value,
    to_float32,
    type_name,
    unit_of,
    value_to_days,
    whole_date,
)
from interbed.storage.base.shown_text import did_you_mean
from interbed.storage.base.types.data_type import (
    BINARIES,
    INTEGERS,
    STRINGS,
    TIMESTAMPS,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from interbed.storage.base.types.far_times import TICKS_PER_SECOND, FarDate, FarTimestamp, python_scalar

_DAY_NANOS = 86_400_000_000_000
_DAY_AND_MORE = re.compile(r"([+-]?\d{4,10}-\d{1,2}-\d{1,2})[ T].*")
_DAY_AND_ZONE = re.compile(
    r"[+-]?\d{4,10}-\d{1,2}-\d{1,2}[ T]\d{1,2}:\d{1,2}(:\d{1,2}(\.\d+)?)?\s*(Z|UTC?|GMT|[+-]\d|[A-Za-z]+/).*"
)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_NAMED_NUMBER = re.compile(r"nan|[+-]?inf(inity)?", re.IGNORECASE)
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_MICROS_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Instant:
    """A timestamp literal that is not bound to a column yet; `zoned` if it names a time zone."""

    nanos: int
    zoned: bool


class LiteralPlace(NamedTuple):
    """The greatest value of a type that is not greater than a literal, and whether it is equal to the literal.

    `beyond` is 1 for a literal above all values of the type, and -1 for a literal below them; then there is no value.
    """

    value: object = None
    exact: bool = True
    beyond: int = 0


_ABOVE, _BELOW = LiteralPlace(exact=False, beyond=1), LiteralPlace(exact=False, beyond=-1)


def locate(value: object, field: DataField) -> LiteralPlace:
    """Return the place of the literal among the values of the column's type.

    Raises FilterError for a literal of a type that can't be compared with the column.
    """
    try:
        value = python_scalar(value)
        return _locate(value, field)
    except (InvalidInputError, ValueError, InvalidOperation) as error:
        reason = str(error) if isinstance(error, InvalidInputError) else _misfit(value, field)
        if isinstance(value, str) and not value:
            reason += f"; rows without a value are found by `{field.name} IS NULL`"
        raise FilterError(f"The filter compares the column {field.name!r}, but {reason}.") from None


def _locate(value: object, field: DataField) -> LiteralPlace:
    data_type = field.type
    if not isinstance(data_type, AtomicType):
        return LiteralPlace(coerce(value, data_type))
    root = data_type.root
    # Common types of keys come first, because lists of them are long.
    if type(value) is str and root in STRINGS:
        return LiteralPlace(value)
    bits = INTEGER_BITS.get(root) if type(value) is int else None
    if bits is not None and isinstance(value, int) and -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        return LiteralPlace(value)
    if root in STRINGS and not isinstance(value, str):
        raise InvalidInputError(f"{_misfit(value, field)}; text is compared with text in quotes")
    if root in BINARIES and isinstance(value, str):
        return LiteralPlace(value.encode())
    if root is TypeRoot.BOOLEAN and isinstance(value, str):
        return LiteralPlace(_boolean(value))
    if root in INTEGERS or root is TypeRoot.DECIMAL or root in _FLOATS:
        return _locate_number(value, data_type)
    if root is TypeRoot.DATE:
        return _locate_day(value, data_type)
    if root is TypeRoot.TIME:
        return _locate_time(value)
    if root in TIMESTAMPS:
        return _located(_nanos(value, data_type), 1_000_000_000 // TICKS_PER_SECOND[unit_of(data_type)], data_type)
    return LiteralPlace(coerce(value, data_type))


def _misfit(value: object, field: DataField) -> str:
    if isinstance(value, Instant):
        return f"a timestamp is not a value of type {type_name(field.type)}"
    hint = ""
    if isinstance(field.type, AtomicType) and field.type.root is TypeRoot.DATE:
        hint = ", which is compared with DATE '2024-01-31'"
    elif isinstance(field.type, AtomicType) and field.type.root in TIMESTAMPS:
        if isinstance(value, str):
            return f"{value!r} is no timestamp"
        hint = ", which is compared with TIMESTAMP '2024-01-31 12:34:56'"
    return f"{value!r} is not a value of type {type_name(field.type)}{hint}"


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE and word not in _FALSE:
        raise ValueError(text)
    return word in _TRUE


# -- numbers -----------------------------------------------------------------------------------------------------------


def _locate_number(value: object, data_type: AtomicType) -> LiteralPlace:
    if isinstance(value, str):
        value = _number_of_text(value, data_type)
    if isinstance(value, FarDate | FarTimestamp):
        raise ValueError(value)
    number = as_decimal(value)
    if number is None:
        raise ValueError(value)
    if data_type.root in _FLOATS:
        return _locate_float(value, data_type)
    scale = data_type.scale or 0
    if data_type.root is TypeRoot.DECIMAL:
        limit = 10 ** (data_type.precision or 0)
        low, high = 1 - limit, limit - 1
    else:
        bits = INTEGER_BITS[data_type.root]
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if number.is_nan():
        # NaN is the greatest number.
        return _ABOVE
    if not number.is_finite() or number.adjusted() > 40:
        return _ABOVE if number > 0 else _BELOW
    scaled = number.scaleb(scale, context=WIDE)
    floor = int(scaled.to_integral_value(rounding=ROUND_FLOOR))
    if floor > high or floor < low:
        # A literal between the greatest value and the next number is beyond, too: the type has no value there.
        return _ABOVE if floor > high else _BELOW
    found = Decimal(floor).scaleb(-scale, context=WIDE) if data_type.root is TypeRoot.DECIMAL else floor
    return LiteralPlace(found, Decimal(floor) == scaled)


def _number_of_text(text: str, data_type: AtomicType) -> int | float | Decimal:
    stripped = text.strip()
    if data_type.root in INTEGERS:
        if re.fullmatch(r"[+-]?[0-9]{1,4000}", stripped) is None:
            raise ValueError(text)
        return int(stripped)
    if _NAMED_NUMBER.fullmatch(stripped) is not None:
        return float(stripped)
    if _NUMBER.fullmatch(stripped) is None:
        raise ValueError(text)
    return Decimal(stripped) if data_type.root is TypeRoot.DECIMAL else float(stripped)


def _locate_float(value: Any, data_type: AtomicType) -> LiteralPlace:
    try:
        number = float(value)
    except OverflowError:
        return _ABOVE if value > 0 else _BELOW
    if data_type.root is TypeRoot.DOUBLE:
        return LiteralPlace(number)
    # A FLOAT is compared as a DOUBLE, so 0.1 is between two of its values.
    single = to_float32(number)
    if single == number or number != number:
        return LiteralPlace(single)
    if single > number:
        single = float(np.nextafter(np.float32(single), np.float32(-math.inf)))
    return LiteralPlace(single, exact=False)


# -- times -------------------------------------------------------------------------------------------------------------


def _located(nanos: int, per_tick: int, data_type: AtomicType) -> LiteralPlace:
    ticks, lost = divmod(nanos, per_tick)
    if not -(1 << 63) <= ticks < 1 << 63:
        return _ABOVE if ticks > 0 else _BELOW
    return LiteralPlace(ticks_to_value(ticks, data_type), not lost)


def _locate_day(value: object, data_type: AtomicType) -> LiteralPlace:
    lost = 0
    match value:
        case FarDate():
            days = int(value)
        case str():
            text = value.strip()
            # As in Spark's cast of text to DATE: a time after the day is ignored.
            if _DAY_AND_ZONE.fullmatch(text) is not None:
                raise InvalidInputError(_zoned(value))
            more = _DAY_AND_MORE.fullmatch(text)
            days = _whole_days(text if more is None else more[1])
        case datetime() | Instant() | FarTimestamp():
            if _has_zone(value):
                raise InvalidInputError(_zoned(value))
            days, lost = divmod(_nanos_of(value), _DAY_NANOS)
        case date():
            days = value_to_days(value)
        case _:
            raise ValueError(value)
    if not -(1 << 31) <= days < 1 << 31:
        return _ABOVE if days > 0 else _BELOW
    return LiteralPlace(days_to_value(days), not lost)


def _whole_days(text: str) -> int:
    whole = whole_date(text)
    if "-" not in whole[1:]:
        # A number of days is no date.
        raise ValueError(text)
    return parse_date(whole)


def _locate_time(value: object) -> LiteralPlace:
    match value:
        case str() if ":" in value:
            nanos = parse_time_nanos(value.strip())
        case time() if value.tzinfo is None:
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            nanos = seconds * 1_000_000_000 + value.microsecond * 1000
        case _:
            raise ValueError(value)
    millis, lost = divmod(nanos, 1_000_000)
    return LiteralPlace(millis_to_time(millis), not lost)


def _nanos(value: object, data_type: AtomicType) -> int:
    """Return the nanoseconds since the epoch of a literal for a timestamp. Raises ValueError for other literals."""
    if isinstance(value, str):
        text = whole_date(value.strip())
        value = Instant(parse_timestamp_nanos(text), has_zone(text))
    if isinstance(value, Instant) and value.nanos % 1000 and unit_of(data_type) != "ns":
        raise InvalidInputError(
            f"it has {data_type.precision or 0} digits of a second and the literal more than {_MICROS_DIGITS}"
        )
    if _has_zone(value) and data_type.root is TypeRoot.TIMESTAMP:
        shown = "the literal" if isinstance(value, Instant) else repr(value)
        raise InvalidInputError(f"{shown} has a time zone, and the column is a TIMESTAMP without one")
    return _nanos_of(value)


def _has_zone(value: object) -> bool:
    if isinstance(value, Instant | FarTimestamp):
        return value.zoned
    return isinstance(value, datetime) and value.tzinfo is not None


def _zoned(value: object) -> str:
    shown = "the literal" if isinstance(value, Instant) else repr(value)
    return f"{shown} has a time zone, and which DATE an instant is on depends on one; compare with the date itself"


def _nanos_of(value: object) -> int:
    match value:
        case Instant():
            return value.nanos
        case FarTimestamp():
            return int(value) * (1_000_000_000 // TICKS_PER_SECOND[value.unit])
        case FarDate():
            return int(value) * _DAY_NANOS
        case datetime():
            plain, nanos = plain_datetime(value)
            passed = plain - EPOCH if plain.tzinfo is None else plain - EPOCH_UTC
            return ((passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds) * 1000 + nanos
        case date():
            return value_to_days(value) * _DAY_NANOS
        case _:
            raise ValueError(value)


# -- scalars -----------------------------------------------------------------------------------------------------------


def literal(value: object, arrow: pa.DataType) -> "pa.Scalar[Any]":
    """Return a bound literal as a scalar of a column's Arrow type."""
    if isinstance(value, Decimal) and isinstance(arrow, pa.Decimal128Type):
        # Arrow refuses a decimal whose scale is not the type's, so it is given as text.
        exact: pa.Scalar[Any] = exact_decimals(pa.array([f"{value:.{arrow.scale}f}"]), arrow)[0]
        return exact
    # Every file of a query needs the same scalars. Equal numbers of two types are not the same key.
    return _plain(value, arrow) if type(value) in (int, str) else scalar_of(value, arrow)


@lru_cache(maxsize=256)
def _plain(value: object, arrow: pa.DataType) -> "pa.Scalar[Any]":
    return scalar_of(value, arrow)


# -- references --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InnerReference:
    """Reference to a value inside of a column: `s.f` of a ROW, `m['key']` of a MAP; null without an entry or a MAP.

    `steps` are the path from the column to the value: the name of a ROW's field, the key of a MAP's entry.
    """

    column: str
    steps: tuple[object, ...]

    def __str__(self) -> str:
        return self.column + "".join(f"[{_step_text(step)}]" for step in self.steps)


Reference: TypeAlias = str | InnerReference
"""The name of a column, or a value inside of one."""


def column_of(reference: Reference) -> str:
    """Return the column of the reference."""
    return reference.column if isinstance(reference, InnerReference) else reference


def renamed(reference: Reference, names: Mapping[str, str]) -> Reference:
    """Return the reference with its column renamed; a column that is not in the map keeps its name."""
    if isinstance(reference, InnerReference):
        return InnerReference(names.get(reference.column, reference.column), reference.steps)
    return names.get(reference, reference)


def find(reference: Reference, fields: Mapping[str, DataField]) -> tuple[Reference, DataField]:
    """Return the reference with keys as values of their types, and its target as a field named by the reference's text.

    Raises FilterError for an unknown column or field, and for a key of another type.
    """
    name = column_of(reference)
    field = fields.get(name)
    if field is None:
        raise FilterError(
            f"The filter names the column {name!r}; the columns are {', '.join(fields) or 'none'}."
            f"{did_you_mean(name, fields)}"
        )
    if isinstance(reference, str):
        return reference, field
    data_type = field.type
    steps: list[object] = []
    for step in reference.steps:
        found, data_type = _inside(data_type, step, str(InnerReference(name, tuple(steps))))
        steps.append(found)
    bound = InnerReference(name, tuple(steps))
    return bound, DataField(field.id, str(bound), data_type)


def _inside(data_type: DataType, step: object, where: str) -> tuple[object, DataType]:
    """Return the step as a value of its type, and the type of its target."""
    match data_type:
        case RowType(fields=fields):
            by_name = {f.name: f.type for f in fields}
            if not isinstance(step, str) or step not in by_name:
                raise FilterError(
                    f"The filter names the field {step!r} of {where}; its fields are {', '.join(by_name)}."
                    f"{did_you_mean(str(step), by_name)}"
                )
            return step, by_name[step].with_nullable(True)
        case MapType(key=AtomicType() as key, value=value):
            place = None if step is None else locate(step, DataField(0, f"{where}[…]", key))
            if place is None or not place.exact:
                raise FilterError(
                    f"The filter asks for the key {step!r} of {where}; its keys are {type_name(key)}, which has no "
                    "such value."
                )
            return place.value, value.with_nullable(True)
        case _:
            raise FilterError(
                f"The filter looks for {step!r} inside of {where}, which is {type_name(data_type)}; only a ROW has "
                "fields, and only a MAP entries by key."
            )


def _step_text(step: object) -> str:
    return "'" + step.replace("'", "''") + "'" if isinstance(step, str) else str(step)
