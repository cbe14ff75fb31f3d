"""Filters in JSON, as Iceberg's REST specification has them: `{"type": "lt", "term": "id", "value": 3}`.

A filter becomes a tree without NOT: a negation is pushed down to the tests. Each test keeps its JSON, so that residual
filters repeat what the client has sent. A test whose literal cannot be compared exactly prunes nothing. An expression
that is not known is refused by name. Source: Iceberg's REST specification, "Predicate", both the present forms (`left`,
`right`, `child`) and the deprecated ones (`term`, `value`), which clients send.
"""

import math
import re
import reprlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from pyiceberg import expressions
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression, UnboundPredicate
from pyiceberg.expressions.literals import Literal, literal
from pyiceberg.schema import Schema
from pyiceberg.transforms import UnknownTransform, parse_transform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from interbed.storage.base.errors import FilterError

DEPTH_MAX = 100
"""Levels of alternating AND, OR and NOT in a filter."""

_SHOWN = 60
_OPPOSITES = (
    *(("eq", "not-eq"), ("lt", "gt-eq"), ("gt", "lt-eq"), ("in", "not-in"), ("is-null", "not-null")),
    *(("is-nan", "not-nan"), ("starts-with", "not-starts-with")),
)
_NEGATED = {**dict(_OPPOSITES), **{right: left for left, right in _OPPOSITES}}
_MIRRORED = {"eq": "eq", "not-eq": "not-eq", "lt": "gt", "gt": "lt", "lt-eq": "gt-eq", "gt-eq": "lt-eq"}
_UNARY: Mapping[str, Callable[..., UnboundPredicate]] = {
    "is-null": expressions.IsNull,
    "not-null": expressions.NotNull,
    "is-nan": expressions.IsNaN,
    "not-nan": expressions.NotNaN,
}
_COMPARISONS: Mapping[str, Callable[..., UnboundPredicate]] = {
    "eq": expressions.EqualTo,
    "not-eq": expressions.NotEqualTo,
    "lt": expressions.LessThan,
    "lt-eq": expressions.LessThanOrEqual,
    "gt": expressions.GreaterThan,
    "gt-eq": expressions.GreaterThanOrEqual,
    "starts-with": expressions.StartsWith,
    "not-starts-with": expressions.NotStartsWith,
}
_SETS: Mapping[str, Callable[..., Any]] = {"in": expressions.In, "not-in": expressions.NotIn}
_WHOLE = (IntegerType, LongType, DateType, TimeType, TimestampType, TimestamptzType)
_TEXTS = (StringType, UUIDType, DateType, TimeType, TimestampType, TimestamptzType)
_DATES = (DateType, TimestampType, TimestamptzType)
_FAR_DATE = re.compile(r"(?:[+-]\d{4,9}|0000)-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII)
"""A date beyond the years 1 to 9999, as ISO 8601 and Java have it."""
_DIGITS = Context(prec=76)
"""Digits of decimals, of which a column has at most 38."""
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxlong = _REPR.maxother = 2 * _SHOWN


@dataclass(frozen=True, slots=True)
class ConstantCondition:
    """A condition that is true for all rows, or for none."""

    value: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnTest:
    """A test of a column, or of a transformed column.

    `json` is the test in the specification's form. `named` returns its predicate on a name: that of the column, or of a
    partition field with the same `transform`; None for a test that prunes nothing.
    """

    json: Mapping[str, Any]
    column: str
    source_id: int
    named: Callable[[str], UnboundPredicate] | None = None
    transform: str | None = None


@dataclass(frozen=True, slots=True)
class JoinedConditions:
    """Conditions joined by `and` or `or`."""

    word: str
    parts: tuple["Condition", ...]


Condition = ConstantCondition | ColumnTest | JoinedConditions


def parsed_condition(json: Any, schema: Schema, *, case_sensitive: bool = True) -> Condition:
    """Return the condition of a filter in JSON. Raises FilterError."""
    try:
        return _FilterReader(schema, case_sensitive).condition(json, negated=False, depth=0)
    except RecursionError as error:
        raise FilterError("The filter is nested too deeply") from error


def joined(word: str, parts: Sequence[Condition]) -> Condition:
    """Return conditions joined by `and` or `or`, without those that have no effect."""
    decides = word == "or"
    kept = []
    for part in parts:
        if isinstance(part, ConstantCondition):
            if part.value == decides:
                return part
        else:
            kept.append(part)
    if not kept:
        return ConstantCondition(not decides)
    return kept[0] if len(kept) == 1 else JoinedConditions(word, tuple(kept))


def condition_json(condition: Condition) -> Any:
    """Return a condition in JSON. Long chains become balanced trees, which clients parse recursively."""
    match condition:
        case ConstantCondition(value):
            return value
        case ColumnTest():
            return condition.json
        case JoinedConditions(word, parts):
            return _balanced(word, [condition_json(part) for part in parts])


def _balanced(word: str, parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return {"type": word, "left": _balanced(word, parts[:middle]), "right": _balanced(word, parts[middle:])}


def condition_expression(condition: Condition, leaf: Callable[[ColumnTest], BooleanExpression]) -> BooleanExpression:
    """Return a condition as pyiceberg's expression, with each test translated by `leaf`."""
    match condition:
        case ConstantCondition(value):
            return AlwaysTrue() if value else AlwaysFalse()
        case ColumnTest():
            return leaf(condition)
        case JoinedConditions(word, parts):
            first, second, *rest = (condition_expression(part, leaf) for part in parts)
            join: Callable[..., BooleanExpression] = expressions.And if word == "and" else expressions.Or
            return join(first, second, *rest)


def column_tests_of(condition: Condition) -> Iterator[ColumnTest]:
    """Yield the tests of a condition."""
    match condition:
        case ColumnTest():
            yield condition
        case JoinedConditions(_, parts):
            for part in parts:
                yield from column_tests_of(part)


class _FilterReader:
    """Reads filters over the columns of a schema."""

    def __init__(self, schema: Schema, case_sensitive: bool) -> None:
        self._schema = schema
        self._case_sensitive = case_sensitive

    def condition(self, json: Any, *, negated: bool, depth: int) -> Condition:
        if depth > DEPTH_MAX:
            raise FilterError(f"The filter is nested in more than {DEPTH_MAX} levels of and, or and not")
        if isinstance(json, bool):
            return ConstantCondition(json != negated)
        if not isinstance(json, dict) or not isinstance(json.get("type"), str):
            raise FilterError(f"The filter has {_shown(json)}, which is no predicate")
        word = json["type"].lower()
        match word:
            case "true" | "false":
                return ConstantCondition((word == "true") != negated)
            case "literal" if isinstance(json.get("value"), bool):
                return ConstantCondition(json["value"] != negated)
            case "not":
                return self.condition(_part(json, "child"), negated=not negated, depth=depth + 1)
            case "and" | "or":
                parts = [self.condition(each, negated=negated, depth=depth + 1) for each in _operands(word, json)]
                return joined({"and": "or", "or": "and"}[word] if negated else word, parts)
            case _ if word in _NEGATED:
                return self._test(_NEGATED[word] if negated else word, word, json)
        raise FilterError(f"The predicate {_shown(json['type'])} of the filter is not supported")

    def _test(self, word: str, given: str, json: Mapping[str, Any]) -> Condition:
        term, values, is_mirrored = self._reference_and_literals(given, json)
        if is_mirrored:
            word = _MIRRORED[word]
        column = self._column(term)
        transform: str | None = None
        shown: Any = column.name
        kind: IcebergType = column.field.field_type
        if isinstance(term, dict) and term.get("type") == "transform":
            transform, kind = self._transform(_part(term, "transform"), column.field)
            shown = {"type": "transform", "transform": transform, "term": column.name}
        repeated: dict[str, Any] = {"type": word, "term": shown}
        if word in _SETS:
            repeated["values"] = values
        elif values:
            repeated["value"] = values[0]
        if not isinstance(kind, PrimitiveType):
            if word not in ("is-null", "not-null"):
                raise FilterError(f"The column '{column.name}' is of type {kind}, which '{word}' cannot compare")
            return ColumnTest(json=repeated, column=column.name, source_id=column.field.field_id)
        named = _predicate(word, column, kind, values)
        if named is not None and transform is None:
            bound = named(column.name).bind(self._schema)
            if isinstance(bound, AlwaysTrue | AlwaysFalse):
                return ConstantCondition(isinstance(bound, AlwaysTrue))
        return ColumnTest(
            json=repeated, column=column.name, source_id=column.field.field_id, named=named, transform=transform
        )

    def _reference_and_literals(self, word: str, json: Mapping[str, Any]) -> tuple[Any, list[Any], bool]:
        """Return the reference of a test, its literals, and whether the literal is on the left."""
        if word in _UNARY:
            return json["child"] if "child" in json else _part(json, "term"), [], False
        if word in _SETS:
            values = _part(json, "values")
            if not isinstance(values, list) or not values:
                raise FilterError(f"The values of '{word}' in the filter are no list of literals")
            return json["child"] if "child" in json else _part(json, "term"), [_value(each) for each in values], False
        if "term" in json:
            return json["term"], [_value(_part(json, "value"))], False
        left, right = _part(json, "left"), _part(json, "right")
        if self._is_reference(left):
            if self._is_reference(right):
                raise FilterError(f"The predicate '{word}' of two columns in the filter is not supported")
            return left, [_value(right)], False
        if word not in _MIRRORED:
            raise FilterError(f"The predicate '{word}' of the filter has its literal on the left")
        return right, [_value(left)], True

    def _is_reference(self, json: Any) -> bool:
        return isinstance(json, dict) and json.get("type") != "literal"

    def _column(self, term: Any) -> "_FilterColumn":
        number: int | None = None
        if isinstance(term, str):
            name: Any = term
        elif isinstance(term, dict) and term.get("type") == "transform":
            inner = _part(term, "term")
            if isinstance(inner, dict) and inner.get("type") == "transform":
                raise FilterError("The filter has a transform of a transform, which is not supported")
            return self._column(inner)
        elif isinstance(term, dict) and term.get("type") == "reference":
            number = term.get("id")
            name = term.get("name", term.get("term"))
        else:
            shown = term.get("type") if isinstance(term, dict) else term
            raise FilterError(f"The term {_shown(shown)} of the filter is not supported")
        wanted = number if isinstance(number, int) else name
        if not isinstance(wanted, int | str):
            raise FilterError(f"The reference {_shown(term)} of the filter names no column")
        try:
            field = self._schema.find_field(wanted, self._case_sensitive)
            self._schema.accessor_for_field(field.field_id)
        except ValueError as error:
            raise FilterError(
                f"The filter names {_shown(wanted)}, which is no column of the schema, or is in a list or a map"
            ) from error
        full = self._schema.find_column_name(field.field_id) or field.name
        return _FilterColumn(name=full, field=field, is_nested="." in full and full != field.name)

    def _transform(self, given: Any, field: NestedField) -> tuple[str, IcebergType]:
        try:
            transform = parse_transform(given)
        except ValueError as error:
            raise FilterError(f"The transform {_shown(given)} of the filter is not known") from error
        if isinstance(transform, UnknownTransform) or not transform.can_transform(field.field_type):
            raise FilterError(f"The transform {_shown(given)} of the filter is not one of '{field.name}'")
        return str(transform), transform.result_type(field.field_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FilterColumn:
    """A column, by its full name; nested columns are fields of structs."""

    name: str
    field: NestedField
    is_nested: bool


def _operands(word: str, json: Any) -> list[Any]:
    """Return the operands of a chain of the same word, in order: chains of any length are of one level."""
    found, waiting = [], [json]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict) and isinstance(node.get("type"), str) and node["type"].lower() == word:
            waiting += [_part(node, "right"), _part(node, "left")]
        else:
            found.append(node)
    return found


def _predicate(
    word: str, column: _FilterColumn, kind: PrimitiveType, values: Sequence[Any]
) -> Callable[[str], UnboundPredicate] | None:
    """Return the predicate of a test, by the name that it is on; None if it prunes nothing."""
    is_floating = isinstance(kind, FloatType | DoubleType)
    if (word in ("is-nan", "not-nan") and not is_floating) or (
        word in ("starts-with", "not-starts-with") and not isinstance(kind, StringType)
    ):
        raise FilterError(f"The column '{column.name}' is of type {kind}, which '{word}' cannot test")
    if word in _UNARY:
        # A field of a struct is null where the struct is, even if the field is required.
        return None if column.is_nested and word in ("is-null", "not-null") else _UNARY[word]
    found = [_literal(value, kind, column.name) for value in values]
    literals = [each for each in found if each is not None]
    if len(literals) < len(found):
        return None
    if word in _SETS:
        return lambda name: _SETS[word](name, literals)
    return lambda name: _COMPARISONS[word](name, literals[0])


def _literal(value: Any, kind: PrimitiveType, name: str) -> Literal[Any] | None:
    """Return a literal of the type, None if the type compares it only after rounding or not at all here."""
    problem = FilterError(f"The filter compares '{name}', which is of type {kind}, with {_shown(value)}")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        match kind:
            case BooleanType() if isinstance(value, bool):
                return literal(value)
            case FloatType() | DoubleType() if is_number:
                return _floating(float(value), isinstance(kind, FloatType))
            case DecimalType() if is_number or isinstance(value, str):
                return _decimal(Decimal(str(value)), kind)
            case BinaryType() | FixedType() if isinstance(value, str):
                return literal(bytes.fromhex(value)).to(kind)
            case _ if isinstance(kind, _WHOLE) and is_number and int(value) == value:
                return _within(literal(int(value)).to(kind))
            case _ if isinstance(kind, _DATES) and isinstance(value, str) and _FAR_DATE.fullmatch(value):
                return None
            case _ if isinstance(kind, _TEXTS) and isinstance(value, str):
                return literal(value).to(kind)
    except (TypeError, ValueError, OverflowError, InvalidOperation) as error:
        raise problem from error
    known = (BooleanType, FloatType, DoubleType, DecimalType, BinaryType, FixedType, *_WHOLE, *_TEXTS)
    if isinstance(kind, known):
        raise problem
    return None


def _within(found: Literal[Any]) -> Literal[Any] | None:
    # A number beyond the type has a literal of its own, which is above or below all values.
    return None if type(found).__name__.endswith(("AboveMax", "BelowMin")) else found


def _floating(value: float, is_single: bool) -> Literal[Any] | None:
    if not math.isfinite(value):
        return None
    if not is_single:
        return literal(value)
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return None
    # Clients disagree whether a literal is rounded to a float.
    return literal(value).to(FloatType()) if rounded == value else None


def _decimal(value: Decimal, kind: DecimalType) -> Literal[Any] | None:
    if not value.is_finite():
        raise InvalidOperation
    if value and value.adjusted() >= kind.precision - kind.scale:
        # The literal is above or below all values.
        return None
    exact = value.quantize(Decimal(1).scaleb(-kind.scale), context=_DIGITS)
    return literal(exact) if exact == value else None


def _value(json: Any) -> Any:
    """Return the value of a literal, which is bare or an object."""
    found = json
    if isinstance(json, dict):
        if json.get("type") != "literal":
            raise FilterError(f"The filter has {_shown(json)} where a literal belongs")
        found = json.get("value")
    if isinstance(found, bool | int | float | str):
        return found
    raise FilterError(f"The filter has {_shown(found)} where a literal belongs")


def _part(json: Mapping[str, Any], name: str) -> Any:
    if name not in json:
        raise FilterError(f"The predicate {_shown(json.get('type'))} of the filter has no '{name}'")
    return json[name]


def _shown(value: Any) -> str:
    text = _REPR.repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
