"""Default value of a column: its text in a schema file, and the value of the text.

The text is a literal, in single quotes or not: `5`, `'new'`, `2026-01-31`; of nested types `[1, 2]` or `ARRAY(1, 2)`,
`{a -> 1}` or `MAP('a', 1)`, `{1, x}` or `STRUCT(1, 'x')`. Writers replace nulls by it.
Source: paimon-common `utils.DefaultValueUtils` and `casting.StringTo*CastRule`.
"""

import math
import re
from collections.abc import Sequence
from datetime import datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from interbed.storage.base.arrow_values import cast_exactly
from interbed.storage.base.clock import instant_of
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import (
    BINARIES,
    INTEGERS,
    STRINGS,
    TIMESTAMPS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)

_BOOLEANS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}
_CALL = re.compile(r"^(?P<name>ARRAY|MAP|STRUCT)\s*\((?P<inside>.*)\)$", re.IGNORECASE | re.DOTALL)
_FLOATS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_WHOLE = re.compile(r"[+-]?[0-9]+")
_FRACTION = re.compile(r"\.([0-9]*?)0*(?:[^0-9]|$)")
_BRACKETS = {"[": "]", "{": "}", "(": ")"}
_CLOSING = frozenset(_BRACKETS.values())


def default_scalar(text: str, data_type: DataType, *, column: str) -> "pa.Scalar[Any]":
    """Return the value of a default in the column's Arrow type. Raises InvalidInputError naming the column."""
    try:
        scalar: pa.Scalar[Any] = pa.scalar(default_value(text, data_type), type=type_to_arrow(data_type))
    except (ValueError, TypeError, OverflowError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            f"The default {text!r} of the column {column!r} is no {data_type.with_nullable(True)}: {error}. Give the "
            "column another default, or none."
        ) from error
    return scalar


def default_value(text: str, data_type: DataType) -> Any:
    """Return the default as a Python value. Raises ValueError or ArrowInvalid for the text of no value."""
    match data_type:
        case ArrayType(element=element):
            return [_part(part, element) for part in _parts(_inside(text, "ARRAY", "["), ",")]
        case MapType(key=key, value=value):
            return [(_part(k, key), _part(v, value)) for k, v in _entries(text)]
        case RowType(fields=fields):
            parts = _parts(_inside(text, "STRUCT", "{"), ",")
            if len(parts) != len(fields):
                raise ValueError(f"it has {len(parts)} fields, not {len(fields)}")
            return {f.name: _part(part, f.type) for f, part in zip(fields, parts, strict=True)}
        case AtomicType():
            return _atomic(unquoted(text), data_type)
        case _:
            raise ValueError("columns of this type have no defaults")


def unquoted(text: str) -> str:
    """Return the text without the single quotes around it."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text


def _atomic(text: str, data_type: AtomicType) -> Any:
    root = data_type.root
    if root in STRINGS:
        return text
    if root in BINARIES:
        return text.encode()
    text = text.strip()
    if root is TypeRoot.BOOLEAN:
        if text.lower() not in _BOOLEANS:
            raise ValueError("it is neither true nor false")
        return _BOOLEANS[text.lower()]
    try:
        return _other_value(text, data_type)
    except (ValueError, OverflowError, pa.ArrowInvalid) as error:
        raise ValueError(_form(data_type)) from error


def _other_value(text: str, data_type: AtomicType) -> Any:
    """Return a number or a time. Raises ValueError or ArrowInvalid for a text of none."""
    root = data_type.root
    fraction = _FRACTION.search(text)
    if root in (TypeRoot.TIME, *TIMESTAMPS) and fraction and len(fraction[1]) > (data_type.precision or 0):
        # Python drops digits.
        raise ValueError(text)
    if root is TypeRoot.TIMESTAMP_LTZ:
        # A time without a zone is in the zone of the machine, as in Java Paimon.
        return instant_of(datetime.fromisoformat(text))
    if root is TypeRoot.TIME:
        clock = time.fromisoformat(text)
        if clock.tzinfo is not None:
            raise ValueError(text)
        return clock
    value = cast_exactly(pa.array([text]), type_to_arrow(data_type))[0].as_py()
    if root in _FLOATS and (number := _finite(text)) is not None:
        lost = math.isinf(value) or (not value and number) or (_WHOLE.fullmatch(text) and value != number)
        if lost:
            raise ValueError(text)
    return value


def _finite(text: str) -> Decimal | None:
    """Return the number of a text; None for NaN and the infinities."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _form(data_type: AtomicType) -> str:
    """Return how values of the type are written."""
    root = data_type.root
    digits = data_type.precision or 0
    if root is TypeRoot.DATE:
        return "a date is written as 2026-01-31, and its year is from 0001 to 9999"
    if root is TypeRoot.TIME:
        return f"a time is written as 10:20:30, with at most {digits} digits after the second"
    if root in TIMESTAMPS:
        offset = ", with an offset as +01:00 or none" if root is TypeRoot.TIMESTAMP_LTZ else ""
        return (
            f"a timestamp is written as 2026-01-31 10:20:30{offset}, with at most {digits} digits after the second, "
            "and its year is from 0001 to 9999"
        )
    if root in INTEGERS:
        return "it is no whole number, or beyond the range of the type"
    if root in _FLOATS:
        return "it is no number, beyond the range of the type, closer to 0 than any, or an integer with too many digits"
    return f"it is no number with at most {digits} digits, {data_type.scale or 0} of them after the point"


def _part(text: str, data_type: DataType) -> Any:
    if text.lower() == "null":
        return None
    return default_value(text, data_type)


def _entries(text: str) -> list[tuple[str, str]]:
    if _CALL.match(text.strip()):
        parts = _parts(_inside(text, "MAP", "{"), ",")
        if len(parts) % 2:
            raise ValueError("a key has no value")
        return list(zip(parts[::2], parts[1::2], strict=True))
    entries = [_parts(part, "->") for part in _parts(_inside(text, "MAP", "{"), ",")]
    if any(len(entry) != 2 for entry in entries):
        raise ValueError("an entry of a map is written `key -> value`")
    return [(key, value) for key, value in entries]


def _inside(text: str, name: str, bracket: str) -> str:
    text = text.strip()
    call = _CALL.match(text)
    if call is not None and call["name"].upper() == name:
        return call["inside"]
    if text[:1] == bracket and text[-1:] == _BRACKETS[bracket]:
        return text[1:-1]
    raise ValueError(f"it is neither {name}(…) nor {bracket}…{_BRACKETS[bracket]}")


def _parts(text: str, separator: str) -> Sequence[str]:
    """Return the parts of a list between separators outside of quotes and brackets."""
    parts: list[str] = []
    depth = start = 0
    quoted = False
    for i, letter in enumerate(text):
        if letter == "'":
            quoted = not quoted
        elif quoted:
            continue
        elif letter in _BRACKETS:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
        elif depth == 0 and text.startswith(separator, i):
            parts.append(text[start:i].strip())
            start = i + len(separator)
    parts.append(text[start:].strip())
    return [] if parts == [""] else parts
