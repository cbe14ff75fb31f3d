"""Avro schemas of data files, named as Paimon names them.

A nullable type is a union with null first and a default of null. Records inside of others are named after the fields
that lead to them. A map whose keys are no strings is an array of records `key`, `value`, of the logical type `map`.
TIMESTAMP is `timestamp-millis` or `-micros`, with local time zone `local-timestamp-…` (so it is: Paimon has the two the
other way round); TINYINT and SMALLINT are int. Source: Paimon's AvroSchemaConverter.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from interbed.storage.base.avro.records import RECORD
from interbed.storage.base.types.data_type import (
    STRINGS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    is_atomic,
)

MULTISET_COUNT = AtomicType(TypeRoot.INT)
"""Counts of a multiset, which admit nulls in Avro files."""
_PLAIN: Mapping[TypeRoot, str] = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "int",
    TypeRoot.SMALLINT: "int",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "bytes",
    TypeRoot.VARBINARY: "bytes",
}


def record_schema(fields: Sequence[DataField], name: str = RECORD) -> dict[str, Any]:
    """The schema of rows with these columns."""
    return {"type": "record", "name": name, "fields": [_field(f.name, f.type, f"{name}_{f.name}") for f in fields]}


def is_string_map(data_type: MapType | MultisetType) -> bool:
    """Whether the map is one in Avro, too, and no array of entries."""
    key = data_type.key if isinstance(data_type, MapType) else data_type.element
    return is_atomic(key, *STRINGS)


def _field(name: str, data_type: DataType, record: str) -> dict[str, Any]:
    field: dict[str, Any] = {"name": name, "type": _schema(data_type, record)}
    return field | {"default": None} if data_type.nullable else field


def _schema(data_type: DataType, record: str) -> Any:
    plain = _not_null_schema(data_type, record)
    return ["null", plain] if data_type.nullable else plain


def _not_null_schema(data_type: DataType, record: str) -> Any:
    match data_type:
        case AtomicType():
            return _atomic(data_type)
        case ArrayType(element=element):
            return {"type": "array", "items": _schema(element, record)}
        case MapType(key=key, value=value):
            return _map(data_type, key, value, record)
        case MultisetType(element=element):
            return _map(data_type, element, MULTISET_COUNT, record)
        case RowType(fields=fields):
            return record_schema(fields, record)
        case _:
            raise TypeError(f"No Avro schema for {data_type}.")


def _map(data_type: MapType | MultisetType, key: DataType, value: DataType, record: str) -> Any:
    if is_string_map(data_type):
        return {"type": "map", "values": _schema(value, record)}
    fields = [
        {"name": "key", "type": _schema(key, f"{record}_key")},
        _field("value", value, f"{record}_value"),
    ]
    return {"type": "array", "items": {"type": "record", "name": record, "fields": fields}, "logicalType": "map"}


def _atomic(data_type: AtomicType) -> Any:
    digits = "millis" if (data_type.precision or 0) <= 3 else "micros"
    match data_type.root:
        case TypeRoot.TIMESTAMP:
            return {"type": "long", "logicalType": f"timestamp-{digits}"}
        case TypeRoot.TIMESTAMP_LTZ:
            return {"type": "long", "logicalType": f"local-timestamp-{digits}"}
        case TypeRoot.DATE:
            return {"type": "int", "logicalType": "date"}
        case TypeRoot.TIME:
            return {"type": "int", "logicalType": "time-millis"}
        case TypeRoot.DECIMAL:
            scale = data_type.scale or 0
            return {"type": "bytes", "logicalType": "decimal", "precision": data_type.precision, "scale": scale}
        case root:
            return _PLAIN[root]
