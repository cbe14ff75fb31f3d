"""The order of a sort compaction, its sort key, and the positions of rows among others in that order.

A curve does not use values but their ranks among a sample of the rows. So columns of any type, range and distribution
have the same influence, and long common prefixes of strings cost nothing. (Paimon takes the bits of the values
themselves, and of strings the first `zorder.var-length-contribution` bytes.)

Row orders of a sort compaction (documentation: maintenance/dedicated-compaction), and space-filling curves.

`order` compares the columns one after the other, nulls first: good for filters on the first column. `zorder` and
`hilbert` lay a curve through all columns, so that a filter on any of them skips files.

A curve gives each row one number, computed from small integers, so that rows with similar values get similar numbers. A
Z-order interleaves the bits of the columns. A Hilbert curve also has no jumps (J. Skilling, "Programming the Hilbert
curve", 2004). Both work on whole columns.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Ints, Mask, Words
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.data_type import (
    BINARIES,
    INTEGERS,
    STRINGS,
    TIMESTAMPS,
    DataField,
    TypeRoot,
    is_atomic,
)
from interbed.storage.lsm.key_words import row_ranks, sort_groups
from interbed.storage.meta.schema.table_schema import TableSchema

Array: TypeAlias = "pa.Array[Any]"

_SAMPLE_SEED = 4


class OrderStrategy(Enum):
    """The way in which several columns make one order."""

    ORDER = "order"
    ZORDER = "zorder"
    HILBERT = "hilbert"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrder:
    """A strategy and its columns."""

    strategy: OrderStrategy
    columns: tuple[str, ...]

    @staticmethod
    def of(schema: TableSchema, strategy: str | None, order_by: Sequence[str] | str | None) -> "SortOrder | None":
        """Return the order of `order_strategy` and `order_by`, None when they ask for none.

        `order_by` is a sequence of names, or names with commas between them. Raises InvalidInputError.
        """
        return SortOrder.of_columns(schema.fields, strategy, order_by, schema.partition_keys)

    @staticmethod
    def of_columns(
        fields: Sequence[DataField],
        strategy: str | None,
        order_by: Sequence[str] | str | None,
        partition_keys: Sequence[str] = (),
    ) -> "SortOrder | None":
        """Return the order for columns, of which some may be partition keys; raise InvalidInputError."""
        given = order_by.split(",") if isinstance(order_by, str) else list(order_by or ())
        names = tuple(dict.fromkeys(name.strip() for name in given if name.strip()))
        named = (strategy or "none").strip().lower()
        if named == "none":
            if names:
                raise InvalidInputError(
                    "order_by goes with an order_strategy: 'order', 'zorder' or 'hilbert'; it is 'none' now."
                )
            return None
        try:
            chosen = OrderStrategy(named)
        except ValueError:
            raise InvalidInputError(
                f"The order_strategy {strategy!r} is not known; it is 'none', 'order', 'zorder' or 'hilbert'."
            ) from None
        if not names:
            raise InvalidInputError(f"The order_strategy '{named}' needs order_by: the columns to sort by.")
        if chosen is OrderStrategy.HILBERT and len(names) < 2:
            raise InvalidInputError("A Hilbert curve goes through at least two columns; sort one by 'order'.")
        if chosen is not OrderStrategy.ORDER and len(names) > MOST_COLUMNS:
            raise InvalidInputError(f"A curve goes through at most {MOST_COLUMNS} columns, not {len(names)}.")
        for name in names:
            _check_column(fields, partition_keys, name)
        return SortOrder(strategy=chosen, columns=names)

    def __str__(self) -> str:
        return f"{self.strategy.value} by {', '.join(self.columns)}"


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


MOST_COLUMNS = 60
"""Maximum number of columns of a curve: each gives at least a bit to a number of 64 bits."""

_MOST_BITS = 12

_ORDERED = (
    *sorted({TypeRoot.BOOLEAN, TypeRoot.DECIMAL, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DATE, TypeRoot.TIME}),
    *sorted(INTEGERS | STRINGS | BINARIES | TIMESTAMPS),
)


def _check_column(fields: Sequence[DataField], partition_keys: Sequence[str], name: str) -> None:
    field = next((field for field in fields if field.name == name), None)
    if field is None:
        names = ", ".join(field.name for field in fields)
        raise InvalidInputError(f"There is no column {name!r} to order by; the table has {names}.")
    if name in partition_keys:
        raise InvalidInputError(
            f"{name!r} is a partition column, which has one value in each file already; order by other columns."
        )
    if not is_atomic(field.type, *_ORDERED):
        raise InvalidInputError(f"The column {name!r} has the type {field.type}, which has no order to sort by.")


def bits_of(columns: int) -> int:
    """Return the number of bits of each column in the position on a curve of `columns` columns."""
    return min(_MOST_BITS, MOST_COLUMNS // columns)


def z_order(columns: Sequence[Words]) -> Words:
    """Return the position of each row on the Z-order curve, of columns with `bits_of` bits each."""
    count = len(columns)
    table = _spread(bits_of(count), count)
    index = np.zeros(len(columns[0]), np.uint64)
    for i, column in enumerate(columns):
        index |= table[column] << np.uint64(count - 1 - i)
    return index


def hilbert(columns: Sequence[Words]) -> Words:
    """Return the position of each row on the Hilbert curve, of columns with `bits_of` bits each."""
    bits = bits_of(len(columns))
    axes = [column.copy() for column in columns]
    for bit in range(bits - 1, 0, -1):
        low = np.uint64((1 << bit) - 1)
        axes[0] ^= np.where(_has(axes[0], bit), low, np.uint64(0))
        for axis in axes[1:]:
            # Where the bit is set the lower bits of the first axis are inverted, elsewhere those of the two axes are
            # swapped.
            is_set = _has(axis, bit)
            swapped = np.where(is_set, np.uint64(0), (axes[0] ^ axis) & low)
            axis ^= swapped
            axes[0] ^= np.where(is_set, low, swapped)
    for before, axis in pairwise(axes):
        axis ^= before
    flips = np.zeros(len(axes[0]), np.uint64)
    for bit in range(bits - 1, 0, -1):
        flips ^= np.where(_has(axes[-1], bit), np.uint64((1 << bit) - 1), np.uint64(0))
    return z_order([axis ^ flips for axis in axes])


def _has(axis: Words, bit: int) -> Mask:
    return np.asarray(axis & np.uint64(1 << bit), np.bool_)


@cache
def _spread(bits: int, step: int) -> Words:
    """Return for every number of `bits` bits the number with its bits `step` apart."""
    numbers = np.arange(1 << bits, dtype=np.uint64)
    spread = np.zeros(1 << bits, np.uint64)
    for bit in range(bits):
        spread |= ((numbers >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * step)
    return spread
