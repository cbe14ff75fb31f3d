"""Predicates in JSON: interbed's lossless form, which other processes receive, and Paimon's, which readers receive.

    {"op": "and", "children": [{"op": "eq", "column": "id", "value": 5}, {"op": "in", "column": "d", "values": […]}]}

Operators of the lossless form are eq, ne, lt, le, gt, ge; in, not_in; is_null, is_not_null; starts_with, ends_with,
contains, like (with `pattern`); and, or, not; true, false. An inner value of a column is
{"column": "m", "steps": ["key"]} instead of a name. Null, booleans, integers, texts and finite floats are JSON values;
all others are an object with one tag: {"decimal": "1.50"}, {"date": "2024-01-31"}, {"time": "12:34:56.7"},
{"timestamp": "2024-01-31T12:34:56+00:00"}, {"binary": base64}, {"float": "nan" | "inf" | "-inf"}. Dates and timestamps
that Python's types do not hold are {"ticks": "2147483647 d"}, in days (d), ms, us or ns since 1970-01-01. Instants are
{"ticks": "253402300800000000 us UTC"}.

Paimon's form has row filters and column masks, as its REST interface gives them to readers (`authTableQuery`):

    {"kind": "LEAF", "transform": {"name": "FIELD_REF", "fieldRef": {"index": 0, "name": "id", "type": "INT"}},
     "function": "GREATER_THAN", "literals": [5]}
    {"kind": "COMPOUND", "function": "AND", "children": […]}
    {"name": "CONCAT", "inputs": [{"index": 1, "name": "city", "type": "STRING"}, "…"]}

Readers of Paimon 1.4 take literals of numbers, texts and booleans only: those of DATE, TIME, TIMESTAMP and DECIMAL fail
there when they are read. They have no negation, and compare CHAR values with their blanks. Filters that need any of
this are refused, so that no reader sees other rows than those of the filter. Specified by `Predicate`,
`LeafPredicate`, `CompoundPredicate`, `Transform` and `PredicateBuilder.convertJavaObject` of Paimon 1.4.2.
"""

import json
import math
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from interbed.storage.base.decoding import bytes_of_base64
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
    Leaf,
    Like,
    Not,
    NotIn,
    Op,
    Or,
    Predicate,
    StartsWith,
    TextMatch,
    between,
    bind,
    push_not,
    text_of,
)
from interbed.storage.base.predicate.masks import ColumnMask, MaskColumn, MaskFunction, check_mask
from interbed.storage.base.predicate.operands import InnerReference, Reference
from interbed.storage.base.row.values import type_name
from interbed.storage.base.types.data_type import DataField, TypeRoot, is_atomic, type_to_json
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


_COMPARISONS = {
    Op.EQ: "EQUAL",
    Op.NE: "NOT_EQUAL",
    Op.LT: "LESS_THAN",
    Op.LE: "LESS_OR_EQUAL",
    Op.GT: "GREATER_THAN",
    Op.GE: "GREATER_OR_EQUAL",
}
_OPS = {name: op for op, name in _COMPARISONS.items()}
_TEXTS: dict[str, Callable[[Reference, str], Predicate]] = {
    "STARTS_WITH": StartsWith,
    "ENDS_WITH": EndsWith,
    "CONTAINS": Contains,
    "LIKE": Like,
}
_PAIMON_TEXT_NAMES: dict[type[TextMatch], str] = {
    StartsWith: "STARTS_WITH",
    EndsWith: "ENDS_WITH",
    Contains: "CONTAINS",
    Like: "LIKE",
}
_LITERALS = (
    TypeRoot.BOOLEAN,
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
    TypeRoot.VARCHAR,
)
"""Types whose literals Paimon's readers take from JSON."""


def filter_to_paimon(predicate: Predicate, fields: Sequence[DataField]) -> str:
    """Return a predicate that is bound to the columns in Paimon's JSON. FilterError naming what it cannot express."""
    places = {field.name: (index, field) for index, field in enumerate(fields)}
    return _text(_paimon_tree(push_not(predicate), places))


def filter_from_paimon(text: str, fields: Sequence[DataField]) -> Predicate:
    """Return the predicate of Paimon's JSON, bound to the columns. FilterError for one that is not known here."""
    try:
        return bind(_predicate_of_paimon(json.loads(text)), fields)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise FilterError(f"Not a row filter in Paimon's JSON: {error!r}") from error


def mask_to_paimon(mask: ColumnMask, fields: Sequence[DataField]) -> str:
    """Return a mask in Paimon's JSON."""
    places = {field.name: (index, field) for index, field in enumerate(fields)}
    inputs = [_field_ref(each.name, places) if isinstance(each, MaskColumn) else each for each in mask.inputs]
    match mask.function:
        case MaskFunction.NULL:
            return _text({"name": "NULL"})
        case MaskFunction.COLUMN:
            return _text({"name": "FIELD_REF", "fieldRef": inputs[0]})
        case _:
            return _text({"name": str(mask.function), "inputs": inputs})


def mask_from_paimon(text: str, column: str, fields: Sequence[DataField]) -> ColumnMask:
    """Return the mask of Paimon's JSON. FilterError for one that is not known here, or does not fit the column."""
    try:
        tree = json.loads(text)
        function = MaskFunction(tree["name"])
        given = [tree["fieldRef"]] if function is MaskFunction.COLUMN else tree.get("inputs", [])
        mask = ColumnMask(
            function, tuple(each if isinstance(each, str) else MaskColumn(each["name"]) for each in given)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FilterError(f"Not a mask in Paimon's JSON that is known here: {error!r}") from error
    check_mask(mask, column, fields)
    return mask


def _text(tree: object) -> str:
    return json.dumps(tree, separators=(",", ":"), allow_nan=False)


_Places = Mapping[str, tuple[int, DataField]]


def _paimon_tree(predicate: Predicate, places: _Places) -> dict[str, Any]:
    match predicate:
        case And(children) | Or(children):
            name = "AND" if isinstance(predicate, And) else "OR"
            if not children:
                return _constant(isinstance(predicate, And))
            if len(children) == 1:
                return _paimon_tree(children[0], places)
            return {"kind": "COMPOUND", "function": name, "children": [_paimon_tree(each, places) for each in children]}
        case AlwaysTrue() | AlwaysFalse():
            return _constant(isinstance(predicate, AlwaysTrue))
        case Not():
            raise FilterError(f"Paimon's readers have no form of {text_of(predicate)}: write it without NOT.")
        case Comparison() | In() | NotIn() | IsNull() | IsNotNull() | TextMatch():
            return _leaf(predicate, places)
        case _:
            raise FilterError(f"Not a predicate: {predicate!r}.")


def _constant(value: bool) -> dict[str, Any]:
    return {"kind": "LEAF", "transform": {"name": "NULL"}, "function": str(value).upper(), "literals": []}


def _leaf(leaf: Leaf, places: _Places) -> dict[str, Any]:
    if isinstance(leaf.column, InnerReference):
        raise FilterError(f"Paimon's readers filter by whole columns only, not by {text_of(leaf)}.")
    function: str
    literals: list[object]
    match leaf:
        case Comparison(op, _, value):
            function, literals = _COMPARISONS[op], [value]
        case In(_, values) | NotIn(_, values):
            function, literals = ("IN" if isinstance(leaf, In) else "NOT_IN"), list(values)
        case IsNull() | IsNotNull():
            function, literals = ("IS_NULL" if isinstance(leaf, IsNull) else "IS_NOT_NULL"), []
        case _:
            function, literals = _PAIMON_TEXT_NAMES[type(leaf)], [leaf.pattern]
    field = places[leaf.column][1]
    if literals and not is_atomic(field.type, *_LITERALS):
        raise FilterError(
            f"The column {field.name!r} is {type_name(field.type)}: Paimon's readers take filters by numbers, texts "
            "(STRING, VARCHAR) and booleans only."
        )
    if any(isinstance(each, float) and not math.isfinite(each) for each in literals):
        raise FilterError(f"Paimon's readers have no form of {text_of(leaf)}: its number is not finite.")
    transform = {"name": "FIELD_REF", "fieldRef": _field_ref(leaf.column, places)}
    return {"kind": "LEAF", "transform": transform, "function": function, "literals": literals}


def _field_ref(name: str, places: _Places) -> dict[str, Any]:
    index, field = places[name]
    return {"index": index, "name": field.name, "type": type_to_json(field.type)}


def _predicate_of_paimon(tree: dict[str, Any]) -> Predicate:
    kind, function = tree["kind"], tree["function"]
    if kind == "COMPOUND":
        children = tuple(_predicate_of_paimon(each) for each in tree["children"])
        if function not in ("AND", "OR"):
            raise ValueError(function)
        return And(children) if function == "AND" else Or(children)
    if kind != "LEAF":
        raise ValueError(kind)
    literals: list[Any] = tree.get("literals") or []
    if function in ("TRUE", "FALSE"):
        return AlwaysTrue() if function == "TRUE" else AlwaysFalse()
    transform = tree["transform"]
    if transform["name"] != "FIELD_REF":
        raise ValueError(f"the transform {transform['name']}")
    column = str(transform["fieldRef"]["name"])
    match function:
        case "IS_NULL":
            return IsNull(column)
        case "IS_NOT_NULL":
            return IsNotNull(column)
        case "IN":
            return In(column, tuple(literals))
        case "NOT_IN":
            return NotIn(column, tuple(literals))
        case "BETWEEN" | "NOT_BETWEEN":
            within = between(column, *literals)
            return within if function == "BETWEEN" else Not(within)
        case name if name in _TEXTS:
            return _TEXTS[name](column, str(literals[0]))
        case name:
            return Comparison(_OPS[name], column, literals[0])
