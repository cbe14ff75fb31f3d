"""The rows of a partition of an append table, as they are read to be sorted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import array_of, from_numpy
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.files.deletion_vectors import BucketDeletions
from interbed.storage.lsm.file_read import EXPANSION, FileRead, ReadOptions, block_rows
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.manifest.index_manifest import IndexFileMeta
from interbed.storage.meta.options.write import RangeStrategy
from interbed.storage.write.sort.key import Sample, chosen_rows

_LEAST_RANGES = 64
"""Ranges for which rows are sampled at least, so that small tables have fine curves, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SortUnit:
    """What is sorted as a whole: the files of a partition, a serialised BinaryRow, and their index files."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    index_files: tuple[IndexFileMeta, ...] = ()

    @property
    def bucket_id(self) -> BucketId:
        """The bucket that it belongs to."""
        return BucketId(self.partition, self.bucket)

    @property
    def nbytes(self) -> int:
        """About what the rows take in memory."""
        return EXPANSION * sum(f.file_size for f in self.files)


class PartitionRows:
    """Reads the rows of a unit, without those that deletion vectors mark, as often as asked for."""

    def __init__(self, store: FileStore, unit: SortUnit, columns: Sequence[str]) -> None:
        self._store = store
        self._unit = unit
        self._columns = tuple(columns)
        self._deletions = BucketDeletions.restore(store, unit.bucket_id, unit.index_files)
        self._directory = store.paths.bucket_directory(unit.bucket_id)

    @property
    def nbytes(self) -> int:
        """About what the rows take in memory."""
        return self._unit.nbytes

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows; raises what FormatReader raises."""
        reader = FileRead(self._store, self._store.schema.fields)
        for file in self._unit.files:
            yield from self._of_file(reader, file)

    def sample(self) -> Sample:
        """Some rows of every file, with the columns to sort by."""
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
