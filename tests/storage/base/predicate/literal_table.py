"""Table of comparisons between a column of each type and a literal of another type, as docs/sql.md describes them.

The section is "Literals of other types". The oracle converts a column value and a literal to Python values that compare
directly, by a second, independent implementation of the rules.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@dataclass(frozen=True)
class Column:
    """A column with some values; `kind` chooses the rule."""

    name: str
    type: str
    kind: str
    arrow: pa.DataType
    values: tuple[Any, ...]


@dataclass(frozen=True)
class TypedLiteral:
    """A literal as SQL has it and as Python does; `kind` chooses the rule."""

    sql: str
    value: Any
    kind: str


DAY, NOON = date(2024, 5, 6), datetime(2024, 5, 6, 10)
MOMENTS = (datetime(2024, 1, 1), datetime(2024, 5, 6), NOON, datetime(1969, 12, 31, 23, 59, 59))
COLUMNS = [
    Column("flag", "BOOLEAN", "boolean", pa.bool_(), (True, False)),
    Column("tiny", "TINYINT", "integer", pa.int8(), (5, -3, 127, 0)),
    Column("whole", "INT", "integer", pa.int32(), (5, 6, -3, 300, 2024)),
    Column("big", "BIGINT", "integer", pa.int64(), (5, 99_999_999_999, 2**53 + 1, -(2**63))),
    Column("single", "FLOAT", "float", pa.float32(), (5.0, 5.5, 0.1, float("nan"), -0.0)),
    Column("double", "DOUBLE", "float", pa.float64(), (5.0, 5.5, 0.1, float("nan"), -0.0, float("inf"))),
    Column(
        "exact", "DECIMAL(6, 2)", "decimal", pa.decimal128(6, 2), (Decimal("5.00"), Decimal("5.50"), Decimal("0.10"))
    ),
    Column("words", "STRING", "text", pa.string(), ("5", "abc", "2024-05-06", "true", "")),
    Column("raw", "BYTES", "bytes", pa.binary(), (b"a", b"\x00", b"abc")),
    Column("day", "DATE", "date", pa.date32(), (DAY, date(2024, 1, 1), date(1975, 7, 18), date(2024, 5, 1))),
    Column("clock", "TIME(3)", "time", pa.time32("ms"), (time(10, 30), time(0), time(23, 59, 59, 999_000))),
    Column("milli", "TIMESTAMP(3)", "timestamp", pa.timestamp("ms"), MOMENTS),
    Column("micro", "TIMESTAMP(6)", "timestamp", pa.timestamp("us"), (*MOMENTS, datetime(2024, 5, 6, 10, 0, 0, 1))),
    Column("instant", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "timestamp", pa.timestamp("us", "UTC"), MOMENTS),
]


def _text(value: str) -> TypedLiteral:
    return TypedLiteral(f"'{value}'", value, "text")


LITERALS = [
    *(TypedLiteral(str(n), n, "number") for n in (5, -3, 300, 2024, 99_999_999_999)),
    *(TypedLiteral(n, Decimal(n), "number") for n in ("5.5", "0.1", "5.005", "-1e30")),
    *map(_text, ("5", " 5 ", "5.5", "abc", "0.1", "NaN", "true", "No", "")),
    *map(
        _text, ("2024", "2024-05", "2024-05-06", "2024-5-6", " 2024-05-06 ", "2024-05-06 10:00:00", "2024-05-06T10:00")
    ),
    *map(_text, ("19849", "10:30", "2024-13-01", "2024-02-30")),
    TypedLiteral("DATE '2024-05-06'", DAY, "date"),
    TypedLiteral("TIMESTAMP '2024-05-06 00:00:00'", datetime(2024, 5, 6), "timestamp"),
    TypedLiteral("TIMESTAMP '2024-05-06 10:00:00.0000005'", None, "timestamp"),
    TypedLiteral("TIMESTAMP '2024-05-06 10:00:00'", NOON, "timestamp"),
    TypedLiteral("TIMESTAMP '2024-05-06 10:00:00.0005'", NOON.replace(microsecond=500), "timestamp"),
    TypedLiteral("TIME '10:30:00'", time(10, 30), "time"),
    TypedLiteral("X'61'", b"a", "bytes"),
    TypedLiteral("TRUE", True, "boolean"),
]
LITERALS = [literal for literal in LITERALS if literal.value is not None]


class RefusedError(Exception):
    """The table defines no comparison of the two types."""


def comparable(column: Column, literal: TypedLiteral) -> Any:
    """Return the literal as a value that is comparable with the column's values. Raises RefusedError."""
    rule = _RULES.get((column.kind, literal.kind))
    if rule is None:
        raise RefusedError
    return rule(literal.value, column)


def plain(column: Column, value: Any) -> Any:
    """Column value in a form that Python compares."""
    match column.kind:
        case "integer" | "decimal":
            return (False, Fraction(value))
        case "float":
            if column.type == "FLOAT":
                value = pa.scalar(value, pa.float32()).as_py()
            return _number(value)
        case "date":
            return value.toordinal()
        case "timestamp":
            return value.replace(tzinfo=None)
        case _:
            return value


def outcome(column: Column, literal: TypedLiteral, sign: str) -> list[int]:
    """Return the positions of the column's values for which the comparison is true. Raises RefusedError."""
    meant = comparable(column, literal)
    return [i for i, value in enumerate(column.values) if OPERATORS[sign](plain(column, value), meant)]


def _number(value: Any) -> tuple[bool, Any]:
    if value != value:
        return (True, 0)
    return (False, value if value in (float("inf"), float("-inf")) else Fraction(value))


def _rounded(value: Any, _: Column) -> Any:
    """A number as a DOUBLE."""
    return _number(float(value))


def _exactly(value: Any, _: Column) -> Any:
    return (False, Fraction(value))


def _text_as_integer(text: str, _: Column) -> Any:
    if not text.strip().lstrip("+-").isdigit():
        raise RefusedError
    return (False, Fraction(int(text)))


def _text_as_number(text: str, column: Column) -> Any:
    try:
        return (
            _number(float(text)) if column.kind == "float" or text.strip() == "NaN" else (False, Fraction(text.strip()))
        )
    except ValueError:
        raise RefusedError from None


def _text_as_boolean(text: str, _: Column) -> Any:
    words = {"t": True, "true": True, "y": True, "yes": True, "1": True}
    words |= {"f": False, "false": False, "n": False, "no": False, "0": False}
    if text.strip().lower() not in words:
        raise RefusedError
    return words[text.strip().lower()]


def _moment(text: str) -> datetime:
    day, _, clock = text.strip().replace("T", " ").partition(" ")
    parts = day.split("-")
    if len(parts[0]) != 4 or not all(part.isdigit() for part in parts):
        raise RefusedError
    year, month, of_month = (*map(int, parts), 1, 1)[:3]
    hour, minute, second = (*map(int, clock.split(":")), 0, 0)[:3] if clock else (0, 0, 0)
    try:
        return datetime(year, month, of_month, hour, minute, second)
    except ValueError:
        raise RefusedError from None


def _text_as_day(text: str, _: Column) -> Any:
    return _moment(text).date().toordinal()


def _timestamp_among_days(value: datetime, _: Column) -> Any:
    passed = value - datetime(value.year, value.month, value.day)
    return Fraction(value.toordinal()) + Fraction(passed.seconds * 10**6 + passed.microseconds, 86_400 * 10**6)


def _text_as_time(text: str, _: Column) -> Any:
    try:
        return time.fromisoformat(text.strip() if ":" in text and "-" not in text else "no")
    except ValueError:
        raise RefusedError from None


def _same(value: Any, _: Column) -> Any:
    return value


_RULES: Mapping[tuple[str, str], Callable[[Any, Column], Any]] = {
    ("boolean", "boolean"): _same,
    ("boolean", "text"): _text_as_boolean,
    ("integer", "number"): _exactly,
    ("integer", "text"): _text_as_integer,
    ("decimal", "number"): _exactly,
    ("decimal", "text"): _text_as_number,
    ("float", "number"): _rounded,
    ("float", "text"): _text_as_number,
    ("text", "text"): _same,
    ("bytes", "bytes"): _same,
    ("bytes", "text"): lambda text, _: text.encode(),
    ("date", "date"): lambda value, _: value.toordinal(),
    ("date", "text"): _text_as_day,
    ("date", "timestamp"): _timestamp_among_days,
    ("time", "time"): _same,
    ("time", "text"): _text_as_time,
    ("timestamp", "date"): lambda value, _: datetime(value.year, value.month, value.day),
    ("timestamp", "timestamp"): _same,
    ("timestamp", "text"): lambda text, _: _moment(text),
}


def arrow_values(column: Column) -> "pa.Array[Any]":
    """The column's values as an array."""
    if isinstance(column.arrow, pa.TimestampType) and column.arrow.tz is not None:
        return pa.array([value.replace(tzinfo=UTC) for value in column.values], column.arrow)
    return pa.array(column.values, column.arrow)
