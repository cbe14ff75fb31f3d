"""The rows of data files in an order, in bounded memory: what does not fit is put aside on local disk."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from interbed.iceberg.plan.task import DataTask
from interbed.storage.lsm.spill import SpillFiles
from interbed.storage.write.sort.external import ExternalSort, sample_of
from interbed.storage.write.sort.key import Sample, SortKey, is_curve
from interbed.storage.write.sort.order import SortOrder

_MEMORY = 256 << 20
_SAMPLED_ROWS = 100_000
_DECODED = 4
"""Rows take about so many times the space of their files in memory."""


@dataclass(frozen=True, slots=True)
class _FileRows:
    """The rows of files, as an external sort takes them."""

    read: Callable[[], Iterator[pa.RecordBatch]]
    files: Sequence[DataTask]
    columns: Sequence[str]

    @property
    def nbytes(self) -> int:
        return sum(task.file.size for task in self.files) * _DECODED

    def batches(self) -> Iterator[pa.RecordBatch]:
        return self.read()

    def sample(self) -> Sample:
        rows = sum(task.file.records for task in self.files)
        part = min(_SAMPLED_ROWS / max(rows, 1), 1.0)
        return sample_of((batch.select(list(self.columns)) for batch in self.read()), part)


def sorted_rows(
    order: SortOrder, read: Callable[[], Iterator[pa.RecordBatch]], files: Sequence[DataTask], memory: int = _MEMORY
) -> Iterator[pa.RecordBatch]:
    """The rows that `read` gives, of these files, in the order. They are read again for a sample."""
    rows = _FileRows(read, files, order.columns)
    sample = rows.sample() if is_curve(order) else None
    if sample is not None and not sample.rows.num_rows:
        # There is no row to draw a curve through.
        yield from read()
        return
    key = SortKey(order) if sample is None else SortKey.of(order, sample)
    with ExternalSort(key, SpillFiles(max_bytes=None, codec="zstd"), memory=memory) as sort:
        yield from sort.sorted(rows, sample)
