"""Functions whose result is one of the values: the first, last, greatest or least one.

They keep numbers of rows instead of values, so that all types are handled alike and each result is copied once.
"""

import numpy as np
import numpy.typing as npt

from interbed.storage.lsm.key_words import Order, row_ranks
from interbed.storage.lsm.merge_function.fields.fold import Column, Fold, validity
from interbed.storage.lsm.merge_function.segments import Picked, Segments, Slots

_NULL = -1


class Pick(Fold):
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


class LastValue(Pick):
    """`last_value`: the newest value, be it null; a retraction makes it null."""

    can_retract = True

    def add(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        self.put(slots, rows)

    def add_late(self, slots: Slots, rows: Order) -> None:
        """Older values change nothing."""

    def retract(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        del rows
        self.clear(slots)

    def reduce(self, segments: Segments) -> bool:
        """See Fold."""
        self._picked = self._number(segments.order[segments.firsts + segments.sizes - 1])
        return True


class LastNonNullValue(Pick):
    """`last_non_null_value`: the newest value that is not null; taking back such a value makes it null."""

    can_retract = True

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

    def reduce(self, segments: Segments) -> bool:
        """See Fold."""
        order, starts = segments.joined, segments.starts
        self._picked = last_of_each(order, starts, None if self._valid is None else self._valid[order])
        return True


class FirstValue(Pick):
    """`first_value`: the oldest value, be it null."""

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

    def reduce(self, segments: Segments) -> bool:
        """See Fold."""
        self._picked = self._number(segments.order[segments.firsts])
        return True


class FirstNonNullValue(Pick):
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

    def reduce(self, segments: Segments) -> bool:
        """See Fold."""
        order, starts = segments.joined, segments.starts
        places = np.arange(len(order))
        if self._valid is not None:
            places = np.where(self._valid[order], places, len(order))
        places = np.minimum.reduceat(places, starts) if len(starts) else places
        self._picked = np.append(order, _NULL)[places]
        return True


class Greatest(Pick):
    """`max` and `bool_or`; with `least`, a subclass, `min` and `bool_and`. Values compare as keys do."""

    least = False

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._bits = 0
        self._ranks: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        if len(column):
            ranks = row_ranks([column])
            self._bits = ranks.bits
            self._ranks = (np.uint64((1 << ranks.bits) - 1) - ranks.values) if self.least else ranks.values

    def add(self, slots: Slots, rows: Order) -> None:
        """See Fold."""
        picked, numbers = self._picked[slots], self._number(rows)
        replaces = (picked == _NULL) | (self._ranks[numbers] > self._ranks[picked])
        self._picked[slots] = np.where((numbers != _NULL) & replaces, numbers, picked)

    def reduce(self, segments: Segments) -> bool:
        """See Fold."""
        order, starts = segments.joined, segments.starts
        place_bits = len(order).bit_length()
        if self._bits + place_bits > 63:
            return False
        if not len(order):
            return True
        # The place in the low bits says where the greatest rank was met; zero says that all values are null.
        mixed = ((self._ranks[order] + np.uint64(1)) << np.uint64(place_bits)) | np.arange(len(order), dtype=np.uint64)
        if self._valid is not None:
            mixed[~self._valid[order]] = 0
        greatest = np.maximum.reduceat(mixed, starts)
        places = (greatest & np.uint64((1 << place_bits) - 1)).astype(np.int64)
        self._picked = np.where(greatest == 0, _NULL, order[places])
        return True


class Least(Greatest):
    """`min` and `bool_and`."""

    least = True


def last_of_each(
    order: Order, starts: npt.NDArray[np.int64], wanted: "npt.NDArray[np.bool_] | None"
) -> npt.NDArray[np.int64]:
    """The number of each slot's last wanted row, -1 when there is none; arguments are those of Segments."""
    if not len(starts):
        return np.empty(0, np.int64)
    places = np.arange(len(order))
    if wanted is not None:
        places = np.where(wanted, places, _NULL)
    places = np.maximum.reduceat(places, starts)
    return np.where(places == _NULL, _NULL, order[places])
