"""Rows before a change that the source did not send, or sent in part: whether a table can take the change without them.

A table replaces or deletes the row that has the same key, so that it needs of the row before

- the columns of its own key that are not in the source's key: else it is not known which row is replaced or deleted;
- the columns of `sequence.field` for a deletion: with null in their place it is older than the row that it deletes;
- the values that aggregate functions retract.

PostgreSQL sends an update without the row before it, and a deletion with the columns of the key alone, unless the table
has REPLICA IDENTITY FULL.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.ingest.flow.changes import NOT_SENT_BEFORE, RowChanges, Unsent
from interbed.ingest.formats.arrays import Mask, one_array, valid
from interbed.storage.base.row.kind import RowKind
from interbed.storage.lsm.merge_function.row_rules import values_before
from interbed.storage.meta.options.lsm import ChangelogProducer, MergeEngine
from interbed.storage.table.table import Table

_FULL = "Set REPLICA IDENTITY FULL for the table in PostgreSQL"


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingRows:
    """Changes and their rows as those of a table: `kinds` are as they are written, `written` which rows are."""

    changes: RowChanges
    rows: pa.Table
    kinds: npt.NDArray[np.int8]
    written: Mask

    @property
    def before_changes(self) -> Mask:
        """The rows of messages that are a row before a change."""
        kinds = self.changes.kinds
        found: Mask = (kinds == RowKind.UPDATE_BEFORE) | (kinds == RowKind.DELETE)
        return found

    @property
    def after_nothing(self) -> Mask:
        """The updates without a row before them."""
        found: Mask = self.changes.kinds == RowKind.UPDATE_AFTER
        found[1:] &= self.changes.kinds[:-1] != RowKind.UPDATE_BEFORE
        return found

    def unsent(self, name: str) -> Unsent:
        """The rows before a change that do not have the value of a column."""
        if name not in self.changes.rows.column_names:
            return Unsent(self.before_changes, NOT_SENT_BEFORE)
        return self.changes.unsent_before.get(name) or Unsent(np.zeros(len(self.kinds), bool), NOT_SENT_BEFORE)


class RowsBefore:
    """The rule of a table at one schema."""

    def __init__(self, table: Table) -> None:
        self._name = table.name
        self.schema = table.schema
        self._options = table.options
        self._is_keyed = table.schema.has_primary_key
        self._needed = values_before(table.schema, table.options)

    @property
    def are_written(self) -> bool:
        """Whether rows before an update are written, and not only replaced by the rows after it."""
        options = self._options
        if options.merge_engine is MergeEngine.AGGREGATION or options.changelog_producer is ChangelogProducer.INPUT:
            return True
        return bool(self._needed.retracted)

    def refused(self, given: FittingRows) -> dict[int, str]:
        """Why changes can't be taken without the row before them, by the number of the row."""
        reasons: dict[int, str] = {}
        if not self._is_keyed or self._options.ignore_delete or not len(given.kinds):
            return reasons
        self._check_key(given, reasons)
        self._check_sequences(given, reasons)
        if not self._options.ignore_update_before:
            self._check_updates(given, reasons)
        self._check_deletions(given, reasons)
        return reasons

    def is_lacking_in_changelog(self, given: FittingRows) -> bool:
        """Whether the table takes what is written as its changelog, and that lacks rows or values."""
        if not self._is_keyed or self._options.changelog_producer is not ChangelogProducer.INPUT:
            return False
        if (given.after_nothing & given.written).any():
            return True
        taken = given.before_changes & given.written
        return bool(taken.any()) and any((given.unsent(name).rows & taken).any() for name in self.schema.names)

    def _check_key(self, given: FittingRows, reasons: dict[int, str]) -> None:
        alone = given.after_nothing
        for name in self._beyond_the_key(given.changes):
            what = f"the column {name!r} of the primary key of {self._name}"
            _note(
                reasons,
                alone,
                f"it is an update without the row before it, and {what} may have had another value. {_FULL}, or give "
                "the table a primary key of the columns of the source's key",
            )
            self._note_unsent(reasons, given, name, given.before_changes, "its primary key")

    def _beyond_the_key(self, changes: RowChanges) -> Sequence[str]:
        """The columns of the table's key that may change where the key of the source stays."""
        own = [name for name in self.schema.primary_keys if name not in changes.of_key]
        if changes.key:
            return [name for name in own if name not in changes.key]
        # Where messages do not declare a key, one column is taken for it.
        return own if len(self.schema.primary_keys) > 1 else []

    def _check_sequences(self, given: FittingRows, reasons: dict[int, str]) -> None:
        is_whole = self._options.merge_engine is MergeEngine.DEDUPLICATE
        taken = given.written & (given.kinds == RowKind.DELETE)
        if not is_whole:
            taken |= given.written & (given.kinds == RowKind.UPDATE_BEFORE)
        if not taken.any():
            return
        for name in self._needed.sequence:
            self._note_unsent(reasons, given, name, taken, "its sequence.field")
        groups = self._needed.groups
        if not groups:
            return
        # A source that has no column of a group's sequence feeds another group.
        own = [names for names in groups if set(names) & set(given.changes.rows.column_names)]
        for names in own or groups:
            for name in names:
                self._note_unsent(reasons, given, name, taken, "the sequence of a sequence-group")

    def _check_updates(self, given: FittingRows, reasons: dict[int, str]) -> None:
        updated: Mask = given.written & (given.kinds == RowKind.UPDATE_AFTER)
        if not updated.any():
            return
        alone = given.after_nothing & updated
        is_aggregation = self._options.merge_engine is MergeEngine.AGGREGATION
        for name, why in self._needed.refused.items():
            if name in given.rows.column_names:
                # A partial update has rows before it written for other functions.
                _note(reasons, alone if is_aggregation else updated, why.rstrip("."))
        for name in sorted(self._needed.retracted | self._needed.cleared):
            if name not in given.rows.column_names:
                continue
            lost = alone.copy()
            unsent = given.unsent(name).rows & (given.kinds == RowKind.UPDATE_BEFORE)
            lost[1:] |= unsent[:-1] & updated[1:]
            if name in self._needed.cleared:
                lost &= ~valid(one_array(given.rows.column(name)))
            _note(
                reasons,
                lost,
                f"it is an update without the row before it, and the aggregate function of the column {name!r} of "
                f"{self._name} takes the old value back. {_FULL}, or the option 'fields.{name}.ignore-retract'",
            )

    def _check_deletions(self, given: FittingRows, reasons: dict[int, str]) -> None:
        if not self._needed.deletions_need_values:
            return
        taken = given.written & (given.kinds == RowKind.DELETE)
        for name in sorted(self._needed.retracted | self._needed.cleared):
            if name in given.rows.column_names:
                self._note_unsent(reasons, given, name, taken, "its aggregate function")

    def _note_unsent(self, reasons: dict[int, str], given: FittingRows, name: str, rows: Mask, what: str) -> None:
        unsent = given.unsent(name)
        reason = unsent.reason.format(name).rstrip(".")
        _note(reasons, unsent.rows & rows, f"{reason}: {self._name} needs it for {what}")


def _note(reasons: dict[int, str], rows: Mask, reason: str) -> None:
    for i in np.flatnonzero(rows).tolist():
        reasons.setdefault(i, reason)
