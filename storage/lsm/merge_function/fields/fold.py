"""Folds: the base classes of aggregate functions over the values of a column.

A fold keeps one accumulator for each slot (see `segments`). Every method takes slots and, in parallel, the numbers of
the rows with their new values; a slot occurs once in a call. Accumulators are null at first. `FieldValues` keeps them
as Python values, for functions whose results grow.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import array_of, from_numpy
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.row.python_values import python_values
from interbed.storage.lsm.key_words import Order
from interbed.storage.lsm.merge_function.segments import KeyRows, PickedRows, Result, Slots

Column: TypeAlias = "pa.Array[Any]"


class LateRows(Enum):
    """The position of late rows (those after a row with a greater sequence) if all rows are reduced at once."""

    ANYWHERE = "anywhere"
    """The result does not depend on the order, or is computed in order of arrival."""
    BEFORE = "before"
    """A late row comes before all rows that arrived earlier."""
    BY_ROUND = "by round"
    """Late rows have a special rule, so that rows are added one by one."""


class ColumnFold:
    """The state of a function over one column of a block; `of` names function and column in messages."""

    can_retract = False
    """Whether the function can retract values."""
    late = LateRows.BY_ROUND

    def __init__(self, column: Column, slots: int, of: str) -> None:
        self.column = column
        self.slots = slots
        self.of = of
        self.ignores_retracts = False

    def retract_unless_ignored(self, slots: Slots, rows: Order) -> None:
        """Retract the values of the rows, or nothing with the option `fields.<name>.ignore-retract`."""
        if not self.ignores_retracts:
            self.retract(slots, rows)

    def add(self, slots: Slots, rows: Order) -> None:
        """Add the values of the rows."""
        raise NotImplementedError

    def add_late(self, slots: Slots, rows: Order) -> None:
        """Add values that are older, by their sequence group, than those added before."""
        self.add(slots, rows)

    def retract(self, slots: Slots, rows: Order) -> None:
        """Retract the values of the rows; raises InvalidInputError if the function can't."""
        del slots, rows
        raise InvalidInputError(retract_message(self.of))

    def put(self, slots: Slots, rows: Order) -> None:
        """Replace accumulators by the values of the rows."""
        raise NotImplementedError

    def clear(self, slots: Slots) -> None:
        """Set the accumulators of slots to null."""
        raise NotImplementedError

    def reduce(self, keys: KeyRows) -> "Result | None":
        """Return the function of all rows by key, computed at once; None if the function must work in rounds.

        The only row of a key is its result, whatever the function. Accumulators are not changed.
        """
        del keys
        return None

    def result(self) -> "PickedRows | Column":
        """Return the accumulators by slot."""
        raise NotImplementedError


def retract_message(of: str) -> str:
    """Return the message for a refused retraction; `of` is `function 'max' of column 'a'`."""
    name = of.rpartition("column ")[2].strip("'")
    return (
        f"The {of} can't take values back, so the table takes no -U and -D rows. Set option "
        f"'fields.{name}.ignore-retract' to 'true' to have them ignored there."
    )


class FieldValues(ColumnFold):
    """A fold of Python values, in a loop over rows: each addition is a call of `_agg`, which merges two values."""

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._held: list[Any] = [None] * slots

    def add(self, slots: Slots, rows: Order) -> None:
        self._each(slots, rows, self._agg)

    def add_late(self, slots: Slots, rows: Order) -> None:
        self._each(slots, rows, lambda held, value: self._agg(value, held))

    def put(self, slots: Slots, rows: Order) -> None:
        self._each(slots, rows, lambda _, value: value)

    def clear(self, slots: Slots) -> None:
        for slot in np.arange(self.slots)[slots].tolist():
            self._held[slot] = None

    def result(self) -> Column:
        values: Column = array_of(self._held, self.column.type)
        return values

    def _agg(self, held: Any, value: Any) -> Any:
        """Return the merged value of both; either may be None."""
        raise NotImplementedError

    def _each(self, slots: Slots, rows: Order, merge: Callable[[Any, Any], Any]) -> None:
        taken: Any = from_numpy(rows)
        values = python_values(self.column.take(taken))
        for slot, value in zip(np.arange(self.slots)[slots].tolist(), values, strict=True):
            self._held[slot] = merge(self._held[slot], value)
