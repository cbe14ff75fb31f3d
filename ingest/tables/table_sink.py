"""One table that changes are written to: it is created, gets new columns, and its rows are committed with a position.

A batch whose rows need another schema waits until the rows of the old schema are committed. The files of a commit have
one schema, and the sequence numbers of its rows continue those of the committed rows.
"""

import logging
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import DatabaseNotFoundError, TableNotFoundError
from interbed.ingest.flow.changes import (
    BadMessage,
    ChangesShape,
    DecodedMessages,
    EndedTables,
    RowChanges,
    SourceTable,
    identities_of,
    identity_of,
    source_to_json,
    topic_ids_of,
)
from interbed.ingest.flow.messages import Messages, Positions, SourceChangedError
from interbed.ingest.formats.arrays import one_array, valid
from interbed.ingest.tables.change_fit import ChangeFit, fixed_columns, impossible_guesses, without_a_column
from interbed.ingest.tables.column_fit import known_type
from interbed.ingest.tables.computed_columns import ComputedColumn, with_computed
from interbed.ingest.tables.new_columns import growth_from_text, growth_to_text
from interbed.ingest.tables.source_tables import SourceTables, TableNames
from interbed.storage.base.errors import InvalidInputError, SchemaMismatchError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.types.data_type import DataType
from interbed.storage.commit.stream_commits import PositionedCommit
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.table.table import Table
from interbed.storage.upkeep.compact_table import compact_again
from interbed.storage.write.bucket_strategy import batch_strategy_of
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.table_write import TableWrite, overwriting

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """How tables are created, and which columns are computed.

    Without `primary_keys` a table has the key that messages name, or none.
    """

    primary_keys: Sequence[str] = ()
    partition_keys: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    computed: Sequence[ComputedColumn] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownColumns:
    """The columns of a table, with their types, and those that keep their first type."""

    types: Mapping[str, DataType]
    fixed: Collection[str]

    @staticmethod
    def of(schema: TableSchema) -> "KnownColumns":
        """Return the columns of a table."""
        return KnownColumns(types={f.name: f.type for f in schema.fields}, fixed=fixed_columns(schema))

    @staticmethod
    def of_new_table(settings: TableSettings, changes: RowChanges) -> "KnownColumns":
        """Return the columns of a table that will be created for changes."""
        keys = settings.primary_keys or changes.key or ()
        bucket_keys = CoreOptions(settings.options).bucket_key
        return KnownColumns(types={}, fixed={*keys, *settings.partition_keys, *bucket_keys})


class TableSink:
    """Writer of one existing table. Not for use by several threads."""

    def __init__(self, table: Table, group: str) -> None:
        """Raise CommitStateUnknownError if it is not known what the group has committed to the table."""
        self._table = table
        self._fit = ChangeFit(table)
        self._commit = PositionedCommit(table.store, group)
        self._group = group
        self.sources = SourceTables(
            table, identities_of(self._commit.source, f"The position of '{group}' in {table.name}")
        )
        """The source tables that it gets its rows from."""
        self._write: TableWrite | None = None
        self._is_emptied = False
        self._has_warned = False
        self.rows = 0
        """Rows written since the last commit."""

    @property
    def has_changes(self) -> bool:
        """Whether there is something to commit."""
        return bool(self.rows) or self._is_emptied

    @property
    def table(self) -> Table:
        """The table as it is written to."""
        return self._table

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns of the table."""
        return self._table.schema.names

    @property
    def name(self) -> str:
        """The name of the table: DATABASE.TABLE."""
        return self._table.name

    @property
    def positions(self) -> Positions | None:
        """The positions up to which the table has rows; None if the group has not committed to it."""
        text, name = self._commit.position, f"The position of '{self._group}' in {self.name}"
        return None if text is None else Positions.from_json(text, name, topic_ids_of(self._commit.source))

    @property
    def types_before(self) -> Mapping[str, DataType] | None:
        """The types of the columns at the position, if the table has got columns or wider types since; else None.

        It gets them before the rows that need them are committed. A killed run leaves it with them, and the next run
        reads the rows again.
        """
        before = self._growth()
        if not before:
            return None
        types = {**KnownColumns.of(self._table.schema).types, **before}
        return {name: kind for name, kind in types.items() if kind is not None}

    def _growth(self) -> dict[str, DataType | None]:
        return growth_from_text(self._commit.remark, f"The position of '{self._group}' in {self.name}")

    def lacking(self, changes: RowChanges) -> "Sequence[pa.Field[Any]]":
        """Return the columns that the table must get, or must have with a wider type, before it takes the rows."""
        return self._fit.lacking(changes)

    def follow(self, lacking: "Sequence[pa.Field[Any]]", source: SourceTable | None = None) -> None:
        """Add columns and wider types that the table lacks, for changes of `source`. There must be no uncommitted rows.

        Raises SchemaMismatchError for a type that the type of the column cannot be changed to.
        """
        self.close()
        if self._commit.position is not None:
            types = KnownColumns.of(self._table.schema).types
            before = {**{f.name: types.get(f.name) for f in lacking}, **self._growth()}
            self._commit.advance(self._commit.position, self._commit.source, remark=growth_to_text(before))
        try:
            self._table.merge_schema(pa.schema(lacking))
        except SchemaMismatchError as error:
            raise SchemaMismatchError(
                f"{error} These are changes of {source or 'messages'}. To read the other tables, exclude this one: "
                "--excluding-tables."
            ) from error
        _log.info("%s has new columns or wider types: %s.", self.name, ", ".join(f.name for f in lacking))

    def write(self, changes: RowChanges) -> list[BadMessage]:
        """Write the rows, except those of messages that the table cannot take, which are returned.

        Raises as TableWrite.write_arrow does; then rows written since the last commit are lost.
        """
        fit = self._fit.fit(changes)
        if fit.lacks_rows_before and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "The changelog of %s (changelog-producer = input) lacks the rows before updates, or values of deleted "
                "rows: %s does not send them. Set REPLICA IDENTITY FULL for the table in PostgreSQL, or let the table "
                "look them up (changelog-producer = lookup).",
                self.name,
                changes.source or "the source",
            )
        if len(fit.kinds):
            self._writer().write_arrow(fit.rows, pa.array(fit.kinds, pa.int8()))
            self.rows += len(fit.kinds)
        return list(fit.bad)

    def commit(self, positions: Positions) -> list[int]:
        """Commit the written rows with the positions after them. Return the ids of the snapshots. Raises as
        PositionedCommit does.
        """
        return self.publish(self._writer().prepare_commit(), positions)

    def publish(self, messages: Sequence[CommitMessage], positions: Positions) -> list[int]:
        """Commit files that this or other writers have prepared, with the positions after them."""
        commit = self._commit.overwrite if self._is_emptied else self._commit.commit
        furthest = self._furthest(positions)
        ids = commit(self._table.store, messages, furthest.to_json(), self._source_of(furthest))
        if self._is_emptied:
            self.close()
        self.rows = 0
        if self._commit.gave_up_compaction:
            compact_again(self._table.store)
        return ids

    def empty(self) -> None:
        """Delete all rows, including uncommitted ones: the next commit overwrites the table with the rows written after
        this.

        Like any overwrite, it has no changelog.
        """
        self.close()
        self._is_emptied = True

    def advance(self, positions: Positions) -> None:
        """Commit positions without rows for the table."""
        furthest = self._furthest(positions)
        self._commit.advance(furthest.to_json(), self._source_of(furthest))

    def begin(self, positions: Positions) -> None:
        """Record the position at which the table was created for rows after it."""
        remark = growth_to_text(dict.fromkeys(self.columns))
        self._commit.advance(positions.to_json(), self._source_of(positions), remark=remark)

    def close(self) -> None:
        """Discard the uncommitted rows, and close the writer."""
        self.rows = 0
        self._is_emptied = False
        if self._write is not None:
            self._write.close()
            self._write = None

    def _furthest(self, positions: Positions) -> Positions:
        """Return the positions, or those of the table where it is ahead, because messages are read again for other
        tables.
        """
        return positions.beyond(self.positions)

    def _source_of(self, positions: Positions) -> str | None:
        return source_to_json(positions.ids, self.sources.identities)

    def _writer(self) -> TableWrite:
        if self._write is None and self._is_emptied:
            self._write = overwriting(self._table.store, self._group, {}, strategy=batch_strategy_of)
        elif self._write is None:
            self._write = TableWrite(self._table.store, self._group, strategy=batch_strategy_of)
        return self._write


def open_sink(catalog: Catalog, name: str, group: str) -> TableSink | None:
    """Return the sink of a table; None if there is no such table."""
    try:
        return TableSink(catalog.get_table(name), group)
    except (DatabaseNotFoundError, TableNotFoundError):
        return None


def for_new_table(name: str, changes: RowChanges, settings: TableSettings) -> tuple[RowChanges, list[BadMessage]]:
    """Return the changes that a table can be created with, and the bad messages.

    A message is bad if it names no key for its rows, or has values that no column can have.
    """
    keys = settings.primary_keys or changes.key
    counts = changes.kinds != RowKind.UPDATE_BEFORE
    if not keys:
        reasons = {
            "it changes or deletes a row, and messages do not name its primary key. Give the primary "
            f"key, or create the table '{name}'": changes.kinds != RowKind.INSERT
        }
    else:
        reasons = {
            f"its column {key!r} of the primary key is null or missing, and the table '{name}' is to be created": (
                ~valid(one_array(changes.rows.column(key))) if key in changes.rows.column_names else counts
            )
            for key in keys
        }
    found: dict[int, str] = {}
    for reason, where in reasons.items():
        for index in changes.messages[where & counts].tolist():
            found.setdefault(index, reason)
    for row, reason in without_a_column(changes, ()).items():
        found.setdefault(int(changes.messages[row]), reason)
    if impossible := impossible_guesses(changes, ()):
        changes = replace(changes, rows=changes.rows.drop_columns(list(impossible)))
    if not found:
        return changes, []
    return changes.where(~np.isin(changes.messages, list(found))), [
        BadMessage(index, reason) for index, reason in sorted(found.items())
    ]


def create_sink(catalog: Catalog, name: str, settings: TableSettings, group: str, shape: ChangesShape) -> TableSink:
    """Return the sink of a new table for changes of that shape. The database is created if it is missing.

    Raises InvalidInputError if there is no primary key to find changed or deleted rows by, or the rows lack a column of
    it.
    """
    catalog.create_database(name.partition(".")[0], ignore_if_exists=True)
    keys = list(settings.primary_keys or shape.key)
    if not keys and not shape.only_insertions:
        raise InvalidInputError(
            f"The table '{name}' is to be created, and its messages do not name its primary key. Give "
            "the primary key, or create the table."
        )
    lacking = [n for n in (*keys, *settings.partition_keys) if n not in shape.columns.names]
    if lacking:
        raise InvalidInputError(
            f"The table '{name}' is to be created, and its messages lack the column {lacking[0]!r} of its key."
        )
    fields = [
        pa.field(f.name, kind, nullable=f.name not in keys)
        for f in shape.columns
        if (kind := known_type(f.type)) is not None
    ]
    table = catalog.create_table(
        name,
        pa.schema(fields),
        ignore_if_exists=True,
        primary_keys=keys,
        partition_keys=list(settings.partition_keys),
        options=dict(settings.options),
    )
    _log.info("Created the table %s.", name)
    return TableSink(table, group)


def first_rows(
    catalog: Catalog,
    name: str,
    decoded: DecodedMessages,
    settings: TableSettings,
    group: str,
    sink: TableSink | None,
    *,
    only: bool,
) -> tuple[TableSink, list[BadMessage]]:
    """Write initial rows to the table, which is created or gets the columns that it lacks. Return its sink, and the bad
    messages.

    `sink` is that of earlier rows, None for the first ones. With `only` the table may have rows of one source table
    only. Raises TypesChangedError if the table has got wider types, so that uncommitted rows are lost.
    """
    bad = list(decoded.bad)
    for changes in decoded.changes:
        if sink is None:
            sink = open_sink(catalog, name, group)
        changes, refused = with_computed(changes, settings.computed, () if sink is None else sink.columns)
        bad += refused
        if sink is None:
            sink = create_sink(catalog, name, settings, group, changes.shape)
        sink.sources.admit(
            identity_of(changes),
            f"the first state of {changes.source}",
            only=only,
            chosen_key=bool(settings.primary_keys),
        )
        if lacking := sink.lacking(changes):
            written = sink.rows
            sink.follow(lacking, changes.source)
            if written:
                raise TypesChangedError
        bad += sink.write(changes)
    if sink is None:
        raise InvalidInputError(f"The source does not state the columns of '{name}'.")
    return sink, bad


class TypesChangedError(Exception):
    """A table got wider types during its initial load: the uncommitted rows must be read again."""


def error_of_ended(
    ended: EndedTables, message: Messages, names: TableNames, sinks: Mapping[str, TableSink]
) -> SourceChangedError | None:
    """Return the error of the message if one of the tables has rows of a source table that it ends.

    A table that has read beyond the message is not affected.
    """
    for name, sink in sinks.items():
        if not (sink.positions or Positions()).new_in(message).all():
            continue
        error = sink.sources.ended_by(
            ended.names,
            message.place(0),
            wanted=lambda source, name=name: names.possible(source) == name,  # type: ignore[misc]
        )
        if error is not None:
            return error
    return None


def unread_sinks(
    catalog: Catalog, ended: EndedTables, names: TableNames, known: Container[str], group: str
) -> dict[str, TableSink]:
    """Open the tables that rows of ended source tables would go to, and that the group has not committed to yet."""
    found = {}
    for each in ended.names:
        name = names.possible(SourceTable(each.database or "", each.name or ""))
        sink = None if name is None or name in known else open_sink(catalog, name, group)
        if name is not None and sink is not None and sink.positions is None:
            found[name] = sink
    return found
