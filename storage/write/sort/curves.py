"""Curves through several columns of small integers: one number for each row, by which near rows stay near.

A Z-order interleaves the bits of the columns; a Hilbert curve has no leaps besides (J. Skilling, "Programming the
Hilbert curve", 2004). Both work on whole columns.
"""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from interbed.storage.base.arrays import Mask, Words

MOST_COLUMNS = 60
"""As many columns as give a bit each to a number of 64 bits, with some to spare."""
_MOST_BITS = 12


def bits_of(columns: int) -> int:
    """How many bits each of so many columns gives to the number: what they have is cut to that."""
    return min(_MOST_BITS, MOST_COLUMNS // columns)


def z_order(columns: Sequence[Words]) -> Words:
    """The position of each row on the Z-order curve, of columns with `bits_of` bits each."""
    count = len(columns)
    table = _spread(bits_of(count), count)
    index = np.zeros(len(columns[0]), np.uint64)
    for i, column in enumerate(columns):
        index |= table[column] << np.uint64(count - 1 - i)
    return index


def hilbert(columns: Sequence[Words]) -> Words:
    """The position of each row on the Hilbert curve, of columns with `bits_of` bits each."""
    bits = bits_of(len(columns))
    axes = [column.copy() for column in columns]
    for bit in range(bits - 1, 0, -1):
        low = np.uint64((1 << bit) - 1)
        axes[0] ^= np.where(_has(axes[0], bit), low, np.uint64(0))
        for axis in axes[1:]:
            # Where the bit is set the first axis is turned round, elsewhere the two change places below it.
            is_set = _has(axis, bit)
            swapped = np.where(is_set, np.uint64(0), (axes[0] ^ axis) & low)
            axis ^= swapped
            axes[0] ^= np.where(is_set, low, swapped)
    for before, axis in pairwise(axes):
        axis ^= before
    flips = np.zeros(len(axes[0]), np.uint64)
    for bit in range(bits - 1, 0, -1):
        flips ^= np.where(_has(axes[-1], bit), np.uint64((1 << bit) - 1), np.uint64(0))
    return z_order([axis ^ flips for axis in axes])


def _has(axis: Words, bit: int) -> Mask:
    return np.asarray(axis & np.uint64(1 << bit), np.bool_)


@cache
def _spread(bits: int, step: int) -> Words:
    """For every number of so many bits the number with its bits `step` apart."""
    numbers = np.arange(1 << bits, dtype=np.uint64)
    spread = np.zeros(1 << bits, np.uint64)
    for bit in range(bits):
        spread |= ((numbers >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * step)
    return spread
