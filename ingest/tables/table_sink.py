"""One table that changes are written to: it is created, gets new columns, and has its rows committed with a position.

Rows of a batch that needs another schema wait until what was written with the old one is committed: a commit has files
of one schema, and the numbers of its rows go on from what is committed.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.catalog.api import Catalog
from interbed.catalog.errors import DatabaseNotFoundError, TableNotFoundError
from interbed.ingest.flow.changes import BadMessage, RowChanges
from interbed.ingest.flow.messages import Positions
from interbed.ingest.formats.arrays import kept, mask_of, taken
from interbed.ingest.formats.before_after import converted_columns
from interbed.ingest.tables.column_fit import fitted
from interbed.ingest.tables.computed_columns import ComputedColumn
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.types.arrow import type_from_arrow, type_to_arrow
from interbed.storage.base.types.data_type import AtomicType, DataType
from interbed.storage.commit.positions import PositionedCommit
from interbed.storage.meta.options.lsm import ChangelogProducer, MergeEngine
from interbed.storage.meta.schema.widening import is_widening
from interbed.storage.table.table import Table
from interbed.storage.upkeep.compact_again import compact_again
from interbed.storage.write.bucket_strategy import batch_strategy_of
from interbed.storage.write.replacing import overwriting
from interbed.storage.write.table_write import TableWrite

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """How tables are created, and which columns are worked out. Without `primary_keys` a table has the key that
    messages name, or none.
    """

    primary_keys: Sequence[str] = ()
    partition_keys: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    computed: Sequence[ComputedColumn] = ()


class TableSink:
    """Writes to a table that exists. Not for use by several threads."""

    def __init__(self, table: Table, group: str) -> None:
        """Raises CommitStateUnknownError when it is not known what the group has committed to the table."""
        self._table = table
        self._commit = PositionedCommit(table.store, group)
        self._group = group
        self._write: TableWrite | None = None
        self._is_emptied = False
        self.rows = 0
        """Rows written since the last commit."""

    @property
    def has_changes(self) -> bool:
        """Whether there is something to commit."""
        return bool(self.rows) or self._is_emptied

    @property
    def name(self) -> str:
        """DATABASE.TABLE."""
        return self._table.name

    @property
    def positions(self) -> Positions | None:
        """How far topics were read whose rows are in the table; None when nothing is known of it."""
        text = self._commit.position
        return None if text is None else Positions.from_json(text, f"The position of '{self._group}' in {self.name}")

    def lacking(self, changes: RowChanges) -> "Sequence[pa.Field[Any]]":
        """The columns that the table must get, or must have with a wider type, before it takes the rows."""
        known = {f.name: f.type for f in self._table.schema.fields}
        found: list[pa.Field[Any]] = []
        for column in changes.rows.schema:
            if pa.types.is_null(column.type):
                # Of what type a column is shows when it has a value.
                continue
            if column.name not in known:
                found.append(column)
            elif column.type != type_to_arrow(known[column.name]):
                try:
                    fitted(_one_array(changes.rows.column(column.name)), known[column.name])
                except ValueError:
                    # What is only written as something else is no reason to change the table.
                    if column.name in changes.stated or _holds_more(column.type, known[column.name]):
                        found.append(column)
        return found

    def follow(self, lacking: "Sequence[pa.Field[Any]]") -> None:
        """Give the table columns and types that it lacks; nothing may be written and not committed.

        Raises SchemaMismatchError for a type that the table's can't become.
        """
        self.close()
        self._table.merge_schema(pa.schema(lacking))
        _log.info("%s has new columns or wider types: %s.", self.name, ", ".join(f.name for f in lacking))

    def write(self, changes: RowChanges) -> list[BadMessage]:
        """Write the rows, but those of messages with a value that is none of its column: these are returned.

        Raises as TableWrite.write_arrow does; then what was written since the last commit is gone.
        """
        rows = changes.rows
        fields = {f.name: f for f in self._table.schema.fields}
        names = [n for n in rows.schema.names if n in fields]
        columns, reasons = converted_columns(
            [_one_array(rows.column(n)) for n in names],
            [lambda array, kind=fields[n].type: fitted(array, kind) for n in names],  # type: ignore[misc]
            names,
        )
        fit = pa.table(dict(zip(names, columns, strict=True)))
        kinds, messages = changes.kinds.copy(), changes.messages
        bad = {int(messages[i]): reason for i, reason in {**self._refused(changes), **reasons}.items()}
        good = ~np.isin(messages, list(bad)) if bad else np.ones(len(messages), bool)
        good &= self._told(fit, kinds)
        if good.any():
            self._writer().write_arrow(kept(fit, good), pa.array(kinds[good], pa.int8()))
            self.rows += int(good.sum())
        return [BadMessage(index, reason) for index, reason in sorted(bad.items())]

    def commit(self, positions: Positions) -> list[int]:
        """Commit what was written, with the positions after it; the snapshots' ids. Raises as PositionedCommit does."""
        messages = self._writer().prepare_commit()
        commit = self._commit.overwrite if self._is_emptied else self._commit.commit
        ids = commit(self._table.store, messages, self._furthest(positions))
        if self._is_emptied:
            self.close()
        self.rows = 0
        if self._commit.gave_up_compaction:
            compact_again(self._table.store)
        return ids

    def empty(self) -> None:
        """Delete all rows, and those written so far: the next commit replaces the table by what is written after this.

        It has no changelog, as that of any overwrite.
        """
        self.close()
        self._is_emptied = True

    def advance(self, positions: Positions) -> None:
        """Note that the topics were read on without rows for the table."""
        self._commit.advance(self._furthest(positions))

    def close(self) -> None:
        """Forget what was written and not committed."""
        self.rows = 0
        self._is_emptied = False
        if self._write is not None:
            self._write.close()
            self._write = None

    def _furthest(self, positions: Positions) -> str:
        """The positions, or those that the table has where it is ahead: of what is read for other tables' sake."""
        return positions.beyond(self.positions).to_json()

    def _writer(self) -> TableWrite:
        if self._write is None and self._is_emptied:
            self._write = overwriting(self._table.store, self._group, {}, strategy=batch_strategy_of)
        elif self._write is None:
            self._write = TableWrite(self._table.store, self._group, strategy=batch_strategy_of)
        return self._write

    def _refused(self, changes: RowChanges) -> dict[int, str]:
        """Changes that the table can't carry out."""
        if self._table.schema.has_primary_key:
            return {}
        others = np.flatnonzero(changes.kinds != RowKind.INSERT)
        reason = f"it changes or deletes a row of {self.name}, which has no primary key to find it by"
        return dict.fromkeys(map(int, others), reason)

    def _told(self, rows: pa.Table, kinds: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
        """Which rows are written: all, but those before an update where the row after it replaces them. Where an update
        changed the key, its kinds become those of a deletion and an insertion.
        """
        told = np.ones(len(kinds), bool)
        before = np.flatnonzero(kinds == RowKind.UPDATE_BEFORE)
        if not len(before):
            return told
        same = np.ones(len(before), bool)
        for name in self._table.schema.primary_keys:
            if name in rows.schema.names:
                values = _one_array(rows.column(name))
                same &= mask_of(pc.equal(taken(values, before), taken(values, before + 1)).fill_null(False))
        kinds[before[~same]] = RowKind.DELETE
        kinds[before[~same] + 1] = RowKind.INSERT
        told[before[same]] = self._keeps_rows_before()
        return told

    def _keeps_rows_before(self) -> bool:
        options = self._table.options
        return options.merge_engine is MergeEngine.AGGREGATION or options.changelog_producer is ChangelogProducer.INPUT


def open_sink(catalog: Catalog, name: str, group: str) -> TableSink | None:
    """The sink of a table, None when there is no such table."""
    try:
        return TableSink(catalog.get_table(name), group)
    except (DatabaseNotFoundError, TableNotFoundError):
        return None


def create_sink(catalog: Catalog, name: str, settings: TableSettings, group: str, changes: RowChanges) -> TableSink:
    """The sink of a new table with the columns of the changes.

    Raises InvalidInputError when there is no primary key to find the rows by that are changed or deleted, or the rows
    lack a column of it.
    """
    rows = changes.rows
    keys = list(settings.primary_keys or changes.key)
    if not keys and (changes.kinds != RowKind.INSERT).any():
        raise InvalidInputError(
            f"The table '{name}' is to be created, and its messages do not say which columns are its primary key. Give "
            "the primary key, or create the table."
        )
    lacking = [n for n in (*keys, *settings.partition_keys) if n not in rows.schema.names]
    if lacking:
        raise InvalidInputError(
            f"The table '{name}' is to be created, and its messages lack the column {lacking[0]!r} of its key."
        )
    fields = [
        pa.field(f.name, f.type, nullable=f.name not in keys) for f in rows.schema if not pa.types.is_null(f.type)
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


def _holds_more(given: pa.DataType, known: DataType) -> bool:
    """Whether the table's type can become the rows', or get fields from it, without losing anything."""
    return not isinstance(known, AtomicType) or is_widening(known, type_from_arrow(given))


def _one_array(column: Any) -> Any:
    """The values of a column in one piece."""
    if isinstance(column, pa.Array):
        return column
    chunks = column.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], column.type)
