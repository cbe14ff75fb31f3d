"""Columns taken by row number, faster than Arrow takes columns with nulls: values and validity go apart."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import from_numpy, run_of

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
