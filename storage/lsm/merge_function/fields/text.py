"""`listagg`, whose texts grow by concatenation."""

from typing import Any

import pyarrow as pa

from interbed.storage.lsm.merge_function.fields.fold import Column
from interbed.storage.lsm.merge_function.fields.values import Values
from interbed.storage.lsm.merge_function.segments import Segments


class ListAgg(Values):
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
