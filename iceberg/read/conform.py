"""Arrays as a file has them, as arrays of the type that is asked for: fields by their ids, numbers widened.

Source: Iceberg's table specification, "Schema Evolution".
"""

from typing import Any

import pyarrow as pa
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from interbed.iceberg.meta.types import type_to_arrow
from interbed.storage.base.arrow_values import nulls_of
from interbed.storage.base.errors import CorruptFileError

Array = Any
"""An Arrow array; the stubs of pyarrow want the type of its values."""


def conform(array: Array, of_file: IcebergType, wanted: IcebergType) -> Array:
    """The values of a file's column as those of the type that is asked for.

    Raises CorruptFileError where the file lacks a nested field that is required, and ArrowException for values that
    can't be of that type.
    """
    target = type_to_arrow(wanted)
    if _is_alike(of_file, wanted):
        return array if array.type.equals(target) else _cast(array, target)
    match of_file, wanted:
        case StructType(), StructType():
            return _struct(array, of_file, wanted, target)
        case ListType(), ListType():
            whole = _from_its_start(array)
            values = conform(whole.values, of_file.element_type, wanted.element_type)
            return pa.ListArray.from_arrays(whole.offsets, values, type=target, mask=_nulls_of(whole))
        case MapType(), MapType():
            whole = _from_its_start(array)
            keys = conform(whole.keys, of_file.key_type, wanted.key_type)
            items = conform(whole.items, of_file.value_type, wanted.value_type)
            of_map: Any = pa.MapArray
            return of_map.from_arrays(whole.offsets, keys, items, type=target, mask=_nulls_of(whole))
    return _cast(array, target)


def default_of(field: NestedField, rows: int) -> Array:
    """What rows have in a column that their file lacks; CorruptFileError where they have to have something."""
    target = type_to_arrow(field.field_type)
    if field.initial_default is not None:
        return constant(field.initial_default, target, rows)
    if field.required:
        raise CorruptFileError(f"the required column '{field.name}' is missing, and has no default")
    return nulls_of(rows, target)


def constant(value: object, target: pa.DataType, rows: int) -> Array:
    """A value as often as there are rows; dates and times may be numbers in the type's unit."""
    plain: Any = getattr(value, "bytes", value)
    one: Any = pa.scalar(plain, type=target)
    return pa.repeat(one, rows)


def _struct(array: Array, of_file: StructType, wanted: StructType, target: pa.DataType) -> Array:
    places = {field.field_id: place for place, field in enumerate(of_file.fields)}
    children: list[Array] = []
    for field in wanted.fields:
        place = places.get(field.field_id)
        if place is None:
            children.append(default_of(field, len(array)))
        else:
            children.append(conform(array.field(place), of_file.fields[place].field_type, field.field_type))
    if not children:
        return array.cast(target)
    return pa.StructArray.from_arrays(children, fields=list(target), mask=_nulls_of(array))  # type: ignore[call-overload]


def _is_alike(one: IcebergType, other: IcebergType) -> bool:
    """Whether the parts of both are the same fields in the same order."""
    match one, other:
        case StructType(), StructType():
            return len(one.fields) == len(other.fields) and all(map(_are_fields_alike, one.fields, other.fields))
        case ListType(), ListType():
            return _is_alike(one.element_type, other.element_type)
        case MapType(), MapType():
            return _is_alike(one.key_type, other.key_type) and _is_alike(one.value_type, other.value_type)
    return bool(one.is_primitive and other.is_primitive)


def _are_fields_alike(one: NestedField, other: NestedField) -> bool:
    return (
        one.field_id == other.field_id
        and one.name == other.name
        and one.required == other.required
        and _is_alike(one.field_type, other.field_type)
    )


def _cast(array: Array, target: pa.DataType) -> Array:
    if pa.types.is_timestamp(array.type) and pa.types.is_timestamp(target) and array.type.unit == "ns" != target.unit:
        # Files that other engines wrote have nanoseconds where Iceberg's column has microseconds.
        return array.cast(target, safe=False)
    return array.cast(target)


def _from_its_start(array: Array) -> Array:
    """The same list array, with offsets that begin at its own values."""
    return pa.concat_arrays([array]) if array.offset else array


def _nulls_of(array: Array) -> Array:
    return array.is_null() if array.null_count else None
