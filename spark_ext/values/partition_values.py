"""Values of partition columns, converted between Spark and the table.

As in filters: numbers that JSON can't carry exactly are strings, binary values base64, dates days and timestamps
microseconds since 1970-01-01.
"""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from interbed.storage.base.base64_text import bytes_of_base64
from interbed.storage.base.row.values import (
    EPOCH,
    EPOCH_UTC,
    days_to_value,
    millis_to_time,
    ticks_to_value,
    unit_of,
    value_to_days,
    value_to_millis,
)
from interbed.storage.base.types.data_type import BINARIES, AtomicType, DataField, TypeRoot, is_atomic
from interbed.storage.base.types.far_times import TICKS_PER_SECOND, FarTimestamp

_MICROSECOND = timedelta(microseconds=1)
_MICROS_PER_SECOND = 1_000_000


def spec_from_spark(text: str, fields: Sequence[DataField]) -> dict[str, Any]:
    """Return a (partial) partition of planner.thrift's specJson, with Python values; `fields` are its columns."""
    by_name = {f.name: f for f in fields}
    return {
        name: None if value is None else _from_spark(value, by_name[name]) for name, value in json.loads(text).items()
    }


def values_to_spark(values: Sequence[object], fields: Sequence[DataField]) -> str:
    """Return planner.thrift's valuesJson of a partition's values, in the order of the columns."""
    return json.dumps(
        [None if v is None else _to_spark(v, f) for v, f in zip(values, fields, strict=True)], ensure_ascii=False
    )


def agrees(spec: Mapping[str, Any], values: Sequence[object], fields: Sequence[DataField]) -> bool:
    """Return whether a partition matches the (partial) specification."""
    return all(f.name not in spec or _is_same(spec[f.name], v) for f, v in zip(fields, values, strict=True))


def _is_same(left: Any, right: Any) -> bool:
    # NaN is equal to itself in SQL, and to nothing in Python.
    return bool(left == right or (left != left and right != right))


def _root(field: DataField) -> TypeRoot | None:
    return field.type.root if isinstance(field.type, AtomicType) else None


def _from_spark(value: Any, field: DataField) -> Any:
    match _root(field):
        case TypeRoot.DATE:
            return days_to_value(value)
        case TypeRoot.TIME:
            return millis_to_time(value)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if isinstance(field.type, AtomicType):
            per_second = TICKS_PER_SECOND[unit_of(field.type)]
            return ticks_to_value(value * per_second // _MICROS_PER_SECOND, field.type)
        case TypeRoot.DECIMAL:
            return Decimal(value)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return float(value)
        case root if root in BINARIES:
            return bytes_of_base64(value)
        case _:
            return value


def _to_spark(value: Any, field: DataField) -> Any:
    if isinstance(value, FarTimestamp):
        return int(value) * _MICROS_PER_SECOND // TICKS_PER_SECOND[value.unit]
    if isinstance(value, datetime):
        return (value - (EPOCH if value.tzinfo is None else EPOCH_UTC)) // _MICROSECOND
    if isinstance(value, date):
        return value_to_days(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return repr(value)
    return value_to_millis(value) if is_atomic(field.type, TypeRoot.TIME) else value
