"""The columns of data files, with Paimon's field ids.

A file of a primary-key table holds `_KEY_<k>` for each column of the trimmed primary key (left out in thin mode), then
`_SEQUENCE_NUMBER`, `_VALUE_KIND` and all columns of the table; a file of an append table holds the table's columns
alone. Source: specification page `spec/datafile`; the ids of system fields and of the parts of nested types are those
of Paimon's SpecialFields.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from interbed.storage.base.columnar_records import NESTED_DEPTHS, NESTED_ID_BASE
from interbed.storage.base.types.arrow import FIELD_ID, type_to_arrow
from interbed.storage.base.types.data_type import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)
from interbed.storage.meta.schema.system_fields import KEY_FIELD_ID_START, SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD
from interbed.storage.meta.schema.table_schema import KEY_PREFIX, TableSchema


def key_fields_of_file(schema: TableSchema) -> tuple[DataField, ...]:
    """Return the `_KEY_*` columns of a primary-key table's files."""
    return tuple(
        DataField(id=f.id + KEY_FIELD_ID_START, name=KEY_PREFIX + f.name, type=f.type.with_nullable(False))
        for f in schema.key_fields
    )


def key_value_fields(schema: TableSchema, *, thin: bool = False) -> tuple[DataField, ...]:
    """Return all columns of a primary-key table's files, in order."""
    keys = () if thin else key_fields_of_file(schema)
    return (*keys, SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD, *schema.fields)


def file_schema(fields: Sequence[DataField]) -> pa.Schema:
    """Return the Arrow schema of a file with those columns; every field has its id in its metadata."""
    return pa.schema([_arrow_field(f) for f in fields])


def _arrow_field(field: DataField) -> "pa.Field[Any]":
    return _field(field.name, _arrow_type(field.type, field.id, 0), field.type.nullable, field.id)


def _arrow_type(data_type: DataType, column_id: int, depth: int) -> pa.DataType:
    """Return the Arrow type with ids in nested fields; `depth` counts the lists and maps around it in its field."""
    inner = depth + 1
    match data_type:
        case ArrayType(element=element):
            number = NESTED_ID_BASE + column_id * NESTED_DEPTHS + inner
            return pa.list_(_field("element", _arrow_type(element, column_id, inner), element.nullable, number))
        case MapType(key=key, value=value):
            return _map(key, value, column_id, inner)
        case MultisetType(element=element):
            return _map(element, AtomicType(TypeRoot.INT, nullable=False), column_id, inner)
        case RowType(fields=fields):
            return pa.struct([_arrow_field(f) for f in fields])
        case _:
            return type_to_arrow(data_type)


def _map(key: DataType, value: DataType, column_id: int, inner: int) -> pa.DataType:
    offset = column_id * NESTED_DEPTHS + inner
    # The stubs of pyarrow know map_ for types only.
    key_field: Any = _field("key", _arrow_type(key, column_id, inner), False, NESTED_ID_BASE - offset)
    value_field: Any = _field("value", _arrow_type(value, column_id, inner), value.nullable, NESTED_ID_BASE + offset)
    result: pa.DataType = pa.map_(key_field, value_field)
    return result


def _field(name: str, arrow: pa.DataType, nullable: bool, number: int) -> "pa.Field[Any]":
    return pa.field(name, arrow, nullable, {FIELD_ID: str(number).encode()})
