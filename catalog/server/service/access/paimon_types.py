"""Paimon's types of columns whose types are Hive's texts, such as `array<string>`."""

import re
from collections.abc import Iterator

from interbed.catalog.server.service.errors import InvalidObjectError
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.types.data_type import ArrayType, AtomicType, DataField, DataType, MapType, RowType

_NESTED = re.compile(r"\s*(array|map|struct)\s*<(.*)>\s*", re.IGNORECASE | re.DOTALL)
_HIVE_TYPES = {"string": "STRING", "binary": "BYTES", "timestamp with local time zone": "TIMESTAMP_LTZ"}


def paimon_type(hive_type: str) -> DataType:
    """Return Paimon's type for one of Hive. InvalidObjectError where there is none."""
    nested = _NESTED.fullmatch(hive_type)
    if nested is None:
        text = hive_type.strip().lower()
        try:
            return AtomicType(_HIVE_TYPES.get(text, text.upper()))
        except (CorruptFileError, ValueError) as error:
            raise _no_type(hive_type) from error
    parts = list(_parts(nested[2]))
    match nested[1].lower(), parts:
        case "array", [element]:
            return ArrayType(paimon_type(element))
        case "map", [key, value]:
            return MapType(paimon_type(key).with_nullable(False), paimon_type(value))
        case "struct", _:
            named = [part.partition(":") for part in parts]
            return RowType(
                DataField(id=index, name=name.strip(), type=paimon_type(inner))
                for index, (name, _, inner) in enumerate(named)
            )
    raise _no_type(hive_type)


def _no_type(hive_type: str) -> InvalidObjectError:
    return InvalidObjectError(f"Paimon has no type for Hive's '{hive_type}'.")


def _parts(text: str) -> Iterator[str]:
    """Return the parts between the commas outside of brackets."""
    depth, start = 0, 0
    for index, character in enumerate(text):
        if character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif character == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]
