"""Strings and binaries as unsigned 64-bit words that order as their bytes do, eight bytes a word.

What all values begin with is left out. Values are read where they lie: at steps of their width when all are equally
long, else at their offsets, through a view that has a word begin at every byte.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Words
from interbed.storage.base.arrow_values import to_numpy

_WORD_BYTES = 8
_PROBES = 16
"""Values that are compared before all are: mostly two of them differ in their first byte already."""


def words_of_bytes(array: "pa.Array[Any]", most: int) -> Iterator[Words]:
    """The words of strings or binaries without nulls, or one of ranks where `most` do not hold the longest value.

    Each word is made when it is asked for: often the first ones distinguish values.
    """
    rows = len(array)
    _, offset_buffer, data = array.buffers()
    if rows == 0 or offset_buffer is None:
        yield np.zeros(rows, np.uint64)
        return
    offsets = np.frombuffer(memoryview(offset_buffer), np.int32, count=rows + 1, offset=4 * array.offset)
    low, high = int(offsets[0]), int(offsets[-1])
    if data is None or high == low:
        yield np.zeros(rows, np.uint64)
        return
    lengths = np.diff(offsets)
    shortest, longest = int(lengths.min()), int(lengths.max())
    content = np.frombuffer(memoryview(data), np.uint8, count=high - low, offset=low)
    prefix = _common_prefix(array) if shortest else 0
    if longest - prefix > most * _WORD_BYTES:
        yield _rank_words(array)
        return
    if shortest == longest:
        yield from _fixed_width_words(content, rows, longest, prefix)
        return
    starts = offsets[:-1].astype(np.int64) - low
    yield from _variable_width_words(content, starts + prefix, lengths.astype(np.int64) - prefix)
    if not content.all():
        # Zero padding makes 'a' and 'a\\0' alike; the shorter one is the lesser.
        yield lengths.astype(np.uint64)


def _fixed_width_words(content: npt.NDArray[np.uint8], rows: int, width: int, prefix: int) -> Iterator[Words]:
    if width == prefix:
        yield np.zeros(rows, np.uint64)
        return
    for position in range(prefix, width - _WORD_BYTES + 1, _WORD_BYTES):
        yield np.ndarray((rows,), ">u8", content.data, position, (width,)).astype(np.uint64)
    rest = (width - prefix) % _WORD_BYTES
    if rest:
        padded = np.zeros((rows, _WORD_BYTES), np.uint8)
        padded[:, :rest] = content.reshape(rows, width)[:, width - rest :]
        yield padded.view(">u8")[:, 0].astype(np.uint64)


def _variable_width_words(
    content: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Iterator[Words]:
    # Eight bytes are read at any byte position through a view with stride 1; what lies behind a value's end is
    # shifted out. The padding lets the last value's read run over.
    padded = np.concatenate([content, np.zeros(_WORD_BYTES, np.uint8)])
    at = np.ndarray(shape=(len(content) + 1,), dtype=">u8", buffer=padded.data, strides=(1,))
    for position in range(0, int(lengths.max()), _WORD_BYTES):
        read = at[np.minimum(starts + position, len(content))].astype(np.uint64)
        have = np.clip(lengths - position, 0, _WORD_BYTES).astype(np.uint64)
        spare = (np.uint64(_WORD_BYTES) - have) * np.uint64(8)
        # A shift by 64 bits is undefined, hence the mask and the separate case of no byte left.
        kept = (read >> (spare & np.uint64(63))) << (spare & np.uint64(63))
        yield np.where(have == 0, np.uint64(0), kept)
    if not lengths.any():
        yield np.zeros(len(lengths), np.uint64)


def _common_prefix(array: "pa.Array[Any]") -> int:
    """How many bytes all values begin with alike; none of them is empty."""
    import pyarrow.compute as pc

    binary = array.cast(pa.binary()) if pa.types.is_string(array.type) else array
    probes = [binary[i].as_py() for i in range(0, len(binary), max(1, len(binary) // _PROBES))]
    if not _alike(min(probes), max(probes)):
        return 0
    bounds = pc.min_max(binary)
    return _alike(bounds["min"].as_py(), bounds["max"].as_py())


def _alike(left: bytes, right: bytes) -> int:
    """How many bytes both begin with."""
    for length, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return length
    return min(len(left), len(right))


def _rank_words(array: "pa.Array[Any]") -> Words:
    import pyarrow.compute as pc

    ranks = pc.rank(array, sort_keys="ascending", tiebreaker="dense")
    return np.asarray(to_numpy(ranks)).astype(np.uint64, copy=False)
