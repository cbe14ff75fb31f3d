"""Avro's integers, many at once: zigzag, seven bits a byte, the least first, at most ten bytes.

Source: Avro specification 1.11, binary encoding.
"""

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

PADDING = 16
"""How many bytes more than its values data need, so that whole words can be read from the place of each value."""

_HIGH_BITS = np.uint64(0x8080808080808080)
_ONE = np.uint64(1)
_GROUPS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
"""Groups of bits that move down to their neighbours: 7 bits of each byte, 14 of each two, 28 of each four."""


def words_of(data: Bytes) -> Words:
    """The eight bytes from each place of the data on as one number."""
    return np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))


def varint_sizes(word: Words, data: Bytes, at: Places) -> Places:
    """How many bytes the numbers have whose first eight bytes are given."""
    last = ~word & _HIGH_BITS
    # All bits below the lowest one that is set: that of the number's last byte.
    sizes: Places = (np.bitwise_count((last & -last) - _ONE).astype(np.int64) + 1) >> 3
    long = np.flatnonzero(last == 0)
    if len(long):
        sizes[long] = 9 + (data[at[long] + 8] >= 0x80)
    return sizes


def varints(data: Bytes, words: Words, at: Places) -> tuple[Places, Places]:
    """The numbers at those places, and how many bytes they have."""
    word = words[at]
    sizes = varint_sizes(word, data, at)
    value = word & (np.uint64(0xFFFFFFFFFFFFFFFF) >> (64 - 8 * np.minimum(sizes, 8)).astype(np.uint64))
    for low, high, shift in _GROUPS:
        value = (value & low) | ((value & high) >> shift)
    long = np.flatnonzero(sizes > 8)
    if len(long):
        ninth = data[at[long] + 8].astype(np.uint64)
        tenth = np.where(ninth >= 0x80, data[at[long] + 9], 0).astype(np.uint64)
        value[long] |= (ninth & np.uint64(0x7F)) << np.uint64(56) | tenth << np.uint64(63)
    return (value >> _ONE).view(np.int64) ^ -(value & _ONE).view(np.int64), sizes
