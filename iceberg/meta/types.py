"""Iceberg's types as Arrow's and as interbed's.

Texts and bytes have Arrow's 32-bit offsets, as in all of interbed. UUIDs are 16 bytes. Source: Iceberg's table
specification, "Schemas and Data Types".
"""

from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.types.arrow import DESCRIPTION, FieldIds, type_from_arrow
from interbed.storage.base.types.data_type import DataField

_PLAIN: dict[type[IcebergType], pa.DataType] = {
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimeType: pa.time64("us"),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", tz="UTC"),
    TimestampNanoType: pa.timestamp("ns"),
    TimestamptzNanoType: pa.timestamp("ns", tz="UTC"),
    StringType: pa.string(),
    BinaryType: pa.binary(),
    UUIDType: pa.binary(16),
}


def type_to_arrow(kind: IcebergType) -> pa.DataType:
    """The Arrow type in which values of the type are read; NotSupportedError for one that is not read."""
    match kind:
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case FixedType():
            return pa.binary(len(kind))
        case StructType():
            return pa.struct([field_to_arrow(field) for field in kind.fields])
        case ListType():
            return pa.list_(pa.field("element", type_to_arrow(kind.element_type), not kind.element_required))
        case MapType():
            value: Any = pa.field("value", type_to_arrow(kind.value_type), not kind.value_required)
            # The stubs of pyarrow know map_ for types only.
            key: Any = pa.field("key", type_to_arrow(kind.key_type), nullable=False)
            made: pa.DataType = pa.map_(key, value)
            return made
    found = _PLAIN.get(type(kind))
    if found is None:
        raise NotSupportedError(f"Values of Iceberg's type {kind} are not read.")
    return found


def field_to_arrow(field: NestedField) -> "pa.Field[Any]":
    """The Arrow field of a column; NotSupportedError names a column whose type is not read."""
    try:
        kind = type_to_arrow(field.field_type)
    except NotSupportedError as error:
        raise NotSupportedError(f"The column '{field.name}' can't be read: {error} Choose other columns.") from error
    metadata = {DESCRIPTION: field.doc.encode()} if field.doc else None
    return pa.field(field.name, kind, field.optional, metadata)


def schema_to_arrow(schema: Schema) -> pa.Schema:
    """The Arrow schema of columns; raises as field_to_arrow."""
    return pa.schema([field_to_arrow(field) for field in schema.fields])


def data_field(field: NestedField, name: str | None = None) -> DataField:
    """A column, or what a file calls it, as interbed's readers and filters take it; raises as field_to_arrow."""
    kind = type_from_arrow(field_to_arrow(field).type, nullable=field.optional, next_id=FieldIds())
    return DataField(id=field.field_id, name=field.name if name is None else name, type=kind)


def readable_fields(schema: Schema) -> tuple[DataField, ...]:
    """The columns that filters may look at: those that can be read."""
    found = []
    for field in schema.fields:
        try:
            found.append(data_field(field))
        except NotSupportedError:
            continue
    return tuple(found)
