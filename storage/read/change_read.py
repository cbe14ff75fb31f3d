"""Reads splits as changes (rows with their kinds), and as the rows of the audit log and the binlog.

`Split` describes the kinds of splits. Source: documentation pages `primary-key-table/changelog-producer` and
`concepts/system-tables`; a comparison returns the rows of Paimon's IncrementalDiffSplitRead.

Audit log: `rowkind` (+I, -U, +U, -D), then the table's columns. Binlog: the same with arrays of one value, or for
updates of the values before and after. With `table-read.sequence-number.enabled` both have `_SEQUENCE_NUMBER`
after `rowkind`. Source: paimon-core's AuditLogTable and BinlogTable.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrow_values import array_of, from_numpy, to_numpy
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import Predicate, bind, columns_of, restrict_to
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.base.types.column_names import check_asked_once
from interbed.storage.base.types.data_type import MAX_LENGTH, ArrayType, AtomicType, DataField, TypeRoot
from interbed.storage.lsm.compact.changes import same_rows
from interbed.storage.lsm.file_read import FileRead, ReadOptions, block_rows
from interbed.storage.lsm.levels import interval_partition
from interbed.storage.lsm.merge_function.api import KeyGroups, Kinds, is_retract, take_rows
from interbed.storage.lsm.merge_read import MergeRead, merge_function_for
from interbed.storage.lsm.sort_merge import MergePlan, RunBatch, RunInput, merge_runs
from interbed.storage.meta.bucket_mode import crosses_partitions
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from interbed.storage.read.columns import DeletionReader, ReadColumns
from interbed.storage.scan.split import DeletionFile, Split

ROW_KIND = "_row_kind"
"""The column of row kinds: 0 insert, 1 update-before, 2 update-after, 3 delete."""

_AFTER = "_AFTER"
"""A virtual boolean column: whether the row is of the later of two snapshots."""

ChangeKinds = frozenset[RowKind]
"""Kinds of the changes to return."""


class ChangeRead:
    """Reads splits as batches of the requested columns (all of the table for None) and ROW_KIND, filtered exactly.

    Rows of a snapshot (not of changes) are insertions. With `keep_deletes`, for the audit log, they have the kinds that
    they were written with, deleted keys are included, and comparisons return deleted rows. `with_sequence` adds
    `_SEQUENCE_NUMBER` after ROW_KIND, for primary-key tables. Safe for several threads. Raises InvalidInputError for an
    unknown column and FilterError for a predicate that does not fit the table.
    """

    def __init__(
        self,
        store: FileStore,
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
        """The Arrow schema of the rows: the requested columns, ROW_KIND, and optionally `_SEQUENCE_NUMBER`.

        InvalidInputError if ROW_KIND is also a requested column of the table.
        """
        _check_kinds_apart(ROW_KIND, self._columns.names)
        schema = self._columns.schema.append(pa.field(ROW_KIND, pa.int8(), nullable=False))
        return schema.append(pa.field(SEQUENCE_NUMBER, pa.int64(), nullable=False)) if self._with_sequence else schema

    def to_reader(self, splits: Sequence[Split]) -> pa.RecordBatchReader:
        """Return the rows of the splits, in the order of `change_steps`."""
        steps = change_steps(self._store, splits)
        batches = (batch for split, kinds in steps for batch in self.to_batches(split, kinds))
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def to_batches(self, split: Split, kinds: ChangeKinds | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, or those of some kinds.

        Raises CorruptFileError for a file that can't be decoded, StorageAccessError.
        """
        for batch in self._unfiltered(split):
            rows = rows_of_kinds(self._as_output(self._columns.kept(batch)), kinds)
            if rows.num_rows:
                yield rows

    def added(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the changes add, for batch reads: unfiltered and with the columns of the filter."""
        schema = fields_to_schema(self._columns.fields)
        for batch in self._unfiltered(split):
            adds = batch
            if self._keyed:
                adds = batch.filter(from_numpy(~is_retract(_kinds_of(batch))))
            shown = adds.select(schema.names)
            # By schema, to keep the nullability of the columns; without columns the number of rows is kept.
            yield shown if shown.schema == schema else pa.RecordBatch.from_arrays(shown.columns, schema=schema)

    def _as_output(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        kinds: pa.Array[Any] = from_numpy(np.zeros(rows.num_rows, np.int8))
        if self._keyed:
            kinds = rows.column(VALUE_KIND).cast(pa.int8())
        arrays = [*(rows.column(n) for n in self._columns.names), kinds]
        if self._with_sequence:
            arrays.append(rows.column(SEQUENCE_NUMBER))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _unfiltered(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield rows with the fields read; of a primary-key table with its kinds, and optional sequence numbers."""
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
        if self._store.options.data_evolution_enabled:
            # By use: reads of other tables do not load it.
            from interbed.storage.lsm.column_groups import ColumnGroupRead, GroupOptions

            groups = ColumnGroupRead(self._store, self._columns.fields)
            options = GroupOptions(predicate=self._columns.predicate, use_threads=True)
            yield from groups.of_files(split.files, split.path_of, options, deleted_of=deleted_of)
            return
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
        """Yield the merged rows of the files, by key, with both system columns."""
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
        # Rows may differ in any column, and no row may be filtered out before the comparison.
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
        yield from merge_runs(inputs, plan, _SnapshotDifference(compared=names, keep_deletes=self._keep_deletes))

    def _side(
        self, split: Split, files: Sequence[DataFileMeta], deletions: Mapping[str, DeletionFile], age: int, _rows: int
    ) -> Iterator[RunBatch]:
        """Yield one side of a comparison as a sorted run, in the batches of its merge."""
        for batch in self._merged(split, files, deletions, drop_deletes=True):
            after: pa.Array[Any] = from_numpy(np.full(batch.num_rows, age == 1))
            names = [*batch.schema.names, _AFTER]
            yield RunBatch(pa.RecordBatch.from_arrays([*batch.columns, after], names=names), age)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SnapshotDifference:
    """A merge function that returns the changed rows of the later snapshot, and deleted rows of the earlier one."""

    compared: tuple[str, ...]
    keep_deletes: bool

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        return (*output, _AFTER)

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        # A key has a row before, a row after, or both in this order.
        rows, order = groups.rows, groups.order.astype(np.int64)
        after = to_numpy(rows.column(_AFTER))
        kinds = np.array(_kinds_of(rows))
        firsts = np.flatnonzero(groups.starts)
        pairs = firsts[np.diff(firsts, append=len(order)) == 2]
        old, new = order[pairs], order[pairs + 1]
        changed = np.ones(len(order), np.bool_)
        changed[pairs] = False
        changed[pairs[same_rows(rows, rows, old, new, self.compared)] + 1] = False
        deleted = changed & ~after[order]
        kinds[order[deleted]] = RowKind.DELETE
        if not self.keep_deletes:
            changed &= ~deleted
        return take_rows(_with_kinds(rows, kinds), output, order[changed])

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        every = np.arange(rows.num_rows)
        groups = KeyGroups(rows=rows, order=every, starts=np.ones(rows.num_rows, np.bool_), kinds=kinds)
        return self.merge(groups, output)


_PRODUCERS_OF_PAIRS = (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)
"""The producers whose update-before row is always followed by the row after the update, in the same split."""


def change_steps(store: FileStore, splits: Sequence[Split]) -> Iterator[tuple[Split, ChangeKinds | None]]:
    """Yield the splits in the order in which their rows are returned, with the kinds to return; None for all rows.

    A key that moves to another partition is deleted in one split and added in another one of the same snapshot. In such
    tables the deletions of a snapshot precede its other changes, so that a copy does not lose the row. The splits of
    overwrites (`streaming` with `before`) are planned in this order.
    """
    deletions = frozenset({RowKind.DELETE})
    if store.options.changelog_producer not in _PRODUCERS_OF_PAIRS:
        deletions |= {RowKind.UPDATE_BEFORE}
    for group in ordered_groups(store, splits):
        if len(group) > 1:
            yield from ((split, kinds) for kinds in (deletions, frozenset(RowKind) - deletions) for split in group)
        else:
            yield from ((split, None) for split in group)


def ordered_groups(store: FileStore, splits: Sequence[Split]) -> Iterator[list[Split]]:
    """Yield the splits in groups whose rows are in order only if each group is read as a whole; see change_steps."""
    crossing = crosses_partitions(store.schema)
    for _, found in groupby(splits, key=lambda split: split.snapshot_id):
        group = list(found)
        if crossing and any(s.streaming != (s.before is not None) for s in group):
            yield group
        else:
            yield from ([split] for split in group)


def rows_of_kinds(rows: pa.RecordBatch, kinds: ChangeKinds | None) -> pa.RecordBatch:
    """Return the rows with these values of ROW_KIND, all of them for None."""
    if kinds is None:
        return rows
    return rows.filter(from_numpy(np.isin(to_numpy(rows.column(ROW_KIND)), [int(kind) for kind in kinds])))


def _kinds_of(rows: pa.RecordBatch) -> Kinds:
    kinds: Kinds = to_numpy(rows.column(VALUE_KIND)).astype(np.int8)
    return kinds


def _with_kinds(rows: pa.RecordBatch, kinds: Kinds) -> pa.RecordBatch:
    """Return the rows with other kinds."""
    column: pa.Array[Any] = from_numpy(kinds)
    arrays = [column if n == VALUE_KIND else rows.column(n) for n in rows.schema.names]
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)


def _check_kinds_apart(kinds: str, columns: Sequence[str]) -> None:
    """Raise InvalidInputError if a requested column of the table has the name of the column of kinds."""
    if kinds in columns:
        raise InvalidInputError(
            f"The table has a column {kinds!r}, which is the name of the column for the kinds of changes. Name the "
            "other columns to read, or rename this one."
        )


ROWKIND = "rowkind"
_ROWKIND_FIELD = DataField(id=2**31 - 5, name=ROWKIND, type=AtomicType(root=TypeRoot.VARCHAR, length=MAX_LENGTH))
_SEQUENCE_FIELD = DataField(id=2**31 - 2, name=SEQUENCE_NUMBER, type=AtomicType(root=TypeRoot.BIGINT, nullable=False))
_KIND_TEXTS = array_of([k.short for k in RowKind], pa.string())


def audit_fields(store: FileStore, *, packed: bool) -> tuple[DataField, ...]:
    """Return the columns of the audit log, or with `packed` of the binlog."""
    system = [_ROWKIND_FIELD]
    if store.options.reads_sequence_numbers and store.schema.has_primary_key:
        system.append(_SEQUENCE_FIELD)
    fields = store.schema.fields
    if packed:
        fields = tuple(replace(f, type=ArrayType(element=f.type.with_nullable(True))) for f in fields)
    return (*system, *fields)


class AuditRead:
    """Reads splits as rows of the audit log, or with `packed` of the binlog; all columns if `columns` is None.

    `predicate` may use `rowkind`, and in the audit log any column. Raises InvalidInputError for an unknown column,
    FilterError for a predicate that does not fit, NotSupportedError for a predicate on arrays of the binlog.
    """

    def __init__(
        self,
        store: FileStore,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        *,
        packed: bool = False,
    ) -> None:
        fields = {f.name: f for f in audit_fields(store, packed=packed)}
        fields[ROWKIND] = _ROWKIND_FIELD
        check_asked_once(columns)
        self._names = tuple(fields) if columns is None else tuple(columns)
        for name in self._names:
            if name not in fields:
                raise InvalidInputError(f"There is no column {name!r}; there are {', '.join(fields)}.")
        if ROWKIND in store.schema.by_name:
            _check_kinds_apart(ROWKIND, [*self._names, *(() if predicate is None else columns_of(predicate))])
        self._predicate = None if predicate is None else bind(predicate, list(fields.values()))
        filtered = frozenset[str]() if self._predicate is None else columns_of(self._predicate)
        arrays = sorted(filtered & set(store.schema.names)) if packed else []
        if arrays:
            raise NotSupportedError(f"The binlog can't be filtered by {arrays[0]!r}, which it has as arrays.")
        self._store = store
        self._fields = fields
        self._packed = packed
        data = [n for n in dict.fromkeys((*self._names, *sorted(filtered))) if n in store.schema.by_name]
        inner = None if self._predicate is None else restrict_to(self._predicate, store.schema.names)
        self._read = ChangeRead(store, data, inner, keep_deletes=True, with_sequence=SEQUENCE_NUMBER in fields)
        # The columns that are computed, those of the filter included.
        self._computed = [ROWKIND, *([SEQUENCE_NUMBER] if SEQUENCE_NUMBER in fields else []), *data]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return fields_to_schema([self._fields[n] for n in self._names])

    def to_reader(self, splits: Sequence[Split]) -> pa.RecordBatchReader:
        """Return the rows of the splits, in the order of `change_steps`."""
        steps = change_steps(self._store, splits)
        batches = (batch for split, kinds in steps for batch in self.to_batches(split, kinds))
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def to_batches(self, split: Split, kinds: ChangeKinds | None = None) -> Iterator[pa.RecordBatch]:
        """Return the rows of a split, or those of some kinds; raises what ChangeRead.to_batches raises."""
        return self.of_changes(self._read.to_batches(split, kinds), pairs=split.streaming)

    @property
    def data_columns(self) -> tuple[str, ...]:
        """The table's columns that are read, those of the filter included."""
        return tuple(name for name in self._computed if name not in (ROWKIND, SEQUENCE_NUMBER))

    def of_changes(self, rows: Iterator[pa.RecordBatch], *, pairs: bool) -> Iterator[pa.RecordBatch]:
        """Yield the rows of changes, which have `data_columns` and ROW_KIND; with `pairs` updates have both rows."""
        for batch in self._packs(rows, pairs=pairs) if self._packed else map(self._audited, rows):
            kept = batch if self._predicate is None else batch.filter(mask(self._predicate, batch))
            if kept.num_rows:
                yield kept.select(list(self._names))

    def _audited(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return self._with_kinds([rows.column(n) for n in self._computed[1:]], rows.column(ROW_KIND))

    def _with_kinds(self, columns: "Sequence[pa.Array[Any]]", kinds: "pa.Array[Any]") -> pa.RecordBatch:
        schema = fields_to_schema([self._fields[n] for n in self._computed])
        return pa.RecordBatch.from_arrays([_KIND_TEXTS.take(kinds), *columns], schema=schema)

    def _packs(self, batches: Iterator[pa.RecordBatch], *, pairs: bool) -> Iterator[pa.RecordBatch]:
        """Yield rows as arrays; with `pairs` an update-before row shares them with the row after it."""
        waiting: pa.RecordBatch | None = None
        for batch in batches:
            rows: pa.RecordBatch = batch
            if waiting is not None:
                rows = pa.concat_batches([waiting, batch])  # type: ignore[attr-defined]  # The stubs lack it.
            waiting = None
            firsts = _firsts(to_numpy(rows.column(ROW_KIND)), pairs=pairs)
            last_kind = rows.column(ROW_KIND)[rows.num_rows - 1].as_py()
            if pairs and last_kind == RowKind.UPDATE_BEFORE and firsts[-1] == rows.num_rows - 1:
                # Its update-after row is in the next batch.
                waiting = rows.slice(rows.num_rows - 1)
                rows, firsts = rows.slice(0, rows.num_rows - 1), firsts[:-1]
            if rows.num_rows:
                yield self._packed_rows(rows, firsts)
        if waiting is not None:
            yield self._packed_rows(waiting, np.zeros(1, np.int64))

    def _packed_rows(self, rows: pa.RecordBatch, firsts: "npt.NDArray[np.int64]") -> pa.RecordBatch:
        ends = np.append(firsts[1:], rows.num_rows)
        offsets: Any = from_numpy(np.append(firsts, rows.num_rows).astype(np.int32))
        first_rows: Any = from_numpy(firsts)
        last_rows: Any = from_numpy(ends - 1)
        columns: list[pa.Array[Any]] = []
        for name in self._computed[1:]:
            column = rows.column(name)
            if name == SEQUENCE_NUMBER:
                columns.append(column.take(first_rows))
            else:
                kind = fields_to_schema([self._fields[name]]).field(0).type
                columns.append(pa.ListArray.from_arrays(offsets, column, type=kind))
        return self._with_kinds(columns, rows.column(ROW_KIND).take(last_rows))


def _firsts(kinds: "npt.NDArray[np.int8]", *, pairs: bool) -> "npt.NDArray[np.int64]":
    """Return the first row of each packed row; an update-after row belongs to the update-before row before it."""
    if not pairs:
        return np.arange(len(kinds))
    before = kinds == RowKind.UPDATE_BEFORE
    # In a run of update-before rows the first one pairs with the second, the third with the fourth, and so on.
    numbers = np.arange(len(kinds))
    starts = np.maximum.accumulate(np.where(before & ~np.append(False, before[:-1]), numbers, 0))
    takes_next = before & ((numbers - starts) % 2 == 0)
    return np.flatnonzero(~np.append(False, takes_next[:-1]))
