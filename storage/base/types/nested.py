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
