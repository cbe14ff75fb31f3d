"""The flush of a bucket of a primary-key table: from buffered rows to a file of level 0.

Rows arrive as small sorted runs, one for each batch that was routed. They are sorted while they are in the processor's
caches, so that the flush is a merge. That is far cheaper than sorting a whole buffer and needs no copy of it. The merge
uses the table's merge function. With `deduplicate`, a run has each key once from the start. Other functions must see
all buffered rows of a key together, because merging in steps differs from merging once; their runs may have several
rows of a key. Spilled runs are merged together with those in memory. Source: documentation page
`primary-key-table/overview`, LSM trees.

With `changelog-producer` = `input` a flush writes its rows twice: merged to a file of level 0, and unmerged, ordered by
key and age, to a changelog file. The input must be a complete changelog, -U and -D included. Source: documentation page
`primary-key-table/changelog-producer`, Input.

With `partial-update.remove-record-on-delete`, `partial-update.remove-record-on-sequence-group` and
`aggregation.remove-record-on-delete` a -D row removes the row of its key, and later rows begin a new row. A merge of
both would have kind +I and no longer remove anything, so that values of an older row would reappear. A flush therefore
writes the rows of a key up to its last -D row to one file, and the later rows to another one. Compactions merge such
files only together with all older ones (`lsm/compact/strategy.py`). Merge functions begin the new row with the values
of the -D row, so it is written without them. Partial update uses -U rows only to begin a row; they are left out.
Source: documentation page `primary-key-table/merge-engine/partial-update`; Paimon's PartialUpdateMergeFunction and
AggregateMergeFunction.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.row.kind import RowKind
from interbed.storage.files.format.layout import DataFileLayout
from interbed.storage.lsm.key_words import Order, group_ends, key_words, sort_groups
from interbed.storage.lsm.merge_function.api import DeduplicateMerge, KeyGroups, Kinds, MergeFunction, take_rows
from interbed.storage.lsm.sort_merge import BLOCK_ROWS, MergePlan, RunBatch, RunInput, merge_runs
from interbed.storage.lsm.write_buffer import BATCH_BYTES, Run, SpilledRun, concatenate, insertions, with_kinds
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import KEY_PREFIX, VALUE_KIND, TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChangelogFunction:
    """A merge function that passes all rows to `emit`, in their merge order, before it merges them.

    The emitted rows have the columns of the output.
    """

    inner: MergeFunction
    emit: Callable[[pa.RecordBatch], None]

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """Return the output, all of which is emitted, and the columns of the inner function."""
        return tuple(dict.fromkeys((*output, *self.inner.columns(output))))

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        self.emit(take_rows(groups.rows, output, groups.order))
        return self.inner.merge(groups, output)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        self.emit(rows.select(list(output)))
        return self.inner.merge_single(rows, kinds, output)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalRules:
    """The rules of a flush in a table whose -D rows remove rows.

    In -D rows the columns `cleared` become null. With `skips_updates_before` -U rows are left out.
    """

    cleared: frozenset[str]
    skips_updates_before: bool

    @staticmethod
    def of(schema: TableSchema, options: CoreOptions, function: MergeFunction) -> "RemovalRules | None":
        """Return the rules of a table; None if its -D rows do not remove rows."""
        if not options.deletes_remove_rows:
            return None
        from interbed.storage.lsm.merge_function.aggregate import AggregateMerge
        from interbed.storage.lsm.merge_function.partial_update import PartialUpdate

        kept = {*schema.primary_keys, *options.sequence_fields, options.rowkind_field}
        if isinstance(function, PartialUpdate):
            # A -D row that is late for the removing group still retracts the columns of the other groups.
            kept |= {name for group in function.groups for name in group.sequence} | set(function.functions)
        elif not isinstance(function, AggregateMerge):
            return None
        return RemovalRules(
            cleared=frozenset(f.name for f in schema.fields if f.type.nullable and f.name not in kept),
            skips_updates_before=isinstance(function, PartialUpdate) and not function.groups,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalSplit:
    """A merge function that merges the rows of a key up to its last -D row separately from later rows.

    If there are later rows, the merged earlier ones are passed to `emit_removals`.
    """

    inner: MergeFunction
    rules: RemovalRules
    emit_removals: Callable[[pa.RecordBatch], None]

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        return self.inner.columns(output)

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        if groups.kinds is None or not len(groups.order):
            return self.inner.merge(groups, output)
        if self.rules.skips_updates_before:
            groups = _only(groups, groups.kinds[groups.order] != RowKind.UPDATE_BEFORE)
        kinds = groups.kinds
        assert kinds is not None
        groups = replace(groups, rows=self._cleared(groups.rows, kinds))
        deletes = kinds[groups.order] == RowKind.DELETE
        if not deletes.any():
            return self.inner.merge(groups, output)
        before = _up_to_last(deletes, np.flatnonzero(groups.starts))
        # A key continues if it has rows after its last -D row.
        continued = _key_has(~before, groups.starts)
        removals = before & continued
        if not removals.any():
            return self.inner.merge(groups, output)
        self.emit_removals(self.inner.merge(_only(groups, removals), output))
        return self.inner.merge(_only(groups, ~removals), output)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        if kinds is not None:
            rows = self._cleared(rows, kinds)
            if self.rules.skips_updates_before:
                wanted = kinds != RowKind.UPDATE_BEFORE
                if not wanted.all():
                    rows, kinds = rows.filter(from_numpy(wanted)), kinds[wanted]
        return self.inner.merge_single(rows, kinds, output)

    def _cleared(self, rows: pa.RecordBatch, kinds: Kinds) -> pa.RecordBatch:
        deletes = kinds == RowKind.DELETE
        if not deletes.any():
            return rows
        chosen: Any = from_numpy(deletes)
        columns = [
            pc.if_else(chosen, pa.scalar(None, field.type), column) if field.name in self.rules.cleared else column
            for field, column in zip(rows.schema, rows.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _up_to_last(wanted: Mask, firsts: "np.ndarray[Any, np.dtype[np.int64]]") -> Mask:
    """Return the mask of rows at or before the last wanted row of their key; rows are in order of key and age."""
    places = np.arange(len(wanted))
    lasts = np.maximum.reduceat(np.where(wanted, places, -1), firsts)
    sizes = np.diff(firsts, append=len(wanted))
    up_to: Mask = places <= np.repeat(lasts, sizes)
    return up_to


def _key_has(wanted: Mask, starts: Mask) -> Mask:
    """Return the mask of rows whose key has a wanted row."""
    firsts = np.flatnonzero(starts)
    has = np.logical_or.reduceat(wanted, firsts)
    of_rows: Mask = np.repeat(has, np.diff(firsts, append=len(wanted)))
    return of_rows


def _only(groups: KeyGroups, wanted: Mask) -> KeyGroups:
    """Return the groups with the wanted rows only, a mask by order; keys without any are left out."""
    if wanted.all():
        return groups
    keys = np.cumsum(groups.starts).compress(wanted)
    starts = np.ones(len(keys), np.bool_)
    starts[1:] = keys[1:] != keys[:-1]
    return replace(groups, order=groups.order.compress(wanted), starts=starts)


Write: TypeAlias = Callable[[pa.RecordBatch], None]

BLOCK_BYTES = 64 << 20
"""The approximate size in memory of a block of a flush, however wide the rows are."""
_MIN_BLOCK_ROWS = 1_024
_FEW_ROWS = 4_096
"""Up to this many rows are sorted as a whole, which is cheaper than to set up a merge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferMerge:
    """The merge of buffered rows for a file, by `function`; the first `descending` sequence fields descend.

    With `emits_input` all rows are also written to a changelog (`changelog-producer` = `input`). With `removals` -D
    rows remove the row of a key.
    """

    layout: DataFileLayout
    function: MergeFunction
    descending: int = 0
    emits_input: bool = False
    removals: RemovalRules | None = None

    @property
    def keeps_last(self) -> bool:
        """Whether only the last row of a key counts, so that others may be dropped at any time."""
        return isinstance(self.function, DeduplicateMerge) and not self.emits_input

    def join(self, runs: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Return one sorted run of several, oldest first."""
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
        """Merge sorted runs, oldest first, and pass the rows to `write`, in key order and in the layout of the file.

        Runs have the table's columns, `_SEQUENCE_NUMBER` and perhaps `_VALUE_KIND`. `emit_changes` is given if the
        merge `emits_input`, and gets all rows, unmerged and in the same layout. `emit_removals` is given if the merge
        has `removals`, and gets the merged rows of keys up to a -D row that later rows follow. In addition to the runs,
        memory holds a block (BLOCK_BYTES) and one batch of each spilled run. Raises CorruptFileError for a spilled run.
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
        """Yield one sorted run of several, oldest first, as small batches to be spilled.

        All rows of a key are in one batch. Rows are dropped only if just the last row of a key counts.
        """
        batches = [r for r in runs if isinstance(r, pa.RecordBatch)]
        function: MergeFunction = self.function if self.keeps_last else _AllRows()
        few = len(batches) == len(runs) and sum(r.num_rows for r in runs) <= _FEW_ROWS
        # A routed batch is a sorted run already.
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
                # All rows of a key are in one batch.
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
    """A merge function that keeps all rows, in order of key and age."""

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        return tuple(output)

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        return take_rows(groups.rows, output, groups.order)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        return rows.select(list(output))


def _with_kinds(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows if VALUE_KIND in rows.schema.names else with_kinds(rows, insertions(rows.num_rows))


def file_batch(rows: pa.RecordBatch, layout: DataFileLayout) -> pa.RecordBatch:
    """Return the rows with the columns of the file; its key columns share memory with the table's."""
    has_kinds = rows.schema.get_field_index(VALUE_KIND) >= 0
    columns = [
        insertions(rows.num_rows)
        if f.name == VALUE_KIND and not has_kinds
        else rows.column(f.name.removeprefix(KEY_PREFIX))
        for f in layout.fields
    ]
    return pa.RecordBatch.from_arrays(columns, schema=layout.arrow)
