"""The protocol of merge functions: they see many keys at once, each as a segment of sorted rows.

Columns are taken by row number with numpy, values and validity apart, which is faster than Arrow's take for columns
with nulls.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import from_numpy, run_of
from interbed.storage.lsm.key_words import Order

Column: TypeAlias = "pa.Array[Any]"


class Numbers:
    """Row numbers of one take, -1 for null, in the forms that columns need; made once for all columns."""

    def __init__(self, numbers: "npt.NDArray[Any]") -> None:
        missing: Mask = numbers < 0
        self.there: Mask | None = ~missing if missing.any() else None
        self.plain = numbers if self.there is None else np.where(missing, 0, numbers)
        indices: Any = from_numpy(self.plain.astype(np.uint32))
        self.indices = indices
        self.run = run_of(numbers)
        """The first and the number of rows that follow one another; None for others."""

    def __len__(self) -> int:
        return len(self.plain)

    def with_nulls(self) -> Any:
        """The numbers as Arrow's take has them."""
        import pyarrow.compute as pc

        return self.indices if self.there is None else pc.if_else(from_numpy(self.there), self.indices, None)


def take_column(column: Column, numbers: Numbers, pool: pa.MemoryPool) -> Column:
    """Those values of a column."""
    if numbers.run is not None and len(column):
        copied: Column = pa.concat_arrays([column.slice(*numbers.run)], memory_pool=pool)
        return copied
    import pyarrow.compute as pc

    if not _goes_apart(column) or not len(column):
        taken: Column = pc.take(column, numbers.with_nulls(), boundscheck=False, memory_pool=pool)
        return taken
    valid = validity(column)
    if valid is None and numbers.there is None:
        whole: Column = pc.take(column, numbers.indices, boundscheck=False, memory_pool=pool)
        return whole
    values: Any = pc.take(without_nulls(column), numbers.indices, boundscheck=False, memory_pool=pool)
    there: Mask = np.ones(len(numbers), np.bool_) if valid is None else valid.take(numbers.plain)
    if numbers.there is not None:
        there &= numbers.there
    missing = len(there) - int(np.count_nonzero(there))
    if not missing:
        return values  # type: ignore[no-any-return]
    bits: Any = np.packbits(there, bitorder="little")
    buffers = [pa.py_buffer(bits), *values.buffers()[1:]]
    built: Column = pa.Array.from_buffers(column.type, len(values), buffers, missing)
    return built


def validity(column: Column) -> Mask | None:
    """Which values are not null; None when all are."""
    if not column.null_count:
        return None
    buffer = column.buffers()[0]
    if buffer is None:
        return np.zeros(len(column), np.bool_)
    first, shift = divmod(column.offset, 8)
    data = np.frombuffer(memoryview(buffer), np.uint8, count=(shift + len(column) + 7) // 8, offset=first)
    bits = np.unpackbits(data, bitorder="little", count=shift + len(column))
    return bits[shift:].view(np.bool_)


def without_nulls(column: Column) -> Column:
    """The column with what lies in the slots of nulls as values; not for nested columns."""
    bare: Column = pa.Array.from_buffers(column.type, len(column), [None, *column.buffers()[1:]], 0, column.offset)
    return bare


def _goes_apart(column: Column) -> bool:
    kind = column.type
    t = pa.types
    return (t.is_primitive(kind) and not t.is_boolean(kind)) or t.is_string(kind) or t.is_binary(kind)


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
