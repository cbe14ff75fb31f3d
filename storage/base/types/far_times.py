"""Dates and timestamps beyond the years 1 to 9999, which Python's types do not hold.

A DATE is 32 bits of days and a TIMESTAMP 64 bits of ticks, so that both reach further than `date` and `datetime`. Such
values are integers with a text in the form of Java's LocalDate and of Spark: a sign and all digits of the year
(`+10000-01-01`, `-0001-12-31 00:00:00`). The year 0 precedes the year 1, as in ISO 8601: `0000-01-01`.
"""

import re
from datetime import UTC, date, datetime
from typing import Any

from interbed.storage.base.errors import InvalidInputError

TICKS_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_ERA_YEARS, _ERA_DAYS = 400, 146_097
"""The period of the calendar in years, and in days."""
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_EPOCH, _EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
_FOUR_DIGITS = 9999
_DAY_SECONDS = 86_400
_DATE_TEXT = re.compile(r"([+-]?)(\d{4,10})-(\d{1,2})-(\d{1,2})")


class _FarTime(int):
    """Integer that also compares with Python's dates or times; base of FarDate and FarTimestamp."""

    def number_of(self, other: object) -> int | None:
        """Return the integer of another value for comparisons; None for a value that does not compare."""
        raise NotImplementedError

    def __lt__(self, other: object) -> bool:
        number = self.number_of(other)
        return NotImplemented if number is None else int(self) < number

    def __le__(self, other: object) -> bool:
        number = self.number_of(other)
        return NotImplemented if number is None else int(self) <= number

    def __gt__(self, other: object) -> bool:
        number = self.number_of(other)
        return NotImplemented if number is None else int(self) > number

    def __ge__(self, other: object) -> bool:
        number = self.number_of(other)
        return NotImplemented if number is None else int(self) >= number


class FarDate(_FarTime):
    """DATE as days since 1970-01-01. Its text is the date, and it compares with Python's dates."""

    def number_of(self, other: object) -> int | None:
        """Return the days since 1970-01-01 of a date or integer."""
        if isinstance(other, date) and not isinstance(other, datetime):
            return other.toordinal() - _EPOCH_ORDINAL
        return int(other) if isinstance(other, int) else None

    def __str__(self) -> str:
        return date_text(int(self))

    def __repr__(self) -> str:
        return f"FarDate({date_text(int(self))!r})"


class FarTimestamp(_FarTime):
    """TIMESTAMP as ticks since 1970-01-01. Its text is the date and time; `unit` is ms, us or ns.

    A timestamp WITH LOCAL TIME ZONE is `zoned`, and its text is in UTC. It compares with Python's datetimes.
    """

    unit: str
    zoned: bool

    def __new__(cls, ticks: int, unit: str, *, zoned: bool = False) -> "FarTimestamp":
        made = super().__new__(cls, ticks)
        made.unit, made.zoned = unit, zoned
        return made

    def __str__(self) -> str:
        return timestamp_text(int(self), self.unit) + ("+00:00" if self.zoned else "")

    def __repr__(self) -> str:
        return f"FarTimestamp({str(self)!r})"

    def number_of(self, other: object) -> int | None:
        """Return the ticks of the unit since 1970-01-01, rounded down."""
        if isinstance(other, FarTimestamp):
            return int(other) * TICKS_PER_SECOND[self.unit] // TICKS_PER_SECOND[other.unit]
        if isinstance(other, datetime):
            passed = other - (_EPOCH if other.tzinfo is None else _EPOCH_UTC)
            micros = (passed.days * _DAY_SECONDS + passed.seconds) * 1_000_000 + passed.microseconds
            return micros * TICKS_PER_SECOND[self.unit] // 1_000_000
        return int(other) if isinstance(other, int) else None

    def __getnewargs_ex__(self) -> tuple[tuple[int, str], dict[str, bool]]:
        return (int(self), self.unit), {"zoned": self.zoned}


def date_text(days: int) -> str:
    """Return the text of a date in days since 1970-01-01."""
    era, day = divmod(days + _EPOCH_ORDINAL - 1, _ERA_DAYS)
    within = date.fromordinal(day + 1)
    year = within.year + era * _ERA_YEARS
    sign = "-" if year < 0 else "+" if year > _FOUR_DIGITS else ""
    return f"{sign}{abs(year):04}-{within.month:02}-{within.day:02}"


def timestamp_text(ticks: int, unit: str, digits: int = 0) -> str:
    """Return the text of ticks since 1970-01-01, with the fractional digits that it has, but at least `digits`."""
    per_second = TICKS_PER_SECOND[unit]
    seconds, rest = divmod(ticks, per_second)
    days, second = divmod(seconds, _DAY_SECONDS)
    fraction = f"{rest * (1_000_000_000 // per_second):09}"
    shown = max(len(fraction.rstrip("0")), digits)
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f"{date_text(days)} {clock}" + (f".{fraction[:shown]}" if shown else "")


def days_of_text(text: str) -> int | None:
    """Return the days since 1970-01-01 of a date's text; None for another form. Raises ValueError for 02-30."""
    match = _DATE_TEXT.fullmatch(text)
    if match is None:
        return None
    year = int(match[2]) * (-1 if match[1] == "-" else 1)
    era, within = divmod(year - 1, _ERA_YEARS)
    ordinal = date(within + 1, int(match[3]), int(match[4])).toordinal()
    return ordinal + era * _ERA_DAYS - _EPOCH_ORDINAL


def python_scalar(value: Any) -> object:
    """Return a NumPy scalar as a Python value, other values unchanged. Raises InvalidInputError for other NumPy types.

    A datetime64 beyond Python's years, or of nanoseconds, is a FarDate or FarTimestamp.
    """
    if type(value).__module__ != "numpy" or not hasattr(value, "dtype"):
        return value
    item: object = value.item()
    if value.dtype.kind not in "mM" or not isinstance(item, int):
        return item
    unit = value.dtype.str[3:].strip("[]")
    if value.dtype.kind == "M" and unit == "D":
        return FarDate(item)
    if value.dtype.kind == "M" and unit in TICKS_PER_SECOND:
        return FarTimestamp(item, unit)
    raise InvalidInputError(f"{value!r} is not a value of a column")
