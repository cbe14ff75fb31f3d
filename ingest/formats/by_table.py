"""JSON objects of several tables in one topic, decoded table by table, and the primary keys that messages declare.

Messages of several tables are mixed, and tables must not get each other's columns. So the header is read first, of all
messages at once: the few fields that name the table and the kind of the message, with types that are known beforehand.
All other fields are ignored. Then the messages of each table are read by a `JsonShape` of that table.

The changes of a table are split where the key that its messages declare changes.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage, DecodedMessages, RowChanges, SourceTable
from interbed.ingest.flow.messages import Messages
from interbed.ingest.formats.arrays import Array, Indices, Mask, kept, mask_of, one_array, taken, valid
from interbed.ingest.formats.connect_json import EnvelopeReader
from interbed.ingest.formats.json_objects import JsonShape, is_one_object, json_text, parsed_object, read_by_arrow


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """The headers of the texts with the indices `index`, as columns of the same length; and the texts without a header.

    Fields that a text lacks are null. If the headers are `whole`, the rows have all fields of the texts.
    """

    rows: pa.Table
    index: Indices
    bad: Sequence[BadMessage]
    whole: bool = False

    def column(self, *path: str) -> Array:
        """Return a field, or a field of a field, of each header."""
        found: Any = self.rows.column(path[0]).combine_chunks()
        for name in path[1:]:
            found = pc.struct_field(found, name)
        array: Array = found
        return array

    def has(self, name: str) -> Mask:
        """Return which headers have a value in the field."""
        return valid(self.column(name))

    def has_one_of(self, name: str, values: Sequence[str]) -> Mask:
        """Return which headers have one of the values in the field."""
        return is_one_of(self.column(name), values)

    def where(self, chosen: Mask) -> "Headers":
        """Return the chosen headers; the bad texts are kept."""
        return replace(self, rows=kept(self.rows, chosen), index=self.index[chosen])


def is_one_of(column: Array, values: Sequence[str]) -> Mask:
    """Return which texts of a column are one of the values."""
    return mask_of(pc.is_in(column, value_set=pa.array(values, pa.string())))


def read_headers(texts: Array, fields: pa.Schema) -> Headers:
    """Read the given fields of each text (binary, no nulls), at least one field; other fields are ignored.

    A text is bad if it is no object, or has one of the fields with a value of another type. The types may be STRING,
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
    """Return the indices (by default 0, 1, …) of each table, in their order; the columns name the table of each.

    Tables come in the order of their first index. A null database or server is empty; an entry with a null table
    belongs to no table.
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
    """Parse in Python, which happens if some text is or may be bad, and return which texts are bad, and the reasons."""
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
    """Return the fields of the type that an object has. Raises ValueError naming a value that is not of its type."""
    return {field.name: _checked(field.name, value.get(field.name), field.type) for field in kind}


def _checked(name: str, value: Any, kind: pa.DataType) -> Any:
    match value:
        case None:
            return None
        case dict() if isinstance(kind, pa.StructType):
            return _header(value, kind)
        case list() if isinstance(kind, pa.ListType):
            return [_checked(name, each, kind.value_type) for each in value]
        # JSON can write half of a surrogate pair, which is no character.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTexts:
    """The texts of one table, which is None if they do not name it; their content, by column; and their indices.

    In `rewritten` texts a value of another kind became a text; None if there is no such text.
    """

    source: SourceTable | None
    texts: Array
    rows: pa.Table
    index: Indices
    rewritten: Mask | None = None

    def column(self, name: str) -> "Array | None":
        """Return a field of each text; None if no text has it."""
        if name not in self.rows.column_names or pa.types.is_null(self.rows.schema.field(name).type):
            return None
        found: Any = self.rows.column(name).combine_chunks()
        array: Array = found
        return array

    def where(self, chosen: Mask) -> "TableTexts":
        """Return the chosen texts."""
        return replace(
            self,
            texts=kept(self.texts, chosen),
            rows=kept(self.rows, chosen),
            index=self.index[chosen],
            rewritten=None if self.rewritten is None else self.rewritten[chosen],
        )

    def slice(self, start: int, end: int) -> "TableTexts":
        """Return the texts from `start` to before `end`."""
        return replace(
            self,
            texts=self.texts.slice(start, end - start),
            rows=self.rows.slice(start, end - start),
            index=self.index[start:end],
            rewritten=None if self.rewritten is None else self.rewritten[start:end],
        )


class TableShapes:
    """The shapes of tables. `header` are the fields that all messages share, with "database" and "table".

    See JsonShape for the other parameters.
    """

    def __init__(self, header: pa.Schema, *, alike: Sequence[str] = (), texts: Sequence[str] = ()) -> None:
        self._header = header
        self._alike = alike
        self._texts = texts
        self._shapes: dict[SourceTable | None, JsonShape] = {}

    def headers(self, texts: Array) -> Headers:
        """Read the header of each text (binary, no nulls), possibly with more fields."""
        if len(self._shapes) == 1:
            # If the texts have nothing new, reading them once is enough. Their tables are checked in `read`.
            [shape] = self._shapes.values()
            rows = shape.read_known(texts)
            if rows is not None:
                return Headers(rows=self._with_all_fields(rows), index=np.arange(len(texts)), bad=(), whole=True)
        return read_headers(texts, self._header)

    def read(self, texts: Array, headers: Headers, bad: list[BadMessage]) -> list[TableTexts]:
        """Read the texts of the headers by table. Texts that cannot be read are added to `bad`."""
        named = by_table(headers.column("database"), headers.column("table"), headers.index)
        tables: list[tuple[SourceTable | None, Indices]] = [*named.items()]
        nameless = headers.index[~headers.has("table")]
        if len(nameless):
            tables.append((None, nameless))
        if headers.whole and [source for source, _ in tables] == list(self._shapes):
            [(source, index)] = tables
            return [TableTexts(source=source, texts=_texts_at(texts, index), rows=headers.rows, index=index)]
        found = []
        for source, index in tables:
            these = _texts_at(texts, index)
            shape = JsonShape(alike=self._alike, texts=self._texts)
            read = self._shapes.setdefault(source, shape).read(these)
            bad += [BadMessage(int(index[each.index]), each.reason) for each in read.bad]
            if len(read.index) < len(index):
                these, index = taken(these, read.index), index[read.index]
            found.append(TableTexts(source=source, texts=these, rows=read.rows, index=index, rewritten=read.rewritten))
        return found

    def _with_all_fields(self, rows: pa.Table) -> pa.Table:
        """Return the rows with null columns for fields of the header that no text has had."""
        for field in self._header:
            if field.name not in rows.column_names:
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
            elif pa.types.is_null(rows.schema.field(field.name).type):
                at = rows.schema.get_field_index(field.name)
                rows = rows.set_column(at, field, pa.nulls(rows.num_rows, field.type))
        return rows


def texts_of(messages: Messages) -> tuple[Array, Indices]:
    """Return the values of the messages that have one, and the indices of these messages."""
    there = valid(messages.values)
    return kept(messages.values, there), np.flatnonzero(there)


def at_messages(decoded: DecodedMessages, places: Indices) -> DecodedMessages:
    """Return the same with the indices of messages in place of those of texts; `places` has the message of each
    text.
    """
    return replace(
        decoded,
        changes=[replace(each, messages=places[each.messages]) for each in decoded.changes],
        bad=sorted((BadMessage(int(places[b.index]), b.reason) for b in decoded.bad), key=lambda b: b.index),
    )


def _texts_at(texts: Array, index: Indices) -> Array:
    return texts if len(index) == len(texts) else taken(texts, index)


Key = tuple[str, ...]
"""The columns of a key, in their order; empty if a table has no primary key."""


@dataclass(frozen=True, slots=True)
class DeclaredKeys:
    """The keys that messages declare: `numbers` has, for each message, the place of its key among `keys`."""

    keys: Sequence[Key | None]
    numbers: Indices

    @staticmethod
    def alike(key: Key | None, count: int) -> "DeclaredKeys":
        """Return the same key for all messages; None if they do not state one."""
        return DeclaredKeys([key], np.zeros(count, np.int64))

    @staticmethod
    def found_in(keys: Array, found: Iterable[tuple[Key, Indices]]) -> "DeclaredKeys":
        """Return the keys by the columns found in the keys of messages, with the places of these messages.

        A null means that the table has no primary key. A key in which no columns were found states nothing.
        """
        numbers = np.where(valid(keys), 1, 0)
        known: dict[Key | None, int] = {(): 0, None: 1}
        for columns, places in found:
            numbers[places] = known.setdefault(columns, len(known))
        return DeclaredKeys(list(known), numbers)

    def of_messages(self, places: Indices) -> "DeclaredKeys":
        """Return the keys of some of the messages."""
        return DeclaredKeys(self.keys, self.numbers[places])

    def part(self, changes: RowChanges, rows: Indices) -> list[RowChanges]:
        """Split the changes by their key, in their order; `rows` has the place here of the message of each row."""
        numbers = self.numbers[rows]
        present = [self.keys[int(number)] for number in np.unique(numbers)]
        declared = [key for key in present if key is not None]
        if len(declared) < 2:
            # A message that does not state a key agrees with those that do.
            return [replace(changes, key=declared[0] if declared else None)]
        starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        return [
            replace(changes.slice(start, end), key=self.keys[int(numbers[start])])
            for start, end in itertools.pairwise(starts)
        ]


def listed_keys(lists: "Array | None", count: int, *, without: Key | None) -> DeclaredKeys:
    """Return the keys of lists of names, one for each message; `without` is the key where the list is null."""
    kind = None if lists is None else lists.type
    if lists is None or not isinstance(kind, pa.ListType) or not pa.types.is_string(kind.value_type):
        # If all lists are empty, their type is not that of texts.
        empty = lists is not None and lists.null_count < len(lists)
        return DeclaredKeys.alike(() if empty else without, count)
    # A null among the names makes a null of all.
    joined: Any = pc.binary_join(lists, "\0")
    encoded: Any = joined.dictionary_encode(null_encoding="encode")
    numbers = encoded.indices.to_numpy()
    _, first = np.unique(numbers, return_index=True)
    keys: list[Key | None] = []
    # A loop over distinct keys.
    for place in first.tolist():
        names: Any = lists[place].as_py()
        keys.append(without if names is None else tuple(name for name in names if name is not None))
    return DeclaredKeys(keys, np.searchsorted(numbers[first], numbers))


class JsonKeys:
    """Finds the columns of keys that are JSON objects, with the schema of Kafka Connect around them or without.

    Not for use by several threads.
    """

    def __init__(self) -> None:
        self._envelopes = EnvelopeReader(_columns_of_schema)
        self._shapes: dict[SourceTable, JsonShape] = {}

    def of(self, source: SourceTable, texts: Array) -> DeclaredKeys:
        """Return the keys of the messages of a table (binary). A null means no primary key; a key that is no object
        states nothing.
        """
        return DeclaredKeys.found_in(texts, self._columns(source, texts))

    def _columns(self, source: SourceTable, texts: Array) -> Iterator[tuple[Key, Indices]]:
        there = valid(texts)
        there[there] = mask_of(pc.match_substring_regex(kept(texts, there), r"^\s*\{"))
        unread: list[BadMessage] = []
        for columns, places, payloads in self._envelopes.opened(np.flatnonzero(there), kept(texts, there), unread):
            if columns is not None:
                yield columns, places
                continue
            for names, chosen in self._of_objects(source, payloads).items():
                yield names, places[chosen]

    def _of_objects(self, source: SourceTable, texts: Array) -> Mapping[Key, Indices]:
        """Return the texts of each set of columns."""
        read = self._shapes.setdefault(source, JsonShape()).read(texts)
        columns = {name: valid(one_array(read.rows.column(name))) for name in read.rows.column_names}
        columns = {name: there for name, there in columns.items() if there.any()}
        # If all values of a key are null, its names must be parsed.
        whole = np.full(len(read.index), bool(columns))
        for there in columns.values():
            whole &= there
        found: dict[Key, list[int]] = {}
        # A loop over keys with a null, or of another shape.
        for place in read.index[~whole].tolist():
            found.setdefault(tuple(parsed_object(texts[place].as_py())), []).append(place)
        parted = {key: np.array(places, np.int64) for key, places in found.items()}
        if whole.any():
            key = tuple(columns)
            parted[key] = np.concatenate([read.index[whole], parted.get(key, np.empty(0, np.int64))])
        return parted


def _columns_of_schema(schema: Mapping[str, Any]) -> Key:
    return tuple(str(field.get("field")) for field in schema.get("fields") or () if isinstance(field, dict))
