"""Folds that keep their accumulators as Python values, because their lengths depend on the values before them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from interbed.storage.base.arrow_values import array_of, from_numpy
from interbed.storage.base.row.python_values import python_values
from interbed.storage.lsm.key_words import Order
from interbed.storage.lsm.merge_function.fields.fold import Column, Fold
from interbed.storage.lsm.merge_function.segments import Slots


class FieldValues(Fold):
    """Python values by slot; `_agg` makes one of two. They loop over the rows, for each takes a call of its own."""

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
        values: Column = array_of(self._held, self.column.type)
        return values

    def _agg(self, held: Any, value: Any) -> Any:
        """The value of both; either may be None."""
        raise NotImplementedError

    def _each(self, slots: Slots, rows: Order, merge: Callable[[Any, Any], Any]) -> None:
        taken: Any = from_numpy(rows)
        values = python_values(self.column.take(taken))
        for slot, value in zip(np.arange(self.slots)[slots].tolist(), values, strict=True):
            self._held[slot] = merge(self._held[slot], value)
