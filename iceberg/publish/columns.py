"""Columns of a table as Iceberg's schemas and partition specs, with the ids in data files.

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
"""

from collections.abc import Iterable, Sequence

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
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
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
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
"""From this precision on, a timestamp has nanoseconds."""
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


def check_versions(schema: Schema, format_version: int) -> None:
    """Raise NotSupportedError naming a column whose type the version of the format lacks."""
    for number in schema.field_ids:
        kind = schema.find_type(number)
        if format_version < 3 and isinstance(kind, TimestampNanoType | TimestamptzNanoType):
            raise NotSupportedError(
                f"The column '{schema.find_column_name(number)}' has nanoseconds, which Iceberg has from version 3 of "
                "its format on; set 'metadata.iceberg.format-version' = '3', or give it a precision of 6."
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
        case TypeRoot.TIMESTAMP if precision >= 3:
            return TimestampNanoType() if precision >= _FINE else TimestampType()
        case TypeRoot.TIMESTAMP_LTZ if precision >= 3:
            return TimestamptzNanoType() if precision >= _FINE else TimestamptzType()
        case root if root in _PLAIN:
            return _PLAIN[root]
    raise NotSupportedError(
        f"Iceberg has no counterpart of {kind}; a TIME has a precision of 0 to 3 there, a TIMESTAMP of 3 to 9."
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
