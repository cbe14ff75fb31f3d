"""Values that were parsed from JSON as Arrow arrays that have all of each value, whatever others stand beside it.

Each value has the type that it has alone, so that arrays are by type. Numbers with a fraction are their texts, and so
are the integers beside them in one list; these texts have a type of their own, SENT_NUMBERS.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.ingest.formats.arrays import Array, Indices
from interbed.ingest.formats.guessed.json_objects import json_text, type_of
from interbed.ingest.formats.guessed.sent_number import SentNumber
from interbed.storage.base.types.data_type import STRINGS, ArrayType, AtomicType, DataType, RowType

SENT_NUMBERS = pa.large_string()
"""The type of texts that are numbers of JSON; other texts are of the type string."""


def exact_arrays(values: Mapping[int, Any], target: DataType) -> Iterator[tuple[Indices, Array]]:
    """The values by type, with their numbers. Objects and lists are JSON where the column `target` has texts."""
    written = {i: _with_json_texts(value, target) for i, value in values.items()}
    places: dict[pa.DataType, list[int]] = {}
    for i, value in written.items():
        places.setdefault(type_of(value), []).append(i)
    for kind, numbers in places.items():
        exact = _with_sent_numbers(kind)
        yield np.array(numbers, np.int64), pa.array([_made(written[i], exact) for i in numbers], exact)


def doubles(values: Sequence[Any], kind: pa.DataType) -> Array:
    """The values as an array of a type that `type_of` gives, each number that is to be a DOUBLE as the nearest one."""
    exact = _with_sent_numbers(kind)
    found: Array = _without_sent_numbers(pa.array([_made(value, exact) for value in values], exact), kind)
    return found


def _with_json_texts(value: Any, target: DataType) -> Any:
    if isinstance(value, dict) and isinstance(target, RowType):
        types = {f.name: f.type for f in target.fields}
        return {n: _with_json_texts(v, types[n]) if n in types else v for n, v in value.items()}
    if isinstance(value, list) and isinstance(target, ArrayType):
        return [_with_json_texts(each, target.element) for each in value]
    is_text = isinstance(target, AtomicType) and target.root in STRINGS
    return json_text(value) if is_text and isinstance(value, dict | list) else value


def _with_sent_numbers(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.StructType):
        return pa.struct([f.with_type(_with_sent_numbers(f.type)) for f in kind])
    if isinstance(kind, pa.ListType):
        return pa.list_(kind.value_field.with_type(_with_sent_numbers(kind.value_type)))
    return SENT_NUMBERS if pa.types.is_floating(kind) else kind


def _without_sent_numbers(values: Any, kind: pa.DataType) -> Any:
    if values.type == kind:
        return values
    if isinstance(kind, pa.StructType):
        parts = [_without_sent_numbers(part, f.type) for part, f in zip(values.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null())
    if isinstance(kind, pa.ListType):
        inner = _without_sent_numbers(values.values, kind.value_type)
        lists: Any = pa.ListArray.from_arrays(values.offsets, inner, type=kind, mask=values.is_null())
        return lists
    return values.cast(kind)


def _made(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if isinstance(kind, pa.StructType):
        return {f.name: _made(value.get(f.name), f.type) for f in kind}
    if isinstance(kind, pa.ListType):
        return [_made(each, kind.value_type) for each in value]
    if kind == SENT_NUMBERS:
        return value.text if isinstance(value, SentNumber) else str(value)
    return json_text(value) if pa.types.is_string(kind) and not isinstance(value, str) else value
