"""Debezium's change events as JSON, with or without the schema of Kafka Connect around them.

    {"before": null, "after": {"id": 1, …}, "source": {"db": "shop", "schema": "public", "table": "orders", …},
     "op": "c", …}
    {"schema": {…}, "payload": {"before": …, …}}

`op` is c (created), r (read by the initial snapshot), u (updated), d (deleted), t (truncated), m (a logical message of
PostgreSQL, which is skipped). A message without a value (a tombstone, which follows a deletion) is skipped as well.
With the schema the columns have its types (`connect_json`), without it they are guessed. The message's key names the
primary key. It replaces the row before a deletion if that row is missing.

Source: Debezium's documentation, "Data change events" of its connectors.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import (
    NOT_SENT_BEFORE,
    BadMessage,
    DecodedMessages,
    RefusedTable,
    RowChanges,
    SentRows,
    SourceTable,
    TableTruncation,
    UnsentRows,
)
from interbed.ingest.flow.messages import Messages
from interbed.ingest.formats.arrays import (
    Array,
    Indices,
    Mask,
    changed_rows,
    converted_columns,
    kept,
    mask_of,
    one_array,
    taken,
    valid,
)
from interbed.ingest.formats.by_table import Headers, JsonKeys, by_table, read_headers
from interbed.ingest.formats.connect_json import ConnectType, EnvelopeReader, column_type, connect_type
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
from interbed.ingest.formats.json_objects import JsonShape, json_text, parsed_object, sent_rows
from interbed.ingest.formats.lacking_columns import LACKING, LEFT_OUT, JsonRows, LackingColumns, UnavailableValue
from interbed.storage.base.errors import NotSupportedError

_SPELLED = r'"(NaN|-?Infinity)"'
_SOURCE = pa.struct([pa.field(name, pa.string()) for name in ("db", "schema", "table", "name")])
_HEADER = pa.schema([pa.field("source", _SOURCE), pa.field("op", pa.string())])
_NO_TABLE = f'{NO_EVENT}its "source" names no table{OWN_TOPIC}'


@dataclass(frozen=True, slots=True)
class _Events:
    """The types of events of a schema; `spelled` are those of events with NaN or an infinite number in them."""

    shape: JsonShape
    columns: Mapping[str, ConnectType]
    spelled: "_Events | None" = None


class DebeziumJson:
    """Decoder of Debezium's JSON; see the module. Not for use by several threads."""

    def __init__(self, unavailable: UnavailableValue | None = None) -> None:
        """`unavailable` is the connector's placeholder for values that the database did not send."""
        self._unavailable = unavailable or UnavailableValue()
        self._lacking = LackingColumns("after")
        self._envelopes = EnvelopeReader(_events_of)
        self._shapes: dict[SourceTable, JsonShape] = {}
        self._keys = JsonKeys()
        self._sent_before = SentBefore()

    def decode(self, messages: Messages) -> DecodedMessages:
        """Decode events; see Decoder. Tables are refused if their schema has a type that becomes no column."""
        bad: list[BadMessage] = []
        index, texts = events_of(messages)
        parts: list[_Part] = []
        refused: list[RefusedTable] = []
        for events, numbers, payloads in self._envelopes.opened(index, texts, bad):
            if events is None:
                parts += self._guessed(numbers, payloads, bad)
            elif isinstance(events, str):
                refused += [RefusedTable(table, events) for table in _tables(read_headers(payloads, _HEADER))]
            else:
                parts += _stated(events, numbers, payloads, bad)
        truncations = [
            TableTruncation(index=int(i), source=part.source) for part in parts for i in part.index[part.ops("t")]
        ]
        if truncations:
            first = min(truncations, key=lambda t: t.index)
            before = self.decode(messages.slice(0, first.index))
            return replace(before, truncation=first)
        # A table may change its schema, and change back to an earlier one.
        changes = [
            found
            for part in in_topic_order(parts)
            for found in part.changes(messages, self._keys, self._unavailable, self._lacking, self._sent_before, bad)
        ]
        return DecodedMessages(changes=changes, bad=sorted(bad, key=lambda b: b.index), refused=refused)

    def _guessed(self, index: Indices, texts: Array, bad: list[BadMessage]) -> "list[_Part]":
        """Split the events without a schema by table; tables must not get columns of each other."""
        if len(self._shapes) == 1 and (part := self._of_one_table(index, texts)) is not None:
            return [part]
        headers = read_headers(texts, _HEADER)
        bad += [BadMessage(int(index[b.index]), b.reason) for b in headers.bad]
        parts = []
        for source, numbers in _tables(headers).items():
            shape = self._shapes.setdefault(source, JsonShape(alike=("before", "after")))
            these = texts if len(numbers) == len(texts) else taken(texts, numbers)
            parts.append(_Part.read(shape, {}, source, index[numbers], these, bad))
        named = valid(headers.column("source", "table"))
        # Logical messages of PostgreSQL are about no table.
        passed = headers.column("op").to_numpy(zero_copy_only=False) == "m"
        bad += [BadMessage(int(index[i]), _NO_TABLE) for i in headers.index[~named & ~passed]]
        return parts

    def _of_one_table(self, index: Indices, texts: Array) -> "_Part | None":
        """Return the events, if all are of the only table so far and have nothing new; otherwise None."""
        [(table, shape)] = self._shapes.items()
        rows: pa.Table | None = shape.read_known(texts)
        if rows is None:
            return None
        part = _Part.of(table, index, texts, rows, shape, {})
        tables = part.tables()
        return part if list(tables) == [table] and len(tables[table]) == len(texts) else None


def _events_of(schema: Mapping[str, Any]) -> "_Events | str":
    """Return the types of events of a schema, or the reason why no table can have it."""
    try:
        return replace(_read_by(schema, spelled=False), spelled=_read_by(schema, spelled=True))
    except NotSupportedError as error:
        return str(error)


def _read_by(schema: Mapping[str, Any], *, spelled: bool) -> _Events:
    whole = connect_type(schema, spelled=spelled)
    rows: Mapping[str, Any] = next((f for f in schema.get("fields") or () if f.get("field") == "after"), {})
    columns = {str(f["field"]): column_type(f, str(f["field"]), spelled=spelled) for f in rows.get("fields") or ()}
    fields = list(whole.wire) if isinstance(whole.wire, pa.StructType) else []
    return _Events(JsonShape(pa.schema(fields), stated=True), columns)


def _stated(events: _Events, index: Indices, texts: Array, bad: list[BadMessage]) -> "list[_Part]":
    """Split the events of one schema by table; usually they are all of one table."""
    if events.spelled is not None:
        spelled = mask_of(pc.match_substring_regex(texts, _SPELLED))
        if spelled.any():
            rest = _stated(replace(events, spelled=None), index[~spelled], kept(texts, ~spelled), bad)
            return [*rest, *_stated(events.spelled, index[spelled], kept(texts, spelled), bad)]
    everything = _Part.read(events.shape, events.columns, SourceTable("", ""), index, texts, bad)
    found = everything.tables()
    nameless = ~everything.ops("m")
    for numbers in found.values():
        nameless[numbers] = False
    bad += [BadMessage(int(i), _NO_TABLE) for i in everything.index[nameless]]
    if len(found) == 1 and len(next(iter(found.values()))) == len(everything.index):
        return [replace(everything, source=next(iter(found)))]
    return [everything.taken(numbers, table) for table, numbers in found.items()]


def _tables(headers: Headers) -> Mapping[SourceTable, Indices]:
    databases: Any = pc.coalesce(headers.column("source", "schema"), headers.column("source", "db"))
    servers = headers.column("source", "name")
    return by_table(databases, headers.column("source", "table"), headers.index, servers=servers)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Events of one table that were read together. `index` holds the numbers of their messages."""

    source: SourceTable
    index: Indices
    kinds: Kinds
    texts: Array
    rows: pa.Table
    shape: JsonShape
    types: Mapping[str, ConnectType]
    rewritten: Mask | None = None
    """Events in which a value became a text; see ReadObjects."""

    @staticmethod
    def of(
        source: SourceTable,
        index: Indices,
        texts: Array,
        rows: pa.Table,
        shape: JsonShape,
        types: Mapping[str, ConnectType],
    ) -> "_Part":
        """Return the events in rows of a shape."""
        kinds = kinds_of(_field(rows, "op"))
        return _Part(source=source, index=index, kinds=kinds, texts=texts, rows=rows, shape=shape, types=types)

    @staticmethod
    def read(
        shape: JsonShape,
        types: Mapping[str, ConnectType],
        source: SourceTable,
        index: Indices,
        texts: Array,
        bad: list[BadMessage],
    ) -> "_Part":
        """Read the texts of events, which have the numbers `index`."""
        read = shape.read(texts)
        bad += [BadMessage(int(index[b.index]), b.reason) for b in read.bad]
        texts = texts if len(read.index) == len(texts) else taken(texts, read.index)
        part = _Part.of(source, index[read.index], texts, read.rows, shape, types)
        return part if read.rewritten is None else replace(part, rewritten=read.rewritten)

    def taken(self, numbers: Indices, source: SourceTable) -> "_Part":
        """Return some of the events, as those of a table."""
        return replace(
            self,
            source=source,
            index=self.index[numbers],
            kinds=self.kinds[numbers],
            texts=taken(self.texts, numbers),
            rows=taken(self.rows, numbers),
            rewritten=None if self.rewritten is None else self.rewritten[numbers],
        )

    def column(self, name: str) -> Array:
        """Return a field of the events, null where they lack it."""
        return _field(self.rows, name)

    def tables(self) -> Mapping[SourceTable, Indices]:
        """Return the events of each table."""
        source = self.column("source")
        names = {f.name for f in source.type} if isinstance(source.type, pa.StructType) else set()
        parts: list[Any] = [
            pc.struct_field(source, name) if name in names else pa.nulls(len(source), pa.string())
            for name in ("schema", "db", "table", "name")
        ]
        # Ignore the name of a server if it is of another type.
        servers = parts[3] if pa.types.is_string(parts[3].type) else None
        return by_table(pc.coalesce(parts[0], parts[1]), parts[2], servers=servers)

    def connectors(self) -> Array:
        """Return the names of the connectors, null for events without one."""
        source: Any = self.column("source")
        if not isinstance(source.type, pa.StructType) or source.type.get_field_index("connector") < 0:
            return pa.nulls(len(source))
        found: Array = pc.struct_field(source, "connector")
        return found

    def ops(self, *wanted: str) -> Mask:
        """Return which of the events are of one of these kinds."""
        return of_kind(self.kinds, *wanted)

    def changes(
        self,
        messages: Messages,
        declared: JsonKeys,
        unavailable: UnavailableValue,
        lacking: LackingColumns,
        rows_before: SentBefore,
        bad: list[BadMessage],
    ) -> list[RowChanges]:
        """Return the rows of the events among the messages, by the key that they declare."""
        keys = messages.keys
        complete = self._with_keys_of_deletions(keys)
        before, after = complete.column("before"), complete.column("after")
        row = next((t for t in (after.type, before.type) if isinstance(t, pa.StructType)), None)
        inserted, updated, deleted = complete.ops("c", "r"), complete.ops("u"), complete.ops("d")
        reasons = invalid_events(complete.column("op"), complete.kinds, before, after)
        unsent: dict[str, UnsentRows] = {}
        may_lack: Mapping[str | None, UnsentRows] = {}
        from_before: dict[str, Mask] = {}
        sent_before: Any = before
        if row is None:
            before = after = pa.nulls(len(complete.index), pa.struct([]))
        else:
            before, after = (a if isinstance(a.type, pa.StructType) else pa.nulls(len(a), row) for a in (before, after))
            before, after, unsent, may_lack = complete._without_unsent(
                before,
                after,
                unavailable,
                lacking,
                rekeyed=messages.rekeyed_mask()[complete.index],
                from_before=from_before,
            )
            sent_before = before
            (before, after), more = complete._converted(before, after)
            reasons = {**more, **reasons}
        bad += [BadMessage(int(complete.index[i]), reason) for i, reason in reasons.items()]
        good = np.ones(len(complete.index), bool)
        good[list(reasons)] = False
        good &= inserted | updated | deleted
        if not good.any() or row is None:
            return []
        index = complete.index[good]
        keys_of_events = declared.of(self.source, taken(keys, index))
        unsent_before = rows_before.unsent(
            EventRows(
                source=self.source,
                before=kept(sent_before, good),
                updated=updated[good],
                deleted=deleted[good],
                keys=keys_of_events,
                types=self.types,
                connectors=kept(complete.connectors(), good),
            )
        )
        for name, where in complete.lacking_before(sent_before, deleted & good).items():
            known = unsent_before.get(name)
            unsent_before[name] = UnsentRows(where[good] | (False if known is None else known.rows), NOT_SENT_BEFORE)
        rows, kinds, events = changed_rows(
            kept(before, good),
            kept(after, good),
            inserted=inserted[good],
            updated=updated[good],
            deleted=deleted[good],
        )
        changes = RowChanges(
            source=self.source,
            rows=rows,
            kinds=kinds,
            messages=index[events],
            stated=frozenset(self.types),
            unsent={name: each.where(good).at(events) for name, each in unsent.items()},
            may_lack={name: each.where(good).at(events) for name, each in may_lack.items()},
            unsent_before=at_rows_before(unsent_before, events, kinds),
            sent=None if self.types else complete.sent(np.flatnonzero(good)[events], kinds, from_before),
        )
        return keys_of_events.part(changes, events)

    def sent(self, owner: Indices, kinds: npt.NDArray[np.int8], from_before: Mapping[str, Mask]) -> SentRows:
        """Return the rows of events as the messages have them. Values that are `from_before` are those of the row
        before.
        """

        def value(event: Mapping[str, Any], name: str, is_before: bool, number: int) -> Any:
            is_old = is_before or (name in from_before and bool(from_before[name][number]))
            return (event["before" if is_old else "after"] or {}).get(name)

        return sent_rows(self.texts, owner, kinds, value, self.rewritten)

    def lacking_before(self, before: Any, deleted: Mask) -> Mapping[str, Mask]:
        """Return the columns that the row before a deletion does not mention, if there is no schema that names them."""
        if self.types:
            return {}
        columns = {field.name: column for field, column in zip(before.type, before.flatten(), strict=True)}
        none = np.zeros(len(deleted), bool)
        rows = JsonRows(
            source=self.source,
            texts=self.texts,
            owner=np.arange(len(self.index)),
            columns=columns,
            inserted=none,
            updated=none,
        )
        return LackingColumns("before").before_deletions(rows, deleted)

    def _without_unsent(
        self,
        before: Any,
        after: Any,
        unavailable: UnavailableValue,
        lacking: LackingColumns,
        *,
        rekeyed: Mask,
        from_before: dict[str, Mask],
    ) -> tuple[Any, Any, dict[str, UnsentRows], Mapping[str | None, UnsentRows]]:
        """Return both rows with nulls for values that updates lack, these values, and the updates that may lack others.

        `from_before` gets, by column, the updates whose value is taken from the row before.
        """
        updated = self.ops("u") & valid(after)
        types = {name: each.type for name, each in self.types.items()} or None
        leaving = may_leave_out(self.kinds, rekeyed) & valid(after)
        before, after, absent = unavailable.resolved(before, after, types, updated=leaving, from_before=from_before)
        unsent = {name: UnsentRows(rows, LEFT_OUT) for name, rows in absent.items()}
        if self.types:
            return before, after, unsent, {}
        names = [field.name for field in after.type]
        columns = dict(zip(names, after.flatten(), strict=True))
        rows = JsonRows(
            source=self.source,
            texts=self.texts,
            owner=np.arange(len(self.index)),
            columns=columns,
            inserted=self.ops("c", "r") & valid(after),
            updated=updated,
        )
        found = lacking.of(rows)
        befores = dict(zip(names, before.flatten(), strict=True))
        lacked = found.names
        none = np.zeros(len(self.index), bool)
        for name in (name for name in names if name in lacked):
            sure, perhaps = (each.get(name, none) for each in (found.columns, found.may_lack))
            known = valid(befores[name]) & ~absent.get(name, none)
            from_before[name] = from_before.get(name, False) | ((sure | perhaps) & known)
            columns[name] = pc.if_else(pa.array((sure | perhaps) & known), befores[name], columns[name])
            if (sure & ~known).any():
                unsent[name] = UnsentRows(sure & ~known | absent.get(name, False), LACKING)
        if lacked:
            after = pa.StructArray.from_arrays(list(columns.values()), names, mask=after.is_null())
        found = found.without({name: valid(befores[name]) for name in lacked})
        return before, after, unsent, found.may_lack_at(rows.owner)

    def _converted(self, before: Array, after: Array) -> tuple[tuple[Array, Array], dict[int, str]]:
        """Convert both rows to the types of the columns."""
        if all(t.convert is None for t in self.types.values()):
            return (before, after), {}
        names = [field.name for field in after.type]
        convert = [self.types[name].converted for name in names]
        types = [self.types[name].type for name in names]
        reasons: dict[int, str] = {}
        made = []
        for rows in (before, after):
            whole: Any = rows
            columns, more = converted_columns(whole.flatten(), convert, names, types)
            reasons |= more
            made.append(pa.StructArray.from_arrays(columns, names, mask=whole.is_null()))
        return (made[0], made[1]), reasons

    def _with_keys_of_deletions(self, keys: Array) -> "_Part":
        """Return the same with the message's key as the row before a deletion that has none."""
        lacking = np.flatnonzero(self.ops("d") & ~valid(self.column("before")))
        if not len(lacking):
            return self
        texts: list[Any] = self.texts.to_pylist()
        # Most connectors send the row, or its key as the row, so this is rare.
        for i in lacking:
            key = _key_of(keys[int(self.index[i])].as_py())
            if key:
                texts[i] = json_text({**parsed_object(texts[i]), "before": key}).encode()
        return _Part.read(self.shape, self.types, self.source, self.index, pa.array(texts, pa.binary()), [])


def _field(rows: pa.Table, name: str) -> Array:
    return one_array(rows.column(name)) if name in rows.schema.names else pa.nulls(rows.num_rows)


def _key_of(key: bytes | None) -> dict[str, Any]:
    """Return the columns of a message's key; empty if it is no object."""
    try:
        value = parsed_object(key or b"")
    except ValueError:
        return {}
    payload = value.get("payload")
    return payload if isinstance(payload, dict) and set(value) == {"schema", "payload"} else value
