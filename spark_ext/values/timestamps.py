"""Timestamps of fewer digits, rounded down as Paimon's Timestamp does it; Arrow's casts round towards zero.

A nanosecond before the epoch is in the microsecond before it. Source: paimon-common's Timestamp.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def loses_digits(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast takes digits from timestamps, nested ones too."""
    if isinstance(source, pa.TimestampType) and isinstance(target, pa.TimestampType):
        return _TICKS[source.unit] > _TICKS[target.unit]
    return source.num_fields == target.num_fields and any(
        loses_digits(source.field(i).type, target.field(i).type) for i in range(source.num_fields)
    )


def rounded_down(array: Any, target: Any, *, safe: bool) -> "pa.Array[Any]":
    """The array cast to the target, its timestamps rounded down; `safe` and errors are those of Arrow's cast."""
    if not loses_digits(array.type, target):
        cast: pa.Array[Any] = array.cast(target, safe=safe)
        return cast
    if pa.types.is_struct(target):
        children = [rounded_down(array.field(i), field.type, safe=safe) for i, field in enumerate(target)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
    if pa.types.is_timestamp(target):
        cut: pa.Array[Any] = _rounded(array, _TICKS[array.type.unit] // _TICKS[target.unit]).view(target)
        return cut
    inside: pa.Array[Any]
    if pa.types.is_map(target):
        keys = rounded_down(array.keys, target.key_type, safe=safe)
        items = rounded_down(array.items, target.item_type, safe=safe)
        inside = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    else:
        inside = rounded_down(array.values, target.value_type, safe=safe)
    rebuilt: pa.Array[Any] = pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], array.null_count, array.offset, children=[inside]
    )
    return rebuilt


def _rounded(array: Any, step: int) -> Any:
    ticks = array.view(pa.int64())
    towards_zero: Any = pc.divide(ticks, step)
    over: Any = pc.greater(pc.multiply(towards_zero, step), ticks)
    return pc.subtract(towards_zero, over.cast(pa.int64()))
