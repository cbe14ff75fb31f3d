"""Predicates as pyiceberg's expressions, for pruning: an expression is true wherever the predicate is, and often
elsewhere.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import reduce

import numpy as np
from pyiceberg import expressions
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
)

from interbed.storage.base.predicate import expr as ours
from interbed.storage.base.types.data_type import AtomicType, DataField, TypeRoot

_COMPARISONS: dict[ours.Op, Callable[..., BooleanExpression]] = {
    ours.Op.EQ: EqualTo,
    ours.Op.NE: NotEqualTo,
    ours.Op.LT: LessThan,
    ours.Op.LE: LessThanOrEqual,
    ours.Op.GT: GreaterThan,
    ours.Op.GE: GreaterThanOrEqual,
}
# Constructed with positional arguments, which pyiceberg's plugin for types does not know.
_TRUE: BooleanExpression = AlwaysTrue()
_FALSE: BooleanExpression = AlwaysFalse()
_AND: Callable[..., BooleanExpression] = expressions.And
_OR: Callable[..., BooleanExpression] = expressions.Or
_ONE_OF: Callable[..., BooleanExpression] = expressions.In
_NULL: Callable[..., BooleanExpression] = expressions.IsNull
_NOT_NULL: Callable[..., BooleanExpression] = expressions.NotNull
_NAN: Callable[..., BooleanExpression] = expressions.IsNaN
_PREFIX: Callable[..., BooleanExpression] = expressions.StartsWith
_LITERALS: Mapping[TypeRoot, type] = {
    TypeRoot.BOOLEAN: bool,
    TypeRoot.INT: int,
    TypeRoot.BIGINT: int,
    TypeRoot.FLOAT: float,
    TypeRoot.DOUBLE: float,
    TypeRoot.DECIMAL: Decimal,
    TypeRoot.VARCHAR: str,
    TypeRoot.VARBINARY: bytes,
    TypeRoot.DATE: date,
    TypeRoot.TIMESTAMP: datetime,
    TypeRoot.TIMESTAMP_LTZ: datetime,
}
"""The values that both libraries represent alike; filters on other types prune nothing."""
_MAX_CHOICES = 200
"""Evaluating a longer list costs more than its pruning saves."""


def to_expression(predicate: "ours.Predicate | None", fields: Sequence[DataField]) -> BooleanExpression:
    """Return the strongest known expression that is true wherever the bound predicate is."""
    if predicate is None:
        return _TRUE
    # pyiceberg takes a name with a dot for a path.
    columns = {f.name: f.type for f in fields if "." not in f.name and isinstance(f.type, AtomicType)}
    return _translated(ours.push_not(predicate), columns)


def _translated(predicate: "ours.Predicate", columns: Mapping[str, AtomicType]) -> BooleanExpression:
    match predicate:
        case ours.AlwaysFalse():
            return _FALSE
        case ours.And(children):
            return reduce(_AND, (_translated(child, columns) for child in children), _TRUE)
        case ours.Or(children):
            return reduce(_OR, (_translated(child, columns) for child in children), _FALSE)
        case ours.Comparison(op, str(name), value) if name in columns and _is_known(value, columns[name]):
            compared = _COMPARISONS[op](name, value)
            # Bounds do not include NaN, which is greater than every number.
            above = isinstance(value, float) and op in (ours.Op.NE, ours.Op.GT, ours.Op.GE)
            return _OR(compared, _NAN(name)) if above else compared
        case ours.In(str(name), values) if name in columns and len(values) <= _MAX_CHOICES:
            known = [value for value in values if value is not None]
            return _ONE_OF(name, known) if known and all(_is_known(v, columns[name]) for v in known) else _TRUE
        case ours.IsNull(str(name)) if name in columns:
            return _NULL(name)
        case ours.IsNotNull(str(name)) if name in columns:
            return _NOT_NULL(name)
        case ours.StartsWith(str(name), pattern) if name in columns and pattern:
            return _PREFIX(name, pattern)
    return _TRUE


def _is_known(value: object, kind: AtomicType) -> bool:
    if not isinstance(value, _LITERALS.get(kind.root, ())):
        return False
    if not isinstance(value, float):
        return True
    if kind.root is TypeRoot.DOUBLE:
        return not math.isnan(value)
    # Bounds are FLOATs as well; a number between two FLOATs would be rounded to one. pyiceberg takes an infinity for a
    # number beyond FLOAT, which equals nothing.
    return math.isfinite(value) and _as_float(value) == value


def _as_float(value: float) -> float:
    return float(np.float32(value))
