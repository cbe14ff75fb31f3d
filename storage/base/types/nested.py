"""Parts of nested Arrow arrays (offsets, masks, entries of maps), and arrays whose parts admit no nulls.

Arrow keeps slots for the fields of a null struct, and most libraries mark these slots as null whatever the types of
the fields say. Such an array is valid, because the slots are hidden by the struct, yet writers of Parquet refuse it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy, scalar_of, to_numpy

# The stubs of pyarrow lack some arguments.
LIST_OF: Callable[..., "pa.Array[Any]"] = pa.ListArray.from_arrays
MAP_OF: Callable[..., "pa.Array[Any]"] = pa.MapArray.from_arrays


def mask_of(array: Any) -> Any:
    """Return the mask of nulls for an array that is built from the parts of `array`; None without nulls."""
    return array.is_null() if array.null_count else None


def offsets_of(array: Any) -> "pa.Array[Any]":
    """Return 32-bit offsets into the flattened lists. Raises pa.ArrowInvalid for more than 2147483647 elements."""
    import pyarrow.compute as pc

    # Views and large lists have lengths of 64 bits.
    found: Any = pc.list_value_length(array)
    lengths: Any = pc.fill_null(found, scalar_of(0, found.type))
    offsets = np.concatenate(([0], np.cumsum(to_numpy(lengths), dtype=np.int64)))
    if offsets[-1] > np.iinfo(np.int32).max:
        raise pa.ArrowInvalid("lists of one batch have more than 2147483647 elements; give smaller batches")
    return from_numpy(offsets.astype(np.int32))


def entries_of(array: Any) -> Any:
    """Return maps as lists of entries. Flattening them drops the entries of null maps and those outside of a slice."""
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
    """Return the parts of a nested array: name, values, and the slot of each value, None if the slots are the same.

    Parts have the names of fields, `element`, `key` and `value`. Values of null lists and maps are left out.
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
    """Return whether `is_wanted` is true for the type or for a type nested in it."""
    return is_wanted(kind) or any(has_part(kind.field(i).type, is_wanted) for i in range(kind.num_fields))


class NullInsideError(ValueError):
    """A nested type admits no nulls, but the value has one; the message names the place."""


def without_hidden_nulls(array: "pa.Array[Any]", target: pa.DataType, path: str) -> "pa.Array[Any]":
    """Return the same values in the target type, with no slot marked as null in parts that do not admit nulls.

    The array's type may differ from the target only in which parts admit nulls. Raises NullInsideError for a null
    that is not hidden by its parent, naming its place by `path` and the names inside. For targets that admit nulls
    everywhere the array is returned unchanged.
    """
    if not has_not_null_parts(target):
        return array
    if isinstance(target, pa.StructType):
        return _struct(array, target, path)
    if isinstance(target, pa.MapType):
        return _map(array, target, path)
    assert isinstance(target, pa.ListType)
    return _list(array, target, path)


def nullable_inside(arrow: pa.DataType) -> pa.DataType:
    """Return the type with nulls admitted in all of its parts except the keys of maps."""
    if isinstance(arrow, pa.StructType):
        return pa.struct([_nullable(f) for f in arrow])
    if isinstance(arrow, pa.MapType):
        key = arrow.key_field.with_type(nullable_inside(arrow.key_type))
        # The stubs of pyarrow know map_ for types only.
        fields: Any = (key, _nullable(arrow.item_field))
        loose: pa.DataType = pa.map_(*fields)
        return loose
    return pa.list_(_nullable(arrow.value_field)) if isinstance(arrow, pa.ListType) else arrow


def _nullable(field: "pa.Field[Any]") -> "pa.Field[Any]":
    return field.with_type(nullable_inside(field.type)).with_nullable(True)


def has_not_null_parts(arrow: pa.DataType) -> bool:
    """Return whether a part of the type admits no nulls; keys of maps, which are never null, do not count."""
    if isinstance(arrow, pa.StructType):
        return any(_refuses_nulls(f) for f in arrow)
    if isinstance(arrow, pa.MapType):
        return has_not_null_parts(arrow.key_type) or _refuses_nulls(arrow.item_field)
    return isinstance(arrow, pa.ListType) and _refuses_nulls(arrow.value_field)


def _refuses_nulls(field: "pa.Field[Any]") -> bool:
    return not field.nullable or has_not_null_parts(field.type)


def _part(array: "pa.Array[Any]", field: "pa.Field[Any]", path: str, hidden: int) -> "pa.Array[Any]":
    """Return a part of a nested array; `hidden` of its nulls are nulls of its parent."""
    if not field.nullable and array.null_count > hidden:
        raise NullInsideError(f"{path} admits no nulls")
    array = without_hidden_nulls(array, field.type, path)
    return array if field.nullable else _all_valid(array)


def _struct(array: Any, target: pa.StructType, path: str) -> "pa.Array[Any]":
    # Flattened, a field is null wherever the struct is; the count separates the nulls of the struct from those of the
    # field.
    parts = [
        _part(child, field, f"{path}.{field.name}", array.null_count)
        for child, field in zip(array.flatten(), target, strict=True)
    ]
    return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask_of(array))


def _list(array: Any, target: "pa.ListType[Any]", path: str) -> "pa.Array[Any]":
    field = target.value_field
    values = _part(array.flatten(), field, f"{path}.{field.name}", 0)
    return LIST_OF(offsets_of(array), values, type=target, mask=mask_of(array))


def _map(array: Any, target: "pa.MapType[Any, Any, Any]", path: str) -> "pa.Array[Any]":
    # Keys and values of null maps are hidden like the elements of null lists.
    as_list = entries_of(array)
    found: Any = _struct(as_list.flatten(), pa.struct([target.key_field, target.item_field]), path)
    return MAP_OF(offsets_of(as_list), found.field(0), found.field(1), type=target, mask=mask_of(array))


def _all_valid(array: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return the array with no slot marked as null; former nulls have arbitrary values."""
    if not array.null_count:
        return array
    if isinstance(array, pa.StructArray):
        return pa.StructArray.from_arrays(
            [array.field(i) for i in range(array.type.num_fields)], fields=list(array.type)
        )
    own = [None, *array.buffers()[1 : array.type.num_buffers]]
    children: list[pa.Array[Any]] = []
    if isinstance(array, pa.MapArray):
        fields = [array.type.key_field, array.type.item_field]
        children = [pa.StructArray.from_arrays([array.keys, array.items], fields=fields)]
    elif isinstance(array, pa.ListArray):
        children = [array.values]
    return pa.Array.from_buffers(array.type, len(array), own, null_count=0, offset=array.offset, children=children)


def leaves_of(path: str, array: "pa.Array[Any]") -> Iterator[tuple[str, "pa.Array[Any]"]]:
    """Yield the leaf columns of a column by their paths, with Parquet's names for the levels between."""
    if isinstance(array, pa.MapArray):
        yield from leaves_of(f"{path}.key_value.key", array.keys)
        yield from leaves_of(f"{path}.key_value.value", array.items)
    elif isinstance(array, pa.ListArray):
        yield from leaves_of(f"{path}.list.element", array.flatten())
    elif isinstance(array, pa.StructArray):
        for index, field in enumerate(array.type):
            yield from leaves_of(f"{path}.{field.name}", array.field(index))
    else:
        yield path, array
