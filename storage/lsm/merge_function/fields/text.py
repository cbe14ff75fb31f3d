"""`listagg`, whose texts grow by concatenation."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import from_numpy, scalar_of, to_numpy
from interbed.storage.lsm.merge_function.api import Numbers, block_memory_pool, take_column, validity, without_nulls
from interbed.storage.lsm.merge_function.fields.fold import Column, FieldValues, Late
from interbed.storage.lsm.merge_function.segments import KeyRows


class ListAgg(FieldValues):
    """`listagg`: the texts with a delimiter between them; with `distinct` a part that is there is not added again."""

    late = Late.BEFORE

    def __init__(self, column: Column, slots: int, of: str, *, delimiter: str, distinct: bool) -> None:
        super().__init__(column, slots, of)
        self._delimiter = delimiter
        self._distinct = distinct

    def reduce(self, keys: KeyRows) -> "Column | None":
        """See Fold."""
        if self._distinct or not len(keys):
            return None
        valid = validity(self.column)
        # Empty texts and nulls add nothing, not even a delimiter.
        texts: Any = without_nulls(self.column)
        filled = np.asarray(to_numpy(pc.binary_length(texts))) > 0
        if valid is not None:
            filled &= valid
        added = filled.take(keys.order)
        parts = take_column(self.column, Numbers(keys.order.compress(added)), block_memory_pool())
        ends = np.cumsum(added)
        starts = np.append(ends.take(keys.firsts) - added.take(keys.firsts), ends[-1]).astype(np.int32)
        offsets: Any = from_numpy(starts)
        joined: Any = pc.binary_join(pa.ListArray.from_arrays(offsets, parts), self._delimiter)
        if valid is not None:
            there: Any = from_numpy(keys.has(valid))
            joined = pc.if_else(there, joined, scalar_of(None, joined.type))
        return joined  # type: ignore[no-any-return]

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
