"""Predicates of filters as trees: their nodes, and functions that combine, rewrite and bind them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NoReturn

from interbed.storage.base.errors import FilterError, plain_errors
from interbed.storage.base.predicate.operands import Reference, column_of, find, locate, renamed
from interbed.storage.base.row.values import type_name
from interbed.storage.base.types.data_type import STRINGS, DataField, is_atomic
from interbed.storage.base.types.far_times import FarDate, FarTimestamp


class Op(StrEnum):
    """Comparison operator; the value is its name in JSON."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"

    @property
    def symbol(self) -> str:
        """The operator in SQL: `=`, `<>`."""
        return _SYMBOLS[self]

    @property
    def negated(self) -> "Op":
        """The comparison that is true where this one is false."""
        return _NEGATED[self]


_SYMBOLS = {Op.EQ: "=", Op.NE: "<>", Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}
_NEGATED = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}


@plain_errors
@dataclass(frozen=True, slots=True)
class Predicate:
    """Filter over a table's columns, made by `interbed.col`. Combine predicates by `&`, `|` and `~`."""

    def __and__(self, other: "Predicate") -> "Predicate":
        return and_(self, other) if isinstance(other, Predicate) else NotImplemented

    def __or__(self, other: "Predicate") -> "Predicate":
        return or_(self, other) if isinstance(other, Predicate) else NotImplemented

    def __invert__(self) -> "Predicate":
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise TypeError("A predicate is neither true nor false by itself; combine predicates by &, | and ~.")


@dataclass(frozen=True, slots=True)
class AlwaysTrue(Predicate):
    """Predicate that selects every row."""


@dataclass(frozen=True, slots=True)
class AlwaysFalse(Predicate):
    """Predicate that selects no row."""


@dataclass(frozen=True, slots=True)
class Comparison(Predicate):
    """`column op value`; unknown when either is null."""

    op: Op
    column: Reference
    value: object


@dataclass(frozen=True, slots=True)
class In(Predicate):
    """`column IN (values)`; unknown when the column is null."""

    column: Reference
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class NotIn(Predicate):
    """`column NOT IN (values)`; never true when a null is among them."""

    column: Reference
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """`column IS NULL`, true or false."""

    column: Reference


@dataclass(frozen=True, slots=True)
class IsNotNull(Predicate):
    """`column IS NOT NULL`, true or false."""

    column: Reference


@dataclass(frozen=True, slots=True)
class TextMatch(Predicate):
    """Base of conditions on the content of a text column; `pattern` is a text."""

    column: Reference
    pattern: str


@dataclass(frozen=True, slots=True)
class StartsWith(TextMatch):
    """The column begins with the text."""


@dataclass(frozen=True, slots=True)
class EndsWith(TextMatch):
    """The column ends with the text."""


@dataclass(frozen=True, slots=True)
class Contains(TextMatch):
    """The column contains the text."""


@dataclass(frozen=True, slots=True)
class Like(TextMatch):
    r"""`column LIKE pattern`: `%` is any text, `_` any character, `\` escapes the next character."""


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """Conjunction of its children; true without any."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """Disjunction of its children; false without any."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """Negation of its child; unknown stays unknown."""

    child: Predicate


Leaf = Comparison | In | NotIn | IsNull | IsNotNull | TextMatch


def between(column: Reference, low: object, high: object) -> Predicate:
    """Return `column BETWEEN low AND high`, both included."""
    return And((Comparison(Op.GE, column, low), Comparison(Op.LE, column, high)))


def and_(*predicates: Predicate | None) -> Predicate:
    """Return the conjunction of the predicates without None, flattened, and simplified where one is constant."""
    parts = dict.fromkeys(part for p in predicates if p is not None for part in conjuncts(p))
    if any(isinstance(p, AlwaysFalse) for p in parts):
        return AlwaysFalse()
    if not parts:
        return AlwaysTrue()
    return next(iter(parts)) if len(parts) == 1 else And(tuple(parts))


def or_(*predicates: Predicate) -> Predicate:
    """Return the disjunction of the predicates, flattened, and simplified where one is constant."""
    parts: dict[Predicate, None] = {}
    for p in predicates:
        parts.update(dict.fromkeys(p.children if isinstance(p, Or) else (p,)))
    if any(isinstance(p, AlwaysTrue) for p in parts):
        return AlwaysTrue()
    kept = tuple(p for p in parts if not isinstance(p, AlwaysFalse))
    if not kept:
        return AlwaysFalse()
    return kept[0] if len(kept) == 1 else Or(kept)


def conjuncts(predicate: Predicate) -> list[Predicate]:
    """Return the parts that must all be true; no part for a predicate that is always true."""
    if isinstance(predicate, And):
        return [part for child in predicate.children for part in conjuncts(child)]
    return [] if isinstance(predicate, AlwaysTrue) else [predicate]


def leaves_of(predicate: Predicate) -> Iterable[Leaf]:
    """Yield the conditions on single values, from left to right."""
    if isinstance(predicate, And | Or):
        for child in predicate.children:
            yield from leaves_of(child)
    elif isinstance(predicate, Not):
        yield from leaves_of(predicate.child)
    elif isinstance(predicate, Comparison | In | NotIn | IsNull | IsNotNull | TextMatch):
        yield predicate


def columns_of(predicate: Predicate) -> frozenset[str]:
    """Return the columns of the predicate, including those of which it uses inner values."""
    return frozenset(column_of(leaf.column) for leaf in leaves_of(predicate))


def references_of(predicate: Predicate) -> frozenset[Reference]:
    """Return the columns, and the values inside of columns, of the predicate."""
    return frozenset(leaf.column for leaf in leaves_of(predicate))


def map_leaves(predicate: Predicate, change: Callable[[Leaf], Predicate]) -> Predicate:
    """Return the predicate with each leaf replaced by `change`."""
    if isinstance(predicate, And):
        return And(tuple(map_leaves(c, change) for c in predicate.children))
    if isinstance(predicate, Or):
        return Or(tuple(map_leaves(c, change) for c in predicate.children))
    if isinstance(predicate, Not):
        return Not(map_leaves(predicate.child, change))
    if isinstance(predicate, Comparison | In | NotIn | IsNull | IsNotNull | TextMatch):
        return change(predicate)
    return predicate


def rename_columns(predicate: Predicate, names: Mapping[str, str]) -> Predicate:
    """Return the predicate with columns renamed; columns that are not in the map keep their names."""
    return map_leaves(predicate, lambda leaf: replace(leaf, column=renamed(leaf.column, names)))


def push_not(predicate: Predicate, *, negate: bool = False) -> Predicate:
    """Return the predicate (with `negate` its negation) with Not only directly around leaves that need it.

    Those are the conditions on texts other than equality and order.
    """
    match predicate:
        case Not(child):
            return push_not(child, negate=not negate)
        case And(children) | Or(children):
            parts = tuple(push_not(c, negate=negate) for c in children)
            return And(parts) if isinstance(predicate, And) != negate else Or(parts)
        case _ if not negate:
            return predicate
        case AlwaysTrue():
            return AlwaysFalse()
        case AlwaysFalse():
            return AlwaysTrue()
        case Comparison(op, column, value):
            return Comparison(op.negated, column, value)
        case In(column, values):
            return NotIn(column, values)
        case NotIn(column, values):
            return In(column, values)
        case IsNull(column):
            return IsNotNull(column)
        case IsNotNull(column):
            return IsNull(column)
        case _:
            return Not(predicate)


def restrict_to(predicate: Predicate, columns: Iterable[str]) -> Predicate:
    """Return the strongest predicate over these columns alone that is true wherever the given one is.

    For pruning by the known values of some columns: partitions, keys, statistics.
    """
    return _restricted(push_not(predicate), frozenset(columns))


def _restricted(predicate: Predicate, columns: frozenset[str]) -> Predicate:
    if isinstance(predicate, And):
        return and_(*(_restricted(c, columns) for c in predicate.children))
    if isinstance(predicate, Or):
        return or_(*(_restricted(c, columns) for c in predicate.children))
    return predicate if columns_of(predicate) <= columns else AlwaysTrue()


def bind(predicate: Predicate, fields: Sequence[DataField]) -> Predicate:
    """Return the predicate with every literal as its column's Python value; binding twice changes nothing.

    A disjunction of equalities of one column becomes an IN. Raises FilterError for a column that is not among the
    fields, for an inner value that its column lacks, and for a literal that does not fit.
    """
    by_name = {f.name: f for f in fields}
    return _with_lists(map_leaves(predicate, lambda leaf: _bind_leaf(leaf, by_name)))


def _with_lists(predicate: Predicate) -> Predicate:
    match predicate:
        case And(children):
            return And(tuple(_with_lists(c) for c in children))
        case Not(child):
            return Not(_with_lists(child))
        case Or(children):
            parts = _joined([_with_lists(c) for c in children])
            return parts[0] if len(parts) == 1 else Or(tuple(parts))
        case _:
            return predicate


def _joined(parts: Sequence[Predicate]) -> list[Predicate]:
    """Return the parts, with equalities and INs of one column joined to one IN at the position of the first."""
    lists: dict[Reference, dict[object, None]] = {}
    for part in parts:
        match part:
            case In(column, values):
                lists.setdefault(column, {}).update(dict.fromkeys(values))
            case Comparison(op=Op.EQ, column=column, value=value):
                lists.setdefault(column, {})[value] = None
            case _:
                pass
    kept: dict[Predicate, None] = {}
    for part in parts:
        match part:
            case In(column=column) | Comparison(op=Op.EQ, column=column) if len(lists[column]) > 1:
                kept[In(column, tuple(lists[column]))] = None
            case _:
                kept[part] = None
    return list(kept)


def _bind_leaf(leaf: Leaf, fields: Mapping[str, DataField]) -> Predicate:
    reference, field = find(leaf.column, fields)
    leaf = replace(leaf, column=reference)
    match leaf:
        case IsNull() | IsNotNull():
            return leaf
        case TextMatch():
            if not is_atomic(field.type, *STRINGS) or not isinstance(leaf.pattern, str):
                raise FilterError(
                    f"The column {field.name!r} is {type_name(field.type)}; "
                    f"{type(leaf).__name__} takes a text column and a text, not {leaf.pattern!r}."
                )
            if isinstance(leaf, Like) and leaf.pattern.replace("\\\\", "").endswith("\\"):
                raise FilterError(f"The pattern {leaf.pattern!r} of LIKE ends with a backslash that escapes nothing.")
            return leaf
        case Comparison():
            return _bind_comparison(leaf, field)
        case In() | NotIn():
            values = tuple(dict.fromkeys(v for value in leaf.values for v in _member(value, field)))
            return replace(leaf, values=values)


def _member(value: object, field: DataField) -> tuple[object, ...]:
    """Return the value as the only one of a list; an empty list when no value of the column can equal it."""
    if value is None:
        return (None,)
    place = locate(value, field)
    return (place.value,) if place.exact else ()


def _bind_comparison(leaf: Comparison, field: DataField) -> Predicate:
    if leaf.value is None:
        return leaf
    place = locate(leaf.value, field)
    if place.beyond:
        below_all = leaf.op in ((Op.NE, Op.LT, Op.LE) if place.beyond > 0 else (Op.NE, Op.GT, Op.GE))
        return _if_present(leaf.column, outcome=below_all)
    if place.exact:
        return replace(leaf, value=place.value)
    # The literal lies between the place and the next value of the type.
    match leaf.op:
        case Op.LT | Op.LE:
            return Comparison(Op.LE, leaf.column, place.value)
        case Op.GT | Op.GE:
            return Comparison(Op.GT, leaf.column, place.value)
        case _:
            return _if_present(leaf.column, outcome=leaf.op is Op.NE)


def _if_present(column: Reference, *, outcome: bool) -> Predicate:
    """Return the predicate with that outcome where the column has a value, and unknown where it is null."""
    unknown = Comparison(Op.EQ, column, None)
    return Or((IsNotNull(column), unknown)) if outcome else And((IsNull(column), unknown))


def text_of(predicate: Predicate) -> str:
    """Return the predicate in the form of SQL, for messages and plans; it is not meant to be parsed."""
    match predicate:
        case AlwaysTrue():
            return "TRUE"
        case AlwaysFalse():
            return "FALSE"
        case Comparison(op, column, value):
            return f"{column} {op.symbol} {_literal_text(value)}"
        case In(column, values) | NotIn(column, values):
            name = "IN" if isinstance(predicate, In) else "NOT IN"
            return f"{column} {name} ({', '.join(map(_literal_text, values))})"
        case IsNull(column):
            return f"{column} IS NULL"
        case IsNotNull(column):
            return f"{column} IS NOT NULL"
        case TextMatch(column, pattern):
            return f"{column} {_TEXT_NAMES[type(predicate)]} {_literal_text(pattern)}"
        case Not(child):
            return f"NOT ({text_of(child)})"
        case And(children) | Or(children):
            word = " AND " if isinstance(predicate, And) else " OR "
            parts = [f"({text_of(c)})" if isinstance(c, And | Or) else text_of(c) for c in children]
            return word.join(parts) or ("TRUE" if isinstance(predicate, And) else "FALSE")
        case _:
            return repr(predicate)


_TEXT_NAMES: dict[type[Predicate], str] = {
    StartsWith: "STARTS WITH",
    EndsWith: "ENDS WITH",
    Contains: "CONTAINS",
    Like: "LIKE",
}


def _literal_text(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, float) and not math.isfinite(value):
        return "'NaN'" if math.isnan(value) else "'Infinity'" if value > 0 else "'-Infinity'"
    if isinstance(value, int | float) and not isinstance(value, FarDate | FarTimestamp):
        return repr(value)
    text = str(value).replace("'", "''")
    return f"'{text}'" if isinstance(value, str) else text
