"""The messages of pgoutput, PostgreSQL's plugin for logical replication, in version 1 of its protocol.

    R  relation, schema, name, replica identity, columns: each has flags (1: in the identity), name, type, modifier
    I  relation, N tuple                        an inserted row
    U  relation, [K tuple | O tuple], N tuple   an updated row, with its old key or its old row
    D  relation, K tuple | O tuple              a deleted row
    T  count, options, relations                truncated tables; `truncations_of` makes one message for each of them

A tuple is a count of columns and, for each column, n (null), u (a large value that did not change) or t, a length and
the value as text. Integers are big-endian, texts end with a zero byte. A row of a table's initial snapshot is no
message of PostgreSQL. It is put among them as a message of our own:

    #  relation, one row as COPY … (FORMAT csv) writes it

Rows are decoded column by column: a cursor for each row advances over all rows at once. The receiver of the messages
handles Begin and Commit. Source: PostgreSQL's documentation, "Logical Replication Message Formats".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from interbed.ingest.flow.changes import (
    BadMessage,
    DecodedMessages,
    RowChanges,
    SourceTable,
    TableTruncation,
    UnsentRows,
    in_order,
)
from interbed.ingest.flow.messages import Messages
from interbed.ingest.formats.arrays import (
    Array,
    Indices,
    Mask,
    buffer_of,
    changed_rows,
    converted_columns,
    kept,
    one_array,
)
from interbed.ingest.formats.postgres_types import ColumnType, TypeLookup, column_type
from interbed.storage.base.row.kind import RowKind

BEGIN, COMMIT, RELATION, INSERT, UPDATE, DELETE, TRUNCATE = b"BCRIUDT"


COPIED = ord("#")
"""A row of a table's initial snapshot, as COPY writes it."""


_KEY, _OLD, _NEW = b"KON"
_NULL, _UNCHANGED, _TEXT = b"nut"
_BODY = 5
"""The offset of a row: after the kind and the relation."""
_NOT_KNOWN = (
    "it leaves out the column {!r}, a large value that did not change (TOAST), so that the row is not known. Set "
    "REPLICA IDENTITY FULL for the table in PostgreSQL"
)
_KEY_ALONE = (
    "it does not say which value the column {!r} had before. Set REPLICA IDENTITY FULL for the table in PostgreSQL"
)
_NO_MESSAGE = "it is no message of pgoutput"

Bytes = npt.NDArray[np.uint8]


def relation_message(
    number: int, table: SourceTable, identity: bytes, columns: Sequence[tuple[str, bool, int, int]]
) -> bytes:
    """Return the message that describes a table. Each column has a name, a flag for the replica identity, a type and a
    modifier.
    """
    parts = [bytes([RELATION]), number.to_bytes(4, "big"), table.database.encode(), b"\0", table.name.encode(), b"\0"]
    parts += [identity, len(columns).to_bytes(2, "big")]
    for name, is_key, oid, modifier in columns:
        parts += [bytes([is_key]), name.encode(), b"\0", oid.to_bytes(4, "big")]
        parts.append(modifier.to_bytes(4, "big", signed=True))
    return b"".join(parts)


def copied_message(number: int, line: bytes) -> bytes:
    """Return the message of a row of a table's initial snapshot."""
    return b"#%b%b" % (number.to_bytes(4, "big"), line)


def truncations_of(message: bytes) -> list[bytes]:
    """Split a message about truncated tables into one message for each of them."""
    count = int.from_bytes(message[1:5], "big")
    head = message[:1] + (1).to_bytes(4, "big") + message[5:6]
    return [head + message[6 + 4 * i : 10 + 4 * i] for i in range(count)]


class SourceCatalog(TypeLookup, Protocol):
    """Lookups in the database's catalog of facts that messages lack."""

    def primary_key(self, relation: int) -> tuple[str, ...]:
        """Return the columns of the primary key of a table, in its order; empty if it has none, or is dropped."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One version of a table, as a message describes it: the columns of its rows, and those of its key."""

    id: int
    source: SourceTable
    names: Sequence[str]
    types: Sequence[ColumnType]
    key: tuple[str, ...]
    raw: bytes

    def nothing(self) -> RowChanges:
        """Return changes without rows, which show the columns."""
        columns: list[Any] = [pa.array([], t.type) for t in self.types]
        return self.changes(pa.table(columns, names=list(self.names)), np.empty(0, np.int8), np.empty(0, np.int64))

    def changes(self, rows: pa.Table, kinds: npt.NDArray[np.int8], messages: Indices) -> RowChanges:
        """Return changes of its rows."""
        return RowChanges(
            source=self.source,
            rows=rows,
            kinds=kinds,
            messages=messages,
            stated=frozenset(self.names),
            key=self.key,
            relation=str(self.id),
        )

    def converted(self, columns: Sequence[Array]) -> tuple[list[Array], dict[int, str]]:
        """Convert texts (binary) to the values of the columns. Return also the reasons, by row, for invalid texts."""
        types = [t.type for t in self.types]
        return converted_columns(columns, [_of_text(t) for t in self.types], self.names, types)


def _of_text(kind: ColumnType) -> Any:
    # The cast refuses invalid UTF-8.
    return lambda column: kind.convert(column.cast(pa.string()))


class PgOutput:
    """Decoder of pgoutput; see the module. Not for use by several threads."""

    def __init__(self, catalog: SourceCatalog) -> None:
        self._catalog = catalog
        self._relations: dict[int, Relation] = {}

    def decode(self, messages: Messages) -> DecodedMessages:
        """Decode messages; see Decoder. A relation is valid from its message on, also in later calls."""
        batch = _Batch.of(messages.values)
        end = len(messages)
        truncation = None
        if len(truncated := np.flatnonzero(batch.kinds == TRUNCATE)):
            end = int(truncated[0])
        bad: list[BadMessage] = []
        changes = self._changes(batch, end, bad)
        if len(truncated):
            relation = self._relations.get(_be32(batch.data, batch.starts[end : end + 1] + 1 + 4 + 1).item())
            truncation = TableTruncation(index=end, source=None if relation is None else relation.source)
        return DecodedMessages(changes=changes, bad=sorted(bad, key=lambda b: b.index), truncation=truncation)

    def _changes(self, batch: "_Batch", end: int, bad: list[BadMessage]) -> list[RowChanges]:
        """Return the changes of the messages before `end`."""
        kinds = batch.kinds[:end]
        versions: dict[int, list[tuple[int, Relation | None]]] = {}
        for i in np.flatnonzero(kinds == RELATION).tolist():
            raw = batch.message(i)
            number = int.from_bytes(raw[1:_BODY], "big")
            known = self._relations.get(number)
            if known is None or known.raw != raw:
                self._relations[number] = self._relation(raw)
                versions.setdefault(number, [(-1, known)]).append((i, self._relations[number]))
        is_row = np.isin(kinds, [INSERT, UPDATE, DELETE, COPIED])
        bad += [BadMessage(int(i), _NO_MESSAGE) for i in np.flatnonzero(~is_row & (kinds != RELATION))]
        rows = np.flatnonzero(is_row)
        numbers = _be32(batch.data, batch.starts[rows] + 1)
        found: list[RowChanges] = []
        # A loop over tables, and the versions of each.
        for number in dict.fromkeys(numbers.tolist()):
            of_table = rows[numbers == number]
            parts = versions.pop(number, None) or [(-1, self._relations.get(number))]
            cuts = np.searchsorted(of_table, [i for i, _ in parts]).tolist()
            for (_, relation), start, stop in zip(parts, cuts, [*cuts[1:], len(of_table)], strict=True):
                if start == stop:
                    continue
                these = of_table[start:stop]
                if relation is None:
                    bad += [BadMessage(int(i), "its table was not described before it") for i in these]
                elif kinds[these[0]] == COPIED:
                    found.append(_copied(batch, relation, these, bad))
                else:
                    found.append(_changed(batch, relation, these, bad))
        described = [relation.nothing() for several in versions.values() for _, relation in several[-1:] if relation]
        return [*described, *in_order(found)]

    def _relation(self, raw: bytes) -> Relation:
        """Return the table that a message describes."""
        schema, name, at = *_texts(raw, _BODY, 2), 0
        at = _BODY + len(schema) + len(name) + 2
        identity, count = raw[at : at + 1], int.from_bytes(raw[at + 1 : at + 3], "big")
        at += 3
        names, types, key = [], [], []
        for _ in range(count):
            [column] = _texts(raw, at + 1, 1)
            names.append(column.decode())
            if raw[at] & 1:
                key.append(names[-1])
            at += len(column) + 2
            oid, modifier = (
                int.from_bytes(raw[at : at + 4], "big"),
                int.from_bytes(raw[at + 4 : at + 8], "big", signed=True),
            )
            types.append(column_type(oid, modifier, self._catalog))
            at += 8
        number = int.from_bytes(raw[1:_BODY], "big")
        if identity not in b"di":
            # All columns are the replica identity, or there is none.
            key = [n for n in self._catalog.primary_key(number) if n in names]
        return Relation(
            id=number,
            source=SourceTable(schema.decode() or "pg_catalog", name.decode()),
            names=names,
            types=types,
            key=tuple(key),
            raw=raw,
        )


def _texts(raw: bytes, at: int, count: int) -> list[bytes]:
    return raw[at:].split(b"\0", count)[:count]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Messages as bytes one after the other; each begins at one of `starts` and ends at one of `ends`."""

    data: Bytes
    buffer: pa.Buffer
    starts: Indices
    ends: Indices

    @staticmethod
    def of(values: Array) -> "_Batch":
        whole: Any = values
        offsets: Any
        data: Any
        _, offsets, data = whole.buffers()
        bounds = np.frombuffer(offsets, np.int32)[whole.offset : whole.offset + len(whole) + 1].astype(np.int64)
        if data is None:
            data = pa.py_buffer(b"")
        return _Batch(np.frombuffer(data, np.uint8), data, bounds[:-1], bounds[1:])

    @property
    def kinds(self) -> Bytes:
        """The first byte of each message."""
        found: Bytes = self.data[self.starts]
        return found

    def message(self, index: int) -> bytes:
        """Return one of the messages."""
        return self.data[self.starts[index] : self.ends[index]].tobytes()


@dataclass(frozen=True, slots=True)
class _Tuples:
    """Values of rows, by column: the offset, the length and the kind of each value."""

    starts: list[Indices]
    lengths: list[Indices]
    kinds: list[Bytes]
    ends: Indices
    good: Mask

    @staticmethod
    def read(batch: _Batch, at: Indices, ends: Indices, count: int) -> "_Tuples":
        """Read the tuple of each row, of `count` columns, which begins at `at`; the cursors of all rows advance
        together.
        """
        data, last = batch.data, len(batch.data) - 1
        good = at + 2 <= ends
        at = np.where(good, at, ends)
        near = np.minimum(at, last - 1) if last else at * 0
        good = good & (((data[near].astype(np.int64) << 8) | data[np.minimum(near + 1, last)]) == count)
        at = at + 2
        starts, lengths, kinds = [], [], []
        for _ in range(count):
            kind = data[np.minimum(at, last)]
            is_text = kind == _TEXT
            good &= (at < ends) & (is_text | (kind == _NULL) | (kind == _UNCHANGED))
            length = np.where(is_text, _be32(data, np.minimum(at + 1, max(last - 3, 0))), 0)
            start = at + np.where(is_text, _BODY, 1)
            good &= start + length <= ends
            at = np.where(good, start + length, ends)
            starts.append(np.where(good, start, ends))
            lengths.append(np.where(good, length, 0))
            kinds.append(kind)
        return _Tuples(starts, lengths, kinds, at, good)


def _be32(data: Bytes, at: Indices) -> Indices:
    """Return the four bytes at each of the offsets as an unsigned integer."""
    if len(data) < 4:
        return np.zeros(len(at), np.int64)
    near = np.minimum(at, len(data) - 4)
    found = data[near].astype(np.int64)
    for i in range(1, 4):
        found = (found << 8) | data[near + i]
    return found


def _changed(batch: _Batch, relation: Relation, index: Indices, bad: list[BadMessage]) -> RowChanges:
    """Return changes of one version of a table, from the messages with these indices."""
    count = len(relation.names)
    kinds, ends = batch.kinds[index], batch.ends[index]
    at = batch.starts[index] + _BODY
    last = len(batch.data) - 1
    tag = batch.data[np.minimum(at, last)]
    has_old, has_new = np.isin(tag, [_KEY, _OLD]), kinds != DELETE
    good = (at < ends) & (has_old | (tag == _NEW)) & np.where(kinds == INSERT, ~has_old, has_old | has_new)
    olds = np.flatnonzero(has_old)
    old = _Tuples.read(batch, at[olds] + 1, ends[olds], count)
    at[olds] = old.ends
    good[olds] &= old.good & (has_new[olds] | (old.ends == ends[olds]))
    news = np.flatnonzero(has_new)
    good[news] &= batch.data[np.minimum(at[news], last)] == _NEW
    new = _Tuples.read(batch, at[news] + 1, ends[news], count)
    good[news] &= new.good & (new.ends == ends[news])
    bad += [BadMessage(int(i), _NO_MESSAGE) for i in index[~good]]
    unsent = _completed(relation, old, olds, new, news, tag == _OLD, good)
    has_key_alone = (tag == _KEY)[good]
    before = _values(batch, old, olds, good)
    after = _values(batch, new, news, good)
    index, kinds, has_old, has_new = index[good], kinds[good], has_old[good], has_new[good]
    unsent = {name: where[good] for name, where in unsent.items()}
    after_rows, reasons = _structs(relation, after, has_new)
    before_rows, more = _structs(relation, before, has_old)
    if reasons := {**more, **reasons}:
        bad += [BadMessage(int(index[i]), reason) for i, reason in reasons.items()]
        fine = np.ones(len(index), bool)
        fine[list(reasons)] = False
        index, kinds, after_rows, before_rows = (
            index[fine],
            kinds[fine],
            kept(after_rows, fine),
            kept(before_rows, fine),
        )
        unsent = {name: where[fine] for name, where in unsent.items()}
        has_key_alone = has_key_alone[fine]
    rows, row_kinds, messages = changed_rows(
        before_rows, after_rows, inserted=kinds == INSERT, updated=kinds == UPDATE, deleted=kinds == DELETE
    )
    changes = relation.changes(rows, row_kinds, index[messages])
    keys = UnsentRows(has_key_alone[messages] & np.isin(row_kinds, [RowKind.UPDATE_BEFORE, RowKind.DELETE]), _KEY_ALONE)
    return replace(
        changes,
        unsent={name: UnsentRows(where[messages], _NOT_KNOWN) for name, where in unsent.items()},
        unsent_before={name: keys for name in relation.names if name not in relation.key} if keys.rows.any() else {},
    )


def _completed(
    relation: Relation, old: _Tuples, olds: Indices, new: _Tuples, news: Indices, is_whole: Mask, good: Mask
) -> dict[str, Mask]:
    """Replace values that are left out because they did not change by the old values.

    Return, by column, the messages that have no old value.
    """
    unsent: dict[str, Mask] = {}
    for column, name in enumerate(relation.names):
        unchanged = np.flatnonzero((new.kinds[column] == _UNCHANGED) & good[news])
        if not len(unchanged):
            continue
        changes = news[unchanged]
        places = np.minimum(np.searchsorted(olds, changes), len(olds) - 1)
        has_old = np.zeros(len(changes), bool)
        if len(olds):
            then = old.kinds[column][places]
            # In an old key, null stands for a column that is not part of it.
            has_old = (olds[places] == changes) & ((then == _TEXT) | (is_whole[changes] & (then == _NULL)))
        for now, before in ((new.starts, old.starts), (new.lengths, old.lengths), (new.kinds, old.kinds)):
            now[column][unchanged[has_old]] = before[column][places[has_old]]
        if not has_old.all():
            unsent[name] = np.zeros(len(good), bool)
            unsent[name][changes[~has_old]] = True
    return unsent


def _values(batch: _Batch, tuples: _Tuples, rows: Indices, good: Mask) -> list[Array]:
    """Return the texts (binary) of each column of the good rows, null where they have no tuple or the value is null."""
    here = good[rows]
    # The place of the tuple of each good row.
    numbers = np.full(len(good), -1, np.int64)
    numbers[rows[here]] = np.arange(int(here.sum()))
    numbers = numbers[good]
    has_tuple = numbers >= 0
    found: list[Array] = []
    for starts, lengths, kinds in zip(tuples.starts, tuples.lengths, tuples.kinds, strict=True):
        if not here.all():
            starts, lengths, kinds = starts[here], lengths[here], kinds[here]
        if not len(starts):
            found.append(pa.nulls(len(numbers), pa.binary()))
            continue
        # The values lie in order in one buffer, so every other one of the ranges between these offsets is a value.
        bounds = np.empty(2 * len(starts), np.int32)
        bounds[0::2] = starts
        bounds[1::2] = starts + lengths
        stretches: Any = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, buffer_of(bounds), batch.buffer])
        there = has_tuple.copy()
        there[has_tuple] = kinds[numbers[has_tuple]] == _TEXT
        found.append(stretches.take(pa.array(2 * numbers, mask=~there)))
    return found


def _structs(relation: Relation, columns: Sequence[Array], there: Mask) -> tuple[Any, dict[int, str]]:
    """Return rows of the values of the columns, null where there is none, and the reasons, by row, for invalid
    values.
    """
    fields = [pa.field(n, t.type) for n, t in zip(relation.names, relation.types, strict=True)]
    if not there.any():
        return pa.nulls(len(there), pa.struct(fields)), {}
    values, reasons = relation.converted(columns)
    return pa.StructArray.from_arrays(values, fields=fields, mask=pa.array(~there)), reasons


def _copied(batch: _Batch, relation: Relation, index: Indices, bad: list[BadMessage]) -> RowChanges:
    """Return the rows of the table's initial snapshot."""
    bounds = np.empty(2 * len(index), np.int32)
    bounds[0::2] = batch.starts[index] + _BODY
    bounds[1::2] = batch.ends[index]
    stretches: Any = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, buffer_of(bounds), batch.buffer])
    lines = stretches.take(pa.array(np.arange(0, len(bounds), 2)))
    _, offsets, data = lines.buffers()
    size = int(np.frombuffer(offsets, np.int32)[len(lines)])
    places = [str(i) for i in range(len(relation.names))]
    text: Any = pa.BufferReader(data.slice(0, size))
    rows = csv.read_csv(
        text,
        read_options=csv.ReadOptions(column_names=places, use_threads=False, block_size=size + 1),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types={place: pa.binary() for place in places},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    values, reasons = relation.converted([one_array(rows.column(place)) for place in places])
    bad += [BadMessage(int(index[i]), reason) for i, reason in reasons.items()]
    fine = np.ones(len(index), bool)
    fine[list(reasons)] = False
    table = kept(pa.table(values, names=list(relation.names)), fine)
    return relation.changes(table, np.full(int(fine.sum()), RowKind.INSERT, np.int8), index[fine])
