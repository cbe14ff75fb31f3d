"""Nested arrays whose parts do not admit nulls.

Arrow keeps slots for the fields of a null struct, and most libraries mark these slots as null whatever the fields'
types say. Such an array is right, because nobody can see the slots, yet writers of Parquet refuse it.
"""

from typing import Any

import pyarrow as pa

from interbed.storage.base.types.nested import LIST_OF, MAP_OF, entries_of, mask_of, offsets_of


class NullInsideError(ValueError):
    """A null where a nested type admits none; the message names the place."""


def without_hidden_nulls(array: "pa.Array[Any]", target: pa.DataType, path: str) -> "pa.Array[Any]":
    """The same values in the target type, with no slot marked as null in parts that do not admit nulls.

    The array's type may differ from the target in what admits nulls, in nothing else. Raises NullInsideError for a
    null that can be seen, naming its place by `path` and the names inside. For targets that admit nulls everywhere
    the array is returned as it is.
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
    """The type with nulls admitted in all of its parts, but for the keys of maps."""
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
    """Whether nulls are refused anywhere inside of the type, but for the keys of maps, which never are null."""
    if isinstance(arrow, pa.StructType):
        return any(_refuses_nulls(f) for f in arrow)
    if isinstance(arrow, pa.MapType):
        return has_not_null_parts(arrow.key_type) or _refuses_nulls(arrow.item_field)
    return isinstance(arrow, pa.ListType) and _refuses_nulls(arrow.value_field)


def _refuses_nulls(field: "pa.Field[Any]") -> bool:
    return not field.nullable or has_not_null_parts(field.type)


def _part(array: "pa.Array[Any]", field: "pa.Field[Any]", path: str, hidden: int) -> "pa.Array[Any]":
    """A part of a nested array, whose nulls include the `hidden` ones that its parent stands for."""
    if not field.nullable and array.null_count > hidden:
        raise NullInsideError(f"{path} admits no nulls")
    array = without_hidden_nulls(array, field.type, path)
    return array if field.nullable else _all_valid(array)


def _struct(array: Any, target: pa.StructType, path: str) -> "pa.Array[Any]":
    # Flattened, a field is null wherever the struct is; the count distinguishes the struct's nulls from its own.
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
    """The array with no slot marked as null; what was one holds any value."""
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
