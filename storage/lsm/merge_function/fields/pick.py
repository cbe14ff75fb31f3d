"""Functions whose result is one of the values: the first, last, greatest or least one.

They keep row numbers instead of values, so that all types are handled alike and each result is copied once.
"""

from collections.abc import Iterable
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from interbed.storage.base.arrays import Words
from interbed.storage.lsm.key_words import Order, lazy_words, row_ranks
from interbed.storage.lsm.merge_function.api import validity, without_nulls
from interbed.storage.lsm.merge_function.fields.fold import Column, ColumnFold, LateRows
from interbed.storage.lsm.merge_function.segments import KeyRows, PickedRows, Slots

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
