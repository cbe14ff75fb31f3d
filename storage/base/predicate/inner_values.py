"""The values inside of a nested column: of one field of a ROW, or of one key of a MAP."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import FALSE, from_numpy, to_numpy
from interbed.storage.base.predicate.kernels import compare
from interbed.storage.base.predicate.operators import Op
from interbed.storage.base.row.words import Array


def inner_values(column: Array, steps: Sequence[object]) -> Array:
    """What the steps of a bound reference lead to in each row; null where there is nothing."""
    for step in steps:
        column = _values_of_key(column, step) if pa.types.is_map(column.type) else _field(column, str(step))
    return column


def _field(column: Any, name: str) -> Array:
    import pyarrow.compute as pc

    # With the nulls of the ROWs around it.
    found: Array = pc.call_function(
        "struct_field", [column], pc.StructFieldOptions([column.type.get_field_index(name)])
    )
    return found


def _values_of_key(column: Any, key: object) -> Array:
    """The value of a key in each MAP, the first where the key is there twice; Arrow's `map_lookup` is much slower."""
    offsets = to_numpy(column.offsets)
    keys = column.keys.slice(offsets[0], offsets[-1] - offsets[0])
    equal: Any = compare(keys, Op.EQ, key)
    entries = np.flatnonzero(to_numpy(equal.fill_null(FALSE))) + offsets[0]
    places = np.full(len(column), -1, np.int64)
    # The last to be set stands, so that the first entry of a row comes last.
    places[(np.searchsorted(offsets, entries, side="right") - 1)[::-1]] = entries[::-1]
    absent = places < 0
    if column.null_count:
        absent |= to_numpy(column.is_null())
    found: Array = column.items.take(from_numpy(places, absent))
    return found
