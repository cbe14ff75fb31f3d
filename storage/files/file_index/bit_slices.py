"""Numbers of rows as bitmaps, one for each binary digit: which rows compare with a number is found bit by bit.

The algorithm is O'Neil and Quass' of "Improved query performance with variant indexes". Two kinds of index use it and
write it in different ways: `bsi` and `range-bitmap`.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from interbed.storage.base.predicate.expr import Op
from interbed.storage.files.file_index.bitmap import roaring_bytes

Numbers = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.uint32]


def slice_bytes(rows: Positions, numbers: Numbers, slices: int) -> list[bytes]:
    """The bitmap of each of the lowest `slices` binary digits: the rows whose number has it."""
    return [roaring_bytes(rows[(numbers >> np.uint64(bit)) & np.uint64(1) == 1]) for bit in range(slices)]


class BitSlices:
    """The rows that have a number, and those of each binary digit, the lowest first."""

    def __init__(self, present: BitMap, slices: Sequence[BitMap]) -> None:
        self.present = present
        self._slices = slices

    def compare(self, op: Op, number: int) -> BitMap:
        """The rows whose number compares so with the one given, which is not negative."""
        if number >> len(self._slices):
            return self.present.copy() if op in (Op.NE, Op.LT, Op.LE) else BitMap()
        equal, less, greater = self.present.copy(), BitMap(), BitMap()
        for bit in reversed(range(len(self._slices))):
            digit = self._slices[bit]
            if number >> bit & 1:
                less |= equal - digit
                equal &= digit
            else:
                greater |= equal & digit
                equal -= digit
        match op:
            case Op.EQ:
                return equal
            case Op.NE:
                return less | greater
            case Op.LT:
                return less
            case Op.LE:
                return less | equal
            case Op.GT:
                return greater
            case Op.GE:
                return greater | equal
