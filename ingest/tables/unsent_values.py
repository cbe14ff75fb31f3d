"""Values that the source did not send: whether a table can take the change without them.

**Values of an updated row.** A table of the merge engine partial-update keeps the old value, because null is written
for it. A sequence group takes the nulls of a newer row, and so keeps its columns only if a row has no value in the
sequence. An update that changes the key is the first row of the new key, and a column with a default has its default
for null; in both cases no old value would be kept. Other tables replace the whole row, so the message is bad.

**Rows before a change.** A table replaces or deletes the row that has the same key. So it needs of the row before

- the columns of its key that are not in the source's key: without them the replaced row is not known;
- the columns of `sequence.field` for a deletion: with null in them, the deletion is older than the row that it deletes;
- the values that aggregate functions retract.

PostgreSQL sends an update without the row before it, and a deletion with the columns of the key only, unless the table
has REPLICA IDENTITY FULL.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.ingest.flow.changes import NOT_SENT_BEFORE, RowChanges, UnsentRows
from interbed.ingest.formats.arrays import Mask, one_array, valid
from interbed.storage.base.predicate.conditions import col
from interbed.storage.base.row.kind import RowKind
from interbed.storage.lsm.merge_function.row_rules import kept_columns, values_before
from interbed.storage.meta.options.lsm import ChangelogProducer, MergeEngine
from interbed.storage.table.table import Table


class UnsentValues:
    """The rule for unsent values of updated rows, of a table at one schema."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.schema = table.schema
        self._keeps = kept_columns(table.schema, table.options)
        self._is_whole = table.options.merge_engine in (MergeEngine.DEDUPLICATE, MergeEngine.PARTIAL_UPDATE)
        """Whether columns that rows lack are null in them. In other tables they may be written by another source."""
        self._filled: dict[str, bool] = {}

    def refused(
        self, changes: RowChanges, rows: pa.Table, kinds: npt.NDArray[np.int8], written: Mask
    ) -> dict[int, str]:
        """Return why rows to be `written` are not known, by their number; `rows` and `kinds` are those for the
        table.
        """
        unsent = {name: each for name, each in changes.unsent.items() if name in self.schema.by_name}
        may_lack = self._may_lack(changes) if self._is_whole else {}
        absent = {name: each.rows for name, each in may_lack.items()}
        for name, each in unsent.items():
            absent[name] = absent.get(name, False) | each.rows
        reasons: dict[int, str] = {}
        for several, is_sure in ((unsent, True), (may_lack, False)):
            for name, each in several.items():
                lost = each.rows & written
                if lost.any() and name in self._keeps:
                    lost &= ~self._kept(name, rows, kinds, absent)
                if lost.any() and (is_sure or self._is_filled(name)):
                    for i in np.flatnonzero(lost).tolist():
                        reasons.setdefault(i, each.reason.format(name))
        return reasons

    def _may_lack(self, changes: RowChanges) -> dict[str, UnsentRows]:
        """Return the rows of updates that lack a column of which no message has had a value."""
        found = {name: each for name, each in changes.may_lack.items() if name in self.schema.by_name}
        if (others := changes.may_lack.get(None)) is not None:
            found |= dict.fromkeys(set(self.schema.names) - set(changes.rows.column_names), others)
        return {name: each for name, each in found.items() if name is not None}

    def _kept(self, name: str, rows: pa.Table, kinds: npt.NDArray[np.int8], unsent: Mapping[str, Mask]) -> Mask:
        """Return the rows for which the table keeps the old value of a column where it is null."""
        column = self._keeps[name]
        kept: Mask = kinds == RowKind.UPDATE_AFTER
        if not column.sequence:
            return kept
        unordered = np.zeros(len(kinds), bool)
        for each in column.sequence:
            unordered |= unsent.get(each, False)
        # A row without the sequence does not change the group, so its values for the group would be lost.
        kept &= ~_any_valid(rows, column.sequence) & ~(unordered & _any_valid(rows, column.others))
        return kept

    def _is_filled(self, name: str) -> bool:
        """Return whether the table has a value in the column that the source may have sent. It is false for columns
        with a default.
        """
        if self.schema.by_name[name].default_value is not None:
            return False
        if name not in self._filled:
            found = self._table.scan(columns=[name], filter=col(name).is_not_null(), limit=1).to_arrow()
            self._filled[name] = bool(found.num_rows)
        return self._filled[name]


def _any_valid(rows: pa.Table, names: Sequence[str]) -> Mask:
    """Return the rows that have a value in one of the columns."""
    found = np.zeros(rows.num_rows, bool)
    for name in set(names) & set(rows.column_names):
        found |= valid(one_array(rows.column(name)))
    return found


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

    def unsent(self, name: str) -> UnsentRows:
        """Return the rows before a change that lack the value of a column."""
        if name not in self.changes.rows.column_names:
            return UnsentRows(self.before_changes, NOT_SENT_BEFORE)
        return self.changes.unsent_before.get(name) or UnsentRows(np.zeros(len(self.kinds), bool), NOT_SENT_BEFORE)


class RowsBefore:
    """The rule for rows before changes, of a table at one schema."""

    def __init__(self, table: Table) -> None:
        self._name = table.name
        self.schema = table.schema
        self._options = table.options
        self._is_keyed = table.schema.has_primary_key
        self._needed = values_before(table.schema, table.options)

    @property
    def are_written(self) -> bool:
        """Whether rows before an update are written, instead of only being replaced by the rows after it."""
        options = self._options
        if options.merge_engine is MergeEngine.AGGREGATION or options.changelog_producer is ChangelogProducer.INPUT:
            return True
        return bool(self._needed.retracted)

    def refused(self, given: FittingRows) -> dict[int, str]:
        """Return why changes cannot be applied without the row before them, by the number of the row."""
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
        """Return whether the written rows are the changelog of the table, and rows or values are missing in it."""
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
        """Return the columns of the table's key that may change while the key of the source stays the same."""
        own = [name for name in self.schema.primary_keys if name not in changes.of_key]
        if changes.key:
            return [name for name in own if name not in changes.key]
        # If messages do not declare a key, a key of one column is taken for it.
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
        # A source without a column of the sequence of a group writes another group.
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
                # Tables of partial-update write the rows before updates for other functions.
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
                f"{self._name} retracts the old value. {_FULL}, or the option 'fields.{name}.ignore-retract'",
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
