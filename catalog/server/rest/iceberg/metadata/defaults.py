"""Default values of columns in JSON, as Iceberg's library reads them.

A value of another form makes the schema, and with it the whole table, unreadable for clients of the library. Only
columns of primitive types have defaults. Source: Iceberg's table specification, Appendix D, "JSON single-value
serialization".
"""

import re
from datetime import date, time
from typing import Any

from interbed.catalog.server.rest.iceberg.metadata.base import Document, InvalidMetadataError

DEFAULTS = ("initial-default", "write-default")

_INTEGERS = {"int": 31, "long": 63}
_FRACTIONS = ("float", "double")
_BYTES = re.compile(r"(?:[0-9a-fA-F]{2})*")
_DECIMAL_TYPE = re.compile(r"decimal\(\s*\d+\s*,\s*(\d{1,9})\s*\)")
_DECIMAL = re.compile(r"[+-]?\d+(?:\.(\d+))?")
_FIXED_TYPE = re.compile(r"fixed\[\s*(\d{1,9})\s*\]")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TIMESTAMP = re.compile(r"([^T]+)T([^T+Z]+?)(\+00:00)?")
_TIME = re.compile(r"(\d\d:\d\d(?::\d\d)?)(?:\.\d{1,9})?")


def check_defaults(name: str, field: Document) -> None:
    """Raise InvalidMetadataError if a default of a column is not a value of the column's type."""
    for key in DEFAULTS:
        value = field.get(key)
        if value is not None and not _is_value(value, field["type"]):
            kind = field["type"]
            shown = kind.get("type") if isinstance(kind, dict) else kind
            raise InvalidMetadataError(f"Cannot parse default as a {shown} value: the {key} of {name} is {value!r}")


def _is_value(value: Any, kind: Any) -> bool:
    if not isinstance(kind, str):
        return False
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in _INTEGERS:
        limit = 1 << _INTEGERS[kind]
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    if kind in _FRACTIONS:
        return isinstance(value, float)
    return isinstance(value, str) and _is_text_of(value, kind)


def _is_text_of(text: str, kind: str) -> bool:
    """Return whether a text is a value of a type whose values are texts in JSON."""
    decimal, fixed = _DECIMAL_TYPE.fullmatch(kind), _FIXED_TYPE.fullmatch(kind)
    if decimal is not None:
        number = _DECIMAL.fullmatch(text)
        return number is not None and len(number[1] or "") == int(decimal[1])
    if fixed is not None:
        return len(text) == 2 * int(fixed[1]) and _BYTES.fullmatch(text) is not None
    match kind:
        case "string":
            return True
        case "binary":
            return _BYTES.fullmatch(text) is not None
        case "uuid":
            return _UUID.fullmatch(text) is not None
        case "date":
            return _is_date(text)
        case "time":
            return _is_time(text)
        case "timestamp" | "timestamp_ns":
            return _is_timestamp(text, is_utc=False)
        case "timestamptz" | "timestamptz_ns":
            return _is_timestamp(text, is_utc=True)
    return False


def _is_timestamp(text: str, *, is_utc: bool) -> bool:
    found = _TIMESTAMP.fullmatch(text)
    return found is not None and (found[3] is not None) == is_utc and _is_date(found[1]) and _is_time(found[2])


def _is_date(text: str) -> bool:
    try:
        return len(text) == len("2000-01-01") and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    try:
        return found is not None and time.fromisoformat(found[1]) is not None
    except ValueError:
        return False
