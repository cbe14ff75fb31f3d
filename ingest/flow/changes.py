"""Changes of tables, by column, as decoders make them of messages; undecodable messages; identities of source tables.

Where types are guessed, `SentRows` gives the values as the messages have them: a message may hold more digits of a
number, or its text, than the guessed type does.

The identity of a source table shows that a table of the lake still follows the same rows of the same table. It is kept
beside the positions: in each snapshot of the table in the lake (`interbed.stream.source`) and with positions that are
written without rows, as JSON: {"topic": "yZQJ_7CtSxGOFW324gQ7iQ", "source tables": [{"name": "orders", "key": ["id"],
…}]}. No topic of Kafka has a blank in its name.
"""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.row.kind import RowKind

NOT_SENT_BEFORE = (
    "it does not say which value the column {!r} had before. Set REPLICA IDENTITY FULL for the table in PostgreSQL, or "
    "binlog_row_image = FULL in MySQL"
)
"""The reason why a row before a change is not known; see UnsentRows."""


@dataclass(frozen=True, slots=True, order=True)
class SourceTable:
    """A table as its source names it. `database` is empty where the format has one level of names only.

    `server` is the name that the source has for itself, empty where the format has none: tables of two servers are two
    tables, whatever their names.
    """

    database: str
    name: str
    server: str = ""

    def __str__(self) -> str:
        return f"{self.database}.{self.name}" if self.database else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesShape:
    """The columns of changes, the primary key as far as it is named, and whether rows are only inserted."""

    columns: pa.Schema
    key: tuple[str, ...]
    only_insertions: bool


@dataclass(frozen=True, slots=True)
class UnsentRows:
    """Rows for which the source did not send the value of a column; the value is null. `reason` says why the row is not
    known without the value.
    """

    rows: Mask
    reason: str

    def slice(self, start: int, end: int) -> "UnsentRows":
        """Return the same for the rows from `start` to before `end`."""
        return UnsentRows(self.rows[start:end], self.reason)

    def where(self, chosen: Mask) -> "UnsentRows":
        """Return the same for the chosen rows."""
        return UnsentRows(self.rows[chosen], self.reason)

    def at(self, places: "npt.NDArray[np.int64]") -> "UnsentRows":
        """Return the same for the rows at these places."""
        return UnsentRows(self.rows[places], self.reason)


Indices = npt.NDArray[np.int64]


class SentValues(Protocol):
    """The values of rows as their messages have them."""

    def value(self, row: int, name: str) -> Any:
        """Return the value of a column in a row; None if the message has none."""
        ...

    def texts(self, rows: Indices) -> "pa.Array[Any]":
        """Return the texts (binary) of the messages of rows."""
        ...

    def rewritten(self, rows: Indices) -> Mask:
        """Return the rows in which a value of another kind may have become a text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRows:
    """Rows of messages, by their numbers there. The columns `computed` have other values than the messages."""

    values: SentValues
    rows: Indices
    computed: frozenset[str] = frozenset()

    def slice(self, start: int, end: int) -> "SentRows":
        """Return the rows from `start` to before `end`."""
        return replace(self, rows=self.rows[start:end])

    def where(self, chosen: Mask) -> "SentRows":
        """Return the chosen rows."""
        return replace(self, rows=self.rows[chosen])

    def without(self, name: str) -> "SentRows":
        """Return the same rows with one more computed column."""
        return replace(self, computed=self.computed | {name})

    def value(self, row: int, name: str) -> Any:
        """Return the value of a column in the row at that place."""
        return self.values.value(int(self.rows[row]), name)

    def texts(self) -> "pa.Array[Any]":
        """Return the texts (binary) of the messages of the rows."""
        return self.values.texts(self.rows)

    def rewritten(self) -> Mask:
        """Return the rows in which a value of another kind may have become a text."""
        return self.values.rewritten(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChanges:
    """Changes of the rows of one table, in their order.

    `kinds` holds a RowKind for each row, `messages` the index of its message. An update is its row before
    (UPDATE_BEFORE), if the message has that, and its row after (UPDATE_AFTER), next to each other. A DELETE has at
    least the columns of the key; others may be null. `stated` are the columns whose type the message states. The types
    of other columns are guessed from how their values are written, so the table may have another type: a DECIMAL, a
    DATE. `key` are the columns of the primary key, which is the same for all of the messages: empty if there is no key,
    or None if the messages do not state one. `of_key` are columns that are computed from columns of the key. `relation`
    is the number that the source has for the table, if it has one.

    `unsent` are rows without the value of a column, by its name. `may_lack` are rows of updates that lack a column of
    which no message has had a value yet: if the table has a value, it was not sent. The name None is for each column
    that is not among the `rows`. `unsent_before` are rows before a change (UPDATE_BEFORE, DELETE) for which a column
    may have another value than the row at the source had: a value that was not sent is null or a default. `sent` are
    the rows as the messages have them, if types are guessed.
    """

    source: SourceTable | None
    rows: pa.Table
    kinds: npt.NDArray[np.int8]
    messages: npt.NDArray[np.int64]
    stated: frozenset[str] = frozenset()
    key: tuple[str, ...] | None = None
    of_key: frozenset[str] = frozenset()
    relation: str = ""
    unsent: Mapping[str, UnsentRows] = field(default_factory=dict)
    may_lack: Mapping[str | None, UnsentRows] = field(default_factory=dict)
    unsent_before: Mapping[str, UnsentRows] = field(default_factory=dict)
    sent: SentRows | None = None

    @property
    def shape(self) -> ChangesShape:
        """The properties of the changes that a new table depends on."""
        only = not (self.kinds != RowKind.INSERT).any()
        return ChangesShape(columns=self.rows.schema, key=self.key or (), only_insertions=only)

    def slice(self, start: int, end: int) -> "RowChanges":
        """Return the changes from `start` to before `end`."""
        return replace(
            self,
            rows=self.rows.slice(start, end - start),
            kinds=self.kinds[start:end],
            messages=self.messages[start:end],
            unsent={name: each.slice(start, end) for name, each in self.unsent.items()},
            may_lack={name: each.slice(start, end) for name, each in self.may_lack.items()},
            unsent_before={name: each.slice(start, end) for name, each in self.unsent_before.items()},
            sent=None if self.sent is None else self.sent.slice(start, end),
        )

    def where(self, chosen: "npt.NDArray[np.bool_]") -> "RowChanges":
        """Return the chosen changes."""
        return replace(
            self,
            rows=self.rows.filter(pa.array(chosen)),
            kinds=self.kinds[chosen],
            messages=self.messages[chosen],
            unsent={name: each.where(chosen) for name, each in self.unsent.items()},
            may_lack={name: each.where(chosen) for name, each in self.may_lack.items()},
            unsent_before={name: each.where(chosen) for name, each in self.unsent_before.items()},
            sent=None if self.sent is None else self.sent.where(chosen),
        )


def in_order(changes: Sequence[RowChanges]) -> list[RowChanges]:
    """Return the changes with those of each table in the order of their messages, split where several changes of one
    table alternate.
    """
    of_tables: dict[SourceTable | None, list[RowChanges]] = {}
    for each in changes:
        of_tables.setdefault(each.source, []).append(each)
    return [each for several in of_tables.values() for each in _by_turns(several)]


def _by_turns(changes: Sequence[RowChanges]) -> Sequence[RowChanges]:
    """Return the changes of one table in the order of their messages. Each element is in order, and elements share no
    messages.
    """
    if len(changes) < 2:
        return changes
    turns = turns_of([each.messages for each in changes])
    return [changes[number].slice(int(places[0]), int(places[-1]) + 1) for number, places in turns]


def turns_of(numbers: "Sequence[npt.NDArray[np.int64]]") -> "list[tuple[int, npt.NDArray[np.int64]]]":
    """Return the ordered message numbers of several parts, merged: the part of each turn, and the places in it."""
    merged = np.concatenate(numbers)
    order = np.argsort(merged, kind="stable")
    whose = np.repeat(np.arange(len(numbers)), [len(each) for each in numbers])[order]
    places = np.concatenate([np.arange(len(each)) for each in numbers])[order]
    starts = [0, *(np.flatnonzero(np.diff(whose)) + 1), len(whose)]
    return [(int(whose[start]), places[start:end]) for start, end in itertools.pairwise(starts) if start < end]


@dataclass(frozen=True, slots=True)
class BadMessage:
    """The index of a message that cannot be decoded, and the reason."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTruncation:
    """A message after which a table has no rows."""

    index: int
    source: SourceTable | None


@dataclass(frozen=True, slots=True)
class EndedName:
    """The name of a source table that, from a message on, is the name of another table or of none; `what` describes
    how.

    Without a `database` it is a table of any database, without a `name` any table of the database.
    """

    database: str | None
    name: str | None
    what: str

    def is_of(self, source: SourceTable) -> bool:
        """Return whether the source table has the name, ignoring case: servers may ignore the case of names."""
        return all(
            part is None or part.casefold() == other.casefold()
            for part, other in ((self.database, source.database), (self.name, source.name))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTables:
    """A message after which source tables of these names are other tables or none."""

    index: int
    names: Sequence[EndedName]


@dataclass(frozen=True, slots=True)
class RefusedTable:
    """A table whose messages have a schema that no table can have, and the reason."""

    source: SourceTable
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedMessages:
    """The result of decoding: changes in no order between tables; a table may occur several times, in order.

    Nothing of a bad message is among the changes. If tables are truncated or ended, the changes are those of the
    messages before the first such message, and either `truncation` or `ended` is that message. There are no changes of
    `refused` tables; these end the run unless they are skipped.
    """

    changes: Sequence[RowChanges] = ()
    bad: Sequence[BadMessage] = ()
    refused: Sequence[RefusedTable] = ()
    truncation: TableTruncation | None = None
    ended: EndedTables | None = None

    def before(self, last: TableTruncation | EndedTables) -> "DecodedMessages":
        """Return the same as the result for the messages before `last`."""
        return replace(self, truncation=last) if isinstance(last, TableTruncation) else replace(self, ended=last)

    @property
    def last(self) -> TableTruncation | EndedTables | None:
        """The message after which nothing was decoded; None if all messages were decoded."""
        return self.truncation or self.ended


_MEMBER = "source tables"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogIdentity:
    """A table in the catalog of its database.

    `relation` is the number of the table; another table of the same name has another number. `published` are the
    reasons why the table is published, each with its number: a table that leaves a publication and returns gets a new
    one. `attached` names the partition that was attached last with rows of its own; it is empty if there is none.
    `named` is the version of its name: a table that was renamed, or moved to another schema, and back has another one.
    """

    relation: str
    published: tuple[str, ...]
    attached: str = ""
    named: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceIdentity:
    """A source table, the primary key that it declares, and its identity in the catalog as far as that is known.

    The key is empty if the table has none, and None if messages do not state it.
    """

    source: SourceTable
    key: tuple[str, ...] | None
    relation: str = ""
    published: tuple[str, ...] = ()
    attached: str = ""
    named: str = ""

    def in_catalog(self, found: CatalogIdentity) -> "SourceIdentity":
        """Return the same table with its identity in the catalog."""
        return replace(
            self, relation=found.relation, published=found.published, attached=found.attached, named=found.named
        )

    def to_json(self) -> dict[str, Any]:
        """Return the identity as a JSON object, without empty members."""
        members = {**asdict(self.source), **{name: value for name, value in asdict(self).items() if name != "source"}}
        return {name: value for name, value in members.items() if value or (name == "key" and value is not None)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "SourceIdentity":
        """Decode the result of to_json. Raises TypeError and AttributeError for other values."""
        names = ("database", "name", "server", "relation", "attached", "named")
        text = {name: str(value.get(name, "")) for name in names}
        return SourceIdentity(
            source=SourceTable(text["database"], text["name"], text["server"]),
            key=tuple(map(str, value["key"])) if value.get("key") is not None else None,
            relation=text["relation"],
            published=tuple(map(str, value.get("published", ()))),
            attached=text["attached"],
            named=text["named"],
        )


def identity_of(changes: RowChanges) -> SourceIdentity:
    """Return the identity of the source table of changes. A table without a name has an empty name."""
    return SourceIdentity(source=changes.source or SourceTable("", ""), key=changes.key, relation=changes.relation)


def source_to_json(topic_ids: Mapping[str, str], identities: Iterable[SourceIdentity]) -> str | None:
    """Return the ids of topics and the identities of tables as one text; None if there are none."""
    tables = sorted((each.to_json() for each in identities), key=json.dumps)
    value: dict[str, Any] = dict(sorted(topic_ids.items()))
    if tables:
        value[_MEMBER] = tables
    return json.dumps(value) if value else None


def topic_ids_of(text: str | None) -> str | None:
    """Return the ids of topics in a text of source_to_json, as text. Any other text is returned unchanged."""
    try:
        value = _object(text)
    except ValueError:
        return text
    ids = {name: each for name, each in value.items() if name != _MEMBER}
    return json.dumps(ids) if ids else None


def identities_of(text: str | None, place: str) -> Sequence[SourceIdentity]:
    """Return the identities in a text of source_to_json. Raises CorruptFileError naming the place."""
    try:
        return [SourceIdentity.from_json(each) for each in _object(text).get(_MEMBER, ())]
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptFileError(
            f"{place} holds no identities of source tables: {error}: {(text or '')[:200]!r}"
        ) from error


def _object(text: str | None) -> dict[str, Any]:
    value = json.loads(text or "{}")
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    return value
