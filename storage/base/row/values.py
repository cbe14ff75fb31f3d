"""Values of atomic types as Python objects, and their text in partition directories and filters.

| type | Python | accepted, too |
|---|---|---|
| BOOLEAN | bool | |
| TINYINT, SMALLINT, INT, BIGINT | int | |
| FLOAT, DOUBLE | float | int, Decimal |
| DECIMAL | Decimal of the type's scale | int, float with an exact decimal text |
| CHAR, VARCHAR | str | |
| BINARY, VARBINARY | bytes | bytearray, memoryview |
| DATE | date, FarDate | int: days since 1970-01-01 |
| TIME | time | int: milliseconds since midnight |
| TIMESTAMP(0..6) | datetime without zone, FarTimestamp | date; int: ticks of the column's Arrow unit since the epoch |
| TIMESTAMP_LTZ(0..6) | datetime in UTC, FarTimestamp | datetime of any zone, without one it is UTC; int as above |
| TIMESTAMP(7..9), LTZ | FarTimestamp: nanoseconds since the epoch | datetime; int |

Dates and timestamps outside of Python's years 1 to 9999 are integers with a text
(interbed.storage.base.types.far_times).
"""

import math
import re
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.types.arrow import timestamp_unit
from interbed.storage.base.types.data_type import (
    BINARIES,
    INTEGERS,
    STRINGS,
    TIMESTAMPS,
    AtomicType,
    DataType,
    TypeRoot,
)
from interbed.storage.base.types.far_times import (
    TICKS_PER_SECOND,
    FarDate,
    FarTimestamp,
    date_text,
    days_of_text,
    python_scalar,
    timestamp_text,
)

EPOCH_DAY = date(1970, 1, 1)
EPOCH = datetime(1970, 1, 1)
EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
INTEGER_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}

WIDE = Context(prec=80, Emax=999_999, Emin=-999_999)
"""Decimal arithmetic in which no value of a DECIMAL(38, s) is rounded."""

_MICROSECOND = timedelta(microseconds=1)
_DAYS_TEXT = re.compile(r"[+-]?\d{1,10}")
_BEGINNING_OF_DATE = re.compile(r"(\d{4}|[+-]\d{4,7})(?:-(\d{1,2}))?")
_TIME_TEXT = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?")
_TIMESTAMP_TEXT = re.compile(
    r"(?P<date>[+-]?\d{4,10}-\d{1,2}-\d{1,2})"
    r"(?:[ T](?P<time>\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d{1,9})?)?)(?P<zone>Z|[+-]\d{2}:?\d{2})?)?"
)


def unit_of(data_type: AtomicType) -> str:
    """Return the Arrow unit of a timestamp type: ms, us or ns."""
    return timestamp_unit(data_type.precision or 0)


def ticks_to_value(ticks: int, data_type: AtomicType) -> object:
    """Return the Python value of a timestamp in ticks of its Arrow unit."""
    unit = unit_of(data_type)
    zoned = data_type.root is TypeRoot.TIMESTAMP_LTZ
    if unit == "ns":
        return FarTimestamp(ticks, unit, zoned=zoned)
    epoch = EPOCH_UTC if zoned else EPOCH
    try:
        return epoch + timedelta(microseconds=ticks * (1000 if unit == "ms" else 1))
    except OverflowError:
        return FarTimestamp(ticks, unit, zoned=zoned)


def value_to_ticks(value: object, data_type: AtomicType, *, exact: bool = False) -> int:
    """Return a timestamp in ticks of its Arrow unit.

    Digits beyond the unit are rounded down, or with `exact` raise InvalidInputError.
    """
    if isinstance(value, FarTimestamp):
        return _far_ticks(value, data_type, exact=exact)
    if isinstance(value, int):
        return value
    if not isinstance(value, datetime):
        if not isinstance(value, date):
            raise InvalidInputError(f"{value!r} is not a timestamp.")
        value = datetime(value.year, value.month, value.day)
    value, nanos = plain_datetime(value)
    if data_type.root is TypeRoot.TIMESTAMP_LTZ:
        micros = (value.replace(tzinfo=UTC) if value.tzinfo is None else value) - EPOCH_UTC
    elif value.tzinfo is None:
        micros = value - EPOCH
    else:
        raise InvalidInputError(f"{value!r} has a time zone, but the column is a TIMESTAMP without one.")
    count = micros // _MICROSECOND
    unit = unit_of(data_type)
    if exact and ((unit == "ms" and count % 1000) or (unit != "ns" and nanos)):
        raise InvalidInputError(f"{value!r} has more digits than the column.")
    return count // 1000 if unit == "ms" else count if unit == "us" else count * 1000 + nanos


def _far_ticks(value: FarTimestamp, data_type: AtomicType, *, exact: bool) -> int:
    if value.zoned and data_type.root is TypeRoot.TIMESTAMP:
        raise InvalidInputError(f"{value!r} has a time zone, but the column is a TIMESTAMP without one.")
    ticks, lost = divmod(int(value) * TICKS_PER_SECOND[unit_of(data_type)], TICKS_PER_SECOND[value.unit])
    if exact and lost:
        raise InvalidInputError(f"{value!r} has more digits than the column.")
    return ticks


def plain_datetime(value: datetime) -> tuple[datetime, int]:
    """Return a Timestamp of pandas as a datetime, and the nanoseconds that a datetime does not hold."""
    nanos = getattr(value, "nanosecond", None)
    if nanos is None:
        return value, 0
    if nanos != nanos:
        raise InvalidInputError("NaT is no timestamp")
    stamp: Any = value
    return stamp.to_pydatetime(warn=False), nanos


def order_key(value: Any, data_type: DataType) -> Any:
    """Return the sort key of a value that is not null, for dates and timestamps of all years; NaN is greatest."""
    if isinstance(data_type, AtomicType) and data_type.root in TIMESTAMPS:
        return value_to_ticks(value, data_type)
    if isinstance(data_type, AtomicType) and data_type.root is TypeRoot.DATE:
        return value_to_days(value)
    if isinstance(value, float):
        return (True, 0.0) if value != value else (False, value)
    return value


def days_to_value(days: int) -> object:
    """Return the Python value of a DATE in days since 1970-01-01."""
    try:
        return EPOCH_DAY + timedelta(days=days)
    except OverflowError:
        return FarDate(days)


def millis_to_time(millis: int) -> object:
    """Return the Python value of a TIME in milliseconds since midnight."""
    if not 0 <= millis < 86_400_000:
        return millis
    seconds, rest = divmod(millis, 1000)
    return time(seconds // 3600, seconds // 60 % 60, seconds % 60, rest * 1000)


def value_to_days(value: object) -> int:
    """Return a DATE in days since 1970-01-01."""
    if isinstance(value, int):
        return value
    if isinstance(value, date) and not isinstance(value, datetime):
        return (value - EPOCH_DAY).days
    raise InvalidInputError(f"{value!r} is not a date.")


def value_to_millis(value: object) -> int:
    """Return a TIME in milliseconds since midnight."""
    if isinstance(value, int):
        return value
    if isinstance(value, time) and value.tzinfo is None:
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    raise InvalidInputError(f"{value!r} is not a time of day.")


def as_decimal(value: object) -> Decimal | None:
    """Return a number as an exact decimal (a float by its shortest text); None for other values."""
    if isinstance(value, bool):
        return None
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int):
        return Decimal(value)
    # A float64 of NumPy is a float whose `repr` is no number.
    return Decimal(repr(float(value))) if isinstance(value, float) else None


def to_float32(value: float) -> float:
    """Return the nearest float of 32 bits; infinite beyond its range."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def coerce(value: object, data_type: DataType) -> object:
    """Return a value that is not None as the Python value of the type (the table above). Raises InvalidInputError."""
    if not isinstance(data_type, AtomicType):
        raise InvalidInputError("a nested type has no literals")
    root = data_type.root
    value = python_scalar(value)
    if root is TypeRoot.BOOLEAN and isinstance(value, bool):
        return value
    if root in STRINGS and isinstance(value, str):
        return value
    if root in BINARIES and isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    # Both are integers, whose numbers have another meaning for other types.
    is_far = (isinstance(value, FarDate) and root is not TypeRoot.DATE) or (
        isinstance(value, FarTimestamp) and root not in TIMESTAMPS
    )
    if isinstance(value, bool) or is_far:
        raise _misfit(value, data_type)
    if root in INTEGERS or root is TypeRoot.DECIMAL:
        return _coerce_exact(value, data_type)
    if root is TypeRoot.FLOAT or root is TypeRoot.DOUBLE:
        if isinstance(value, int | float | Decimal):
            try:
                number = float(value)
            except OverflowError:
                raise _misfit(value, data_type) from None
            found = to_float32(number) if root is TypeRoot.FLOAT else number
            if (isinstance(value, int) and found != value) or (math.isinf(found) and not math.isinf(number)):
                raise _misfit(value, data_type)
            return found
        raise _misfit(value, data_type)
    if root is TypeRoot.TIME and isinstance(value, time) and value.microsecond % 1000:
        raise _misfit(value, data_type)
    try:
        if root is TypeRoot.DATE:
            return days_to_value(_fitting(value_to_days(value), 32, data_type))
        if root is TypeRoot.TIME:
            return millis_to_time(_fitting(value_to_millis(value), 32, data_type))
        if root in TIMESTAMPS:
            return ticks_to_value(_fitting(value_to_ticks(value, data_type, exact=True), 64, data_type), data_type)
    except InvalidInputError:
        raise _misfit(value, data_type) from None
    raise _misfit(value, data_type)


def parse_text(text: str, data_type: DataType) -> object:
    """Return the value of a text in the form of partition specifications. Raises InvalidInputError.

    DATE takes `2024-01-31` or days since the epoch, TIME `12:34:56.789` or milliseconds, timestamps
    `2024-01-31 12:34:56.789` with a blank or a T.
    """
    if not isinstance(data_type, AtomicType):
        raise InvalidInputError("a nested type has no literals")
    root = data_type.root
    if root in STRINGS:
        return text
    if root in BINARIES:
        return text.encode()
    stripped = text.strip()
    if root is TypeRoot.BOOLEAN:
        known = {"true": True, "false": False, "t": True, "f": False, "1": True, "0": False, "yes": True, "no": False}
        if stripped.lower() in known:
            return known[stripped.lower()]
        raise _misfit(text, data_type)
    if root in INTEGERS and re.fullmatch(r"[+-]?[0-9]+", stripped):
        return coerce(int(stripped), data_type)
    try:
        if root is TypeRoot.DECIMAL:
            return coerce(Decimal(stripped), data_type)
        if root is TypeRoot.FLOAT or root is TypeRoot.DOUBLE:
            return coerce(float(stripped), data_type)
        if root is TypeRoot.DATE:
            return days_to_value(_fitting(parse_date(stripped), 32, data_type))
        if root is TypeRoot.TIME:
            if stripped.isdigit():
                return millis_to_time(_fitting(int(stripped), 32, data_type))
            millis, lost = divmod(parse_time_nanos(stripped), 1_000_000)
            if lost:
                raise ValueError(text)
            return millis_to_time(millis)
        if root in TIMESTAMPS:
            if root is TypeRoot.TIMESTAMP and has_zone(stripped):
                raise ValueError(text)
            ticks, lost = divmod(parse_timestamp_nanos(stripped), 1_000_000_000 // TICKS_PER_SECOND[unit_of(data_type)])
            if lost:
                raise ValueError(text)
            return ticks_to_value(_fitting(ticks, 64, data_type), data_type)
    except (ValueError, InvalidOperation):
        raise _misfit(text, data_type) from None
    raise _misfit(text, data_type)


def parse_literal(text: str, data_type: DataType) -> object:
    """Return the value of a literal: as `parse_text`, but never a number of days or milliseconds.

    `2024` and `2024-05` are the first day of the year and of the month, as in Spark. Raises InvalidInputError.
    """
    root = data_type.root if isinstance(data_type, AtomicType) else None
    if root is TypeRoot.DATE or root in TIMESTAMPS:
        whole = whole_date(text.strip())
        if "-" in whole[1:]:
            return parse_text(whole, data_type)
        raise _misfit(text, data_type)
    if root is TypeRoot.TIME and ":" not in text:
        raise _misfit(text, data_type)
    return parse_text(text, data_type)


def whole_date(text: str) -> str:
    """Return `2024` and `2024-05` as the first day of the year or month; any other text unchanged."""
    begins = _BEGINNING_OF_DATE.fullmatch(text)
    return text if begins is None else f"{begins[1]}-{begins[2] or '01'}-01"


def parse_date(text: str) -> int:
    """Return the days since the epoch of `2024-01-31` or of the number of days as text. Raises ValueError."""
    if _DAYS_TEXT.fullmatch(text) is not None:
        return int(text)
    days = days_of_text(text)
    if days is None:
        raise ValueError(text)
    return days


def parse_time_nanos(text: str) -> int:
    """Return the nanoseconds since midnight of `12:34`, `12:34:56` or `12:34:56.789`. Raises ValueError."""
    match = _TIME_TEXT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    time(hour, minute, second)  # Raises ValueError for 25:00:00.
    return ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + int((match[4] or "").ljust(9, "0"))


def parse_timestamp_nanos(text: str) -> int:
    """Return the nanoseconds since the epoch of `2024-01-31[ 12:34[:56[.789]][+01:00]]`. Raises ValueError."""
    match = _TIMESTAMP_TEXT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    nanos = parse_date(match["date"]) * 86_400_000_000_000
    if match["time"]:
        nanos += parse_time_nanos(match["time"])
    zone = match["zone"]
    if zone and zone != "Z":
        sign = -1 if zone[0] == "-" else 1
        digits = zone[1:].replace(":", "")
        if int(digits[:2]) > 23 or int(digits[2:]) > 59:
            # No time zone has such an offset; Arrow refuses it, too.
            raise ValueError(text)
        nanos -= sign * (int(digits[:2]) * 60 + int(digits[2:])) * 60_000_000_000
    return nanos


def has_zone(text: str) -> bool:
    """Return whether the text of a timestamp, as for `parse_timestamp_nanos`, has a time zone."""
    match = _TIMESTAMP_TEXT.fullmatch(text)
    return match is not None and match["zone"] is not None


def _coerce_exact(value: object, data_type: AtomicType) -> object:
    number = as_decimal(value)
    if number is None or not number.is_finite():
        raise _misfit(value, data_type)
    if data_type.root is TypeRoot.DECIMAL:
        scale, precision = data_type.scale or 0, data_type.precision or 0
        try:
            scaled = number.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP, context=WIDE)
        except InvalidOperation:
            raise _misfit(value, data_type) from None
        if scaled != number or abs(unscaled(scaled, scale)) >= 10**precision:
            raise _misfit(value, data_type)
        return scaled
    if number != number.to_integral_value():
        raise _misfit(value, data_type)
    return _fitting(int(number), INTEGER_BITS[data_type.root], data_type)


def exact_decimal(unscaled: int, scale: int) -> Decimal:
    """Return the decimal of an unscaled value, exactly; Decimal's default context rounds to 28 digits."""
    return Decimal(unscaled).scaleb(-scale, context=WIDE)


def unscaled(value: Decimal, scale: int) -> int:
    """Return the unscaled integer of a decimal of that scale."""
    return int(value.scaleb(scale, context=WIDE))


def _fitting(number: int, bits: int, data_type: AtomicType) -> int:
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise _misfit(number, data_type)
    return number


def _misfit(value: object, data_type: DataType) -> InvalidInputError:
    return InvalidInputError(f"{value!r} is not a value of type {type_name(data_type)}")


def type_name(data_type: DataType) -> str:
    """Return the name of a type in messages: its SQL without NOT NULL."""
    return str(data_type.with_nullable(True))


# -- text of partition directories -------------------------------------------------------------------------------------


def render_text(value: object, data_type: DataType, *, legacy: bool) -> str:
    """Return the text of a partition value, as Paimon renders it.

    `legacy` is the option `partition.legacy-name`: dates as days, times as milliseconds, timestamps in ISO 8601.
    TIMESTAMP_LTZ is rendered in UTC, so that all processes agree. Raises NotSupportedError for binary legacy names,
    which Paimon builds from a memory address.
    """
    if not isinstance(data_type, AtomicType):
        raise NotSupportedError(f"A partition column can't have the type {type_name(data_type)}.")
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return "true" if value else "false"
        case TypeRoot.FLOAT | TypeRoot.DOUBLE if isinstance(value, float):
            return java_float_text(value, single=data_type.root is TypeRoot.FLOAT)
        case TypeRoot.DECIMAL if isinstance(value, Decimal):
            return f"{value:f}"
        case TypeRoot.BINARY | TypeRoot.VARBINARY if isinstance(value, bytes):
            if legacy:
                raise NotSupportedError(
                    "A binary partition column needs the option 'partition.legacy-name' = 'false': "
                    "legacy names of binary values are not reproducible."
                )
            return value.decode(errors="replace")
        case TypeRoot.DATE:
            return str(value_to_days(value)) if legacy else date_text(value_to_days(value))
        case TypeRoot.TIME:
            millis = value_to_millis(value)
            return str(millis) if legacy else _time_text(millis, data_type.precision or 0)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _timestamp_text(value_to_ticks(value, data_type), data_type, legacy=legacy)
        case _:
            return str(value)


def java_float_text(value: float, *, single: bool) -> str:
    """Return the text of a float as in Java 19 and later (Float.toString, Double.toString): `1.5`, `1.0E20`, `NaN`.

    Older versions of Java write more digits than needed for some numbers, above all for floats beyond 2^24.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(_shortest_float32(value) if single else repr(value)).normalize().as_tuple()
    if len(digits) == 1:
        # Java writes at least two digits and chooses the closest: the smallest double is 4.9E-324, not 5.0E-324.
        sign, digits, exponent = Decimal(f"{value:.1e}").normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    minus = "-" if sign else ""
    if value == 0:
        return f"{minus}0.0"
    point = len(text) + exponent  # The value is 0.<text> * 10^point.
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        whole = text[:point].ljust(point, "0")
        return f"{minus}{whole}.{text[point:] or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


def _shortest_float32(value: float) -> str:
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if to_float32(float(text)) == value:
            return text
    return repr(value)


def _time_text(millis: int, precision: int) -> str:
    seconds, rest = divmod(millis % 86_400_000, 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if precision == 0:
        return text
    # At least one digit, then as many as the precision has, without zeros at the end.
    digits = f"{rest:03}"[:precision]
    return f"{text}.{digits[0]}{digits[1:].rstrip('0')}"


def _timestamp_text(ticks: int, data_type: AtomicType, *, legacy: bool) -> str:
    unit = unit_of(data_type)
    if not legacy:
        return timestamp_text(ticks, unit, data_type.precision or 0)
    # ISO 8601 as java.time writes it: no seconds when they are zero, a fraction in groups of three digits.
    day, _, clock = timestamp_text(ticks, unit, 9).rpartition(" ")
    second, fraction = clock.split(".")
    if fraction == "000000000":
        return f"{day}T{second.removesuffix(':00')}"
    groups = 3 if fraction.endswith("000000") else 6 if fraction.endswith("000") else 9
    return f"{day}T{second}.{fraction[:groups]}"
