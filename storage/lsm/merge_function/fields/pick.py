"""Functions whose result is one of the values: the first, last, greatest or least one.

They keep numbers of rows instead of values, so that all types are handled alike and each result is copied once.
"""

from collections.abc import Iterable
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from interbed.storage.base.arrays import Words
from interbed.storage.lsm.key_words import Order, row_ranks, words_in_turn
from interbed.storage.lsm.merge_function.api import validity, without_nulls
from interbed.storage.lsm.merge_function.fields.fold import Column, Fold, Late
from interbed.storage.lsm.merge_function.segments import KeyRows, Picked, Slots

_NULL = -1
_MANY_ROWS = 64
"""Where a key has more rows than that, rounds cost more than to look at all rows at once."""


class PickedRow(Fold):
    """Numbers of rows by slot, -1 for null."""

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._picked: Order = np.full(slots, _NULL, np.int64)
        self._valid = validity(column)

    def put(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        self._picked[slots] = self._number(rows)

    def clear(self, slots: Slots) -> None:
        """See Fold."""
        self._picked[slots] = _NULL

    def result(self) -> Picked:
        """See Fold."""
        return Picked(self._picked)

    def _number(self, rows: Order) -> Order:
        """The rows' numbers, -1 where the value is null."""
        return rows if self._valid is None else np.where(self._valid[rows], rows, _NULL)


class LastValue(PickedRow):
    """`last_value`: the newest value, be it null; a retraction makes it null."""

    can_retract = True
    late = Late.BEFORE

    def add(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        self.put(slots, rows)

    def add_late(self, slots: Slots, rows: Order) -> None:
        """Older values change nothing."""

    def retract(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        del rows
        self.clear(slots)

    def reduce(self, keys: KeyRows) -> Picked:
        """See Fold."""
        return Picked(keys.newest)


class LastNonNullValue(PickedRow):
    """`last_non_null_value`: the newest value that is not null; taking back such a value makes it null."""

    can_retract = True
    late = Late.BEFORE

    def add(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        if self._valid is None:
            self._picked[slots] = rows
        else:
            self._picked[slots] = np.where(self._valid[rows], rows, self._picked[slots])

    def add_late(self, slots: Slots, rows: Order) -> None:
        """Older values fill in where there is none."""
        picked = self._picked[slots]
        self._picked[slots] = np.where(picked == _NULL, self._number(rows), picked)

    def retract(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        if self._valid is None:
            self._picked[slots] = _NULL
        else:
            self._picked[slots] = np.where(self._valid[rows], _NULL, self._picked[slots])

    def reduce(self, keys: KeyRows) -> Picked:
        """See Fold."""
        return Picked(keys.newest if self._valid is None else keys.newest_where(self._valid))


class FirstValue(PickedRow):
    """`first_value`: the oldest value, be it null."""

    late = Late.BEFORE

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._begun = np.zeros(slots, np.bool_)

    def add(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        self._picked[slots] = np.where(self._begun[slots], self._picked[slots], self._number(rows))
        self._begun[slots] = True

    def add_late(self, slots: Slots, rows: Order) -> None:
        """A value that comes late is the older one."""
        self._picked[slots] = np.where(self._begun[slots], self._number(rows), self._picked[slots])
        self._begun[slots] = True

    def reduce(self, keys: KeyRows) -> Picked:
        """See Fold."""
        return Picked(keys.oldest)


class FirstNonNullValue(PickedRow):
    """`first_non_null_value`: the oldest value that is not null."""

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._begun = np.zeros(slots, np.bool_)

    def add(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        numbers, begun = self._number(rows), self._begun[slots]
        taken = ~begun & (numbers != _NULL)
        self._picked[slots] = np.where(taken, numbers, self._picked[slots])
        self._begun[slots] = begun | taken

    def add_late(self, slots: Slots, rows: Order) -> None:
        """A value that comes late replaces a younger one, with null even, as in Paimon."""
        picked, begun = self._picked[slots], self._begun[slots]
        stays = ~begun & (picked != _NULL)
        self._picked[slots] = np.where(stays, picked, self._number(rows))
        self._begun[slots] = begun | stays

    def reduce(self, keys: KeyRows) -> Picked:
        """See Fold."""
        return Picked(keys.oldest if self._valid is None else keys.oldest_where(self._valid))


class Greatest(PickedRow):
    """`max` and `bool_or`; with `least`, a subclass, `min` and `bool_and`. Values compare as keys do."""

    least = False
    late = Late.ANYWHERE

    @cached_property
    def _ranks(self) -> "npt.NDArray[np.uint64]":
        ranks = row_ranks([self.column])
        return (np.uint64((1 << ranks.bits) - 1) - ranks.values) if self.least else ranks.values

    def add(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        picked, numbers = self._picked[slots], self._number(rows)
        replaces = (picked == _NULL) | (self._ranks[numbers] > self._ranks[picked])
        self._picked[slots] = np.where((numbers != _NULL) & replaces, numbers, picked)

    def reduce(self, keys: KeyRows) -> Picked:
        """See Fold."""
        if not len(keys):
            return Picked(keys.newest)
        words = words_in_turn(without_nulls(self.column))
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
            return Picked(self._greatest_of_long(chain([first], words), keys))
        return self._greatest_of_few(first, words, keys)

    def _greatest_of_short(self, words: Words, bits: int, shift: int, keys: KeyRows) -> Picked:
        """Where key, value and place fit into one number: a running maximum that begins anew with each key."""
        top = np.uint64((1 << bits) - 1)
        words = top - words if self.least else words + np.uint64(1)
        if self._valid is not None:
            words = np.where(self._valid, words, np.uint64(0))
        mixed = (keys.keys.view(np.uint64) << np.uint64(bits)) | words.take(keys.order)
        mixed = (mixed << np.uint64(shift)) | np.arange(len(mixed), dtype=np.uint64)
        places = np.maximum.accumulate(mixed).take(keys.lasts) & np.uint64((1 << shift) - 1)
        return Picked(keys.order.take(places.view(np.int64)))

    def _greatest_of_few(self, first: Words, rest: Iterable[Words], keys: KeyRows) -> Picked:
        """Round by round the greater first word stays; keys with two alike are looked at again, by all words."""
        words = ~first if self.least else first
        if self._valid is not None:
            # Nulls are least. What halving makes alike is looked at again.
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
        return Picked(rows)

    def _greatest_of_long(self, words: Iterable[Words], keys: KeyRows) -> Order:
        """Word by word: of a key's values those stay that have the greatest first word, then the greatest second …"""
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
        # Where no value is left, all are null, and so is the newest one.
        places = np.flatnonzero(left)
        rows[keys.keys.take(places)] = keys.order.take(places)
        return rows


class Least(Greatest):
    """`min` and `bool_and`."""

    least = True
