"""Comparisons of a column with a literal by Arrow's kernels.

Floats compare as in Spark and PostgreSQL: NaN is equal to itself and greater than every other number, and -0.0 equals
0.0. Arrow compares them as IEEE 754 does, for which every comparison with NaN but "not equal" is false.
"""

from typing import Any

import pyarrow as pa

from interbed.storage.base.arrow_values import FALSE, TRUE, UNKNOWN
from interbed.storage.base.predicate.literals import literal
from interbed.storage.base.predicate.operators import Op
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
    """For each value of the column whether it compares so with the literal; null where it is null.

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
        # IEEE says that NaN is neither less than the number nor equal to it, so that the opposite holds for NaN.
        return call("invert", call(_KERNELS[op.negated], column, literal(value, column.type)))
    return call(_KERNELS[op], column, literal(value, column.type))


def call(kernel: str, *arguments: Any, options: Any = None) -> Array:
    """What a kernel of Arrow makes of the arguments."""
    import pyarrow.compute as pc

    result: Array = pc.call_function(kernel, list(arguments), options)
    return result
