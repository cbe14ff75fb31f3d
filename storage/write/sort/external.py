"""Sort of more rows than fit in memory, in one process or in several that each sort a range of a partition.

A sample gives ranges, rows are spilled by range to local disk, and each range is sorted in memory.

A range that is still too large is split again. Rows equal to a boundary are a range of their own, which needs no
sorting. So such a range may have any size, and splitting always makes progress.

Of a partition of an append table that several processes sort, each reads all rows and keeps those of its range.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import array_of, from_numpy
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.files.deletion_vectors import BucketDeletions
from interbed.storage.lsm.file_read import EXPANSION, FileRead, ReadOptions, block_rows
from interbed.storage.lsm.write_buffer import SpilledRun, SpillFiles
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.manifest.index_manifest import IndexFileMeta
from interbed.storage.meta.options.format import RangeStrategy
from interbed.storage.write.sort.key import (
    Array,
    Sample,
    SortKey,
    batch_from_bytes,
    batch_to_bytes,
    chosen_rows,
    places,
)

OUT_ROWS = 64 * 1024
"""Rows in a batch of sorted rows."""
_SAMPLED_ROWS = 20_000
_MOST_RANGES = 64
"""Maximum number of ranges of one split; with more, the batches that are spilled for each range get too small."""


class Rows(Protocol):
    """Rows that can be read more than once; `nbytes` is their approximate size in memory."""

    @property
    def nbytes(self) -> int: ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, in any order."""
        ...

    def sample(self) -> Sample:
        """Return an even sample of the rows."""
        ...


class ExternalSort:
    """Sort of rows by a key in about `memory` bytes, in addition to the memory of the reader of the rows.

    `spill` holds the rows that exceed memory. The context manager removes the spilled files.
    """

    def __init__(self, key: SortKey, spill: SpillFiles, *, memory: int) -> None:
        self._key = key
        self._spill = spill
        # Sorted rows are copies, so half of the memory holds the rows themselves.
        self._block = max(memory // 2, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._spill.close()

    def sorted(self, rows: Rows, sample: Sample | None = None) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order. `sample` saves taking one."""
        if rows.nbytes <= self._block:
            block = self._read(rows)
            if block is not None:
                yield from self._sorted_block(block)
                return
        taken = rows.sample() if sample is None else sample
        bounds = self._key.boundaries(taken, min(2 * -(-rows.nbytes // self._block), _MOST_RANGES))
        del taken
        if not len(bounds[0]):
            yield from rows.batches()
            return
        for number, runs in enumerate(self._split(rows, bounds)):
            # Ranges with odd numbers hold rows equal to a boundary.
            part = _SpilledRows(self._key, runs)
            yield from part.batches() if number % 2 else self.sorted(part)
            for run in runs:
                self._spill.delete(run)

    def _read(self, rows: Rows) -> list[pa.RecordBatch] | None:
        """Return all rows; None when they are far more than expected."""
        block, held = [], 0
        for batch in rows.batches():
            block.append(batch)
            held += batch.nbytes
            if held > 2 * self._block:
                return None
        return block

    def _sorted_block(self, block: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not block:
            return
        rows = _joined(block)
        block.clear()
        order = self._key.sorted(rows)
        for start in range(0, rows.num_rows, OUT_ROWS):
            yield rows.take(order[start : start + OUT_ROWS])

    def _split(self, rows: Rows, bounds: Sequence[Array]) -> list[list[SpilledRun]]:
        """Spill the rows by range: less than the first boundary, equal to it, and so on, greater than the last one."""
        count = 2 * len(bounds[0]) + 1
        runs: list[list[SpilledRun]] = [[] for _ in range(count)]
        parts: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
        held = 0
        for batch in rows.batches():
            less, not_greater = places(self._key.columns(batch), bounds)
            ranges = less + not_greater
            order = np.argsort(ranges, kind="stable")
            moved = batch.take(order)
            cuts = np.searchsorted(ranges[order], np.arange(count + 1)).tolist()
            for number in np.unique(ranges).tolist():
                parts[number].append(moved.slice(cuts[number], cuts[number + 1] - cuts[number]))
            held += moved.nbytes
            if held > self._block:
                self._spill_parts(parts, runs)
                held = 0
        self._spill_parts(parts, runs)
        return runs

    def _spill_parts(self, parts: list[list[pa.RecordBatch]], runs: list[list[SpilledRun]]) -> None:
        for part, spilled in zip(parts, runs, strict=True):
            if part:
                rows = _joined(part)
                part.clear()
                run = self._spill.write(rows.slice(i, OUT_ROWS) for i in range(0, rows.num_rows, OUT_ROWS))
                if run is not None:
                    spilled.append(run)


@dataclass(frozen=True, slots=True)
class _SpilledRows:
    key: SortKey
    runs: list[SpilledRun]

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self.runs)

    def batches(self) -> Iterator[pa.RecordBatch]:
        for run in self.runs:
            yield from run.batches()

    def sample(self) -> Sample:
        part = _SAMPLED_ROWS / max(1, sum(run.num_rows for run in self.runs))
        return sample_of((b.select(list(self.key.order.columns)) for b in self.batches()), part)


def sample_of(batches: Iterator[pa.RecordBatch], part: float, weight: float = 1.0) -> Sample:
    """Return a sample of about such a part of the rows, at least one row if there are any, all of the same weight."""
    chosen: list[pa.RecordBatch] = []
    first: pa.RecordBatch | None = None
    for number, batch in enumerate(batches):
        if first is None and batch.num_rows:
            first = batch.slice(0, 1)
        kept = chosen_rows(batch.num_rows, part, number)
        chosen.append(batch if kept is None else batch.filter(from_numpy(kept)))
    rows = _joined(chosen)
    if first is not None and not rows.num_rows:
        # Without a sampled row, all rows would count as equal.
        rows = first
    return Sample(rows, np.full(rows.num_rows, weight))


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(list(batches)).combine_chunks()
    return table.to_batches()[0] if table.num_rows else batches[0].slice(0, 0)


_LEAST_RANGES = 64
"""Minimum number of ranges for which rows are sampled, so that small tables have fine curves, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SortUnit:
    """The files that are sorted together: those of a partition, a serialised BinaryRow, with their index files."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    index_files: tuple[IndexFileMeta, ...] = ()

    @property
    def bucket_id(self) -> BucketId:
        """The bucket of the files."""
        return BucketId(self.partition, self.bucket)

    @property
    def nbytes(self) -> int:
        """The approximate size of the rows in memory."""
        return EXPANSION * sum(f.file_size for f in self.files)


class PartitionRows:
    """Reader of the rows of a unit, without those that deletion vectors mark; the rows can be read repeatedly."""

    def __init__(self, store: FileStore, unit: SortUnit, columns: Sequence[str]) -> None:
        self._store = store
        self._unit = unit
        self._columns = tuple(columns)
        self._deletions = BucketDeletions.restore(store, unit.bucket_id, unit.index_files)
        self._directory = store.paths.bucket_directory(unit.bucket_id)

    @property
    def nbytes(self) -> int:
        """The approximate size of the rows in memory."""
        return self._unit.nbytes

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows; raise the errors of FormatReader."""
        reader = FileRead(self._store, self._store.schema.fields)
        for file in self._unit.files:
            yield from self._of_file(reader, file)

    def sample(self) -> Sample:
        """Return a sample of the rows of every file, with the columns to sort by."""
        options = self._store.options
        fields = [self._store.schema.by_name[c] for c in self._columns]
        reader = FileRead(self._store, fields)
        ranges = max(_LEAST_RANGES, self.nbytes // options.target_file_size_for(primary_key=False))
        part = ranges * options.sort_sample_magnification / max(1, sum(f.row_count for f in self._unit.files))
        chosen: list[pa.RecordBatch] = []
        weights = [np.empty(0)]
        number = 0
        for file in self._unit.files:
            by_size = options.sort_range_strategy is RangeStrategy.SIZE
            weight = file.file_size / max(1, file.row_count) if by_size else 1.0
            for batch in self._of_file(reader, file):
                kept = chosen_rows(batch.num_rows, part, number)
                number += 1
                chosen.append(batch if kept is None else batch.filter(from_numpy(kept)))
                weights.append(np.full(chosen[-1].num_rows, weight))
        rows = pa.Table.from_batches(chosen or [_no_rows(self._store, self._columns)]).combine_chunks()
        found = rows.to_batches() or [_no_rows(self._store, self._columns)]
        return Sample(found[0], np.concatenate(weights))

    def _of_file(self, reader: FileRead, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        path = file.path_in(self._directory)
        return reader.batches(
            file,
            path,
            ReadOptions(
                batch_rows=block_rows(self._unit.files), use_threads=True, deleted=self._deletions.of(file.file_name)
            ),
        )


def _no_rows(store: FileStore, columns: Sequence[str]) -> pa.RecordBatch:
    schema = pa.schema([store.schema.arrow.field(c) for c in columns])
    return pa.record_batch([array_of([], f.type) for f in schema], schema=schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class SortRanges:
    """The key of a sort and the first rows of its ranges, as columns; the first range begins before all rows."""

    key: SortKey
    bounds: tuple[Array, ...]

    @staticmethod
    def of(key: SortKey, sample: Sample, ranges: int) -> "SortRanges":
        """Return bounds of about `ranges` ranges of equal weight."""
        return SortRanges(key=key, bounds=tuple(key.boundaries(sample, ranges)))

    @property
    def count(self) -> int:
        """The number of ranges."""
        return len(self.bounds[0]) + 1

    def to_text(self) -> str:
        """Return the ranges as text, for another process."""
        batch = pa.record_batch(list(self.bounds), names=[str(i) for i in range(len(self.bounds))])
        bounds = base64.b64encode(batch_to_bytes(batch)).decode()
        return json.dumps({"key": self.key.to_text(), "bounds": bounds})

    @staticmethod
    def from_text(text: str) -> "SortRanges":
        """Return the ranges of text made by to_text."""
        value = json.loads(text)
        bounds = batch_from_bytes(base64.b64decode(value["bounds"]))
        return SortRanges(key=SortKey.from_text(value["key"]), bounds=tuple(bounds.columns))


@dataclass(frozen=True, slots=True)
class RowsOfRange(Rows):
    """The rows of one range."""

    rows: PartitionRows
    ranges: SortRanges
    number: int

    @property
    def nbytes(self) -> int:
        """The approximate size of the rows in memory."""
        return self.rows.nbytes // self.ranges.count

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the range."""
        return (self._own(batch) for batch in self.rows.batches())

    def sample(self) -> Sample:
        """Return a sample of the rows of the range."""
        sample = self.rows.sample()
        own = self._is_own(sample.rows)
        return Sample(sample.rows.filter(from_numpy(own)), sample.weights[own])

    def _own(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(from_numpy(self._is_own(batch)))

    def _is_own(self, batch: pa.RecordBatch) -> Mask:
        return np.asarray(places(self.ranges.key.columns(batch), self.ranges.bounds)[1] == self.number)
