"""The JSON form of types in schema files: strings such as `DECIMAL(10, 2) NOT NULL`, objects for nested types.

Source: specification page `spec/schema` and the type strings of Paimon's documentation of data types.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from interbed.storage.base.types.data_type import AtomicType, DataField, DataType

Json: TypeAlias = Any


def type_to_json(data_type: DataType) -> Json:
    """The JSON value of a type: a string for atomic types, an object for nested ones."""
    return data_type.to_dict()


def type_from_json(value: Json) -> DataType:
    """The type of a JSON value; raises CorruptFileError when it is none, NotSupportedError for VARIANT and the like."""
    return DataType.from_dict(value)


def field_to_json(field: DataField) -> dict[str, Json]:
    """The JSON object of a column or ROW field."""
    return field.to_dict()


def field_from_json(value: Mapping[str, Json]) -> DataField:
    """The column or ROW field of a JSON object."""
    return DataField.from_dict(value)


def parse_atomic(text: str) -> AtomicType:
    """The atomic type of a string such as `VARCHAR(10) NOT NULL`; `STRING` and `BYTES` are their widest forms."""
    found = DataType.from_dict(text)
    assert isinstance(found, AtomicType)
    return found
