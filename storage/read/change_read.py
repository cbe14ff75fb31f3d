"""Reading splits as changes: rows with their kinds.

What each kind of split means is said at `Split`. Source: documentation pages `primary-key-table/changelog-producer` and
`concepts/system-tables`; which rows a comparison returns is that of Paimon's IncrementalDiffSplitRead.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.lsm.compact.changelog import same_rows
from interbed.storage.lsm.file_read import FileRead, ReadOptions, block_rows
from interbed.storage.lsm.interval_partition import interval_partition
from interbed.storage.lsm.merge_function.api import KeyGroups, Kinds, take_rows
from interbed.storage.lsm.merge_function.deduplicate import is_retract
from interbed.storage.lsm.merge_read import MergeRead, merge_function_for
from interbed.storage.lsm.sort_merge import MergePlan, RunBatch, RunInput, merge_runs
from interbed.storage.meta.manifest.data_file import DataFileMeta
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from interbed.storage.meta.store import TableStore
from interbed.storage.read.columns import ReadColumns
from interbed.storage.read.deletions import DeletionReader
from interbed.storage.scan.split import DeletionFile, Split

ROW_KIND = "_row_kind"
"""The column of the rows' kinds: 0 insert, 1 update-before, 2 update-after, 3 delete."""

_AFTER = "_AFTER"
"""A column, boolean, that no file has: whether the row is of the later of two snapshots."""


class ChangeRead:
    """Reads splits as batches of the columns asked for (all of the table's when None) and ROW_KIND, filtered exactly.

    Rows of the table, which are not changes, are insertions. With `keep_deletes` they have the kinds that they were
    written with, keys that a record deletes are in it, and comparisons return the rows that are gone: so the
    audit log wants it. `with_sequence` adds `_SEQUENCE_NUMBER` after ROW_KIND, for tables with a primary key.
    May be shared by threads. Raises InvalidInputError for an unknown column and FilterError for a predicate that does
    not fit the table.
    """

    def __init__(
        self,
        store: TableStore,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        *,
        keep_deletes: bool = False,
        with_sequence: bool = False,
    ) -> None:
        self._store = store
        self._columns = ReadColumns.of(store.schema, columns, predicate)
        self._keyed = store.schema.has_primary_key
        self._keep_deletes = keep_deletes
        self._with_sequence = with_sequence and self._keyed
        self._files = FileRead(store, self._columns.fields)
        self._deletions = DeletionReader(store.file_io)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows: the columns asked for, ROW_KIND, and perhaps `_SEQUENCE_NUMBER`."""
        schema = self._columns.schema.append(pa.field(ROW_KIND, pa.int8(), nullable=False))
        return schema.append(pa.field(SEQUENCE_NUMBER, pa.int64(), nullable=False)) if self._with_sequence else schema

    def to_reader(self, splits: Sequence[Split]) -> pa.RecordBatchReader:
        """The rows of the splits, one split after the other."""
        batches = (batch for split in splits for batch in self.to_batches(split))
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def to_batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a split; raises CorruptFileError for a file that can't be decoded, StorageAccessError."""
        for batch in self._unfiltered(split):
            rows = self._columns.kept(batch)
            if rows.num_rows:
                yield self._handed_out(rows)

    def added(self, split: Split) -> Iterator[pa.RecordBatch]:
        """What a batch read shows of changes: the rows that they add, unfiltered and with the filter's columns."""
        schema = fields_to_schema(self._columns.fields)
        for batch in self._unfiltered(split):
            adds = batch
            if self._keyed:
                adds = batch.filter(from_numpy(~is_retract(_kinds_of(batch))))
            shown = adds.select(schema.names)
            # By schema, so that columns that are never null stay so; without columns rows are still counted.
            yield shown if shown.schema == schema else pa.RecordBatch.from_arrays(shown.columns, schema=schema)

    def _handed_out(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        kinds: pa.Array[Any] = from_numpy(np.zeros(rows.num_rows, np.int8))
        if self._keyed:
            kinds = rows.column(VALUE_KIND).cast(pa.int8())
        arrays = [*(rows.column(n) for n in self._columns.names), kinds]
        if self._with_sequence:
            arrays.append(rows.column(SEQUENCE_NUMBER))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _unfiltered(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Rows with the fields read; of a primary-key table with `_VALUE_KIND`, and `_SEQUENCE_NUMBER` if wanted."""
        if not self._keyed or (split.streaming and split.before is None):
            yield from self._records(split)
        elif split.before is None:
            kinds_kept = self._keep_deletes
            for batch in self._merged(split, split.files, split.deletion_files, drop_deletes=not kinds_kept):
                yield batch if kinds_kept else _with_kinds(batch, np.zeros(batch.num_rows, np.int8))
        elif split.streaming:
            for batch in self._merged(split, split.before, split.before_deletion_files, drop_deletes=True):
                yield _with_kinds(batch, np.full(batch.num_rows, RowKind.DELETE, np.int8))
            yield from self._merged(split, split.files, split.deletion_files, drop_deletes=True)
        else:
            yield from self._difference(split, split.before)

    def _records(self, split: Split) -> Iterator[pa.RecordBatch]:
        deleted_of = self._deletions.of(split.deletion_files)
        for file in split.files:
            yield from self._files.batches(
                file,
                split.path_of(file),
                ReadOptions(
                    batch_rows=block_rows([file]),
                    predicate=self._columns.predicate,
                    with_sequence=self._with_sequence,
                    with_kind=self._keyed,
                    use_threads=True,
                    deleted=deleted_of(file),
                ),
            )

    def _merged(
        self,
        split: Split,
        files: Sequence[DataFileMeta],
        deletions: Mapping[str, DeletionFile],
        *,
        drop_deletes: bool,
    ) -> Iterator[pa.RecordBatch]:
        """The rows that the files amount to, by key, with both system columns."""
        function = merge_function_for(self._store, drop_deletes=drop_deletes)
        merge = MergeRead(self._store, self._columns.fields, function)
        deleted_of = self._deletions.of(deletions)
        for section in interval_partition(files, self._store.schema.key_types):
            yield from merge.section(
                section,
                split.path_of,
                predicate=self._columns.predicate,
                with_system=True,
                use_threads=True,
                deleted_of=deleted_of,
            )

    def _difference(self, split: Split, before: Sequence[DataFileMeta]) -> Iterator[pa.RecordBatch]:
        # Rows differ in any column, whichever are asked for, and none may be left out before they are compared.
        whole = ChangeRead(self._store)
        sides = ((before, split.before_deletion_files), (split.files, split.deletion_files))
        inputs = [
            RunInput(
                row_count=max(1, sum(f.row_count for f in files)),
                open=partial(whole._side, split, files, deletions, age),
            )
            for age, (files, deletions) in enumerate(sides)
        ]
        names = self._store.schema.names
        plan = MergePlan(keys=self._store.schema.trimmed_primary_keys, output=(*names, SEQUENCE_NUMBER, VALUE_KIND))
        yield from merge_runs(inputs, plan, _Difference(compared=names, keep_deletes=self._keep_deletes))

    def _side(
        self, split: Split, files: Sequence[DataFileMeta], deletions: Mapping[str, DeletionFile], age: int, _rows: int
    ) -> Iterator[RunBatch]:
        """One side of a comparison as a sorted run; its batches are as large as its merge makes them."""
        for batch in self._merged(split, files, deletions, drop_deletes=True):
            after: pa.Array[Any] = from_numpy(np.full(batch.num_rows, age == 1))
            names = [*batch.schema.names, _AFTER]
            yield RunBatch(pa.RecordBatch.from_arrays([*batch.columns, after], names=names), age)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    """Of each key the row after, unless it is as it was before; of keys that are gone the row before, as deleted."""

    compared: tuple[str, ...]
    keep_deletes: bool

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """See MergeFunction."""
        return (*output, _AFTER)

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """See MergeFunction; a key has a row before, one after, or both in this order."""
        rows, order = groups.rows, groups.order.astype(np.int64)
        after = to_numpy(rows.column(_AFTER))
        kinds = np.array(_kinds_of(rows))
        firsts = np.flatnonzero(groups.starts)
        pairs = firsts[np.diff(firsts, append=len(order)) == 2]
        old, new = order[pairs], order[pairs + 1]
        changed = np.ones(len(order), np.bool_)
        changed[pairs] = False
        changed[pairs[same_rows(rows, rows, old, new, self.compared)] + 1] = False
        gone = changed & ~after[order]
        kinds[order[gone]] = RowKind.DELETE
        if not self.keep_deletes:
            changed &= ~gone
        return take_rows(_with_kinds(rows, kinds), output, order[changed])

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """See MergeFunction."""
        every = np.arange(rows.num_rows)
        groups = KeyGroups(rows=rows, order=every, starts=np.ones(rows.num_rows, np.bool_), kinds=kinds)
        return self.merge(groups, output)


def _kinds_of(rows: pa.RecordBatch) -> Kinds:
    kinds: Kinds = to_numpy(rows.column(VALUE_KIND)).astype(np.int8)
    return kinds


def _with_kinds(rows: pa.RecordBatch, kinds: Kinds) -> pa.RecordBatch:
    """The rows with other kinds."""
    column: pa.Array[Any] = from_numpy(kinds)
    arrays = [column if n == VALUE_KIND else rows.column(n) for n in rows.schema.names]
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)
