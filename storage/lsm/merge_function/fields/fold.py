"""Folds: the base classes of aggregate functions over the values of a column, and the functions whose result is one of
the values: the first, last, greatest or least one.

A fold keeps one accumulator for each slot (see `segments`). Every method takes slots and, in parallel, the numbers of
the rows with their new values; a slot occurs once in a call. Accumulators are null at first. `FieldValues` keeps them
as Python values, for functions whose results grow. Functions that pick a value keep row numbers instead, so that all
types are handled alike and each result is copied once.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Words
from interbed.storage.base.arrow_values import array_of, from_numpy
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.row.python_values import python_values
from interbed.storage.lsm.key_words import Order, lazy_words, row_ranks
from interbed.storage.lsm.merge_function.api import validity, without_nulls
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


_NULL = -1
_MANY_ROWS = 64
"""If a key has more rows, rounds cost more than a pass over all rows at once."""


class PickedRow(ColumnFold):
    """A fold of row numbers by slot, -1 for null."""

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._picked: Order = np.full(slots, _NULL, np.int64)
        self._valid = validity(column)

    def put(self, slots: Slots, rows: Order) -> None:
        self._picked[slots] = self._number(rows)

    def clear(self, slots: Slots) -> None:
        self._picked[slots] = _NULL

    def result(self) -> PickedRows:
        return PickedRows(self._picked)

    def _number(self, rows: Order) -> Order:
        """Return the row numbers, -1 where the value is null."""
        return rows if self._valid is None else np.where(self._valid[rows], rows, _NULL)


class LastValue(PickedRow):
    """`last_value`: the newest value, which may be null; a retraction makes it null."""

    can_retract = True
    late = LateRows.BEFORE

    def add(self, slots: Slots, rows: Order) -> None:
        self.put(slots, rows)

    def add_late(self, slots: Slots, rows: Order) -> None:
        """Ignore older values, which change nothing."""

    def retract(self, slots: Slots, rows: Order) -> None:
        del rows
        self.clear(slots)

    def reduce(self, keys: KeyRows) -> PickedRows:
        return PickedRows(keys.newest)


class LastNonNullValue(PickedRow):
    """`last_non_null_value`: the newest value that is not null; a retraction of such a value makes it null."""

    can_retract = True
    late = LateRows.BEFORE

    def add(self, slots: Slots, rows: Order) -> None:
        if self._valid is None:
            self._picked[slots] = rows
        else:
            self._picked[slots] = np.where(self._valid[rows], rows, self._picked[slots])

    def add_late(self, slots: Slots, rows: Order) -> None:
        """Use older values only where there is no value yet."""
        picked = self._picked[slots]
        self._picked[slots] = np.where(picked == _NULL, self._number(rows), picked)

    def retract(self, slots: Slots, rows: Order) -> None:
        if self._valid is None:
            self._picked[slots] = _NULL
        else:
            self._picked[slots] = np.where(self._valid[rows], _NULL, self._picked[slots])

    def reduce(self, keys: KeyRows) -> PickedRows:
        return PickedRows(keys.newest if self._valid is None else keys.newest_where(self._valid))


class FirstValue(PickedRow):
    """`first_value`: the oldest value, which may be null."""

    late = LateRows.BEFORE

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._started = np.zeros(slots, np.bool_)

    def add(self, slots: Slots, rows: Order) -> None:
        self._picked[slots] = np.where(self._started[slots], self._picked[slots], self._number(rows))
        self._started[slots] = True

    def add_late(self, slots: Slots, rows: Order) -> None:
        """Replace values by late ones, which are older."""
        self._picked[slots] = np.where(self._started[slots], self._number(rows), self._picked[slots])
        self._started[slots] = True

    def reduce(self, keys: KeyRows) -> PickedRows:
        return PickedRows(keys.oldest)


class FirstNonNullValue(PickedRow):
    """`first_non_null_value`: the oldest value that is not null."""

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._started = np.zeros(slots, np.bool_)

    def add(self, slots: Slots, rows: Order) -> None:
        numbers, started = self._number(rows), self._started[slots]
        taken = ~started & (numbers != _NULL)
        self._picked[slots] = np.where(taken, numbers, self._picked[slots])
        self._started[slots] = started | taken

    def add_late(self, slots: Slots, rows: Order) -> None:
        """Replace values by late ones, even by null, as Paimon does."""
        picked, started = self._picked[slots], self._started[slots]
        stays = ~started & (picked != _NULL)
        self._picked[slots] = np.where(stays, picked, self._number(rows))
        self._started[slots] = started | stays

    def reduce(self, keys: KeyRows) -> PickedRows:
        return PickedRows(keys.oldest if self._valid is None else keys.oldest_where(self._valid))


class MaxValue(PickedRow):
    """`max` and `bool_or`; with `least` (a subclass) `min` and `bool_and`. Values compare as keys do."""

    least = False
    late = LateRows.ANYWHERE

    @cached_property
    def _ranks(self) -> "npt.NDArray[np.uint64]":
        ranks = row_ranks([self.column])
        return (np.uint64((1 << ranks.bits) - 1) - ranks.values) if self.least else ranks.values

    def add(self, slots: Slots, rows: Order) -> None:
        picked, numbers = self._picked[slots], self._number(rows)
        replaces = (picked == _NULL) | (self._ranks[numbers] > self._ranks[picked])
        self._picked[slots] = np.where((numbers != _NULL) & replaces, numbers, picked)

    def reduce(self, keys: KeyRows) -> PickedRows:
        if not len(keys):
            return PickedRows(keys.newest)
        words = lazy_words(without_nulls(self.column))
        first = next(words)
        lowest = first.min()
        bits = (int(first.max() - lowest) + 1).bit_length()
        shift = len(keys.order).bit_length()
        if bits + shift + len(keys).bit_length() <= 63:
            rest = next(words, None)
            if rest is None:
                return self._greatest_of_short(first - lowest, bits, shift, keys)
            words = chain([rest], words)
        if keys.longest > _MANY_ROWS:
            return PickedRows(self._greatest_of_long(chain([first], words), keys))
        return self._greatest_of_few(first, words, keys)

    def _greatest_of_short(self, words: Words, bits: int, shift: int, keys: KeyRows) -> PickedRows:
        """Compute a running maximum per key; key, value and position are packed into one 64-bit number."""
        top = np.uint64((1 << bits) - 1)
        words = top - words if self.least else words + np.uint64(1)
        if self._valid is not None:
            words = np.where(self._valid, words, np.uint64(0))
        mixed = (keys.keys.view(np.uint64) << np.uint64(bits)) | words.take(keys.order)
        mixed = (mixed << np.uint64(shift)) | np.arange(len(mixed), dtype=np.uint64)
        places = np.maximum.accumulate(mixed).take(keys.lasts) & np.uint64((1 << shift) - 1)
        return PickedRows(keys.order.take(places.view(np.int64)))

    def _greatest_of_few(self, first: Words, rest: Iterable[Words], keys: KeyRows) -> PickedRows:
        """Compare the first words round by round; keys with equal first words are compared again by all words."""
        words = ~first if self.least else first
        if self._valid is not None:
            # Nulls are smallest. Values that become equal by halving are compared again.
            words = np.where(self._valid, (words >> np.uint64(1)) + np.uint64(1), np.uint64(0))
        rows = keys.oldest.copy()
        most = words.take(rows)
        alike = np.zeros(len(keys), np.bool_)
        for more, others in keys.rounds:
            before, met = most.take(more), words.take(others)
            greater = met > before
            most[more] = np.maximum(met, before)
            rows[more.compress(greater)] = others.compress(greater)
            equal = met == before if self._valid is None else (met == before) & (met != 0)
            if equal.any():
                alike[more.compress(equal)] = True
        if alike.any():
            rows[alike] = self._greatest_of_long(chain([first], rest), keys.of_keys(alike))
        return PickedRows(rows)

    def _greatest_of_long(self, words: Iterable[Words], keys: KeyRows) -> Order:
        """Compare word by word: keep the values of a key with the greatest first word, then the greatest second …"""
        rows = keys.newest.copy()
        left, most = np.ones(len(keys.order), np.bool_), len(keys)
        if self._valid is not None:
            left = self._valid.take(keys.order)
            most = int(np.count_nonzero(keys.has(self._valid)))
        all_left = self._valid is None
        for word in words:
            ordered = (~word if self.least else word).take(keys.order)
            if not all_left:
                ordered = np.where(left, ordered, np.uint64(0))
            left &= ordered == np.maximum.reduceat(ordered, keys.firsts).repeat(keys.sizes)
            all_left = False
            if np.count_nonzero(left) == most:
                break
        # If no value is left, all are null, and so is the newest one.
        places = np.flatnonzero(left)
        rows[keys.keys.take(places)] = keys.order.take(places)
        return rows


class MinValue(MaxValue):
    """`min` and `bool_and`, the reverse of the base class."""

    least = True
