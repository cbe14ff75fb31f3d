"""Values that the source did not send with an update: whether a table keeps the old ones.

A table of the merge engine partial-update does, because null is written in their place. A sequence group takes the
nulls of a newer row, and so keeps its columns only where a row has none of its sequence. An update that changes the key
is the first row of the new one, and a column with a default has that for null: there nothing would be kept. Other
tables replace the whole row, so that the message is bad.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.ingest.flow.changes import RowChanges, Unsent
from interbed.ingest.formats.arrays import Mask, one_array, valid
from interbed.storage.base.predicate.conditions import col
from interbed.storage.base.row.kind import RowKind
from interbed.storage.lsm.merge_function.row_rules import kept_columns
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.table.table import Table


class UnsentValues:
    """The rule of a table at one schema."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.schema = table.schema
        self._keeps = kept_columns(table.schema, table.options)
        self._is_whole = table.options.merge_engine in (MergeEngine.DEDUPLICATE, MergeEngine.PARTIAL_UPDATE)
        """Whether columns that rows lack are null in them: others may be fed by several sources, each with its own."""
        self._filled: dict[str, bool] = {}

    def refused(
        self, changes: RowChanges, rows: pa.Table, kinds: npt.NDArray[np.int8], written: Mask
    ) -> dict[int, str]:
        """Why rows that are to be `written` are not known, by their number; `rows` and `kinds` are as for the table."""
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

    def _may_lack(self, changes: RowChanges) -> dict[str, Unsent]:
        """Return the rows of updates that lack a column for which no message has had a value."""
        found = {name: each for name, each in changes.may_lack.items() if name in self.schema.by_name}
        if (others := changes.may_lack.get(None)) is not None:
            found |= dict.fromkeys(set(self.schema.names) - set(changes.rows.column_names), others)
        return {name: each for name, each in found.items() if name is not None}

    def _kept(self, name: str, rows: pa.Table, kinds: npt.NDArray[np.int8], unsent: Mapping[str, Mask]) -> Mask:
        """The rows for which the table keeps the old value of a column where it is null."""
        column = self._keeps[name]
        kept: Mask = kinds == RowKind.UPDATE_AFTER
        if not column.sequence:
            return kept
        unordered = np.zeros(len(kinds), bool)
        for each in column.sequence:
            unordered |= unsent.get(each, False)
        # Without its sequence a row leaves the group alone, and would lose what it has for it.
        kept &= ~_any_valid(rows, column.sequence) & ~(unordered & _any_valid(rows, column.others))
        return kept

    def _is_filled(self, name: str) -> bool:
        """Whether the table has a value in the column that the source may have sent: one without a default has."""
        if self.schema.by_name[name].default_value is not None:
            return False
        if name not in self._filled:
            found = self._table.scan(columns=[name], filter=col(name).is_not_null(), limit=1).to_arrow()
            self._filled[name] = bool(found.num_rows)
        return self._filled[name]


def _any_valid(rows: pa.Table, names: Sequence[str]) -> Mask:
    """The rows that have a value in one of the columns."""
    found = np.zeros(rows.num_rows, bool)
    for name in set(names) & set(rows.column_names):
        found |= valid(one_array(rows.column(name)))
    return found
