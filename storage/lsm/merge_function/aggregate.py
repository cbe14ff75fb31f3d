"""The merge engine `aggregation`: a function for each column aggregates all values of a key.

Source: documentation page `primary-key-table/merge-engine/aggregation`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.row.kind import RowKind
from interbed.storage.lsm.merge_function.api import KeyGroups, Kinds
from interbed.storage.lsm.merge_function.fields.fold import ColumnFold
from interbed.storage.lsm.merge_function.fields.functions import FieldFunction
from interbed.storage.lsm.merge_function.segments import KeyRows, Segments, assemble, finish, kinds_of_adds, merge_apart
from interbed.storage.lsm.merge_function.whole_record import is_retract, single_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateMerge:
    """Aggregates the values of each key, oldest first; rows of kind -U and -D are retracted.

    `functions` has the columns outside of the primary key. With `remove_on_delete` a -D row removes the row of the key,
    and later rows continue from its values. With `merges_alone` keys with a single row are merged, too: a retraction
    becomes the result of retracting it from nothing.
    """

    functions: Mapping[str, FieldFunction]
    remove_on_delete: bool
    drop_deletes: bool
    merges_alone: bool = False

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """Return the output columns only."""
        return tuple(output)

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        return merge_apart(groups, output, self._merge_adds, self._merge_in_order, drop_deletes=self.drop_deletes)

    def _merge_adds(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """Return the aggregated rows of keys without retractions."""
        rows, keys = groups.rows, KeyRows.of(groups)
        names = [name for name in output if name in self.functions]
        reduced = {name: self.functions[name].fold(rows.column(name), 0).reduce(keys) for name in names}
        by_key = {name: result for name, result in reduced.items() if result is not None}
        slow = [name for name in names if name not in by_key]
        if slow:
            segments = Segments.of(groups, alone=self.merges_alone)
            folds = {name: self.functions[name].fold(rows.column(name), len(segments)) for name in slow}
            for active, numbers in segments.rounds():
                for fold in folds.values():
                    fold.add(slice(0, active), numbers)
            by_key |= {name: segments.by_keys(fold.result(), rows.column(name)) for name, fold in folds.items()}
        return finish(rows, by_key, keys.newest, output, kinds_of_adds(rows, keys, output))

    def _merge_in_order(
        self, groups: KeyGroups, output: Sequence[str], drop_deletes: bool
    ) -> tuple[pa.RecordBatch, Kinds | None]:
        """Return the aggregated rows and their kinds, for rows of all kinds."""
        segments = Segments.of(groups, alone=self.merges_alone)
        kinds = np.zeros(groups.rows.num_rows, np.int8) if groups.kinds is None else groups.kinds
        names = [name for name in output if name in self.functions]
        folds = {name: self.functions[name].fold(groups.rows.column(name), len(segments)) for name in names}
        deleted = self._fold(segments, kinds, folds)
        results = {name: fold.result() for name, fold in folds.items()}
        return assemble(groups.rows, segments, kinds, results, deleted, output, drop_deletes=drop_deletes)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """Return the rows, with `drop_deletes` without deletes."""
        return single_rows(rows, kinds, output, drop_deletes=self.drop_deletes)

    def _fold(self, segments: Segments, kinds: Kinds, folds: Mapping[str, ColumnFold]) -> Mask:
        """Aggregate all rows; return the mask of the slots that end with a removing -D row."""
        deleted = np.zeros(len(segments), np.bool_)
        for active, rows in segments.rounds():
            kind = kinds[rows]
            removes = (kind == RowKind.DELETE) if self.remove_on_delete else np.zeros(active, np.bool_)
            deleted[:active] = removes
            retracts = is_retract(kind) & ~removes
            slots_added, slots_removed, slots_retracted = (
                np.flatnonzero(~is_retract(kind)),
                np.flatnonzero(removes),
                np.flatnonzero(retracts),
            )
            for fold in folds.values():
                if len(slots_added):
                    fold.add(slots_added, rows[slots_added])
                if len(slots_removed):
                    fold.put(slots_removed, rows[slots_removed])
                if len(slots_retracted):
                    fold.retract_unless_ignored(slots_retracted, rows[slots_retracted])
        return deleted
