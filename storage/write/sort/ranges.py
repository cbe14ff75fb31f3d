"""Ranges of a sort that are sorted apart from each other, by other processes: each reads all rows and keeps its own."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.write.sort.external import Rows
from interbed.storage.write.sort.key import Array, Sample, SortKey, batch_from_bytes, batch_to_bytes, places
from interbed.storage.write.sort.partition_rows import PartitionRows


@dataclass(frozen=True, slots=True, kw_only=True)
class SortRanges:
    """The key of a sort and the rows, as columns, at which its ranges begin; the first begins before all rows."""

    key: SortKey
    bounds: tuple[Array, ...]

    @staticmethod
    def of(key: SortKey, sample: Sample, ranges: int) -> "SortRanges":
        """About so many ranges of the same weight."""
        return SortRanges(key=key, bounds=tuple(key.boundaries(sample, ranges)))

    @property
    def count(self) -> int:
        """How many ranges there are."""
        return len(self.bounds[0]) + 1

    def to_text(self) -> str:
        """The ranges as text, for another process."""
        batch = pa.record_batch(list(self.bounds), names=[str(i) for i in range(len(self.bounds))])
        bounds = base64.b64encode(batch_to_bytes(batch)).decode()
        return json.dumps({"key": self.key.to_text(), "bounds": bounds})

    @staticmethod
    def from_text(text: str) -> "SortRanges":
        """The ranges of text made by to_text."""
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
        """About what the rows take in memory."""
        return self.rows.nbytes // self.ranges.count

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that no other range has."""
        return (self._own(batch) for batch in self.rows.batches())

    def sample(self) -> Sample:
        """Some of the range's rows."""
        sample = self.rows.sample()
        own = self._is_own(sample.rows)
        return Sample(sample.rows.filter(from_numpy(own)), sample.weights[own])

    def _own(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(from_numpy(self._is_own(batch)))

    def _is_own(self, batch: pa.RecordBatch) -> Mask:
        return np.asarray(places(self.ranges.key.columns(batch), self.ranges.bounds)[1] == self.number)
