"""Parser of data types as text: `BIGINT`, `DECIMAL(10, 2) NOT NULL`, `ARRAY<INT>`, `ROW<a INT, b MAP<STRING, INT>>`.

Source of the spelling: Paimon's documentation, concepts/data-types.
"""

import re
from collections.abc import Iterator

import pyarrow as pa

from interbed.storage.base.errors import CorruptFileError, InvalidInputError
from interbed.storage.base.types.arrow import FieldIds, type_from_arrow
from interbed.storage.base.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    parse_atomic,
)

_NESTED = re.compile(
    r"\s*(?P<name>ARRAY|MULTISET|MAP|ROW)\s*<(?P<inside>.*)>\s*(?P<end>(?:NOT\s+NULL)?)\s*", re.IGNORECASE | re.DOTALL
)
_FIELD = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^\s`<>(),]+))\s+(?P<type>.+)", re.DOTALL)


def data_type(given: "DataType | pa.DataType | str") -> DataType:
    """Return the data type of a text (`"DECIMAL(10, 2)"`) or an Arrow type; a data type is returned unchanged.

    Fields of a ROW are numbered from 0. Raises InvalidInputError for the text of no type, SchemaMismatchError for an
    Arrow type without counterpart, NotSupportedError for types that this version lacks (VARIANT and others).
    """
    if isinstance(given, DataType):
        return given
    if isinstance(given, str):
        return _parsed(given, given, FieldIds())
    if isinstance(given, pa.DataType):
        return type_from_arrow(given, next_id=FieldIds())
    raise InvalidInputError(
        f"{given!r} is not a data type; write text such as 'BIGINT' or 'DECIMAL(10, 2)', or give a pyarrow type."
    )


def _parsed(text: str, whole: str, ids: FieldIds) -> DataType:
    nested = _NESTED.fullmatch(text)
    if nested is None:
        try:
            return parse_atomic(text)
        except CorruptFileError:
            raise InvalidInputError(
                f"{whole!r} is not a data type: {text.strip()!r} is not known. Types are written as BIGINT, "
                "DECIMAL(10, 2) NOT NULL, ARRAY<INT>, MAP<STRING, INT>, ROW<a INT, b STRING>."
            ) from None
    nullable = not nested["end"]
    parts = list(_parts(nested["inside"]))
    match nested["name"].upper(), parts:
        case "ARRAY", [element]:
            return ArrayType(_parsed(element, whole, ids), nullable=nullable)
        case "MULTISET", [element]:
            return MultisetType(_parsed(element, whole, ids), nullable=nullable)
        case "MAP", [key, value]:
            return MapType(_parsed(key, whole, ids), _parsed(value, whole, ids), nullable=nullable)
        case "ROW", _:
            return RowType(tuple(_field(part, whole, ids) for part in parts), nullable=nullable)
        case name, _:
            wanted = "two types, of keys and values" if name == "MAP" else "one type"
            raise InvalidInputError(f"{whole!r} is not a data type: {name} takes {wanted}, not {len(parts)}.")


def _field(text: str, whole: str, ids: FieldIds) -> DataField:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise InvalidInputError(
            f"{whole!r} is not a data type: a field of a ROW is written as `name TYPE`, not {text!r}."
        )
    name = match["plain"] or match["quoted"].replace("``", "`")
    return DataField(id=ids.take(), name=name, type=_parsed(match["type"], whole, ids))


def _parts(text: str) -> Iterator[str]:
    """Yield the parts between commas outside of brackets and backquotes."""
    depth, start, quoted = 0, 0, False
    for position, character in enumerate(text):
        if character == "`":
            quoted = not quoted
        elif not quoted:
            depth += (character in "<(") - (character in ">)")
            if character == "," and depth == 0:
                yield text[start:position]
                start = position + 1
    yield text[start:]
