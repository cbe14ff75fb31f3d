"""What a flush of a primary-key table's bucket does to the buffered rows on their way to a file of level 0.

Rows arrive as small sorted runs, one for each batch that was routed: sorting while the rows are in the processor's
caches anyway makes the flush a merge, which is far cheaper than sorting a whole buffer, and needs no copy of it. The
merge is by the table's merge function. Where that is `deduplicate`, runs hold each key once from the start. Other
functions must see all buffered rows of a key together, because merging in steps is not the same for them as merging
once; their runs hold keys several times. Runs that were spilled meanwhile take part as those in memory do. Source:
documentation page `primary-key-table/overview`, LSM trees.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.files.format.layout import DataFileLayout
from interbed.storage.lsm.input_changelog import InputChangelogFunction
from interbed.storage.lsm.key_words import Order, group_ends, key_words, sort_groups
from interbed.storage.lsm.merge_function.api import KeyGroups, Kinds, MergeFunction, take_rows
from interbed.storage.lsm.merge_function.deduplicate import Deduplicate
from interbed.storage.lsm.removals import RemovalRules, RemovalSplit
from interbed.storage.lsm.sort_merge import BLOCK_ROWS, MergePlan, RunBatch, RunInput, merge_runs
from interbed.storage.lsm.spill import BATCH_BYTES, SpilledRun
from interbed.storage.lsm.write_buffer import Run, concatenate, insertions, with_kinds
from interbed.storage.meta.schema.table_schema import KEY_PREFIX, VALUE_KIND

Write: TypeAlias = Callable[[pa.RecordBatch], None]

BLOCK_BYTES = 64 << 20
"""About what a block of a flush's merge takes in memory, however wide the rows are."""
_MIN_BLOCK_ROWS = 1_024
_FEW_ROWS = 4_096
"""So many rows are sorted as a whole, which takes less than to set up a merge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferMerge:
    """How buffered rows become a file's: `function` merges them, `descending` so many sequence fields descend.

    With `tells_input` all rows make a changelog, too (`changelog-producer` = `input`). With `removals` -D rows remove
    the row of a key.
    """

    layout: DataFileLayout
    function: MergeFunction
    descending: int = 0
    tells_input: bool = False
    removals: RemovalRules | None = None

    @property
    def keeps_last(self) -> bool:
        """Whether a key's last row is all that counts, so that others may be dropped at any time."""
        return isinstance(self.function, Deduplicate) and not self.tells_input

    def join(self, runs: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """One sorted run of several, older ones first."""
        rows = concatenate(runs)
        sequence = [rows.column(name) for name in self.layout.sequence_fields]
        order, starts = sort_groups(self._keys(rows), sequence, descending_ties=self.descending)
        if self.keeps_last:
            order = order.compress(group_ends(starts))
        indices: Any = from_numpy(order.astype(np.uint32))
        return rows.take(indices)

    def write(
        self,
        runs: Sequence[Run],
        write: Write,
        emit_changes: Write | None = None,
        emit_removals: Write | None = None,
    ) -> None:
        """Hand the merged rows of sorted runs, older ones first, to `write`, by key and in the file's layout.

        Runs have the table's columns, `_SEQUENCE_NUMBER` and perhaps `_VALUE_KIND`. `emit_changes` gets all of their
        rows, unmerged and in the same layout; it is given where the merge `tells_input`. `emit_removals` gets what the
        keys were up to a -D row that other rows follow; it is given where the merge has `removals`. Memory beside them
        is that of a block (BLOCK_BYTES) and of a batch of each spilled run. Raises CorruptFileError for a spilled one.
        """
        if len(runs) == 1 and self.keeps_last and isinstance(runs[0], pa.RecordBatch):
            write(file_batch(runs[0], self.layout))
            return
        function: MergeFunction = self.function
        if self.removals is not None and emit_removals is not None:
            function = RemovalSplit(inner=function, rules=self.removals, emit_removals=self._in_layout(emit_removals))
        if emit_changes is not None:
            function = InputChangelogFunction(inner=function, emit=self._in_layout(emit_changes))
        for merged in self._merged(runs, function):
            write(file_batch(merged, self.layout))

    def _in_layout(self, write: Write) -> Write:
        return lambda rows: write(file_batch(rows, self.layout))

    def arrange(self, runs: Sequence[Run]) -> Iterator[pa.RecordBatch]:
        """One sorted run of several, older ones first, as small batches to be spilled.

        All rows of a key are in one batch. Only where a key's last row is all that counts others are dropped.
        """
        batches = [r for r in runs if isinstance(r, pa.RecordBatch)]
        function: MergeFunction = self.function if self.keeps_last else _AllRows()
        few = len(batches) == len(runs) and sum(r.num_rows for r in runs) <= _FEW_ROWS
        # A batch that was routed is a sorted run.
        ready = batches if len(batches) == len(runs) == 1 else [self.join(batches)] if few else None
        for merged in self._merged(runs, function) if ready is None else ready:
            rows = max(1, BATCH_BYTES * merged.num_rows // max(1, merged.nbytes))
            for batch in self._slices(merged, 0, rows):
                yield batch.rows

    def _merged(self, runs: Sequence[Run], function: MergeFunction) -> Iterator[pa.RecordBatch]:
        total, size = sum(r.num_rows for r in runs), sum(r.nbytes for r in runs)
        names = [n for n in runs[0].schema.names if n != VALUE_KIND]
        kinds = any(VALUE_KIND in r.schema.names for r in runs)
        plan = MergePlan(
            keys=tuple(f.name for f in self.layout.key_fields),
            output=(*names, VALUE_KIND) if kinds else tuple(names),
            sequence=self.layout.sequence_fields,
            descending=self.descending,
            unique=self.keeps_last,
        )
        inputs = [
            RunInput(row_count=r.num_rows, open=partial(self._opened, r, age, kinds=kinds))
            for age, r in enumerate(runs)
        ]
        block_rows = max(_MIN_BLOCK_ROWS, min(BLOCK_ROWS, BLOCK_BYTES * total // max(1, size)))
        return merge_runs(inputs, plan, function, block_rows=block_rows)

    def _opened(self, run: Run, age: int, rows: int, *, kinds: bool) -> Iterator[RunBatch]:
        if isinstance(run, SpilledRun):
            for batch in run.batches():
                yield RunBatch(_with_kinds(batch) if kinds else batch, age)
        else:
            yield from self._slices(_with_kinds(run) if kinds else run, age, rows)

    def _slices(self, run: pa.RecordBatch, age: int, rows: int) -> Iterator[RunBatch]:
        starts = None if self.keeps_last else self._key_starts(run)
        begin = 0
        while begin < run.num_rows:
            end = begin + rows
            if starts is not None:
                # All rows of a key are handed out together.
                place = int(np.searchsorted(starts, end))
                end = int(starts[place]) if place < len(starts) else run.num_rows
            yield RunBatch(run.slice(begin, end - begin), age)
            begin = end

    def _key_starts(self, run: pa.RecordBatch) -> Order:
        changes = np.zeros(max(run.num_rows - 1, 0), np.bool_)
        for word in key_words(self._keys(run)):
            changes |= word[1:] != word[:-1]
        return np.flatnonzero(changes) + 1

    def _keys(self, rows: pa.RecordBatch) -> "list[pa.Array[Any]]":
        return [rows.column(f.name) for f in self.layout.key_fields]


class _AllRows:
    """Merges nothing: the rows of all runs in the order of key and newness."""

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """See MergeFunction."""
        return tuple(output)

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """See MergeFunction."""
        return take_rows(groups.rows, output, groups.order)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """See MergeFunction."""
        return rows.select(list(output))


def _with_kinds(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows if VALUE_KIND in rows.schema.names else with_kinds(rows, insertions(rows.num_rows))


def file_batch(rows: pa.RecordBatch, layout: DataFileLayout) -> pa.RecordBatch:
    """The rows with the file's columns; those of the key are the table's own once more, not copies."""
    has_kinds = rows.schema.get_field_index(VALUE_KIND) >= 0
    columns = [
        insertions(rows.num_rows)
        if f.name == VALUE_KIND and not has_kinds
        else rows.column(f.name.removeprefix(KEY_PREFIX))
        for f in layout.fields
    ]
    return pa.RecordBatch.from_arrays(columns, schema=layout.arrow)
