"""The JSON form of types in schema files: strings such as `DECIMAL(10, 2) NOT NULL`, objects for nested types.

Source: specification page `spec/schema` and the type strings of Paimon's documentation of data types.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from interbed.storage.base.errors import CorruptFileError, NotSupportedError
from interbed.storage.base.types.data_type import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)

Json: TypeAlias = Any

_NOT_NULL = re.compile(r"\s+NOT\s+NULL\s*$")
_ATOMIC = re.compile(
    r"^\s*(?P<name>[A-Z_]+(?:\s+PRECISION)?)\s*(?:\(\s*(?P<first>\d+)\s*(?:,\s*(?P<second>\d+)\s*)?\))?"
    r"(?P<suffix>\s+WITH(?:OUT)?(?:\s+LOCAL)?\s+TIME\s+ZONE)?\s*$"
)
_ALIASES = {
    "INTEGER": TypeRoot.INT,
    "DEC": TypeRoot.DECIMAL,
    "NUMERIC": TypeRoot.DECIMAL,
    "DOUBLE PRECISION": TypeRoot.DOUBLE,
}
_UNSUPPORTED = frozenset({"VARIANT", "BLOB", "VECTOR", "GEOMETRY", "GEOGRAPHY"})


def type_to_json(data_type: DataType) -> Json:
    """The JSON value of a type: a string for atomic types, an object for nested ones."""
    suffix = "" if data_type.nullable else " NOT NULL"
    match data_type:
        case AtomicType():
            return _atomic_text(data_type) + suffix
        case ArrayType(element=element):
            return {"type": "ARRAY" + suffix, "element": type_to_json(element)}
        case MultisetType(element=element):
            return {"type": "MULTISET" + suffix, "element": type_to_json(element)}
        case MapType(key=key, value=value):
            return {"type": "MAP" + suffix, "key": type_to_json(key), "value": type_to_json(value)}
        case RowType(fields=fields):
            return {"type": "ROW" + suffix, "fields": [field_to_json(f) for f in fields]}
        case _:
            raise TypeError(f"No JSON form for {data_type!r}.")


def type_from_json(value: Json) -> DataType:
    """The type of a JSON value; raises CorruptFileError when it is none, NotSupportedError for VARIANT and the like."""
    if isinstance(value, str):
        return parse_atomic(value)
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise CorruptFileError(f"Not a data type: {value!r}.")
    text, not_null = _strip_not_null(value["type"])
    nullable = not not_null
    try:
        match text.strip().upper():
            case "ARRAY":
                return ArrayType(type_from_json(value["element"]), nullable=nullable)
            case "MULTISET":
                return MultisetType(type_from_json(value["element"]), nullable=nullable)
            case "MAP":
                return MapType(type_from_json(value["key"]), type_from_json(value["value"]), nullable=nullable)
            case "ROW":
                return RowType(tuple(field_from_json(f) for f in value["fields"]), nullable=nullable)
            case other if other.split("(")[0] in _UNSUPPORTED:
                raise NotSupportedError(f"Columns of type {other} are not supported yet.")
            case _:
                raise CorruptFileError(f"Unknown nested type {value['type']!r}.")
    except KeyError as missing:
        raise CorruptFileError(f"The type {value!r} lacks {missing}.") from missing


def field_to_json(field: DataField) -> dict[str, Json]:
    """The JSON object of a column or ROW field."""
    result: dict[str, Json] = {"id": field.id, "name": field.name, "type": type_to_json(field.type)}
    if field.description is not None:
        result["description"] = field.description
    if field.default_value is not None:
        result["defaultValue"] = field.default_value
    return result


def field_from_json(value: Mapping[str, Json]) -> DataField:
    """The column or ROW field of a JSON object."""
    return DataField(
        id=int(value["id"]),
        name=str(value["name"]),
        type=type_from_json(value["type"]),
        description=value.get("description"),
        default_value=value.get("defaultValue"),
    )


def parse_atomic(text: str) -> AtomicType:
    """The atomic type of a string such as `VARCHAR(10) NOT NULL`; `STRING` and `BYTES` are their widest forms."""
    body, not_null = _strip_not_null(text.upper())
    nullable = not not_null
    match = _ATOMIC.match(body)
    if match is None:
        raise CorruptFileError(f"Not a data type: {text!r}.")
    name = " ".join(match["name"].split())
    if name == "STRING":
        return AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH, nullable=nullable)
    if name == "BYTES":
        return AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH, nullable=nullable)
    if name in _UNSUPPORTED:
        raise NotSupportedError(f"Columns of type {name} are not supported yet.")
    if name == "TIMESTAMP" and "LOCAL" in (match["suffix"] or ""):
        name = "TIMESTAMP_LTZ"
    root = _ALIASES.get(name)
    if root is None:
        try:
            root = TypeRoot(name)
        except ValueError:
            raise CorruptFileError(f"Unknown data type {text!r}.") from None
    first = int(match["first"]) if match["first"] else None
    second = int(match["second"]) if match["second"] else None
    if root in (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY):
        return AtomicType(root, length=first, nullable=nullable)
    return AtomicType(root, precision=first, scale=second, nullable=nullable)


def _strip_not_null(text: str) -> tuple[str, bool]:
    stripped, count = _NOT_NULL.subn("", text)
    return stripped, count > 0


def _atomic_text(data_type: AtomicType) -> str:
    match data_type.root:
        case TypeRoot.VARCHAR if data_type.length == MAX_LENGTH:
            return "STRING"
        case TypeRoot.VARBINARY if data_type.length == MAX_LENGTH:
            return "BYTES"
        case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.BINARY | TypeRoot.VARBINARY:
            return f"{data_type.root}({data_type.length})"
        case TypeRoot.DECIMAL:
            return f"DECIMAL({data_type.precision}, {data_type.scale})"
        case TypeRoot.TIME | TypeRoot.TIMESTAMP:
            return f"{data_type.root}({data_type.precision})"
        case TypeRoot.TIMESTAMP_LTZ:
            return f"TIMESTAMP({data_type.precision}) WITH LOCAL TIME ZONE"
        case root:
            return str(root)
