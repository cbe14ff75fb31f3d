"""The sort key: the columns by which rows are sorted, and the positions of rows among others in that order.

A curve does not use values but their ranks among a sample of the rows. So columns of any type, range and distribution
have the same influence, and long common prefixes of strings cost nothing. (Paimon takes the bits of the values
themselves, and of strings the first `zorder.var-length-contribution` bytes.)
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Ints, Mask
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.lsm.key_words import row_ranks, sort_groups
from interbed.storage.write.sort.order import OrderStrategy, SortOrder, bits_of, hilbert, z_order

Array: TypeAlias = "pa.Array[Any]"

_SAMPLE_SEED = 4


@dataclass(frozen=True, slots=True)
class Sample:
    """Some rows, with the columns of an order, and the number of bytes that each represents."""

    rows: pa.RecordBatch
    weights: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SortKey:
    """The columns by which rows are sorted.

    `grid` has for each column of a curve the values between its cells, ascending; it is empty for an order without a
    curve.
    """

    order: SortOrder
    grid: tuple[Array, ...] = ()

    @staticmethod
    def of(order: SortOrder, sample: Sample) -> "SortKey":
        """Return the key of an order for rows like those of the sample."""
        if not is_curve(order):
            return SortKey(order)
        most = (1 << bits_of(len(order.columns))) - 1
        return SortKey(order, tuple(_boundaries([sample.rows.column(c)], None, most)[0] for c in order.columns))

    def columns(self, rows: pa.RecordBatch) -> list[Array]:
        """Return the columns to sort the rows by, most significant first."""
        given = [rows.column(c) for c in self.order.columns]
        if not self.grid:
            return given
        cells = [places([v], [g])[1].astype(np.uint64) for v, g in zip(given, self.grid, strict=True)]
        curve = hilbert if self.order.strategy is OrderStrategy.HILBERT else z_order
        return [from_numpy(curve(cells))]

    def boundaries(self, sample: Sample, ranges: int) -> list[Array]:
        """Return rows, as columns, that split the sample into about `ranges` ranges of equal weight, ascending."""
        if not sample.rows.num_rows:
            return [column.slice(0, 0) for column in self.columns(sample.rows)]
        return _boundaries(self.columns(sample.rows), sample.weights, ranges - 1)

    def sorted(self, rows: pa.RecordBatch) -> Ints:
        """Return the row numbers in sorted order."""
        return sort_groups(self.columns(rows))[0]

    def to_text(self) -> str:
        """Return the key as text, for another process."""
        grids = [base64.b64encode(batch_to_bytes(pa.record_batch([g], names=["grid"]))).decode() for g in self.grid]
        return json.dumps({"strategy": self.order.strategy.value, "columns": self.order.columns, "grid": grids})

    @staticmethod
    def from_text(text: str) -> "SortKey":
        """Return the key of text made by to_text."""
        value = json.loads(text)
        order = SortOrder(strategy=OrderStrategy(value["strategy"]), columns=tuple(value["columns"]))
        return SortKey(order, tuple(batch_from_bytes(base64.b64decode(g)).column(0) for g in value["grid"]))


def is_curve(order: SortOrder) -> bool:
    """Return whether the order is along a curve, not just by comparing columns."""
    return order.strategy is not OrderStrategy.ORDER and len(order.columns) > 1


def places(columns: Sequence[Array], bounds: Sequence[Array]) -> tuple[Ints, Ints]:
    """Return for each row how many of the ascending bounds are less than it, and how many are not greater."""
    count, rows = len(bounds[0]), len(columns[0])
    if not count or not rows:
        return np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    together = [pa.concat_arrays([b, c]) for b, c in zip(bounds, columns, strict=True)]
    ranks = row_ranks(together).values
    return (
        np.searchsorted(ranks[:count], ranks[count:], side="left"),
        np.searchsorted(ranks[:count], ranks[count:], side="right"),
    )


def chosen_rows(rows: int, part: float, seed: int) -> Mask | None:
    """Return a mask of the rows of a batch that go into a sample of such a part of all rows; None for all rows.

    The same seed gives the same rows.
    """
    if part >= 1:
        return None
    return np.random.default_rng((_SAMPLE_SEED, seed)).random(rows) < part


def _boundaries(columns: Sequence[Array], weights: npt.NDArray[np.float64] | None, most: int) -> list[Array]:
    """Return at most `most` distinct rows that split all rows into parts of equal weight."""
    rows = len(columns[0])
    order, starts = sort_groups(columns)
    if not rows or most < 1:
        return [c.slice(0, 0) for c in columns]
    weight = np.ones(rows) if weights is None else weights[order]
    total = np.cumsum(weight)
    cuts = np.searchsorted(total, total[-1] * np.arange(1, most + 1) / (most + 1), side="right")
    # The first of equal rows is taken, so that a frequent value is one boundary.
    groups = np.cumsum(starts) - 1
    firsts = np.flatnonzero(starts)
    cut_rows = firsts[np.unique(groups[np.minimum(cuts, rows - 1)])]
    chosen: Any = from_numpy(order[cut_rows])
    return [c.take(chosen) for c in columns]


def batch_to_bytes(batch: pa.RecordBatch) -> bytes:
    """Return a batch as bytes, for another process."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def batch_from_bytes(content: bytes) -> pa.RecordBatch:
    """Return the batch of bytes made by batch_to_bytes."""
    with pa.ipc.open_stream(content) as reader:
        return reader.read_next_batch()
