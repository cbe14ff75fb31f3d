"""Debezium's change events in Avro, in Confluent's wire format, with their schemas in a registry.

Confluent's wire format is a byte 0, the id of the schema in four bytes, big-endian, and Avro's binary encoding:

    00 | 00 00 00 07 | 02 0a …

The events are those of `debezium_json`, as records:

    Envelope {before: Value?, after: Value?, source {db, schema, table, …}, op, …}

The columns have the types of the schemas, the same as those of JSON with a schema beside it (`connect_json`). A schema
is looked up once and has a reader of its own. The message's key, a record as well, names the primary key. It replaces
the row before a deletion if that row is missing.

Source: Debezium's documentation, "Data change events" of its connectors, and "Avro Serialization"; Confluent's,
"Formats, Serializers, and Deserializers", wire format.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import (
    BadMessage,
    DecodedMessages,
    RefusedTable,
    RowChanges,
    SourceTable,
    TableTruncation,
    UnsentRows,
)
from interbed.ingest.flow.messages import Messages, UnknownSchemaError
from interbed.ingest.formats.arrays import Array, Indices, Mask, changed_rows, converted_columns, kept, taken, valid
from interbed.ingest.formats.avro.columns import AvroValues, Columns, Wanted
from interbed.ingest.formats.avro.schema import AvroSchema, WriterSchemas
from interbed.ingest.formats.by_table import DeclaredKeys, by_table
from interbed.ingest.formats.connect_json import ConnectType, column_type
from interbed.ingest.formats.debezium_events import (
    NO_EVENT,
    OWN_TOPIC,
    EventRows,
    Kinds,
    SentBefore,
    at_rows_before,
    events_of,
    in_topic_order,
    invalid_events,
    kinds_of,
    may_leave_out,
    of_kind,
)
from interbed.ingest.formats.lacking_columns import LEFT_OUT, UnavailableValue
from interbed.storage.base.avro.decode import PADDING
from interbed.storage.base.errors import NotSupportedError

HEADER_BYTES = 5


def by_schema(index: Indices, texts: Array, bad: list[BadMessage]) -> Iterator[tuple[int, Indices, AvroValues]]:
    """Yield the id of each schema, with the messages that it wrote and their encoded values.

    `texts` (binary, no nulls) are the contents of the messages with the numbers `index`. Messages that are not in this
    format are added to `bad`.
    """
    if not len(texts):
        return
    data, starts, ends = _laid_out(texts)
    header = data[starts[:, None] + np.arange(HEADER_BYTES)].astype(np.int64)
    framed = (ends - starts >= HEADER_BYTES) & (header[:, 0] == 0)
    bad += [BadMessage(int(index[i]), _whats_wrong(texts[int(i)].as_py())) for i in np.flatnonzero(~framed)]
    numbers = header[:, 1:] @ (1 << np.array([24, 16, 8, 0]))
    for number in np.unique(numbers[framed]).tolist():
        chosen = np.flatnonzero(framed & (numbers == number))
        yield number, index[chosen], AvroValues(data, starts[chosen] + HEADER_BYTES, ends[chosen])


def decoded_by_schema(
    index: Indices, texts: Array, columns_of: Callable[[int], Columns], bad: list[BadMessage]
) -> Iterator[tuple[int, Indices, Array]]:
    """Yield the id of each schema, with the messages that it wrote and their values.

    Refused messages are added to `bad`, and so are all messages of a schema for which `columns_of` raises
    UnknownSchemaError or ValueError.
    """
    for number, numbers, encoded in by_schema(index, texts, bad):
        try:
            columns = columns_of(number)
        except (UnknownSchemaError, ValueError) as error:
            bad += [BadMessage(int(i), f"it has the schema {number}, and {error}") for i in numbers]
            continue
        read = columns.decode(encoded)
        bad += [BadMessage(int(numbers[i]), f"by its schema {number}, {why}") for i, why in read.refused.items()]
        good = np.ones(len(numbers), bool)
        good[list(read.refused)] = False
        yield number, numbers[good], kept(read.values, good)


def _laid_out(texts: Any) -> tuple[Any, Indices, Indices]:
    """Return the bytes of all texts, with PADDING behind them, and the beginning and end of each text."""
    _, offsets, content = texts.buffers()
    places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    first, last = int(places[0]), int(places[-1])
    data = np.zeros(last - first + PADDING, np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(content, np.uint8)[first:last]
    places -= first
    return data, places[:-1], places[1:]


def _whats_wrong(text: bytes) -> str:
    if len(text) < HEADER_BYTES:
        return f"it has {len(text)} bytes, and the number of its schema alone takes {HEADER_BYTES}"
    return f"its first byte is {text[0]}, and not 0, with which Confluent's wire format begins"


_NAMES = ("db", "schema", "table", "name")
_SOURCE: Wanted = dict.fromkeys((*_NAMES, "connector"), True)
_ABOUT: Wanted = {"op": True, "source": _SOURCE}
_WANTED: Wanted = {"before": True, "after": True, "op": True, "source": _SOURCE}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Reader of the values of one schema; `types` are those of the columns of its rows."""

    columns: Columns
    types: Mapping[str, ConnectType]

    def converted(self, rows: Any) -> tuple[Any, dict[int, str]]:
        """Convert rows to the types of the columns. Return also the reasons, by row, for values that cannot be
        converted.
        """
        fields = [pa.field(name, each.type) for name, each in self.types.items()]
        if rows.null_count == len(rows):
            return pa.nulls(len(rows), pa.struct(fields)), {}
        if all(each.convert is None for each in self.types.values()):
            return rows, {}
        convert = [each.converted for each in self.types.values()]
        types = [field.type for field in fields]
        columns, reasons = converted_columns(rows.flatten(), convert, list(self.types), types)
        return pa.StructArray.from_arrays(columns, fields=fields, mask=rows.is_null()), reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class _RefusedSchema:
    """A schema that no table can have, and the reason; `columns` reads the table of its events."""

    columns: Columns
    reason: str


class DebeziumAvro:
    """Decoder of Debezium's Avro; see the module. Not for use by several threads."""

    def __init__(self, schemas: WriterSchemas, unavailable: UnavailableValue | None = None) -> None:
        """`unavailable` is the connector's placeholder for values that the database did not send."""
        self._schemas = schemas
        self._unavailable = unavailable or UnavailableValue()
        self._sent_before = SentBefore()
        self._readers: dict[tuple[int, bool], _Reader] = {}
        self._refused: dict[int, _RefusedSchema] = {}

    def decode(self, messages: Messages) -> DecodedMessages:
        """Decode events; see Decoder. Tables are refused if their schema has a type that becomes no column.

        Raises the errors of the schema lookup. A message is bad if the registry does not have its schema.
        """
        bad: list[BadMessage] = []
        index, texts = events_of(messages)
        parts: list[_Part] = []
        refused: list[RefusedTable] = []
        for number, numbers, values in decoded_by_schema(index, texts, self._columns_of_events, bad):
            if number in self._refused:
                tables = _tables(values)
                refused += [RefusedTable(table, self._refused[number].reason) for table in tables]
            else:
                parts += _parts(self._reader(number, of_keys=False), numbers, values, bad)
        truncations = [
            TableTruncation(index=int(i), source=part.source) for part in parts for i in part.index[part.ops("t")]
        ]
        if truncations:
            first = min(truncations, key=lambda t: t.index)
            before = self.decode(messages.slice(0, first.index))
            return replace(before, truncation=first)
        # A table may change its schema, and change back to an earlier one.
        changes = [found for part in in_topic_order(parts) for found in self._changes(part, messages, bad)]
        return DecodedMessages(changes=changes, bad=sorted(bad, key=lambda b: b.index), refused=refused)

    def _columns_of_events(self, number: int) -> Columns:
        if number not in self._refused:
            try:
                return self._reader(number, of_keys=False).columns
            except NotSupportedError as error:
                columns = Columns(AvroSchema(self._schemas.schema(number)), _ABOUT)
                self._refused[number] = _RefusedSchema(columns=columns, reason=str(error))
        return self._refused[number].columns

    def _reader(self, number: int, *, of_keys: bool) -> _Reader:
        """Return the reader of a schema. Raises UnknownSchemaError, and ValueError if it is no schema of an event or a
        key.
        """
        if (number, of_keys) not in self._readers:
            schema = AvroSchema(self._schemas.schema(number))
            self._readers[number, of_keys] = _key_reader(schema) if of_keys else _event_reader(schema)
        return self._readers[number, of_keys]

    def _changes(self, part: "_Part", messages: Messages, bad: list[BadMessage]) -> list[RowChanges]:
        """Return the rows of the events among the messages, by the key that they declare."""
        keys = messages.keys
        inserted, updated, deleted = part.ops("c", "r"), part.ops("u"), part.ops("d")
        types = {name: each.type for name, each in part.types.items()}
        leaving = may_leave_out(part.kinds, messages.rekeyed_mask()[part.index])
        befores, afters, unsent = self._unavailable.resolved(part.before, part.after, types, updated=leaving)
        part = replace(part, before=befores, after=afters)
        (before, after), reasons = part.converted()
        lacking = np.flatnonzero(deleted & ~valid(part.before))
        if len(lacking):
            # Most connectors send the row, or its key as the row, so this is rare.
            before = self._with_keys(before, lacking, part.index, keys)
        sent_before = part.before if not len(lacking) else _with_nothing(part.before, lacking)
        reasons = {**invalid_events(part.op, part.kinds, before, after), **reasons}
        bad += [BadMessage(int(part.index[i]), reason) for i, reason in reasons.items()]
        good = inserted | updated | deleted
        good[list(reasons)] = False
        declared = self._declared(taken(keys, part.index), part.index, good, bad)
        if not good.any():
            return []
        declared = declared.of_messages(np.flatnonzero(good))
        lacking_before = self._sent_before.unsent(
            EventRows(
                source=part.source,
                before=kept(sent_before, good),
                updated=updated[good],
                deleted=deleted[good],
                keys=declared,
                types=part.types,
                connectors=kept(part.connectors, good),
            )
        )
        rows, kinds, events = changed_rows(
            kept(before, good), kept(after, good), inserted=inserted[good], updated=updated[good], deleted=deleted[good]
        )
        changes = RowChanges(
            source=part.source,
            rows=rows,
            kinds=kinds,
            messages=part.index[good][events],
            stated=frozenset(part.types),
            unsent={name: UnsentRows(rows[good][events], LEFT_OUT) for name, rows in unsent.items()},
            unsent_before=at_rows_before(lacking_before, events, kinds),
        )
        return declared.part(changes, events)

    def _with_keys(self, before: Array, lacking: Indices, index: Indices, keys: Array) -> Array:
        """Return the rows with missing ones replaced by the keys of their messages, as far as keys are rows."""
        place = np.arange(len(before))
        pieces = [before]
        present = valid(taken(keys, index[lacking]))
        lacking = lacking[present]
        for number, places, encoded in by_schema(lacking, taken(keys, index[lacking]), []):
            try:
                reader = self._reader(number, of_keys=True)
            except (UnknownSchemaError, ValueError):
                continue
            read = reader.columns.decode(encoded)
            columns, reasons = reader.converted(read.values)
            rows = _as_rows(columns, before.type)
            good = np.ones(len(places), bool)
            good[[*reasons, *read.refused]] = False
            if rows is None:
                continue
            place[places[good]] = sum(map(len, pieces)) + np.flatnonzero(good)
            pieces.append(rows)
        return taken(pa.concat_arrays(pieces), place)

    def _declared(self, keys: Array, index: Indices, good: Mask, bad: list[BadMessage]) -> DeclaredKeys:
        """Return the keys of the messages with the numbers `index`. A key that is no record states nothing.

        If the registry lacks the schema of a key, its messages are added to `bad`, and removed from `good`.
        """
        there = valid(keys)
        found: list[tuple[tuple[str, ...], Indices]] = []
        for number, places, _ in by_schema(np.flatnonzero(there), kept(keys, there), []):
            try:
                found.append((tuple(self._reader(number, of_keys=True).types), places))
            except UnknownSchemaError as error:
                reason = f"its key has the schema {number}, and {error}"
                bad += [BadMessage(int(i), reason) for i in index[places[good[places]]]]
                good[places] = False
            except ValueError:
                continue
        return DeclaredKeys.found_in(keys, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Events of one table that one schema wrote; `index` holds the numbers of their messages.

    The rows are arrays of structs of the same type, with the values as the message has them.
    """

    source: SourceTable
    index: Indices
    op: Array
    kinds: Kinds
    before: Array
    after: Array
    reader: _Reader
    connectors: Array

    @property
    def types(self) -> Mapping[str, ConnectType]:
        """The types of the columns."""
        return self.reader.types

    def taken(self, numbers: Indices, source: SourceTable) -> "_Part":
        """Return some of the events, as those of a table."""
        return replace(
            self,
            source=source,
            index=self.index[numbers],
            op=taken(self.op, numbers),
            kinds=self.kinds[numbers],
            before=taken(self.before, numbers),
            after=taken(self.after, numbers),
            connectors=taken(self.connectors, numbers),
        )

    def ops(self, *wanted: str) -> Mask:
        """Return which of the events are of one of these kinds."""
        return of_kind(self.kinds, *wanted)

    def converted(self) -> tuple[tuple[Array, Array], dict[int, str]]:
        """Convert both rows to the types of the columns. Return also the reasons, by event, for values that cannot be
        converted.
        """
        before, reasons = self.reader.converted(self.before)
        after, more = self.reader.converted(self.after)
        return (before, after), {**reasons, **more}


def _event_reader(schema: AvroSchema) -> _Reader:
    """Return the reader of events. Raises ValueError for any other schema."""
    fields = {str(f["name"]): f["type"] for f in schema.fields(schema.root)}
    for name, kind in (("op", "string"), ("source", "record")):
        if name not in fields or schema.type_of(fields[name]) != kind:
            raise ValueError(f"{NO_EVENT}its schema has no {name!r} that is a {kind}{OWN_TOPIC}")
    rows = [schema.fields(fields[name]) for name in ("after", "before") if name in fields]
    types = _types_of(schema, next((found for found in rows if found), []))
    return _Reader(columns=Columns(schema, _WANTED), types=types)


def _key_reader(schema: AvroSchema) -> _Reader:
    return _Reader(columns=Columns(schema), types=_types_of(schema, schema.fields(schema.root)))


def _types_of(schema: AvroSchema, fields: Sequence[Mapping[str, Any]]) -> dict[str, ConnectType]:
    names = [str(field["name"]) for field in fields]
    kinds = [schema.connect(field["type"]) for field in fields]
    return {name: column_type(kind, name, binary=True) for name, kind in zip(names, kinds, strict=True)}


def _parts(reader: _Reader, index: Indices, events: Array, bad: list[BadMessage]) -> list[_Part]:
    """Split the events of one schema by table; usually they are all of one table."""
    tables = _tables(events)
    op = _field(events, "op")
    kinds = kinds_of(op)
    # Logical messages of PostgreSQL are about no table.
    nameless = ~of_kind(kinds, "m")
    for numbers in tables.values():
        nameless[numbers] = False
    bad += [
        BadMessage(int(index[i]), f'{NO_EVENT}its "source" names no table{OWN_TOPIC}') for i in np.flatnonzero(nameless)
    ]
    rows = [_field(events, "before"), _field(events, "after")]
    kind = next((each.type for each in reversed(rows) if isinstance(each.type, pa.StructType)), pa.struct([]))
    before, after = (each if each.type == kind else pa.nulls(len(each), kind) for each in rows)
    connectors = _field(_field(events, "source"), "connector")
    return [
        _Part(
            source=table,
            index=index[numbers],
            op=_chosen(op, numbers),
            kinds=kinds[numbers],
            before=_chosen(before, numbers),
            after=_chosen(after, numbers),
            reader=reader,
            connectors=_chosen(connectors, numbers),
        )
        for table, numbers in tables.items()
    ]


def _tables(events: Array) -> Mapping[SourceTable, Indices]:
    """Return the events of each table."""
    names: dict[str, Any] = {name: _field(_field(events, "source"), name) for name in _NAMES}
    texts = {n: pa.nulls(len(events), pa.string()) if c.type != pa.string() else c for n, c in names.items()}
    return by_table(pc.coalesce(texts["schema"], texts["db"]), texts["table"], servers=texts["name"])


def _with_nothing(rows: Any, places: Indices) -> Array:
    """Return rows in which null rows at some places are replaced by rows without any value."""
    null = rows.is_null().to_numpy(zero_copy_only=False)
    null[places] = False
    found: Array = pa.StructArray.from_arrays(rows.flatten(), fields=list(rows.type), mask=pa.array(null))
    return found


def _chosen(column: Array, numbers: Indices) -> Array:
    return column if len(numbers) == len(column) else taken(column, numbers)


def _field(rows: Any, name: str) -> Array:
    """Return a field of each row, null where they lack it."""
    if rows.type.get_field_index(name) < 0:
        return pa.nulls(len(rows))
    found: Array = pc.struct_field(rows, name)
    return found


def _as_rows(columns: Any, kind: pa.DataType) -> "Array | None":
    """Return some columns of rows as rows of that type; None if they are no columns of it."""
    given = {field.name for field in columns.type}
    fields = list(kind) if isinstance(kind, pa.StructType) else []
    if not given or not given <= {field.name for field in fields}:
        return None
    try:
        parts: list[Any] = [_field(columns, field.name).cast(field.type) for field in fields]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    rows: Array = pa.StructArray.from_arrays(parts, fields=fields)
    return rows
