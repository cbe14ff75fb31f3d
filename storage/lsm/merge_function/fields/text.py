"""`listagg` and `rbm32`, whose values grow by concatenation or union.

They loop over the rows in Python, because the length of each result depends on the values before it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from interbed.storage.errors import CorruptFileError
from interbed.storage.lsm.key_words import Order
from interbed.storage.lsm.merge_function.fields.fold import Column, Fold
from interbed.storage.lsm.merge_function.segments import Segments, Slots


class _Values(Fold):
    """Python values by slot."""

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._held: list[Any] = [None] * slots

    def add(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        self._each(slots, rows, self._agg)

    def add_late(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        self._each(slots, rows, lambda held, value: self._agg(value, held))

    def put(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        self._each(slots, rows, lambda _, value: value)

    def clear(self, slots: Slots) -> None:
        """See Fold."""
        for slot in np.arange(self.slots)[slots].tolist():
            self._held[slot] = None

    def result(self) -> Column:
        """See Fold."""
        values: Column = pa.array(self._held, self.column.type)
        return values

    def _agg(self, held: Any, value: Any) -> Any:
        raise NotImplementedError

    def _each(self, slots: Slots, rows: Order, merge: Callable[[Any, Any], Any]) -> None:
        taken: Any = pa.array(rows)
        values = self.column.take(taken).to_pylist()
        for slot, value in zip(np.arange(self.slots)[slots].tolist(), values, strict=True):
            self._held[slot] = merge(self._held[slot], value)


class ListAgg(_Values):
    """`listagg`: the texts with a delimiter between them; with `distinct` a part that is there is not added again."""

    def __init__(self, column: Column, slots: int, of: str, *, delimiter: str, distinct: bool) -> None:
        super().__init__(column, slots, of)
        self._delimiter = delimiter
        self._distinct = distinct

    def reduce(self, segments: Segments) -> bool:
        """See Fold."""
        if self._distinct:
            return False
        order, starts = segments.joined, segments.starts
        taken: Any = pa.array(order)
        values: list[str | None] = self.column.take(taken).to_pylist()
        for slot, (first, size) in enumerate(zip(starts.tolist(), segments.sizes.tolist(), strict=True)):
            parts = [v for v in values[first : first + size] if v is not None]
            self._held[slot] = self._delimiter.join(p for p in parts if p) if parts else None
        return True

    def _agg(self, held: str | None, value: str | None) -> str | None:
        if held is None or value is None:
            return value if held is None else held
        if not value or not held:
            return held or value
        if not self._distinct:
            return held + self._delimiter + value
        parts = [held]
        there = set(self._parts(held))
        for part in self._parts(value):
            if part and part not in there:
                there.add(part)
                parts.append(part)
        return self._delimiter.join(parts)

    def _parts(self, text: str) -> list[str]:
        return text.split(self._delimiter) if self._delimiter else text.split()


class RoaringUnion(_Values):
    """`rbm32`: the union of 32-bit roaring bitmaps, in the portable serialisation."""

    def _agg(self, held: bytes | None, value: bytes | None) -> bytes | None:
        if held is None or value is None:
            return value if held is None else held
        union = self._bitmap(held) | self._bitmap(value)
        union.run_optimize()
        return bytes(union.serialize())

    def _bitmap(self, data: bytes) -> BitMap:
        try:
            return BitMap.deserialize(data)
        except (ValueError, RuntimeError) as error:
            raise CorruptFileError(f"The {self.of} met a value that is no roaring bitmap: {error}.") from error
