"""The merge engine `aggregation`: a function for each column makes one value of all values of a key.

Source: documentation page `primary-key-table/merge-engine/aggregation`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.row.kind import RowKind
from interbed.storage.lsm.merge_function.api import KeyGroups, Kinds
from interbed.storage.lsm.merge_function.fields.fold import Fold
from interbed.storage.lsm.merge_function.fields.functions import FieldFunction
from interbed.storage.lsm.merge_function.segments import KeyRows, Segments, assemble, finish, kinds_of_adds, merge_apart
from interbed.storage.lsm.merge_function.whole_record import is_retract, single_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateMerge:
    """Folds the values of each key, oldest first; rows of kind -U and -D are taken back.

    `functions` has the columns outside of the primary key. With `remove_on_delete` a -D row removes what was there,
    and the rows after it go on from its values. With `merges_alone` functions see rows that are alone, too: those that
    take back become what is left then.
    """

    functions: Mapping[str, FieldFunction]
    remove_on_delete: bool
    drop_deletes: bool
    merges_alone: bool = False

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """Nothing but the output."""
        return tuple(output)

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """The folded rows."""
        return merge_apart(groups, output, self._add_up, self._take_in_turn, drop_deletes=self.drop_deletes)

    def _add_up(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """The folded rows of keys of which no row takes back."""
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

    def _take_in_turn(
        self, groups: KeyGroups, output: Sequence[str], drop_deletes: bool
    ) -> tuple[pa.RecordBatch, Kinds | None]:
        """The folded rows and their kinds, whatever the rows' kinds."""
        segments = Segments.of(groups, alone=self.merges_alone)
        kinds = np.zeros(groups.rows.num_rows, np.int8) if groups.kinds is None else groups.kinds
        names = [name for name in output if name in self.functions]
        folds = {name: self.functions[name].fold(groups.rows.column(name), len(segments)) for name in names}
        deleted = self._fold(segments, kinds, folds)
        results = {name: fold.result() for name, fold in folds.items()}
        return assemble(groups.rows, segments, kinds, results, deleted, output, drop_deletes=drop_deletes)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """The rows, perhaps without those that delete."""
        return single_rows(rows, kinds, output, drop_deletes=self.drop_deletes)

    def _fold(self, segments: Segments, kinds: Kinds, folds: Mapping[str, Fold]) -> Mask:
        """Fold all rows; says which slots end with a -D row that removes them."""
        deleted = np.zeros(len(segments), np.bool_)
        for active, rows in segments.rounds():
            kind = kinds[rows]
            removes = (kind == RowKind.DELETE) if self.remove_on_delete else np.zeros(active, np.bool_)
            deleted[:active] = removes
            back = is_retract(kind) & ~removes
            slots_added, slots_removed, slots_back = (
                np.flatnonzero(~is_retract(kind)),
                np.flatnonzero(removes),
                np.flatnonzero(back),
            )
            for fold in folds.values():
                if len(slots_added):
                    fold.add(slots_added, rows[slots_added])
                if len(slots_removed):
                    fold.put(slots_removed, rows[slots_removed])
                if len(slots_back):
                    fold.take_back(slots_back, rows[slots_back])
        return deleted
