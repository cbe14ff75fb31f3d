"""Reads the splits of a plan: projection, merge, exact filter, Arrow batches.

`KeySpread` estimates from the bounds of files how many records share key ranges, for the choice of a way to read.
`with_reading` executes a plan to explain what the read decodes.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Positions
from interbed.storage.base.arrow_values import array_of, to_numpy
from interbed.storage.base.predicate.expr import Comparison, In, Op, Predicate, conjuncts
from interbed.storage.base.prefetch import first_within, longest_first, read_in_parallel
from interbed.storage.base.row.binary_row import decode_rows
from interbed.storage.base.row.words import Array
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.file_index.api import EVERYTHING
from interbed.storage.files.format.api import DecodeTally
from interbed.storage.lsm.file_read import FileRead, ReadOptions, block_rows, prefetched_files
from interbed.storage.lsm.levels import interval_partition
from interbed.storage.lsm.merge_read import MergeRead, merge_function_for
from interbed.storage.lsm.sort_merge import BLOCK_ROWS, MIN_BATCH_ROWS
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.read.columns import DeletionReader, ReadColumns
from interbed.storage.scan.explain import DecodedExplanation, Explanation, ReadExplanation
from interbed.storage.scan.pruning import BucketSelector
from interbed.storage.scan.split import Split
from interbed.storage.scan.starting_point import at_snapshot

if TYPE_CHECKING:
    from interbed.storage.lsm.column_groups import ColumnGroupRead
    from interbed.storage.read.change_read import ChangeRead

MAX_DEFAULT_THREADS = 4
"""The maximum number of threads of a read by default. Each holds blocks and a mapped file in memory."""
_PREFETCHED_SPLITS = 16
_PREFETCHED_BYTES = 32 << 20
"""Limits of the small remote splits that are prefetched together."""
_FEW_ROWS = 32_768
"""If a filter on the key selects fewer rows, threads do not help: they wait for each other between short calls."""

_Numbers = npt.NDArray[np.float64]


class TableRead:
    """Reads splits as batches of the requested columns (all of the table for None), filtered exactly.

    Safe for several threads. Raises InvalidInputError for an unknown column and FilterError for a predicate that does
    not fit the table. The `tally` counts what is decoded from data files.
    """

    def __init__(
        self,
        store: FileStore,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        *,
        tally: DecodeTally | None = None,
    ) -> None:
        self._store = store
        self._tally = tally
        self._columns = ReadColumns.of(store.schema, columns, predicate)
        self._predicate = self._columns.predicate
        self._buckets = BucketSelector(store.schema, self._predicate)
        self._files = FileRead(store, self._columns.fields, tally)
        self._deletions = DeletionReader(store.file_io)
        self._asked = (columns, predicate)
        self._branches: dict[tuple[str, int | None], TableRead] = {}
        self._changes: ChangeRead | None = None
        self._merge: MergeRead | None = None
        self._groups: ColumnGroupRead | None = None
        if store.options.data_evolution_enabled:
            # By use: reads of other tables do not load it.
            from interbed.storage.lsm import column_groups

            self._groups = column_groups.ColumnGroupRead(store, self._columns.fields, tally)
        if store.schema.has_primary_key:
            function = merge_function_for(store, drop_deletes=True)
            self._merge = MergeRead(store, self._columns.fields, function, tally)

    def __reduce__(self) -> tuple[Any, ...]:
        return TableRead, (self._store.read_only(), *self._asked)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._columns.schema

    def to_batches(
        self, split: Split, *, use_threads: bool = False, readers: int = 1, limit: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, in any order; of a split of changes the added rows.

        `use_threads` decodes columns in parallel. `readers` is the number of splits that are read at once, which share
        the memory for blocks. With `limit` blocks are smaller, for callers that take only the first rows.

        Raises CorruptFileError for a file that can't be decoded and StorageAccessError for a missing file.
        """
        if split.branch is not None:
            for batch in self._of_branch(split.branch, split.snapshot_id if split.of_past else None).to_batches(
                replace(split, branch=None, of_past=False), use_threads=use_threads, readers=readers, limit=limit
            ):
                # A column that is not nullable in one branch may be nullable in the other.
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema) if batch.columns else batch
            return
        names = self._columns.names
        for batch in self._unfiltered(split, use_threads, readers, limit):
            rows = self._columns.kept(batch)
            if rows.num_rows:
                yield rows if rows.num_columns == len(names) else rows.select(list(names))

    def to_reader(
        self, splits: Sequence[Split], *, threads: int | None = None, limit: int | None = None
    ) -> pa.RecordBatchReader:
        """Return the rows of all splits, read ahead by `threads` threads.

        The default is one thread for each core, up to MAX_DEFAULT_THREADS, or one thread if the filter selects few
        keys.

        With several threads the batches of several splits alternate in a fixed order, and if there are more splits than
        threads the largest splits are read first. With `limit`, for callers that take only the first rows, one split is
        read after the other, without read-ahead of later rows.
        """
        count = self._default_threads(splits) if threads is None else max(threads, 1)
        few = limit if limit is not None and limit < BLOCK_ROWS and self._predicate is None else None
        if few is not None:
            count = 1
        # Threads that are not needed for splits decode columns in parallel.
        use_threads = count > len(splits)
        readers = min(count, len(splits))
        if 1 < readers < len(splits):
            # A large split that is read last would occupy one thread while the others are idle.
            splits = [splits[place] for place in longest_first([split.byte_size for split in splits])]
        # The next remote splits are prefetched, and their first blocks need memory as well.
        following = splits[readers:] if few is None and self._files.has_slow_requests else []
        ahead = max(min(readers, len(following)), _small_prefix(following))
        sources = [
            partial(self.to_batches, split, use_threads=use_threads, readers=readers + min(readers, ahead), limit=few)
            for split in splits
        ]
        return pa.RecordBatchReader.from_batches(self.schema, read_in_parallel(sources, readers, ahead=ahead))

    def _default_threads(self, splits: Sequence[Split]) -> int:
        if self._predicate is not None and self._merge is not None and all(s.branch is None for s in splits):
            spread = KeySpread.of([f for split in splits for f in split.files], self._store.schema.key_fields)
            if spread is not None and spread.selected(self._predicate) < _FEW_ROWS:
                return 1
        return min(os.cpu_count() or 1, MAX_DEFAULT_THREADS)

    def _of_branch(self, name: str, snapshot_id: int | None) -> "TableRead":
        found = self._branches.get((name, snapshot_id))
        if found is None:
            # Threads may create it twice, which is harmless.
            store = self._store.plain_branch(name)
            then = store if snapshot_id is None else at_snapshot(store, snapshot_id)
            found = self._branches[name, snapshot_id] = TableRead(then, *self._asked, tally=self._tally)
        return found

    def _change_read(self) -> "ChangeRead":
        from interbed.storage.read.change_read import ChangeRead

        if self._changes is None:
            self._changes = ChangeRead(self._store, *self._asked)
        return self._changes

    def _unfiltered(self, split: Split, use_threads: bool, readers: int, limit: int | None) -> Iterator[pa.RecordBatch]:
        if split.has_changes:
            yield from self._change_read().added(split)
            return
        predicate = self._predicate
        if predicate is not None:
            predicate = self._buckets.narrowed(predicate, split.bucket, split.total_buckets)
        deleted_of = self._deletions.of(split.deletion_files)
        if self._groups is not None:
            # By use, as above.
            from interbed.storage.lsm.column_groups import GroupOptions

            yield from self._groups.of_files(
                split.files,
                split.path_of,
                GroupOptions(
                    predicate=predicate,
                    readers=readers,
                    most_rows=_rows_of_block(split, readers, limit),
                    use_threads=use_threads,
                ),
                deleted_of=deleted_of,
                row_ranges=split.row_ranges,
            )
            return
        if self._merge is None or split.raw_convertible:
            rows = _rows_of_block(split, readers, limit)

            def of_file(file: DataFileMeta) -> Iterator[pa.RecordBatch]:
                selection = EVERYTHING
                if predicate is not None and self._store.options.file_index_read_enabled:
                    selection = self._files.selected(file, split.path_of(file), predicate)
                if selection.is_empty:
                    return
                yield from self._files.batches(
                    file,
                    split.path_of(file),
                    ReadOptions(
                        batch_rows=rows,
                        predicate=predicate,
                        use_threads=use_threads,
                        deleted=deleted_of(file),
                        wanted=_within(split.row_ranges.get(file.file_name), selection.positions()),
                    ),
                )

            if limit is None and self._files.has_slow_requests:
                yield from prefetched_files([partial(of_file, file) for file in split.files], split.files)
                return
            for file in split.files:
                yield from of_file(file)
            return
        for section in interval_partition(split.files, self._store.schema.key_types):
            yield from self._merge.section(
                section,
                split.path_of,
                predicate=predicate,
                ordered=False,
                use_threads=use_threads,
                readers=readers,
                rows_of_block=None if limit is None else _rows_of_block(split, readers, limit),
                deleted_of=deleted_of,
            )


def _small_prefix(splits: Sequence[Split]) -> int:
    """Return the number of first splits that together are small enough to be prefetched, as latency dominates them."""
    return first_within((split.byte_size for split in splits[:_PREFETCHED_SPLITS]), _PREFETCHED_BYTES)


def _rows_of_block(split: Split, readers: int, limit: int | None) -> int:
    rows = block_rows(split.files, readers=readers)
    # Some of the rows are merged into one, or deleted.
    return rows if limit is None else min(rows, max(2 * limit, MIN_BATCH_ROWS))


def _within(rows: tuple[int, int] | None, positions: Positions | None) -> Positions | None:
    """Return the positions (all for None) within a range of rows; None for all rows of the file."""
    if rows is None:
        return positions
    if positions is None:
        return np.arange(*rows)
    return positions[slice(*np.searchsorted(positions, rows))]


def with_reading(
    explanation: Explanation, store: FileStore, splits: Sequence[Split], predicate: Predicate | None
) -> Explanation:
    """Read the splits of a plan, and return its explanation with what was decoded; raises what TableRead raises."""
    tally = DecodeTally()
    rows = sum(batch.num_rows for batch in TableRead(store, predicate=predicate, tally=tally).to_reader(splits))
    decoded = tuple(
        DecodedExplanation(reason=reason, rows=values // max(columns, 1), columns=columns, bytes=nbytes)
        for reason, (values, columns, nbytes) in sorted(tally.by_reason().items())
    )
    return replace(explanation, reading=ReadExplanation(rows=rows, decoded=decoded))


@dataclass(frozen=True)
class KeySpread:
    """Distribution of integers, dates and timestamps, taken as uniform between the least and the greatest of a file.

    The arrays have an entry for each file. The estimates serve the choice of a way to read; no result may depend on
    them.
    """

    column: str
    type: pa.DataType
    rows: _Numbers
    least: _Numbers
    greatest: _Numbers

    @staticmethod
    def of(files: Sequence[DataFileMeta], key_fields: Sequence[DataField]) -> "KeySpread | None":
        """Return the distribution in the files.

        None for keys of other types, and for files without bounds of their keys. `key_fields` are the columns of the
        key as files have it.
        """
        if not files or not key_fields or any(len(f.key_stats.null_counts) != len(key_fields) for f in files):
            return None
        arrow = type_to_arrow(key_fields[0].type)
        if not (pa.types.is_integer(arrow) or pa.types.is_date32(arrow) or pa.types.is_timestamp(arrow)):
            return None
        types = [f.type for f in key_fields]
        return KeySpread(
            key_fields[0].name,
            arrow,
            np.array([f.row_count for f in files], np.float64),
            _numbers(decode_rows([f.key_stats.min_values for f in files], types)[0]),
            _numbers(decode_rows([f.key_stats.max_values for f in files], types)[0]),
        )

    def selected(self, predicate: Predicate) -> float:
        """Return the estimated number of records that the predicate selects, by its parts on the column."""
        parts = [p for p in conjuncts(predicate) if isinstance(p, Comparison | In) and p.column == self.column]
        try:
            left_out = sum((1 - self._share(part) for part in parts), np.zeros(len(self.rows)))
        except (pa.ArrowException, TypeError, OverflowError):
            # The literal is outside of the column's type.
            return float(self.rows.sum())
        # A lower and an upper bound exclude disjoint shares.
        return float((self.rows * np.maximum(1 - left_out, 0)).sum())

    def end_of(self, rows: float, *, descending: bool = False) -> int | None:
        """Return the value up to which (descending: down to which) there are that many records.

        None when there are fewer.
        """
        if rows >= self.rows.sum():
            return None
        first, last = float(self.least.min()), float(self.greatest.max())
        # Halving the range of 64 bits ends at a single value.
        for _ in range(64):
            middle = (first + last) / 2
            share = self._from(middle) if descending else self._up_to(middle)
            enough = (self.rows * share).sum() >= rows
            if enough != descending:
                last = middle
            else:
                first = middle
        return int(np.floor(first)) if descending else int(np.ceil(last))

    def _share(self, part: Comparison | In) -> _Numbers:
        """Return the share of each file's range of values that the part selects."""
        given = part.values if isinstance(part, In) else (part.value,)
        values = np.sort(_numbers(array_of([v for v in given if v is not None], self.type)))
        if isinstance(part, In) or part.op is Op.EQ:
            before, through = np.searchsorted(values, self.least), np.searchsorted(values, self.greatest, side="right")
            return np.clip((through - before) / self._width, 0, 1)
        if not len(values):
            return np.zeros(len(self.rows))
        if part.op in (Op.GE, Op.GT):
            return self._from(values[0] + (part.op is Op.GT))
        if part.op in (Op.LE, Op.LT):
            return self._up_to(values[0] - (part.op is Op.LT))
        return np.ones(len(self.rows))

    @property
    def _width(self) -> _Numbers:
        return self.greatest - self.least + 1

    def _up_to(self, value: float) -> _Numbers:
        return np.clip((value - self.least + 1) / self._width, 0, 1)

    def _from(self, value: float) -> _Numbers:
        return np.clip((self.greatest - value + 1) / self._width, 0, 1)


def _numbers(column: Array) -> _Numbers:
    plain: Any = column
    if not pa.types.is_integer(column.type):
        plain = plain.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    found: _Numbers = to_numpy(plain).astype(np.float64)
    return found
