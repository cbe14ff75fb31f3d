"""Events of Debezium, whether they are JSON or Avro: their kinds, and columns that the row before a change lacks.

With PostgreSQL's default replica identity, the row before an update is missing, and the row before a deletion has the
columns of the key only. The other columns are null or, if they are NOT NULL, have their default, zero, or an empty
text; nothing in an event says so. A row before a change is taken for complete

- if it has another value in a column outside of the key;
- if the latest update of its table that shows it was sent with such a row;
- if the connector is of a database that logs complete rows.

Without a schema the defaults are not known. Then such a value does not count after an update that was sent without the
row before it. Source: Debezium's documentation, "Replica identity" of the PostgreSQL connector, and its
`JdbcValueConverters`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import NOT_SENT_BEFORE, SourceTable, UnsentRows, turns_of
from interbed.ingest.flow.messages import Messages
from interbed.ingest.formats.arrays import Array, Indices, Mask, kept, mask_of, taken, true_of, valid
from interbed.ingest.formats.by_table import DeclaredKeys
from interbed.ingest.formats.connect_json import ConnectType
from interbed.storage.base.row.kind import RowKind

Kinds: TypeAlias = npt.NDArray[np.int8]

NO_EVENT = "it is no event of Debezium: "
OWN_TOPIC = (
    ". Debezium's own topics (schema changes, transactions, heartbeats) have such messages: let the pattern of topics "
    "match those of tables alone"
)
_KINDS = ("c", "r", "u", "d", "m", "t")


def events_of(messages: Messages) -> tuple[Indices, Array]:
    """Return the messages that have a value, with their numbers."""
    there = valid(messages.values)
    return np.flatnonzero(there), kept(messages.values, there)


def kinds_of(op: Array) -> Kinds:
    """Return the kind of each event, by its place among all kinds; -1 for any other value."""
    if not pa.types.is_string(op.type):
        return np.full(len(op), -1, np.int8)
    places: Any = pc.index_in(op, value_set=pa.array(_KINDS, pa.string()))
    found: Kinds = places.fill_null(-1).to_numpy().astype(np.int8)
    return found


def of_kind(kinds: Kinds, *wanted: str) -> Mask:
    """Return which of the events are of one of these kinds."""
    found = np.zeros(len(kinds), bool)
    for kind in wanted:
        found |= kinds == _KINDS.index(kind)
    return found


def may_leave_out(kinds: Kinds, rekeyed: Mask) -> Mask:
    """Return which events may leave out values: updates, and insertions that are the second part of an update of a key.

    `rekeyed` has an entry for each event; see Messages.
    """
    return of_kind(kinds, "u") | (of_kind(kinds, "c") & rekeyed)


class EventPart(Protocol):
    """Events of one table that were read together, with the numbers of their messages in order."""

    @property
    def source(self) -> SourceTable: ...

    @property
    def index(self) -> Indices: ...

    def taken(self, numbers: Indices, source: SourceTable) -> Self:
        """Return some of the events, as those of a table."""
        ...


Part = TypeVar("Part", bound=EventPart)


def in_topic_order(parts: Sequence[Part]) -> list[Part]:
    """Return the parts with the events of each table in the order of their messages.

    What a decoder learns from an event holds for later events, so that parts of one table that alternate are split.
    """
    of_tables: dict[SourceTable, list[Part]] = {}
    for part in parts:
        of_tables.setdefault(part.source, []).append(part)
    found: list[Part] = []
    for source, several in of_tables.items():
        if len(several) == 1:
            found += several
            continue
        found += [several[number].taken(places, source) for number, places in turns_of([p.index for p in several])]
    return found


def invalid_events(op: Array, kinds: Kinds, before: Array, after: Array) -> dict[int, str]:
    """Return why events are invalid, by their place. A deletion without its row has the message's key as the row
    before.
    """
    reasons: dict[int, str] = {}
    for i in np.flatnonzero(kinds < 0):
        kind = op[int(i)].as_py()
        reasons[int(i)] = f'{NO_EVENT}its "op" is {kind!r}{OWN_TOPIC if kind is None else ""}'
    for i in np.flatnonzero(of_kind(kinds, "c", "r", "u") & ~valid(after)):
        reasons[int(i)] = 'it has no row in "after"'
    for i in np.flatnonzero(of_kind(kinds, "d") & ~valid(before)):
        reasons[int(i)] = 'it has no row in "before", and its key does not name the row'
    return reasons


_WHOLE = ("mysql", "mariadb", "sqlserver", "oracle", "db2")
_NOTHING = (
    r"^(\{\}|\[\]|1970-01-01([T ]00:00(:00(\.0*)?)?)?(Z|[+-]00(:?00)?)?|P0Y0M0DT0H0M[0.]+S|[0.:]*(Z|[+-][0:]+)?"
    r"|(AAAA)*(AA==|AAA=)|(AAAA)+)$"
)
"""Texts that may stand for an empty value, zero, or the beginning of 1970; the last patterns are zeros in base64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRows:
    """Events of one table that insert, update or delete a row, in order.

    `before` has the rows before them with the values of the messages (structs, null if there is none), `types` the
    stated types of the columns, empty if they are guessed. `connectors` are the names of the connectors, or null.
    """

    source: SourceTable
    before: Any
    updated: Mask
    deleted: Mask
    keys: DeclaredKeys
    types: Mapping[str, ConnectType]
    connectors: Array


class SentBefore:
    """Finds values that were not sent, and remembers for each table what its updates have shown. Not for several
    threads.
    """

    def __init__(self) -> None:
        self._shown: dict[SourceTable, int] = {}
        """1 if the latest update had the row before it, -1 if it had none."""

    def unsent(self, events: EventRows) -> dict[str, UnsentRows]:
        """Return the columns that the rows before events lack."""
        there = valid(events.before) & (events.updated | events.deleted)
        alone = events.updated & ~there
        if not there.any() or not isinstance(events.before.type, pa.StructType):
            self._note(events.source, np.where(alone, -1, 0))
            return {}
        doubtful = there & ~_is_one_of(events.connectors, _WHOLE)
        if not doubtful.any():
            return {}
        columns = _Columns(events)
        has_values = np.zeros(len(there), bool)
        keyless = np.zeros(len(there), bool)
        # A loop over keys; usually there is one.
        for number in np.unique(events.keys.numbers[doubtful]).tolist():
            key = events.keys.keys[number] or ()
            these = doubtful & (events.keys.numbers == number)
            if key:
                has_values |= columns.have_values(these, without=key)
            else:
                keyless |= these
        # Without a declared key, one of the values may be that of the key.
        if keyless.any():
            has_values |= columns.have_two_values(keyless & events.updated)
        shown = np.where(alone, -1, 0)
        shown[has_values & (events.updated | bool(events.types))] = 1
        shown = self._note(events.source, shown)
        is_whole = (shown > 0) | (has_values & (events.updated | (shown == 0)))
        lacking = doubtful & ~is_whole
        if not lacking.any():
            return {}
        found: dict[str, UnsentRows] = {}
        for name in columns.names:
            has_name = np.array([name in (key or ()) for key in events.keys.keys])[events.keys.numbers]
            where = lacking & ~has_name
            if (where & keyless).any():
                where &= ~(keyless & columns.has_value(name, where & keyless))
            if where.any():
                found[name] = UnsentRows(where, NOT_SENT_BEFORE)
        return found

    def _note(self, source: SourceTable, shown: Any) -> Any:
        """Return what is known at each event, by what events show (1, -1, or 0 for nothing) and by what was known
        before.
        """
        places = np.maximum.accumulate(np.where(shown != 0, np.arange(len(shown)), -1))
        known = np.where(places < 0, self._shown.get(source, 0), shown[np.maximum(places, 0)])
        if len(known):
            self._shown[source] = int(known[-1])
        return known


def at_rows_before(
    unsent: Mapping[str, UnsentRows], events: Indices, kinds: npt.NDArray[np.int8]
) -> dict[str, UnsentRows]:
    """Return the columns that rows before a change lack; `events` has the event of each row, `kinds` its RowKind."""
    is_before = (kinds == RowKind.UPDATE_BEFORE) | (kinds == RowKind.DELETE)
    return {name: UnsentRows(each.rows[events] & is_before, each.reason) for name, each in unsent.items()}


class _Columns:
    """The columns of rows, and where they have a value that was surely sent."""

    def __init__(self, events: EventRows) -> None:
        self.names = [field.name for field in events.before.type]
        self._columns = dict(zip(self.names, events.before.flatten(), strict=True))
        self._types = events.types

    def has_value(self, name: str, rows: Mask) -> Mask:
        """Return those of the rows with such a value in the column."""
        found = np.zeros(len(rows), bool)
        places = np.flatnonzero(rows & valid(self._columns[name]))
        if len(places):
            found[places] = ~_is_placeholder(taken(self._columns[name], places), self._types.get(name))
        return found

    def have_values(self, rows: Mask, *, without: Sequence[str]) -> Mask:
        """Return those of the rows with such a value in any column except these."""
        left = rows.copy()
        for name in self.names:
            if not left.any():
                break
            if name not in without:
                left &= ~self.has_value(name, left)
        found: Mask = rows & ~left
        return found

    def have_two_values(self, rows: Mask) -> Mask:
        """Return those of the rows with such a value in two columns."""
        counts = sum((self.has_value(name, rows).astype(np.int64) for name in self.names), np.zeros(len(rows), int))
        found: Mask = counts > 1
        return found


def _is_placeholder(values: Any, kind: ConnectType | None) -> Mask:
    """Return which of the values, none of which is null, may stand for a value that was not sent."""
    found = np.zeros(len(values), bool)
    if kind is not None and kind.default is not None:
        found |= _is_default(values, kind.default)
    if kind is not None and kind.optional:
        return found
    return found | _is_nothing(values)


def _is_default(values: Any, default: Any) -> Mask:
    wanted = default.encode("latin-1", "replace") if pa.types.is_binary(values.type) else default
    try:
        return true_of(pc.equal(values, pa.scalar(wanted, values.type)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, TypeError):
        # The spelling of the default is not known.
        return np.ones(len(values), bool)


def _is_nothing(values: Any) -> Mask:
    kind = values.type
    if pa.types.is_string(kind):
        return true_of(pc.match_substring_regex(values, _NOTHING))
    if pa.types.is_binary(kind):
        return np.array([not value or not value.strip(b"\0") for value in values.to_pylist()])
    if pa.types.is_boolean(kind):
        return ~true_of(values)
    if pa.types.is_list(kind):
        lengths: Any = pc.list_value_length(values)
        is_empty: Mask = lengths.to_numpy(zero_copy_only=False) == 0
        return is_empty
    if isinstance(kind, pa.StructType):
        found = np.ones(len(values), bool)
        for part in values.flatten():
            found &= ~valid(part) | _is_nothing(part)
        return found
    if pa.types.is_null(kind):
        return np.ones(len(values), bool)
    zero: Any = pa.scalar(0, kind)
    return true_of(pc.equal(values, zero))


def _is_one_of(names: Array, wanted: Sequence[str]) -> Mask:
    if not pa.types.is_string(names.type):
        return np.zeros(len(names), bool)
    found: Any = pc.is_in(names, value_set=pa.array(wanted, pa.string()))
    return mask_of(found)
