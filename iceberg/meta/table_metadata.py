"""A table's metadata in interbed's terms: types, columns, properties that are numbers, and whether Paimon publishes it.

Texts and bytes have Arrow's 32-bit offsets, as in all of interbed. UUIDs are 16 bytes. Deletes and partition specs may
still name dropped columns. The metadata of a published table are written after each commit of a table in Paimon's
format, by interbed or Java Paimon. The data files belong to that table, and its next commit undoes a change of the
metadata. Source: Iceberg's table specification, "Schemas and Data Types".
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
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

from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.base.types.arrow import DESCRIPTION, FieldIds, type_from_arrow
from interbed.storage.base.types.data_type import DataField

_MANIFEST_TARGET = "commit.manifest.target-size-bytes"

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


def whole_number(properties: Mapping[str, str], name: str, default: int, *, least: int | None = None) -> int:
    """Return the number of a property. Raises InvalidOptionError for an invalid number, or one less than `least`."""
    text = properties.get(name)
    if text is None:
        return default
    if not text.removeprefix("-").isdecimal():
        raise InvalidOptionError(f"The table property '{name}' is {text!r}, which is no number.")
    found = int(text)
    if least is not None and found < least:
        raise InvalidOptionError(f"The table property '{name}' is {text!r}; it should be {least} or more.")
    return found


def manifest_target(metadata: TableMetadata) -> int:
    """Return the target size of a manifest, in bytes. Raises InvalidOptionError."""
    return whole_number(metadata.properties, _MANIFEST_TARGET, 8 << 20, least=1)


def descends(metadata: TableMetadata, snapshot: Snapshot, ancestor: int) -> bool:
    """Return whether a snapshot descends from another one, as far as the metadata have its ancestors."""
    found: Snapshot | None = snapshot
    while found is not None:
        if found.snapshot_id == ancestor:
            return True
        parent = found.parent_snapshot_id
        found = None if parent is None else metadata.snapshot_by_id(parent)
    return False


def with_dropped(schema: Schema, others: Sequence[Schema]) -> Schema:
    """Return the columns of a schema, followed by dropped columns: those of other schemas, the newest of each.

    Dropped columns have names that no column has. Rows may have been deleted by columns that the table has no more.
    """
    known = {field.field_id for field in schema.fields}
    further = {
        field.field_id: field
        for other in sorted(others, key=lambda other: other.schema_id)
        for field in other.fields
        if field.field_id not in known
    }
    names = {field.name for field in schema.fields}
    dropped = []
    for number, field in further.items():
        name = f"{field.name}\0{number}"
        assert name not in names
        dropped.append(field.model_copy(update={"name": name, "required": False}))
    return Schema(*schema.fields, *dropped)


IDENTITY = "paimon-commit-identity"
"""The entry of a summary with the identity of the commit of its snapshot. A rollback may lead to the same id again."""


def is_published(metadata: TableMetadata) -> bool:
    """Return whether the newest snapshot is of a table in Paimon's format. Java Paimon writes the entry after version
    1.4.
    """
    current = metadata.current_snapshot()
    return current is not None and current.summary is not None and current.summary[IDENTITY] is not None


def type_to_arrow(kind: IcebergType) -> pa.DataType:
    """Return the Arrow type in which values of the type are read. Raises NotSupportedError for an unsupported type."""
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
    """Return the Arrow field of a column. Raises NotSupportedError naming a column of an unsupported type."""
    try:
        kind = type_to_arrow(field.field_type)
    except NotSupportedError as error:
        raise NotSupportedError(f"The column '{field.name}' can't be read: {error} Choose other columns.") from error
    metadata = {DESCRIPTION: field.doc.encode()} if field.doc else None
    return pa.field(field.name, kind, field.optional, metadata)


def schema_to_arrow(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of columns. Raises as field_to_arrow."""
    return pa.schema([field_to_arrow(field) for field in schema.fields])


def data_field(field: NestedField, name: str | None = None) -> DataField:
    """Return a column as interbed's readers and filters take it, possibly with the name of a file. Raises as
    field_to_arrow.
    """
    kind = type_from_arrow(field_to_arrow(field).type, nullable=field.optional, next_id=FieldIds())
    return DataField(id=field.field_id, name=field.name if name is None else name, type=kind)


def readable_fields(schema: Schema) -> tuple[DataField, ...]:
    """Return the columns that filters may use: those of supported types."""
    found = []
    for field in schema.fields:
        try:
            found.append(data_field(field))
        except NotSupportedError:
            continue
    return tuple(found)
