"""Thrift structures as text: what Thrift's TJSONProtocol writes, from the structures' own descriptions.

Events carry their objects in this form. Thrift's own writer does it byte by byte; this one is a walk over the fields
and one call of json. A struct is `{"<number>": {"<type>": value}}`, a list `["<type>", size, …]`, a map
`["<key type>", "<value type>", size, {…}]`; keys of maps are text.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any

from thrift.Thrift import TType

_NAMES = {
    TType.BOOL: "tf",
    TType.BYTE: "i8",
    TType.I16: "i16",
    TType.I32: "i32",
    TType.I64: "i64",
    TType.DOUBLE: "dbl",
    TType.STRING: "str",
    TType.STRUCT: "rec",
    TType.LIST: "lst",
    TType.SET: "set",
    TType.MAP: "map",
}


def to_json(structure: Any) -> str:
    """The text of a structure."""
    return json.dumps(_struct(structure), separators=(",", ":"), ensure_ascii=False)


def from_names(cls: Any, values: Mapping[str, Any]) -> Any:
    """The structure that a mapping from names of fields describes; bytes in it are base64 text. Unknown names are
    left out.
    """
    structure = cls()
    for field in cls.thrift_spec or ():
        if field is not None and values.get(field[2]) is not None:
            setattr(structure, field[2], _from_plain(field[1], field[3], values[field[2]]))
    return structure


def _struct(structure: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field in structure.thrift_spec or ():
        if field is None:
            continue
        value = getattr(structure, field[2])
        if value is not None:
            fields[str(field[0])] = {_NAMES[field[1]]: _value(field[1], field[3], value)}
    return fields


def _value(kind: int, detail: Any, value: Any) -> Any:
    if kind == TType.STRUCT:
        return _struct(value)
    if kind in (TType.LIST, TType.SET):
        return [_NAMES[detail[0]], len(value), *(_value(detail[0], detail[1], each) for each in value)]
    if kind == TType.MAP:
        # A list as a key (the places of skewed values) has no form in JSON: Thrift's own readers fail on it.
        entries = value.items() if detail[0] != TType.LIST else ()
        pairs = {str(key): _value(detail[2], detail[3], each) for key, each in entries}
        return [_NAMES[detail[0]], _NAMES[detail[2]], len(pairs), pairs]
    if kind == TType.BOOL:
        return 1 if value else 0
    if kind == TType.STRING and isinstance(value, bytes):
        # Thrift's JSON has no padding at the end of binaries.
        return base64.b64encode(value).decode().rstrip("=")
    if kind == TType.DOUBLE and value != value:
        return "NaN"
    if kind == TType.DOUBLE and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _from_plain(kind: int, detail: Any, value: Any) -> Any:
    if kind == TType.STRUCT:
        return from_names(detail[0], value)
    if kind in (TType.LIST, TType.SET):
        return [_from_plain(detail[0], detail[1], each) for each in value]
    if kind == TType.MAP:
        return {key: _from_plain(detail[2], detail[3], each) for key, each in value.items()}
    if kind == TType.STRING and detail != "UTF8":
        return base64.b64decode(value)
    return value
