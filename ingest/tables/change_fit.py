"""Changes as a table takes them: which columns it lacks for them, and their rows with its types and kinds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage, RowChanges
from interbed.ingest.formats.arrays import kept, mask_of, one_array, taken
from interbed.ingest.formats.before_after import converted_columns
from interbed.ingest.tables.column_fit import fitted
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.types.arrow import type_from_arrow, type_to_arrow
from interbed.storage.base.types.data_type import AtomicType, DataType
from interbed.storage.meta.options.lsm import ChangelogProducer, MergeEngine
from interbed.storage.meta.schema.widening import is_widening
from interbed.storage.table.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRows:
    """Rows to be written, a RowKind for each, and the messages whose rows are not among them because of a value."""

    rows: pa.Table
    kinds: npt.NDArray[np.int8]
    bad: Sequence[BadMessage]


class ChangeFit:
    """What a table, at the schema that it has at the time, makes of changes."""

    def __init__(self, table: Table) -> None:
        self._table = table

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
                    fitted(one_array(changes.rows.column(column.name)), known[column.name])
                except ValueError:
                    # What is only written as something else is no reason to change the table.
                    if column.name in changes.stated or _holds_more(column.type, known[column.name]):
                        found.append(column)
        return found

    def fit(self, changes: RowChanges) -> FittedRows:
        """The rows as the table's, but those of messages with a value that is none of its column: these are bad."""
        rows = changes.rows
        fields = {f.name: f for f in self._table.schema.fields}
        names = [n for n in rows.schema.names if n in fields]
        columns, reasons = converted_columns(
            [one_array(rows.column(n)) for n in names],
            [lambda array, kind=fields[n].type: fitted(array, kind) for n in names],  # type: ignore[misc]
            names,
        )
        fit = pa.table(dict(zip(names, columns, strict=True)))
        kinds, messages = changes.kinds.copy(), changes.messages
        bad = {int(messages[i]): reason for i, reason in {**self._refused(changes), **reasons}.items()}
        good = ~np.isin(messages, list(bad)) if bad else np.ones(len(messages), bool)
        good &= self._told(fit, kinds)
        return FittedRows(
            rows=kept(fit, good),
            kinds=kinds[good],
            bad=[BadMessage(index, reason) for index, reason in sorted(bad.items())],
        )

    def _refused(self, changes: RowChanges) -> dict[int, str]:
        """Changes that the table can't carry out."""
        if self._table.schema.has_primary_key:
            return {}
        others = np.flatnonzero(changes.kinds != RowKind.INSERT)
        reason = f"it changes or deletes a row of {self._table.name}, which has no primary key to find it by"
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
                values = one_array(rows.column(name))
                same &= mask_of(pc.equal(taken(values, before), taken(values, before + 1)).fill_null(False))
        kinds[before[~same]] = RowKind.DELETE
        kinds[before[~same] + 1] = RowKind.INSERT
        told[before[same]] = self._keeps_rows_before()
        return told

    def _keeps_rows_before(self) -> bool:
        options = self._table.options
        return options.merge_engine is MergeEngine.AGGREGATION or options.changelog_producer is ChangelogProducer.INPUT


def _holds_more(given: pa.DataType, known: DataType) -> bool:
    """Whether the table's type can become the rows', or get fields from it, without losing anything."""
    return not isinstance(known, AtomicType) or is_widening(known, type_from_arrow(given))
