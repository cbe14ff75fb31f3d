"""Cast of a column to another type, by the rules of Paimon; and the values of texts, in Java Paimon's grammar.

A text that is no value of the type is an error, as it is in Java; otherwise the value would be lost. Of integers as
`2020.99` the digits before the point count. DOUBLE is read as by Java's parseDouble. Dates are `2026-1-31` or a number
of days, times `8:05:00.5+01:00` or milliseconds, timestamps `2026-01-31 08:00:00.5` or, in digits alone, a number of
the type's units. Source: paimon-common `casting.StringTo*CastRule`, `utils.BinaryStringUtils` and
`utils.DateTimeUtils`.
"""

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import array_of, scalar_of
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.casting.formatting import cast_to_text, resized_bytes
from interbed.storage.base.types.casting.numeric import (
    PER_SECOND,
    Array,
    cast_few,
    cast_number,
    cast_time,
    cast_where,
    fitted,
    instants_of,
    seconds_to_timestamps,
    to_counts,
    with_unit,
)
from interbed.storage.base.types.casting.rules import FRACTIONS, NUMBERS
from interbed.storage.base.types.data_type import (
    BINARIES,
    INTEGERS,
    STRINGS,
    TIMESTAMPS,
    AtomicType,
    DataType,
    TypeRoot,
)


def cast_values(array: "pa.Array[Any]", source: DataType, target: AtomicType) -> Array:
    """Return values cast to another type, for types for which `has_cast` is true; nulls stay null.

    Arrays have the Arrow types of their logical types. A DECIMAL that has too many digits becomes null. Raises
    ValueError for a text that is no value of the type, a DECIMAL of NaN, and a timestamp that 64 bits don't hold.
    """
    if target.root in STRINGS:
        return cast_to_text(array, source, target)
    if not isinstance(source, AtomicType):
        raise TypeError(f"There is no cast from {source} to {target}.")
    if target.root in BINARIES:
        return resized_bytes(array.cast(type_to_arrow(target)), target)
    if source.root in STRINGS:
        return cast_text(array, target)
    if source.root in NUMBERS or source.root is TypeRoot.BOOLEAN:
        return seconds_to_timestamps(array, target) if target.root in TIMESTAMPS else cast_number(array, source, target)
    return cast_time(array, source, target)


# -- values of texts ---------------------------------------------------------------------------------------------------

_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")
_COMMON = {
    **dict.fromkeys(INTEGERS, r"^-?[0-9]{1,18}$"),
    **dict.fromkeys(FRACTIONS, r"^-?[0-9]{1,15}(\.[0-9]{0,20})?$"),
    TypeRoot.DATE: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    TypeRoot.TIME: r"^[0-9]{2}:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,3})?$",
}
"""Patterns of the texts that Arrow can cast; all others are parsed one by one."""
_INTEGER = re.compile(r"([+-]?[0-9]*)(\.[0-9]*)?")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_FRACTION = re.compile(rf"({_DECIMAL.pattern})[fFdD]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+)[fFdD]?")
_NAMED = re.compile(r"[+-]?(NaN|Infinity)")
_TIMESTAMP = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]*)-(?P<day>[0-9]*)"
    r"(?P<time> (?P<hour>[0-9]*):(?P<minute>[0-9]*):(?P<second>[0-9]*)(?:\.(?P<fraction>[0-9]{0,9}))?)?"
)
_TIME = re.compile(
    r"(?P<hour>[^:.+-]*)(?::(?P<minute>[^:.+-]*)(?::(?P<second>[^:.+-]*)(?P<dot>\.(?P<fraction>[^:+-]*))?)?)?"
    r"(?P<zone>(?P<sign>[+-])(?P<zone_hour>[^:]*)(?::(?P<zone_minute>.*))?)?"
)
_EPOCH = date(1970, 1, 1).toordinal()
_DAY_SECONDS = 86_400
_NANOS_DIGITS = 9
_INT_BITS = 32
_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
"""The unit of a timestamp that is written as a number, by the fractional digits; Paimon has no other precisions."""


def cast_text(array: Array, target: AtomicType) -> Array:
    """Return texts as values of a type other than texts and bytes. Raises ValueError naming an invalid text."""
    root = target.root
    if root is TypeRoot.BOOLEAN:
        return _booleans(array, target)
    if root in TIMESTAMPS:
        return _timestamps(array, target)
    arrow = type_to_arrow(target)

    def few(texts: Array) -> Array:
        return cast_few(texts, arrow, lambda text: None if text is None else _one(text, target))

    if root is TypeRoot.DECIMAL:
        whole, scale = (target.precision or 0) - (target.scale or 0), target.scale or 0
        pattern = rf"^-?[0-9]{{1,{max(whole, 1)}}}(\.[0-9]{{0,{scale}}})?$"
        return few(array) if whole == 0 else _by_form(array, pattern, lambda texts: texts.cast(arrow), few)
    if root is TypeRoot.TIME:
        return _by_form(array, _COMMON[root], _common_times, few)
    return _by_form(array, _COMMON[root], lambda texts: texts.cast(arrow), few)


def _by_form(array: Any, pattern: str, many: Callable[[Array], Array], few: Callable[[Array], Array]) -> Array:
    matching: Any = pc.match_substring_regex(array, pattern)
    common = matching.fill_null(True)
    try:
        return cast_where(common, array, many, few)
    except pa.ArrowInvalid:
        # A text of a common form with an invalid value: 2023-02-30, 99999999999 as an INT.
        return few(array)


def _one(text: str, target: AtomicType) -> Any:
    root = target.root
    if root in INTEGERS:
        value: Any = _integer(text, type_to_arrow(target).bit_width)
    elif root in FRACTIONS:
        value = _fraction(text, target)
    elif root is TypeRoot.DECIMAL:
        return _decimal(text, target)
    elif root is TypeRoot.DATE:
        value = _days(text)
    else:
        value = _millis(text)
    if value is None:
        raise _no_value(text, target)
    return value


def _no_value(text: str, target: AtomicType) -> ValueError:
    return ValueError(f"{text!r} is no {target.type}")


def _booleans(array: Array, target: AtomicType) -> Array:
    lower = pc.utf8_lower(array)
    yes = pc.is_in(lower, value_set=array_of(_TRUE, pa.string()))
    known = pc.or_(pc.is_in(lower, value_set=array_of((*_TRUE, *_FALSE), pa.string())), pc.is_null(array))
    unknown = array.filter(pc.invert(known))
    if len(unknown):
        raise _no_value(unknown[0].as_py(), target)
    return cast("Array", pc.if_else(pc.is_valid(array), yes, scalar_of(None, pa.bool_())))


def _integer(text: str, bits: int) -> int | None:
    match = _INTEGER.fullmatch(text)
    if match is None or text in ("", "+", "-"):
        return None
    digits = match[1]
    value = int(digits) if digits not in ("", "+", "-") else 0
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def _fraction(text: str, target: AtomicType) -> float | None:
    body = text.strip("".join(map(chr, range(33))))
    if _NAMED.fullmatch(body) is not None:
        value = float(body)
    elif (match := _FRACTION.fullmatch(body)) is not None:
        if target.root is TypeRoot.FLOAT:
            # Rounded once, from the text.
            return float(np.float32(_narrow(match[1])))
        value = float(match[1])
    elif (match := _HEXADECIMAL.fullmatch(body)) is not None:
        value = float.fromhex(match[1])
    else:
        return None
    if target.root is TypeRoot.FLOAT:
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    return value


def _narrow(text: str) -> float:
    with np.errstate(over="ignore"):
        nearest = np.float32(float(text))
    if not np.isfinite(nearest):
        return float(nearest)
    exact = Decimal(text)
    with np.errstate(over="ignore"):
        # The neighbour of the greatest number is infinite.
        around = [np.nextafter(nearest, np.float32(way)) for way in (-np.inf, np.inf)]
    return min((float(f) for f in (nearest, *around) if np.isfinite(f)), key=lambda f: abs(Decimal(f) - exact))


def _decimal(text: str, target: AtomicType) -> Decimal | None:
    if _DECIMAL.fullmatch(text) is None:
        raise _no_value(text, target)
    return fitted(Decimal(text), type_to_arrow(target))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _is_count(text: str) -> bool:
    """Return whether the text is a number of days, milliseconds or other units."""
    return _is_number(text.removeprefix("-"))


def _days(text: str) -> int | None:
    if _is_count(text):
        return _integer(text, _INT_BITS)
    parts = (text.partition(" ")[0] if text.find(" ") > 0 else text).split("-", 2)
    if not all(_is_number(part.strip()) for part in parts):
        return None
    year, month, day = (*(int(part) for part in parts), 1, 1)[:3]
    return _day_number(year, month, day)


def _day_number(year: int, month: int, day: int) -> int | None:
    # Python's dates begin with the year 1; the year 0 has the calendar of the year 400.
    shifted = year or 400
    try:
        days = date(shifted, month, day).toordinal() - _EPOCH
    except ValueError:
        return None
    return days if year else days - 146_097


def _common_times(texts: Any) -> Array:
    stamps: Any = pc.binary_join_element_wise(pa.scalar("1970-01-01"), texts, pa.scalar(" "))
    return cast("Array", stamps.cast(pa.timestamp("ms")).cast(pa.time32("ms")))


def _millis(text: str) -> int | None:
    if _is_count(text):
        return _in_day(_integer(text, _INT_BITS))
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    given = [match[name] for name in ("hour", "minute", "second", "zone_hour", "zone_minute")]
    if match["hour"] is None or not all(part is None or _is_number(part.strip()) for part in given):
        return None
    hour, minute, second, zone_hour, zone_minute = (int(part or 0) for part in given)
    sign = 1 if match["sign"] == "+" else -1
    fraction = (match["fraction"] or "").strip()
    seconds = ((hour + sign * zone_hour) * 60 + minute + sign * zone_minute) * 60 + second
    return _in_day(seconds * 1000 + _rounded_millis(fraction))


def _in_day(millis: int | None) -> int | None:
    # Java keeps times of more than a day, which no reader can display.
    return millis if millis is not None and 0 <= millis < _DAY_SECONDS * 1000 else None


def _rounded_millis(fraction: str) -> int:
    digits = "".join(letter if _is_number(letter) else "0" for letter in fraction[:4]).ljust(4, "0")
    return int(digits[:3]) + (digits[3] >= "5")


def _timestamps(array: Array, target: AtomicType) -> Array:
    arrow: Any = type_to_arrow(target)
    digits = target.precision or 0
    local = pa.timestamp(arrow.unit)
    # Nanoseconds since 1970 reach from 1677 to 2262; texts that are cut to fewer digits are parsed one by one.
    kept = len(str(PER_SECOND[arrow.unit])) - 1 if digits in _UNITS else digits
    fraction = rf"(\.[0-9]{{1,{kept}}})?" if digits else ""
    pattern = rf"^(17|18|19|20|21)[0-9]{{2}}-[0-9]{{2}}-[0-9]{{2}}( [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}{fraction})?$"

    def few(texts: Array) -> Array:
        return cast_few(texts, pa.int64(), lambda text: None if text is None else _count(text, target)).view(local)

    stamps = _by_form(array, pattern, lambda texts: texts.cast(local), few)
    if target.root is not TypeRoot.TIMESTAMP_LTZ:
        return stamps
    return with_unit(to_counts(instants_of(stamps)), arrow.unit, stamps, target)


def _count(text: str, target: AtomicType) -> int:
    """Return a timestamp in the unit of its Arrow type."""
    arrow: Any = type_to_arrow(target)
    per_second = PER_SECOND[arrow.unit]
    if _is_count(text) and target.root is TypeRoot.TIMESTAMP:
        unit = _UNITS.get(target.precision or 0)
        number = _integer(text, 64)
        if unit is None or number is None:
            raise _no_value(text, target)
        count = number * (per_second // PER_SECOND[unit])
    else:
        match = _TIMESTAMP.fullmatch(text)
        seconds = None if match is None else _seconds(match)
        if match is None or seconds is None:
            raise _no_value(text, target)
        nanos = (match["fraction"] or "")[: target.precision or 0].ljust(_NANOS_DIGITS, "0")
        count = seconds * per_second + int(nanos) // (10**9 // per_second)
    if not -(1 << 63) <= count < 1 << 63:
        raise ValueError(f"{text!r} is beyond what {target.type} holds")
    return count


def _seconds(match: re.Match[str]) -> int | None:
    year = int(match["year"])
    month, day = int(match["month"] or 1), int(match["day"] or 1)
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    if not (1 <= month <= 12 and 1 <= day <= 31 and year and minute < 60 and second < 60 and hour <= 24):
        return None
    if hour == 24 and (minute or second or int(match["fraction"] or 0)):
        return None
    # As in Java's formatter a day after the end of the month is its last day, and 24:00 is the next day.
    days = next(found for late in range(4) if (found := _day_number(year, month, day - late)) is not None)
    return days * _DAY_SECONDS + (hour * 60 + minute) * 60 + second
