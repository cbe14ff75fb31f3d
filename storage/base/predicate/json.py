"""Predicates in JSON, the lossless form that other processes receive.

    {"op": "and", "children": [{"op": "eq", "column": "id", "value": 5}, {"op": "in", "column": "d", "values": […]}]}

Operators are eq, ne, lt, le, gt, ge; in, not_in; is_null, is_not_null; starts_with, ends_with, contains, like (with
`pattern`); and, or, not; true, false. An inner value of a column is {"column": "m", "steps": ["key"]} instead of a
name. Null, booleans, integers, texts and finite floats are JSON values; all others are an object with one tag:
{"decimal": "1.50"}, {"date": "2024-01-31"}, {"time": "12:34:56.7"}, {"timestamp": "2024-01-31T12:34:56+00:00"},
{"binary": base64}, {"float": "nan" | "inf" | "-inf"}. Dates and timestamps that Python's types do not hold are
{"ticks": "2147483647 d"}, in days (d), ms, us or ns since 1970-01-01. Instants are
{"ticks": "253402300800000000 us UTC"}.
"""

import json
import math
from base64 import b64encode
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from interbed.storage.base.base64_text import bytes_of_base64
from interbed.storage.base.errors import FilterError
from interbed.storage.base.predicate.expr import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    Comparison,
    Contains,
    EndsWith,
    In,
    IsNotNull,
    IsNull,
    Like,
    Not,
    NotIn,
    Op,
    Or,
    Predicate,
    StartsWith,
    TextMatch,
)
from interbed.storage.base.predicate.operands import InnerReference, Reference
from interbed.storage.base.types.far_times import FarDate, FarTimestamp

_TEXT: dict[str, type[TextMatch]] = {
    "starts_with": StartsWith,
    "ends_with": EndsWith,
    "contains": Contains,
    "like": Like,
}
_TEXT_NAMES = {kind: name for name, kind in _TEXT.items()}
_TAGS: dict[str, Callable[[str], object]] = {
    "decimal": Decimal,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "binary": bytes_of_base64,
    "float": float,
    "ticks": lambda text: _ticks(*text.split()),
}


def to_json(predicate: Predicate) -> str:
    """Return the predicate in JSON."""
    return json.dumps(_tree(predicate), separators=(",", ":"), allow_nan=False)


def from_json(text: str | bytes) -> Predicate:
    """Return the predicate of JSON made by to_json. Raises FilterError for any other text."""
    try:
        return _predicate(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, InvalidOperation, RecursionError) as error:
        raise FilterError(f"Not a predicate in JSON: {error!r}") from error


def _tree(predicate: Predicate) -> dict[str, Any]:
    match predicate:
        case AlwaysTrue():
            return {"op": "true"}
        case AlwaysFalse():
            return {"op": "false"}
        case Comparison(op, column, value):
            return {"op": op.value, "column": _reference(column), "value": _value(value)}
        case In(column, values) | NotIn(column, values):
            name = "in" if isinstance(predicate, In) else "not_in"
            return {"op": name, "column": _reference(column), "values": [_value(v) for v in values]}
        case IsNull(column):
            return {"op": "is_null", "column": _reference(column)}
        case IsNotNull(column):
            return {"op": "is_not_null", "column": _reference(column)}
        case TextMatch(column, pattern):
            return {"op": _TEXT_NAMES[type(predicate)], "column": _reference(column), "pattern": pattern}
        case And(children) | Or(children):
            name = "and" if isinstance(predicate, And) else "or"
            return {"op": name, "children": [_tree(c) for c in children]}
        case Not(child):
            return {"op": "not", "child": _tree(child)}
        case _:
            raise FilterError(f"Not a predicate: {predicate!r}.")


def _predicate(tree: dict[str, Any]) -> Predicate:
    match tree["op"]:
        case "true":
            return AlwaysTrue()
        case "false":
            return AlwaysFalse()
        case "and":
            return And(tuple(_predicate(c) for c in tree["children"]))
        case "or":
            return Or(tuple(_predicate(c) for c in tree["children"]))
        case "not":
            return Not(_predicate(tree["child"]))
        case "is_null":
            return IsNull(_referred(tree["column"]))
        case "is_not_null":
            return IsNotNull(_referred(tree["column"]))
        case "in":
            return In(_referred(tree["column"]), tuple(_literal(v) for v in tree["values"]))
        case "not_in":
            return NotIn(_referred(tree["column"]), tuple(_literal(v) for v in tree["values"]))
        case name if name in _TEXT:
            return _TEXT[name](_referred(tree["column"]), str(tree["pattern"]))
        case name:
            return Comparison(Op(name), _referred(tree["column"]), _literal(tree["value"]))


def _reference(reference: Reference) -> object:
    if isinstance(reference, InnerReference):
        return {"column": reference.column, "steps": [_value(step) for step in reference.steps]}
    return reference


def _referred(value: Any) -> Reference:
    if isinstance(value, dict):
        return InnerReference(str(value["column"]), tuple(_literal(step) for step in value["steps"]))
    return str(value)


def _value(value: object) -> object:
    match value:
        case None | bool() | int() | str():
            return _far(value)
        case float():
            return value if math.isfinite(value) else {"float": repr(value)}
        case Decimal():
            return {"decimal": str(value)}
        case datetime():
            return {"timestamp": value.isoformat()}
        case date():
            return {"date": value.isoformat()}
        case time():
            return {"time": value.isoformat()}
        case bytes():
            return {"binary": b64encode(value).decode()}
        case _:
            raise FilterError(f"{value!r} is not a literal of a filter.")


def _far(value: object) -> object:
    """Return the value; a far date or timestamp, which JSON would write as an integer, becomes an object."""
    if isinstance(value, FarDate):
        return {"ticks": f"{int(value)} d"}
    if isinstance(value, FarTimestamp):
        return {"ticks": f"{int(value)} {value.unit}" + (" UTC" if value.zoned else "")}
    return value


def _ticks(number: str, unit: str, zone: str = "") -> object:
    return FarDate(number) if unit == "d" else FarTimestamp(int(number), unit, zoned=bool(zone))


def _literal(value: Any) -> object:
    if isinstance(value, dict):
        ((tag, text),) = value.items()
        return _TAGS[tag](text)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{value!r} is no literal")
