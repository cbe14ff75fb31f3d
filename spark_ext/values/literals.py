"""Values on their way to the JVM, in the form in which its predicates come (see predicates.py): JSON of Spark's values.

Dates are days and timestamps microseconds since 1970, decimals and text are strings. The JVM knows the types.
"""

import json
from collections.abc import Sequence
from decimal import Decimal

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.row.values import unit_of, value_to_days, value_to_ticks
from interbed.storage.base.types.data_type import INTEGERS, TIMESTAMPS, AtomicType, DataType, TypeRoot

_MICROS = {"ms": 1_000, "us": 1}


def has_literal(data_type: DataType) -> bool:
    """Whether values of the type can be sent. CHAR can't, which Spark pads, nor can numbers with several zeros."""
    if not isinstance(data_type, AtomicType):
        return False
    if data_type.root in TIMESTAMPS:
        return unit_of(data_type) in _MICROS
    return data_type.root in INTEGERS | {TypeRoot.BOOLEAN, TypeRoot.VARCHAR, TypeRoot.DATE, TypeRoot.DECIMAL}


def literals(values: Sequence[object], types: Sequence[DataType]) -> str:
    """A row of values of these types; raises NotSupportedError for a type without literals."""
    return json.dumps([_literal(value, data_type) for value, data_type in zip(values, types, strict=True)])


def _literal(value: object, data_type: DataType) -> object:
    if not has_literal(data_type) or not isinstance(data_type, AtomicType):
        raise NotSupportedError(f"A value of type {data_type} can't be sent to Spark by itself.")
    if value is None:
        return None
    if data_type.root in TIMESTAMPS:
        return value_to_ticks(value, data_type) * _MICROS[unit_of(data_type)]
    if data_type.root is TypeRoot.DATE:
        return value_to_days(value)
    return format(value, "f") if isinstance(value, Decimal) else value
