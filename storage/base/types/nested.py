"""Parts of nested Arrow arrays, to make others of: offsets, masks, the entries of maps."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy, scalar_of, to_numpy

# The stubs of pyarrow lag behind what these take.
LIST_OF: Callable[..., "pa.Array[Any]"] = pa.ListArray.from_arrays
MAP_OF: Callable[..., "pa.Array[Any]"] = pa.MapArray.from_arrays


def mask_of(array: Any) -> Any:
    """Which slots are null, for the arrays that are made of an array's parts; None where none is."""
    return array.is_null() if array.null_count else None


def offsets_of(array: Any) -> "pa.Array[Any]":
    """Offsets of 32 bits into the flattened lists; raises pa.ArrowInvalid where these have too many elements."""
    import pyarrow.compute as pc

    # Views and large lists have lengths of 64 bits.
    found: Any = pc.list_value_length(array)
    lengths: Any = pc.fill_null(found, scalar_of(0, found.type))
    offsets = np.concatenate(([0], np.cumsum(to_numpy(lengths), dtype=np.int64)))
    if offsets[-1] > np.iinfo(np.int32).max:
        raise pa.ArrowInvalid("lists of one batch have more than 2147483647 elements; give smaller batches")
    return from_numpy(offsets.astype(np.int32))


def entries_of(array: Any) -> Any:
    """The maps as lists of entries; flattened, those of null maps and of what is outside of a slice are gone."""
    entries: Any = pa.StructArray.from_arrays(
        [array.keys, array.items], fields=[array.type.key_field, array.type.item_field]
    )
    return pa.Array.from_buffers(
        pa.list_(pa.field("entries", entries.type, nullable=False)),
        len(array),
        array.buffers()[:2],
        offset=array.offset,
        children=[entries],
    )


def parts_of(array: Any) -> "list[tuple[str, pa.Array[Any], pa.Array[Any] | None]]":
    """Return the parts of a nested array: name, values, and the slot that each value is of; None for the same slots.

    Parts are called by the names of fields, `element`, `key` and `value`. Those of null lists and maps are left out.
    """
    kind = array.type
    if pa.types.is_struct(kind):
        # Flattened, a field is null wherever the struct is.
        return [(field.name, part, None) for field, part in zip(kind, array.flatten(), strict=True)]
    as_list = entries_of(array) if pa.types.is_map(kind) else array
    counts = np.diff(to_numpy(offsets_of(as_list)))
    slots = from_numpy(np.repeat(np.arange(len(counts), dtype=np.int64), counts))
    inside = as_list.flatten()
    if pa.types.is_map(kind):
        return [("key", inside.field(0), slots), ("value", inside.field(1), slots)]
    return [("element", inside, slots)]


def has_part(kind: pa.DataType, is_wanted: Callable[[pa.DataType], bool]) -> bool:
    """Whether the type, or one of those that it is made of, is wanted."""
    return is_wanted(kind) or any(has_part(kind.field(i).type, is_wanted) for i in range(kind.num_fields))
