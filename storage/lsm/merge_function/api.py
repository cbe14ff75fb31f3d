"""The protocol of merge functions: they see many keys at once, each as a segment of sorted rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.lsm.key_words import Order
from interbed.storage.lsm.merge_function.take import Numbers, take_column

Kinds = npt.NDArray[np.int8]

LEVEL = "_LEVEL"
"""A column, int8, that no file has: the level of the file that a row comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroups:
    """Rows of several sorted runs with the order that brings the rows of each key together, oldest first.

    `order[i]` is the row number of the i-th row in that order, and `starts[i]` says whether a new key begins there;
    `kinds[r]` is row r's row kind, or `kinds` is None when no row deletes.
    """

    rows: pa.RecordBatch
    order: Order
    starts: Mask
    kinds: Kinds | None


class MergeFunction(Protocol):
    """Makes one row, or none, of all rows of a key."""

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """The columns that it must see to make these: the output itself, and what its rows depend on beside the key.

        LEVEL among them asks for a column with the level of each row's file.
        """
        ...

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """The merged rows in key order, with the columns `output` only; `groups.rows` has the columns asked for."""
        ...

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """The same for rows in key order of which every one has a key of its own; copies nothing when it need not."""
        ...


@runtime_checkable
class PicksRows(Protocol):
    """A merge function whose row of a key is one of the key's rows, as it is."""

    def pick(self, order: Order, starts: Mask, kinds: Kinds | None) -> Order:
        """The numbers of the rows picked, in key order; arguments as in KeyGroups."""
        ...


@runtime_checkable
class PicksNewest(PicksRows, Protocol):
    """One that picks a key's newest record, or none."""

    def is_newest(self, kinds: Kinds | None) -> bool:
        """Whether it does so among records of these kinds."""
        ...

    def kept(self, kinds: Kinds | None) -> Mask | None:
        """Which of these rows it picks if they are the newest of their keys; None for all."""
        ...


def take_rows(rows: pa.RecordBatch, columns: Sequence[str], numbers: "npt.NDArray[Any]") -> pa.RecordBatch:
    """Those rows, by number and in that order, of some columns."""
    if not columns:
        return no_columns(len(numbers))
    made, pool = Numbers(numbers), block_memory_pool()
    taken = [take_column(rows.column(name), made, pool) for name in columns]
    return pa.RecordBatch.from_arrays(taken, schema=pa.schema([rows.schema.field(name) for name in columns]))


def no_columns(rows: int) -> pa.RecordBatch:
    """A batch of so many rows and no columns."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["_"]).select([])


def block_memory_pool() -> pa.MemoryPool:
    """Where the merge keeps its blocks: the C library's allocator, which reuses memory of a few megabytes.

    Arrow's default one gives such memory back to the system at once, and page faults cost more than the merge.
    """
    return pa.system_memory_pool()
