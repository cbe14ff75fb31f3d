"""Row filters and column masks in Paimon's JSON, as its REST interface gives them to readers (`authTableQuery`).

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
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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
_TEXT_NAMES: dict[type[TextMatch], str] = {
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
    return _text(_tree(push_not(predicate), places))


def filter_from_paimon(text: str, fields: Sequence[DataField]) -> Predicate:
    """Return the predicate of Paimon's JSON, bound to the columns. FilterError for one that is not known here."""
    try:
        return bind(_predicate(json.loads(text)), fields)
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


def _tree(predicate: Predicate, places: _Places) -> dict[str, Any]:
    match predicate:
        case And(children) | Or(children):
            name = "AND" if isinstance(predicate, And) else "OR"
            if not children:
                return _constant(isinstance(predicate, And))
            if len(children) == 1:
                return _tree(children[0], places)
            return {"kind": "COMPOUND", "function": name, "children": [_tree(each, places) for each in children]}
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
            function, literals = _TEXT_NAMES[type(leaf)], [leaf.pattern]
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


def _predicate(tree: dict[str, Any]) -> Predicate:
    kind, function = tree["kind"], tree["function"]
    if kind == "COMPOUND":
        children = tuple(_predicate(each) for each in tree["children"])
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
