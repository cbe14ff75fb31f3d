"""Random values as clause 4.3.2 describes them, as columns of Arrow made by numpy."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Random: TypeAlias = np.random.Generator
Integers: TypeAlias = npt.NDArray[np.int64]
Column: TypeAlias = "pa.Array[Any]"

SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")
"""Of which last names are made (clause 4.3.2.3)."""
C_LAST_LOADED, C_LAST_RUN = 157, 223
"""The constants C for last names, when loading and when running: their difference is 66 (clause 2.1.6.1)."""
C_CUSTOMER, C_ITEM = 259, 7_911
"""Those for numbers of customers and items."""

_DIGITS = np.frombuffer(b"0123456789", np.uint8)
_LETTERS = np.frombuffer(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", np.uint8)
_ORIGINAL = np.frombuffer(b"ORIGINAL", np.uint8)


def last_name(number: int) -> str:
    """The name of a number of three digits."""
    return SYLLABLES[number // 100] + SYLLABLES[number // 10 % 10] + SYLLABLES[number % 10]


def last_names(numbers: Integers) -> Column:
    """The names of numbers."""
    places: Any = pa.array(numbers)
    return pa.array([last_name(n) for n in range(1_000)]).take(places)


def non_uniform(random: Random, most_bits: int, low: int, high: int, constant: int, count: int) -> Integers:
    """NURand(A, x, y) (clause 2.1.6), so many of them; A is `most_bits`."""
    either = random.integers(0, most_bits + 1, count) | random.integers(low, high + 1, count)
    return (either + constant) % (high - low + 1) + low


def texts(random: Random, count: int, least: int, most: int | None = None, *, original: float = 0.0) -> Column:
    """Texts of letters and digits (a-string) with as many as said; a share of them has the word ORIGINAL in it."""
    return _texts(random, _LETTERS, count, least, most or least, original)


def digits(random: Random, count: int, length: int) -> Column:
    """Texts of digits (n-string)."""
    return _texts(random, _DIGITS, count, length, length, 0.0)


def zip_codes(random: Random, count: int) -> Column:
    """Four digits and 11111 (clause 4.3.2.7)."""
    return pa.array([f"{n:04}11111" for n in random.integers(0, 10_000, count).tolist()])


def money(cents: Integers, precision: int = 12, scale: int = 2) -> Column:
    """Numbers of the smallest unit as decimals."""
    # The upper half of a decimal is the sign of the lower one.
    halves: Any = np.stack([cents, cents >> 63], axis=1)
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(cents), [None, pa.py_buffer(halves.tobytes())])


def same(value: Any, count: int) -> Column:
    """One value for all rows."""
    found: Column = pa.repeat(value, count)
    return found


def _texts(
    random: Random, letters: npt.NDArray[np.uint8], count: int, least: int, most: int, original: float
) -> Column:
    lengths = random.integers(least, most + 1, count)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    data = letters[random.integers(0, len(letters), int(offsets[-1]))]
    if original:
        rows = random.choice(count, round(count * original), replace=False)
        starts = offsets[rows] + random.integers(0, lengths[rows] - len(_ORIGINAL) + 1)
        data[starts[:, None] + np.arange(len(_ORIGINAL))] = _ORIGINAL
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data.tobytes()))
