"""A predicate over rows in memory, and as an Arrow expression for readers that filter by themselves.

Predicates must be bound to the columns (interbed.storage.base.predicate.expr.bind).
"""

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
    push_not,
)
from interbed.storage.base.row.words import Array

_KERNELS = {
    Op.EQ: "equal",
    Op.NE: "not_equal",
    Op.LT: "less",
    Op.LE: "less_equal",
    Op.GT: "greater",
    Op.GE: "greater_equal",
}


def mask(predicate: Predicate, batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
    """Which rows the predicate is true for; false where it is unknown. Raises FilterError for an absent column."""
    truth = _evaluate(predicate, batch)
    known: Any = truth.fill_null(pa.scalar(False))
    return known  # type: ignore[no-any-return]


def literal(value: object, arrow: pa.DataType) -> "pa.Scalar[Any]":
    """A bound literal as a scalar of a column's Arrow type."""
    if isinstance(value, Decimal) and isinstance(arrow, pa.Decimal128Type):
        # Arrow refuses a decimal whose scale is not the type's, so it is given as text.
        return pa.scalar(f"{value:.{arrow.scale}f}").cast(arrow)
    return pa.scalar(value, arrow)


def _evaluate(predicate: Predicate, batch: pa.RecordBatch | pa.Table) -> Array:
    match predicate:
        case AlwaysTrue() | AlwaysFalse():
            return _constant(isinstance(predicate, AlwaysTrue), batch.num_rows)
        case And(children):
            parts = [_evaluate(c, batch) for c in children]
            return reduce(_call2("and_kleene"), parts, _constant(True, batch.num_rows)) if len(parts) != 1 else parts[0]
        case Or(children):
            parts = [_evaluate(c, batch) for c in children]
            return reduce(_call2("or_kleene"), parts, _constant(False, batch.num_rows)) if len(parts) != 1 else parts[0]
        case Not(child):
            return _call("invert", _evaluate(child, batch))
        case Comparison() | In() | NotIn() | IsNull() | IsNotNull() | TextMatch():
            return _leaf(predicate, _column(batch, predicate.column))
        case _:
            raise FilterError(f"Not a predicate: {predicate!r}.")


def _leaf(leaf: Leaf, column: Array) -> Array:
    match leaf:
        case IsNull():
            return _call("is_null", column)
        case IsNotNull():
            return _call("is_valid", column)
        case Comparison(op, _, value):
            if value is None:
                return _unknown(len(column))
            return _compare(column, op, value)
        case In(_, values):
            return _member(column, values)
        case NotIn(_, values):
            return _call("invert", _member(column, values))
        case StartsWith(_, pattern) | EndsWith(_, pattern) | Contains(_, pattern):
            return _call(_TEXT_KERNELS[type(leaf)], column, options=pc.MatchSubstringOptions(pattern))
        case _:
            return _like(column, leaf.pattern)


_TEXT_FUNCTIONS: dict[type[Predicate], Any] = {
    StartsWith: pc.starts_with,
    EndsWith: pc.ends_with,
    Contains: pc.match_substring,
    Like: pc.match_like,
}
_TEXT_KERNELS: dict[type[Predicate], str] = {
    StartsWith: "starts_with",
    EndsWith: "ends_with",
    Contains: "match_substring",
    Like: "match_like",
}


def _like(column: Array, pattern: str) -> Array:
    return _call("match_like", column, options=pc.MatchSubstringOptions(pattern))


def _compare(column: Array, op: Op, value: object) -> Array:
    return _call(_KERNELS[op], column, literal(value, column.type))


def _member(column: Array, values: Sequence[object]) -> Array:
    present = [v for v in values if v is not None]
    if pa.types.is_floating(column.type):
        # Arrow's is_in distinguishes 0.0 from -0.0 and takes NaN for equal to NaN.
        found = reduce(_call2("or_kleene"), (_compare(column, Op.EQ, v) for v in present), _false_if_present(column))
    else:
        choices = pa.array([literal(v, column.type) for v in present], column.type)
        hit = _call("is_in", column, options=pc.SetLookupOptions(choices))
        found = _call("if_else", _call("is_valid", column), hit, pa.scalar(None, pa.bool_()))
    if len(present) == len(values):
        return found
    # Not being among values of which one is unknown is unknown; so is, of an empty list with a null, everything.
    return _call("if_else", found.fill_null(pa.scalar(False)), pa.scalar(True), pa.scalar(None, pa.bool_()))


def _false_if_present(column: Array) -> Array:
    return _call("if_else", _call("is_valid", column), pa.scalar(False), pa.scalar(None, pa.bool_()))


def _column(batch: pa.RecordBatch | pa.Table, name: str) -> Array:
    index = batch.schema.get_field_index(name)
    if index < 0:
        raise FilterError(f"The filter names the column {name!r}; the columns are {', '.join(batch.schema.names)}.")
    column: Any = batch.column(index)
    array: Array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array


def _constant(value: bool, count: int) -> Array:
    return pa.repeat(pa.scalar(value), count)


def _unknown(count: int) -> Array:
    return pa.array([None] * count, pa.bool_())


def _call(kernel: str, *arguments: Any, options: Any = None) -> Array:
    result: Array = pc.call_function(kernel, list(arguments), options)
    return result


def _call2(kernel: str) -> Any:
    return lambda left, right: _call(kernel, left, right)


# -- expressions -------------------------------------------------------------------------------------------------------


def to_arrow(predicate: Predicate, schema: pa.Schema) -> pc.Expression:
    """An expression with which a reader may leave out rows and blocks of rows; its literals have the schema's types.

    It is true for at least the rows that the predicate is true for, and for no other rows unless the predicate is about
    floats; filter by `mask` afterwards. Raises FilterError for a column not in the schema.
    """
    return _expression(push_not(predicate), schema)


def _expression(predicate: Predicate, schema: pa.Schema) -> pc.Expression:
    match predicate:
        case AlwaysTrue() | AlwaysFalse():
            return _always(isinstance(predicate, AlwaysTrue))
        case And(children):
            return reduce(lambda a, b: a & b, (_expression(c, schema) for c in children)) if children else _always(True)
        case Or(children):
            return (
                reduce(lambda a, b: a | b, (_expression(c, schema) for c in children)) if children else _always(False)
            )
        case Not(Comparison() as leaf):
            # Only floats have such a Not, see push_not. A reader takes the least and greatest value of a block for all
            # of its values, but they say nothing of NaN, for which a negated comparison is true.
            return _expression(IsNotNull(leaf.column), schema)
        case Not(child):
            return ~_expression(child, schema)
        case Comparison() | In() | NotIn() | IsNull() | IsNotNull() | TextMatch():
            if schema.get_field_index(predicate.column) < 0:
                raise FilterError(
                    f"The filter names the column {predicate.column!r}; the columns are {', '.join(schema.names)}."
                )
            return _leaf_expression(predicate, schema.field(predicate.column).type)
        case _:
            raise FilterError(f"Not a predicate: {predicate!r}.")


def _leaf_expression(leaf: Leaf, arrow: pa.DataType) -> pc.Expression:
    # The stubs take some expressions for booleans and some literals for none.
    field: Any = pc.field(leaf.column)
    made: Any
    match leaf:
        case IsNull():
            made = field.is_null()
        case IsNotNull():
            made = field.is_valid()
        case Comparison(op, _, value):
            made = _comparison_expression(field, op, value, arrow)
        case In(_, values) | NotIn(_, values):
            made = _member_expression(field, values, arrow, negated=isinstance(leaf, NotIn))
        case _:
            made = _TEXT_FUNCTIONS[type(leaf)](field, pattern=leaf.pattern)
    expression: pc.Expression = made
    return expression


def _comparison_expression(field: Any, op: Op, value: object, arrow: pa.DataType) -> Any:
    if value is None:
        return _always(False)
    if pa.types.is_floating(arrow) and op is Op.NE:
        # Not left to the reader, for the reason given with Not.
        return field.is_valid()
    if isinstance(value, float) and math.isnan(value):
        return _always(False)
    scalar: Any = literal(value, arrow)
    right = pc.scalar(scalar)
    match op:
        case Op.EQ:
            return field == right
        case Op.NE:
            return field != right
        case Op.LT:
            return field < right
        case Op.LE:
            return field <= right
        case Op.GT:
            return field > right
        case Op.GE:
            return field >= right


def _member_expression(field: Any, values: Sequence[object], arrow: pa.DataType, *, negated: bool) -> Any:
    present = [v for v in values if v is not None]
    if negated and len(present) < len(values):
        return _always(False)
    if pa.types.is_floating(arrow):
        if negated:
            return field.is_valid()
        parts = [_comparison_expression(field, Op.EQ, v, arrow) for v in present]
        return reduce(lambda a, b: a | b, parts, _always(False))
    within = field.isin(pa.array([literal(v, arrow) for v in present], arrow))
    return field.is_valid() & ~within if negated else within


def _always(value: bool) -> pc.Expression:
    made: Any = pc.scalar(value)
    expression: pc.Expression = made
    return expression
