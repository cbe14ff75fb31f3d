"""The protocol of merge functions, which merge many keys at once, each of them a segment of sorted rows; and the merge
engines whose row is one whole record of the key: the newest (`deduplicate`) or the oldest (`first-row`).

Rows are taken by number with numpy, values and validity separately, which is faster than Arrow's take for columns with
nulls. Source: documentation pages `overview` and `first-row` of `primary-key-table/merge-engine`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import from_numpy, run_of
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.lsm.key_words import Order, group_ends

Column: TypeAlias = "pa.Array[Any]"

FIRST_ROW_REFUSAL = (
    "Tables with 'merge-engine' = 'first-row' take no -U and -D rows. Set option 'ignore-delete' to 'true' to have "
    "them left out."
)


class Numbers:
    """Row numbers to take, -1 for null, in the forms that columns need; computed once for all columns."""

    def __init__(self, numbers: "npt.NDArray[Any]") -> None:
        missing: Mask = numbers < 0
        self.present: Mask | None = ~missing if missing.any() else None
        self.plain = numbers if self.present is None else np.where(missing, 0, numbers)
        indices: Any = from_numpy(self.plain.astype(np.uint32))
        self.indices = indices
        self.run = run_of(numbers)
        """The first row and the count if the rows are consecutive, otherwise None."""

    def __len__(self) -> int:
        return len(self.plain)

    def with_nulls(self) -> Any:
        """Return the numbers in the form of Arrow's take, with nulls."""
        import pyarrow.compute as pc

        return self.indices if self.present is None else pc.if_else(from_numpy(self.present), self.indices, None)


def take_column(column: Column, numbers: Numbers, pool: pa.MemoryPool) -> Column:
    """Return the values of a column at these row numbers."""
    if numbers.run is not None and len(column):
        copied: Column = pa.concat_arrays([column.slice(*numbers.run)], memory_pool=pool)
        return copied
    import pyarrow.compute as pc

    if not _has_flat_values(column) or not len(column):
        taken: Column = pc.take(column, numbers.with_nulls(), boundscheck=False, memory_pool=pool)
        return taken
    valid = validity(column)
    if valid is None and numbers.present is None:
        whole: Column = pc.take(column, numbers.indices, boundscheck=False, memory_pool=pool)
        return whole
    values: Any = pc.take(without_nulls(column), numbers.indices, boundscheck=False, memory_pool=pool)
    present: Mask = np.ones(len(numbers), np.bool_) if valid is None else valid.take(numbers.plain)
    if numbers.present is not None:
        present &= numbers.present
    missing = len(present) - int(np.count_nonzero(present))
    if not missing:
        return values  # type: ignore[no-any-return]
    bits: Any = np.packbits(present, bitorder="little")
    buffers = [pa.py_buffer(bits), *values.buffers()[1:]]
    built: Column = pa.Array.from_buffers(column.type, len(values), buffers, missing)
    return built


def validity(column: Column) -> Mask | None:
    """Return the mask of the values that are not null; None if no value is null."""
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
    """Return the column with nulls replaced by the arbitrary values of their slots; not for nested columns."""
    bare: Column = pa.Array.from_buffers(column.type, len(column), [None, *column.buffers()[1:]], 0, column.offset)
    return bare


def _has_flat_values(column: Column) -> bool:
    kind = column.type
    t = pa.types
    return (t.is_primitive(kind) and not t.is_boolean(kind)) or t.is_string(kind) or t.is_binary(kind)


Kinds = npt.NDArray[np.int8]

LEVEL = "_LEVEL"
"""A virtual column (int8): the level of the file that contains the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroups:
    """Rows of several sorted runs, and the order that groups the rows of each key, oldest first.

    `order[i]` is the row number of the i-th row in that order, and `starts[i]` is true if a new key begins there.
    `kinds[r]` is the row kind of row r; `kinds` is None if no row deletes.
    """

    rows: pa.RecordBatch
    order: Order
    starts: Mask
    kinds: Kinds | None


class MergeFunction(Protocol):
    """A function that merges all rows of a key into one row or none."""

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """Return the input columns for this output: the output itself, and what its rows depend on beside the key.

        If LEVEL is among them, the input has a column with the level of each row's file.
        """
        ...

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """Return the merged rows in key order with the columns `output`; `groups.rows` has the input columns."""
        ...

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """Merge rows in key order with unique keys, if possible without copying them."""
        ...


@runtime_checkable
class PicksRows(Protocol):
    """A merge function whose result for a key is one of the rows of the key, unchanged."""

    def pick(self, order: Order, starts: Mask, kinds: Kinds | None) -> Order:
        """Return the numbers of the picked rows, in key order; the arguments are those of KeyGroups."""
        ...


@runtime_checkable
class PicksNewest(PicksRows, Protocol):
    """A merge function that picks the newest record of a key, or none."""

    def is_newest(self, kinds: Kinds | None) -> bool:
        """Return whether the function picks the newest record among records of these kinds."""
        ...

    def kept(self, kinds: Kinds | None) -> Mask | None:
        """Return the mask of the rows that are kept if they are the newest of their keys; None for all."""
        ...


def take_rows(rows: pa.RecordBatch, columns: Sequence[str], numbers: "npt.NDArray[Any]") -> pa.RecordBatch:
    """Return rows by number, in that order, with some columns."""
    if not columns:
        return no_columns(len(numbers))
    row_numbers, pool = Numbers(numbers), block_memory_pool()
    taken = [take_column(rows.column(name), row_numbers, pool) for name in columns]
    return pa.RecordBatch.from_arrays(taken, schema=pa.schema([rows.schema.field(name) for name in columns]))


def no_columns(rows: int) -> pa.RecordBatch:
    """Return a batch of this many rows without columns."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["_"]).select([])


def block_memory_pool() -> pa.MemoryPool:
    """Return the memory pool of blocks: the allocator of the C library, which reuses memory of a few megabytes.

    Arrow's default pool returns such memory to the system at once, and then page faults cost more than the merge.
    """
    return pa.system_memory_pool()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeduplicateMerge:
    """The merge engine `deduplicate`: keeps the newest row of each key.

    With `drop_deletes` a key whose newest record is a delete is left out, for reads and compactions to the highest
    level. Other compactions must keep the record, because it hides rows of higher levels. With `ignore_delete` delete
    records are ignored.
    """

    drop_deletes: bool
    ignore_delete: bool = False

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """Return the output columns only."""
        return tuple(output)

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """Return the newest row of each key."""
        return take_rows(groups.rows, output, self.pick(groups.order, groups.starts, groups.kinds))

    def pick(self, order: Order, starts: Mask, kinds: Kinds | None) -> Order:
        """Return the number of the newest row of each key."""
        if kinds is None:
            return order.compress(group_ends(starts))
        if self.ignore_delete:
            adds = ~is_retract(kinds)[order]
            keys = np.cumsum(starts)[adds]
            order = order[adds]
            starts = np.ones(len(order), np.bool_)
            np.not_equal(keys[1:], keys[:-1], out=starts[1:])
        winners = order.compress(group_ends(starts))
        if self.drop_deletes:
            winners = winners.compress(~is_retract(kinds[winners]))
        return winners

    def is_newest(self, kinds: Kinds | None) -> bool:
        """Return whether the newest record of a key is always picked."""
        return kinds is None or not self.ignore_delete

    def kept(self, kinds: Kinds | None) -> Mask | None:
        """Return the mask of the rows that do not delete; None if all are kept."""
        return None if kinds is None or not self.drop_deletes else ~is_retract(kinds)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """Return the rows, without deletes if those are dropped or ignored."""
        if kinds is None or not (self.drop_deletes or self.ignore_delete):
            return rows.select(list(output))
        adds = ~is_retract(kinds)
        if adds.all():
            return rows.select(list(output))
        return rows.select(list(output)).filter(from_numpy(adds))


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRow:
    """The merge engine `first-row`: keeps the oldest row of each key. Deletes are refused, or ignored."""

    ignore_delete: bool
    drop_deletes: bool

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """Return the output columns only."""
        return tuple(output)

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """Return the oldest row of each key."""
        return take_rows(groups.rows, output, self.pick(groups.order, groups.starts, groups.kinds))

    def pick(self, order: Order, starts: Mask, kinds: Kinds | None) -> Order:
        """Return the number of the oldest row of each key; raises InvalidInputError for delete rows."""
        if kinds is None:
            return order.compress(starts)
        adds = ~is_retract(kinds)[order]
        if not self.ignore_delete:
            alone = starts & np.append(starts[1:], True)
            if not (adds | alone).all():
                raise InvalidInputError(FIRST_ROW_REFUSAL)
        keys = np.cumsum(starts)[adds]
        order = order[adds]
        firsts = np.ones(len(order), np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=firsts[1:])
        return order.compress(firsts)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """Return the rows, with `drop_deletes` without deletes."""
        return single_rows(rows, kinds, output, drop_deletes=self.drop_deletes)


def is_retract(kinds: "npt.NDArray[Any]") -> Mask:
    """Return the mask of the row kinds that retract a row: -U (1) and -D (3)."""
    return (kinds & 1).astype(np.bool_)


def single_rows(
    rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str], *, drop_deletes: bool
) -> pa.RecordBatch:
    """Return the rows, with `drop_deletes` without deletes; not copied if none is dropped."""
    selected = rows.select(list(output))
    if kinds is None or not drop_deletes:
        return selected
    adds = ~is_retract(kinds)
    return selected if adds.all() else selected.filter(from_numpy(adds))
