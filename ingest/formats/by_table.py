"""Texts that are JSON objects, told apart by the table that each speaks of.

Messages of several tables come mixed, and the tables have nothing to do with each other's columns. So the few fields
that say what a message is about, its header, are read first, of all messages at once and with types that are known
beforehand; everything else in them is passed over. What a table's messages hold is then read by a shape of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage, SourceTable
from interbed.ingest.formats.arrays import Array, Indices, Mask, kept, mask_of, valid
from interbed.ingest.formats.guessed.json_objects import is_one_object, json_text, parsed_object, read_by_arrow


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """The headers of the texts with the indices `index`, as columns of the same length; and the texts that have none.

    Fields that a text lacks are null. Where the headers are `whole`, the rows have all fields of the texts.
    """

    rows: pa.Table
    index: Indices
    bad: Sequence[BadMessage]
    whole: bool = False

    def column(self, *path: str) -> Array:
        """A field, or a field of a field, of each header."""
        found: Any = self.rows.column(path[0]).combine_chunks()
        for name in path[1:]:
            found = pc.struct_field(found, name)
        array: Array = found
        return array

    def has(self, name: str) -> Mask:
        """Which headers have a value in the field."""
        return valid(self.column(name))

    def has_one_of(self, name: str, values: Sequence[str]) -> Mask:
        """Which headers have one of the values in the field."""
        return is_one_of(self.column(name), values)

    def where(self, chosen: Mask) -> "Headers":
        """Those of the headers for which it is true; the bad texts stay."""
        return replace(self, rows=kept(self.rows, chosen), index=self.index[chosen])


def is_one_of(column: Array, values: Sequence[str]) -> Mask:
    """Which texts of a column are one of the values."""
    return mask_of(pc.is_in(column, value_set=pa.array(values, pa.string())))


def read_headers(texts: Array, fields: pa.Schema) -> Headers:
    """The given fields of each text (binary, no nulls), others are ignored; there is at least one field.

    A text is bad that is no object, or has one of the fields with a value of another type. The types may be STRING,
    BOOLEAN, BIGINT, and structs and lists of these.
    """
    if is_one_object(texts).all():
        rows = read_by_arrow(texts, fields, others="ignore")
        if rows is not None:
            return Headers(rows=rows, index=np.arange(len(texts)), bad=())
    return _one_by_one(texts, fields)


def by_table(
    databases: Array, tables: Array, indices: Indices | None = None, *, servers: "Array | None" = None
) -> Mapping[SourceTable, Indices]:
    """Which of the indices (else 0, 1, …) are of which table, in their order; the columns name the table of each.

    Tables come in the order of their first index. A null database or server is empty; where the table is null, it is of
    none.
    """
    indices = np.arange(len(tables)) if indices is None else indices
    if not len(tables):
        return {}
    filled: Any = databases.fill_null("")
    names = filled.dictionary_encode()
    others: Any = tables.dictionary_encode(null_encoding="encode")
    width = len(others.dictionary)
    codes = _codes(names) * width + _codes(others)
    of_servers: Any = None if servers is None else servers.fill_null("").dictionary_encode()
    if of_servers is not None:
        codes += _codes(of_servers) * (width * len(names.dictionary))
    distinct, first, group, counts = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    members = np.split(indices[np.argsort(group, kind="stable")], np.cumsum(counts)[:-1])
    found: dict[SourceTable, Indices] = {}
    # A loop over tables.
    for at in np.argsort(first):
        rest, table = divmod(int(distinct[at]), width)
        server, database = divmod(rest, len(names.dictionary))
        name = others.dictionary[table].as_py()
        if name is not None:
            server_name = "" if of_servers is None else of_servers.dictionary[server].as_py()
            found[SourceTable(names.dictionary[database].as_py(), name, server_name)] = members[at]
    return found


def _codes(column: Any) -> Indices:
    codes: Indices = column.indices.to_numpy().astype(np.int64)
    return codes


def _one_by_one(texts: Array, fields: pa.Schema) -> Headers:
    """Parse in Python, which happens when some text is bad, or may be: this says which, and why."""
    kind = pa.struct(list(fields))
    bad: list[BadMessage] = []
    found: dict[int, dict[str, Any]] = {}
    values: list[Any] = texts.to_pylist()
    for i, text in enumerate(values):
        try:
            found[i] = _header(parsed_object(text), kind)
        except ValueError as error:
            bad.append(BadMessage(i, str(error)))
    rows = pa.Table.from_pylist(list(found.values()), schema=fields)
    return Headers(rows=rows, index=np.array(list(found), np.int64), bad=bad)


def _header(value: Mapping[str, Any], kind: pa.StructType) -> dict[str, Any]:
    """The fields of the type that an object has; ValueError says which of its values is not of its type."""
    return {field.name: _checked(field.name, value.get(field.name), field.type) for field in kind}


def _checked(name: str, value: Any, kind: pa.DataType) -> Any:
    match value:
        case None:
            return None
        case dict() if isinstance(kind, pa.StructType):
            return _header(value, kind)
        case list() if isinstance(kind, pa.ListType):
            return [_checked(name, each, kind.value_type) for each in value]
        # Half of a surrogate pair, which JSON can write, is no character.
        case str() if kind.id == pa.string().id and not any("\ud800" <= letter <= "\udfff" for letter in value):
            return value
        case bool() if kind.id == pa.bool_().id:
            return value
        case int() if kind.id == pa.int64().id and value in _INT64 and not isinstance(value, bool):
            return value
    raise ValueError(f"its {name} is not {_WORDS[kind.id]}, but {json_text(value)[:40]}")


_INT64 = range(-(2**63), 2**63)
_WORDS = {
    pa.string().id: "a text",
    pa.bool_().id: "a truth value",
    pa.int64().id: "an integer of 64 bits",
    pa.struct([]).id: "an object",
    pa.list_(pa.null()).id: "a list",
}
