"""Evaluation of predicates over rows in memory.

Predicates must be bound to the columns (interbed.storage.base.predicate.expr.bind). Floats compare as in Spark and
PostgreSQL: NaN is equal to itself and greater than every other number, and -0.0 equals 0.0. Arrow's kernels compare
them as IEEE 754 does, for which every comparison with NaN but "not equal" is false.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import FALSE, TRUE, UNKNOWN, array_of, from_numpy, nulls_of, to_numpy
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
)
from interbed.storage.base.predicate.operands import InnerReference, Reference, column_of, literal
from interbed.storage.base.row.words import Array

_KERNELS = {
    Op.EQ: "equal",
    Op.NE: "not_equal",
    Op.LT: "less",
    Op.LE: "less_equal",
    Op.GT: "greater",
    Op.GE: "greater_equal",
}


def compare(column: Array, op: Op, value: object) -> Array:
    """Compare each value of the column with the literal; null where the value is null.

    `value` is bound to the column and not null.
    """
    if isinstance(value, float) and pa.types.is_floating(column.type):
        return _compare_floats(column, op, value)
    return call(_KERNELS[op], column, literal(value, column.type))


def _compare_floats(column: Array, op: Op, value: float) -> Array:
    if value != value:
        match op:
            case Op.EQ | Op.GE:
                return call("is_nan", column)
            case Op.NE | Op.LT:
                return call("invert", call("is_nan", column))
            case _:
                return call("if_else", call("is_valid", column), TRUE if op is Op.LE else FALSE, UNKNOWN)
    if op in (Op.GT, Op.GE):
        # In IEEE 754 NaN is neither less than nor equal to the number, so the negation is true for NaN.
        return call("invert", call(_KERNELS[op.negated], column, literal(value, column.type)))
    return call(_KERNELS[op], column, literal(value, column.type))


def call(kernel: str, *arguments: Any, options: Any = None) -> Array:
    """Return the result of a kernel of Arrow."""
    import pyarrow.compute as pc

    result: Array = pc.call_function(kernel, list(arguments), options)
    return result


def inner_values(column: Array, steps: Sequence[object]) -> Array:
    """Return the inner values of each row by the steps of a bound reference; null where there is none."""
    for step in steps:
        column = _values_of_key(column, step) if pa.types.is_map(column.type) else _field(column, str(step))
    return column


def _field(column: Any, name: str) -> Array:
    import pyarrow.compute as pc

    # Includes the nulls of the ROWs around it.
    found: Array = pc.call_function(
        "struct_field", [column], pc.StructFieldOptions([column.type.get_field_index(name)])
    )
    return found


def _values_of_key(column: Any, key: object) -> Array:
    """Return the first value of a key in each MAP; Arrow's `map_lookup` is much slower."""
    offsets = to_numpy(column.offsets)
    keys = column.keys.slice(offsets[0], offsets[-1] - offsets[0])
    equal: Any = compare(keys, Op.EQ, key)
    entries = np.flatnonzero(to_numpy(equal.fill_null(FALSE))) + offsets[0]
    places = np.full(len(column), -1, np.int64)
    # The last assignment wins, so the first entry of a row comes last.
    places[(np.searchsorted(offsets, entries, side="right") - 1)[::-1]] = entries[::-1]
    absent = places < 0
    if column.null_count:
        absent |= to_numpy(column.is_null())
    found: Array = column.items.take(from_numpy(places, absent))
    return found


def mask(predicate: Predicate, batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
    """Return for each row whether the predicate is true; false where it is unknown. Raises FilterError."""
    truth = _evaluate(predicate, batch)
    known: Any = truth.fill_null(FALSE)
    return known  # type: ignore[no-any-return]


def _choices(values: Sequence[object], arrow: pa.DataType) -> Array:
    if pa.types.is_decimal(arrow):
        return array_of([literal(v, arrow) for v in values], arrow)
    return array_of(values, arrow)


def _evaluate(predicate: Predicate, batch: pa.RecordBatch | pa.Table) -> Array:
    match predicate:
        case AlwaysTrue() | AlwaysFalse():
            return _constant(isinstance(predicate, AlwaysTrue), batch.num_rows)
        case And(children):
            parts = [_evaluate(c, batch) for c in children]
            return reduce(_call2("and_kleene"), parts) if parts else _constant(True, batch.num_rows)
        case Or(children):
            parts = [_evaluate(c, batch) for c in children]
            return reduce(_call2("or_kleene"), parts) if parts else _constant(False, batch.num_rows)
        case Not(child):
            return call("invert", _evaluate(child, batch))
        case Comparison() | In() | NotIn() | IsNull() | IsNotNull() | TextMatch():
            return _leaf(predicate, _column(batch, predicate.column))
        case _:
            raise FilterError(f"Not a predicate: {predicate!r}.")


def _leaf(leaf: Leaf, column: Array) -> Array:
    import pyarrow.compute as pc

    match leaf:
        case IsNull():
            return call("is_null", column)
        case IsNotNull():
            return call("is_valid", column)
        case Comparison(op, _, value):
            if value is None:
                return _unknown(len(column))
            return compare(column, op, value)
        case In(_, values):
            return _member(column, values)
        case NotIn(_, values):
            return call("invert", _member(column, values))
        case StartsWith(_, pattern) | EndsWith(_, pattern) | Contains(_, pattern):
            return call(_TEXT_KERNELS[type(leaf)], column, options=pc.MatchSubstringOptions(pattern))
        case _:
            return _like(column, leaf.pattern)


_TEXT_KERNELS: dict[type[Predicate], str] = {
    StartsWith: "starts_with",
    EndsWith: "ends_with",
    Contains: "match_substring",
    Like: "match_like",
}


def _like(column: Array, pattern: str) -> Array:
    import pyarrow.compute as pc

    return call("match_like", column, options=pc.MatchSubstringOptions(pattern))


def _member(column: Array, values: Sequence[object]) -> Array:
    import pyarrow.compute as pc

    present = [v for v in values if v is not None]
    if pa.types.is_floating(column.type):
        # Arrow's is_in distinguishes 0.0 from -0.0.
        found = reduce(_call2("or_kleene"), (compare(column, Op.EQ, v) for v in present), _false_if_present(column))
    else:
        choices = _choices(present, column.type)
        hit = call("is_in", column, options=pc.SetLookupOptions(choices))
        found = call("if_else", call("is_valid", column), hit, UNKNOWN) if column.null_count else hit
    if len(present) == len(values):
        return found
    # NOT IN a list with a null is unknown, also when the null is its only value.
    return call("if_else", found.fill_null(FALSE), TRUE, UNKNOWN)


def _false_if_present(column: Array) -> Array:
    return call("if_else", call("is_valid", column), FALSE, UNKNOWN)


def _column(batch: pa.RecordBatch | pa.Table, reference: Reference) -> Array:
    name = column_of(reference)
    index = batch.schema.get_field_index(name)
    if index < 0:
        raise FilterError(f"The filter names the column {name!r}; the columns are {', '.join(batch.schema.names)}.")
    column: Any = batch.column(index)
    array: Array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return inner_values(array, reference.steps) if isinstance(reference, InnerReference) else array


def _constant(value: bool, count: int) -> Array:
    repeated: Array = pa.repeat(TRUE if value else FALSE, count)
    return repeated


def _unknown(count: int) -> Array:
    return nulls_of(count, pa.bool_())


def _call2(kernel: str) -> Any:
    return lambda left, right: call(kernel, left, right)
