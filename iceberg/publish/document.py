"""The metadata file of a published table, `v<snapshot id>.metadata.json`, as Iceberg's and Paimon's readers accept it.

Columns become Iceberg's schemas and partition specs, with the ids in data files:

| Paimon | Iceberg |
|---|---|
| TINYINT, SMALLINT, INT | int |
| CHAR, VARCHAR; BINARY, VARBINARY | string; binary |
| TIME(0..3) | time |
| TIMESTAMP(3..6), TIMESTAMP_LTZ(3..6) | timestamp, timestamptz |
| TIMESTAMP(7..9), TIMESTAMP_LTZ(7..9) | timestamp_ns, timestamptz_ns, of version 3 |
| MULTISET<T> | map<T, int> |

Other types have the same names. Source: documentation page `iceberg/`, "Supported Types", paimon-core's
IcebergDataField; permitted changes of types: Iceberg's specification, "Schema Evolution".

pyiceberg has the model of the file, and writes none of version 3. The reference `main` is left out, as Paimon does,
which takes every reference for a tag; the current snapshot is the same information.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError as InvalidModelError
from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2, TableMetadataV3
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef
from pyiceberg.table.snapshots import Snapshot, SnapshotLogEntry
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import TableVersion
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from interbed.storage.base.columnar_records import NESTED_DEPTHS, NESTED_ID_BASE
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.types.data_type import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MultisetType,
    RowType,
    TypeRoot,
)
from interbed.storage.base.types.data_type import MapType as PaimonMap
from interbed.storage.meta.schema.table_schema import TableSchema

FIRST_PARTITION_ID = 1000
SPEC_ID = 0
"""Partition columns never change, so there is one partition spec."""

_FINE = 7
"""From this precision on, files have timestamps as INT96."""
_PLAIN: dict[TypeRoot, IcebergType] = {
    TypeRoot.BOOLEAN: BooleanType(),
    TypeRoot.TINYINT: IntegerType(),
    TypeRoot.SMALLINT: IntegerType(),
    TypeRoot.INT: IntegerType(),
    TypeRoot.BIGINT: LongType(),
    TypeRoot.FLOAT: FloatType(),
    TypeRoot.DOUBLE: DoubleType(),
    TypeRoot.DATE: DateType(),
    TypeRoot.CHAR: StringType(),
    TypeRoot.VARCHAR: StringType(),
    TypeRoot.BINARY: BinaryType(),
    TypeRoot.VARBINARY: BinaryType(),
}


def iceberg_schema(schema: TableSchema) -> Schema:
    """Return a schema of the table. Raises NotSupportedError naming a column of a type that Iceberg lacks."""
    return Schema(*map(_field, schema.fields), schema_id=schema.id)


def partition_spec(schema: TableSchema) -> PartitionSpec:
    """Return the partition spec: the partition columns with the transform identity."""
    return PartitionSpec(
        *(
            PartitionField(
                source_id=field.id, field_id=FIRST_PARTITION_ID + place, transform=IdentityTransform(), name=field.name
            )
            for place, field in enumerate(schema.partition_fields)
        ),
        spec_id=SPEC_ID,
    )


def same_columns(one: Schema, other: Schema) -> bool:
    """Return whether both have the same columns by ids, names and types, including nested fields.

    Java Paimon up to 1.4 writes whether elements of a list are nullable from the list itself, which is no difference.
    """
    return _outline(one) == _outline(other)


def first_changed(before: Iterable[DataField], after: Sequence[DataField]) -> str | None:
    """Return the first column whose values in older files Iceberg can't read with the new type; None if there is
    none.
    """
    by_id = {field.id: field for field in after}
    for field in before:
        now = by_id.get(field.id)
        if now is not None and not _reads(field.type, now.type):
            return now.name
    return None


def _outline(schema: Schema) -> list[tuple[int, str | None, object]]:
    found: list[tuple[int, str | None, object]] = []
    for number in sorted(schema.field_ids):
        kind = schema.find_type(number)
        found.append((number, schema.find_column_name(number), kind if kind.is_primitive else type(kind)))
    return found


def _field(field: DataField) -> NestedField:
    try:
        kind = _type(field.type, field.id, 0)
    except NotSupportedError as error:
        raise NotSupportedError(f"The column '{field.name}' can't be published as Iceberg's: {error}") from None
    return NestedField(field.id, field.name, kind, required=not field.type.nullable, doc=field.description)


def _type(kind: DataType, column_id: int, depth: int) -> IcebergType:
    """Return the type; `depth` is the number of enclosing lists and maps within its field, on which ids of nested types
    depend.
    """
    inner = depth + 1
    offset = column_id * NESTED_DEPTHS + inner
    match kind:
        case ArrayType(element=element):
            return ListType(
                element_id=NESTED_ID_BASE + offset,
                element=_type(element, column_id, inner),
                element_required=not element.nullable,
            )
        case PaimonMap(key=key, value=value):
            return MapType(
                key_id=NESTED_ID_BASE - offset,
                key_type=_type(key, column_id, inner),
                value_id=NESTED_ID_BASE + offset,
                value_type=_type(value, column_id, inner),
                value_required=not value.nullable,
            )
        case MultisetType(element=element):
            return MapType(
                key_id=NESTED_ID_BASE - offset,
                key_type=_type(element, column_id, inner),
                value_id=NESTED_ID_BASE + offset,
                value_type=IntegerType(),
                value_required=True,
            )
        case RowType(fields=fields):
            return StructType(*map(_field, fields))
        case AtomicType():
            return _atomic(kind)
    raise NotSupportedError(f"Iceberg has no type {kind}.")


def _atomic(kind: AtomicType) -> IcebergType:
    precision = kind.precision or 0
    match kind.root:
        case TypeRoot.DECIMAL:
            return DecimalType(precision, kind.scale or 0)
        case TypeRoot.TIME if precision <= 3:
            return TimeType()
        case TypeRoot.TIMESTAMP if 3 <= precision < _FINE:
            return TimestampType()
        case TypeRoot.TIMESTAMP_LTZ if 3 <= precision < _FINE:
            return TimestamptzType()
        case root if root in _PLAIN:
            return _PLAIN[root]
    raise NotSupportedError(
        f"Iceberg has no counterpart of {kind}; a TIME has a precision of 0 to 3 there, a TIMESTAMP of 3 to 6. Files "
        "in Paimon's format have finer ones as INT96, which Iceberg lacks: give the column a precision of 6."
    )


def _reads(before: DataType, after: DataType) -> bool:
    """Return whether Iceberg reads values of the first type as those of the second."""
    match before, after:
        case ArrayType(), ArrayType():
            return _reads(before.element, after.element)
        case MultisetType(), MultisetType():
            return _reads(before.element, after.element)
        case PaimonMap(), PaimonMap():
            return _reads(before.key, after.key) and _reads(before.value, after.value)
        case RowType(), RowType():
            return first_changed(before.fields, after.fields) is None
        case AtomicType(), AtomicType():
            return _promotes(_atomic(before), _atomic(after))
    return False


def _promotes(old: IcebergType, new: IcebergType) -> bool:
    match old, new:
        case (IntegerType(), LongType()) | (FloatType(), DoubleType()):
            return True
        case DecimalType(), DecimalType():
            return old.scale == new.scale and old.precision <= new.precision
    return old == new


Metadata = TableMetadataV2 | TableMetadataV3

PROPERTIES = {"gc.enabled": "false"}
"""Forbids Iceberg's own maintenance to delete files: the data files belong to the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritedIds:
    """Values of metadata that cannot be continued: the table's UUID, and the highest ids in use."""

    table_uuid: str | None = None
    last_column_id: int = 0
    next_row_id: int = 0

    @staticmethod
    def of(content: bytes) -> "InheritedIds":
        """Return the ids in a metadata file, whatever else is in it."""
        try:
            found = json.loads(content)
        except ValueError:
            return InheritedIds()
        if not isinstance(found, dict):
            return InheritedIds()
        name, column, row = found.get("table-uuid"), found.get("last-column-id"), found.get("next-row-id")
        return InheritedIds(
            table_uuid=name if isinstance(name, str) else None,
            last_column_id=column if isinstance(column, int) else 0,
            next_row_id=row if isinstance(row, int) else 0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataDocument:
    """The content of a metadata file. `next_row_id` is None before version 3 of the format. A table without snapshots
    is never published, and has a document all the same.
    """

    format_version: TableVersion
    table_uuid: str
    location: str
    last_column_id: int
    schemas: tuple[Schema, ...]
    current_schema_id: int
    spec: PartitionSpec
    snapshots: tuple[Snapshot, ...]
    refs: Mapping[str, SnapshotRef]
    next_row_id: int | None

    @property
    def current(self) -> Snapshot:
        """The newest published snapshot."""
        return self.snapshots[-1]

    @property
    def schema(self) -> Schema:
        """The current published schema."""
        return next(one for one in self.schemas if one.schema_id == self.current_schema_id)

    def is_same_as(self, other: "MetadataDocument") -> bool:
        """Return whether both name the same snapshots, schemas and references."""
        return (
            self.snapshots == other.snapshots
            and self.schemas == other.schemas
            and self.current_schema_id == other.current_schema_id
            and dict(self.refs) == dict(other.refs)
        )

    def encode(self, now_millis: int) -> bytes:
        """Return the bytes of the metadata file."""
        log = _log_of(self.snapshots)
        kind: type[Metadata] = TableMetadataV3 if self.format_version == 3 else TableMetadataV2
        model = kind.model_validate(
            {
                "format-version": self.format_version,
                "location": self.location,
                "table-uuid": self.table_uuid,
                "last-updated-ms": max([now_millis, *(entry.timestamp_ms for entry in log)]),
                "last-column-id": self.last_column_id,
                "schemas": list(self.schemas),
                "current-schema-id": self.current_schema_id,
                "partition-specs": [self.spec],
                "default-spec-id": self.spec.spec_id,
                "last-partition-id": max((f.field_id for f in self.spec.fields), default=FIRST_PARTITION_ID - 1),
                "properties": PROPERTIES,
                "current-snapshot-id": self.current.snapshot_id if self.snapshots else None,
                "snapshots": list(self.snapshots),
                "snapshot-log": log,
                "sort-orders": [UNSORTED_SORT_ORDER],
                "default-sort-order-id": UNSORTED_SORT_ORDER.order_id,
                "refs": dict(self.refs),
                "last-sequence-number": max((one.snapshot_id for one in self.snapshots), default=0),
                "next-row-id": self.next_row_id,
            }
        )
        content = model.model_dump(mode="json", by_alias=True, exclude_none=True)
        content["refs"].pop(MAIN_BRANCH, None)
        return json.dumps(content).encode()

    @staticmethod
    def decode(content: bytes) -> "MetadataDocument | None":
        """Decode a metadata file; None if it cannot be continued.

        That is the case for a damaged file, one without a snapshot, and one of version 3 without row ids, which older
        versions of Java Paimon write.
        """
        try:
            raw = json.loads(content)
            kind: type[Metadata] = TableMetadataV3 if raw.get("format-version") == 3 else TableMetadataV2
            model = kind.model_validate(raw)
        except (ValueError, AttributeError, InvalidModelError, ValidationError):
            return None
        next_row_id = model.next_row_id if isinstance(model, TableMetadataV3) else None
        snapshots = sorted(model.snapshots, key=lambda one: one.snapshot_id)
        if not snapshots or (model.format_version == 3 and next_row_id is None):
            return None
        if snapshots[-1].snapshot_id != model.current_snapshot_id:
            return None
        return MetadataDocument(
            format_version=model.format_version,
            table_uuid=str(model.table_uuid),
            location=model.location,
            last_column_id=model.last_column_id,
            schemas=tuple(model.schemas),
            current_schema_id=model.current_schema_id,
            spec=model.spec(),
            snapshots=tuple(snapshots),
            refs={name: ref for name, ref in model.refs.items() if name != MAIN_BRANCH},
            next_row_id=next_row_id,
        )


def _log_of(snapshots: Sequence[Snapshot]) -> list[SnapshotLogEntry]:
    """Return the log of current snapshots, with ascending times whatever the clocks of the writers were.

    Where a number is missing, because its snapshot was expired between a tagged one and the others, the log starts
    after it: a read as of a time in the gap would show the snapshot before it.
    """
    found: list[SnapshotLogEntry] = []
    for one in snapshots:
        if found and one.snapshot_id != found[-1].snapshot_id + 1:
            found.clear()
        time = max(one.timestamp_ms, found[-1].timestamp_ms if found else 0)
        found.append(SnapshotLogEntry.model_validate({"snapshot-id": one.snapshot_id, "timestamp-ms": time}))
    return found
