"""Folds: what functions over the values of a column have in common.

A fold keeps one accumulator for each slot (see `segments`). Every method takes slots and, in parallel, the numbers of
the rows whose values they meet; a slot occurs once in a call. Accumulators begin as null. `FieldValues` keeps them as
Python values, for functions whose results grow with the values before them.
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
from interbed.storage.lsm.merge_function.segments import KeyRows, Picked, Result, Slots

Column: TypeAlias = "pa.Array[Any]"


class Late(Enum):
    """Where rows belong that come after rows with a greater sequence, when all rows are reduced at once."""

    ANYWHERE = "anywhere"
    """The result is the same in every order, or is made in the order in which the rows come."""
    BEFORE = "before"
    """Each before those that came before it."""
    BY_ROUND = "by round"
    """They have a rule of their own, so that rows are taken in one by one."""


class Fold:
    """A function at work on one column of a block; `of` says which function of which column, for messages."""

    can_retract = False
    """Whether the function takes values back."""
    late = Late.BY_ROUND

    def __init__(self, column: Column, slots: int, of: str) -> None:
        self.column = column
        self.slots = slots
        self.of = of
        self.ignores_retracts = False

    def take_back(self, slots: Slots, rows: Order) -> None:
        """Take the rows' values back, or do nothing when option `fields.<name>.ignore-retract` says so."""
        if not self.ignores_retracts:
            self.retract(slots, rows)

    def add(self, slots: Slots, rows: Order) -> None:
        """Take the rows' values in."""
        raise NotImplementedError

    def add_late(self, slots: Slots, rows: Order) -> None:
        """Take values in that are older, by their sequence group, than those taken in before."""
        self.add(slots, rows)

    def retract(self, slots: Slots, rows: Order) -> None:
        """Take the rows' values back; raises InvalidInputError when the function can't."""
        del slots, rows
        raise InvalidInputError(retract_message(self.of))

    def put(self, slots: Slots, rows: Order) -> None:
        """Replace accumulators by the rows' values."""
        raise NotImplementedError

    def clear(self, slots: Slots) -> None:
        """Make accumulators null."""
        raise NotImplementedError

    def reduce(self, keys: KeyRows) -> "Result | None":
        """The function of all rows of all keys at once, by key; None when it has no way to, and takes them in rounds.

        A key's only row is its result, whatever the function; accumulators are not touched.
        """
        del keys
        return None

    def result(self) -> "Picked | Column":
        """The accumulators by slot."""
        raise NotImplementedError


def retract_message(of: str) -> str:
    """Why a row that takes something back is refused; `of` is `function 'max' of column 'a'`."""
    name = of.rpartition("column ")[2].strip("'")
    return (
        f"The {of} can't take values back, so the table takes no -U and -D rows. Set option "
        f"'fields.{name}.ignore-retract' to 'true' to have them ignored there."
    )


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
