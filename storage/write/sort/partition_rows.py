"""The rows of a partition of an append table that are sorted, and the ranges in which several processes sort them.

Each process reads all rows of the partition and keeps those of its range.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import array_of, from_numpy
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.files.deletion_vectors import BucketDeletions
from interbed.storage.lsm.file_read import EXPANSION, FileRead, ReadOptions, block_rows
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.manifest.index_manifest import IndexFileMeta
from interbed.storage.meta.options.format import RangeStrategy
from interbed.storage.write.sort.external import Rows
from interbed.storage.write.sort.key import (
    Array,
    Sample,
    SortKey,
    batch_from_bytes,
    batch_to_bytes,
    chosen_rows,
    places,
)

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
