"""The index `bloom-filter`: shows that a value is not in a file. Its types are all atomic ones but BOOLEAN and DECIMAL.

On disk: the number of hash functions (4 bytes, big-endian), then the bits, the lowest of a byte first. Options: `items`
(the expected number of distinct values of a file, 1000000) and `fpp` (the probability of false positives, 0.1).
Specification page: `concepts/spec/fileindex`.

The hashes have 64 bits: Thomas Wang's of integers, xxHash64 (seed 0) of bytes. They are vectorised. Source:
paimon-common, `fileindex.bloomfilter.FastHash`; xxHash's own specification.
"""

import math
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from interbed.storage.base.arrays import Ints, Mask
from interbed.storage.base.arrow_values import array_of, to_numpy
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.predicate.expr import Comparison, In, Leaf, Op
from interbed.storage.base.predicate.operands import literal
from interbed.storage.base.row.words import Array, unaligned_words
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import BINARIES
from interbed.storage.files.file_index.api import EVERYTHING, NOTHING, Selection
from interbed.storage.files.file_index.values import ATOMS, ValueForm
from interbed.storage.meta.options.reader import OptionReader

Hashes = npt.NDArray[np.uint64]

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(p)
    for p in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_STRIPE = 32
_SPARE = 8
_BLOCK = 65_536
"""Values per block of hashing, so that intermediate results stay in the processor's cache."""


def hash_values(values: Array, form: ValueForm) -> Hashes:
    """Return the hash of each value that is not null, as converted by the form."""
    converted: Any = form.convert(values).drop_null()
    if form.width:
        return hash_integers(to_numpy(converted).astype(np.int64))
    return hash_binary(converted)


def hash_integers(values: Ints) -> Hashes:
    """Return Thomas Wang's hash of each integer; its shifts to the right keep the sign."""
    with np.errstate(over="ignore"):
        key = ~values + (values << 21)
        key ^= key >> 24
        key = (key + (key << 3)) + (key << 8)
        key ^= key >> 14
        key = (key + (key << 2)) + (key << 4)
        key ^= key >> 28
        key += key << 31
    hashes: Hashes = key.view(np.uint64)
    return hashes


def hash_binary(values: Array) -> Hashes:
    """Return xxHash64 of each of the binaries, none of which is null."""
    result = np.empty(len(values), np.uint64)
    for start in range(0, len(values), _BLOCK):
        block: Any = values.slice(start, _BLOCK)
        offsets = np.frombuffer(block.buffers()[1], np.int32)[block.offset : block.offset + len(block) + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        data = np.zeros(last - first + _SPARE, np.uint8)
        if last > first:
            data[: last - first] = np.frombuffer(block.buffers()[2], np.uint8)[first:last]
        begins = offsets[:-1].astype(np.int64) - first
        result[start : start + len(block)] = _xx_hash(data, begins, np.diff(offsets).astype(np.int64))
    return result


def _xx_hash(data: npt.NDArray[np.uint8], begins: Ints, lengths: Ints) -> Hashes:
    words = unaligned_words(data)
    with np.errstate(over="ignore"):
        state = np.full(len(begins), _P5, np.uint64)
        at = begins.copy()
        long = np.flatnonzero(lengths >= _STRIPE)
        if len(long):
            state[long] = _stripes(words, at[long], lengths[long] // _STRIPE)
            at[long] += lengths[long] // _STRIPE * _STRIPE
        state += lengths.astype(np.uint64)
        left = lengths % _STRIPE
        while len(rows := np.flatnonzero(left >= 8)):
            state[rows] ^= _round(np.uint64(0), words[at[rows]])
            state[rows] = _rotate(state[rows], 27) * _P1 + _P4
            at[rows] += 8
            left[rows] -= 8
        rows = np.flatnonzero(left >= 4)
        state[rows] ^= (words[at[rows]] & np.uint64(0xFFFFFFFF)) * _P1
        state[rows] = _rotate(state[rows], 23) * _P2 + _P3
        at[rows] += 4
        left[rows] -= 4
        while len(rows := np.flatnonzero(left > 0)):
            state[rows] ^= data[at[rows]].astype(np.uint64) * _P5
            state[rows] = _rotate(state[rows], 11) * _P1
            at[rows] += 1
            left[rows] -= 1
        state ^= state >> np.uint64(33)
        state *= _P2
        state ^= state >> np.uint64(29)
        state *= _P3
        state ^= state >> np.uint64(32)
    return state


def _stripes(words: Hashes, at: Ints, stripes: Ints) -> Hashes:
    """Return the hash state after the stripes of values of at least a stripe: four lanes, each of every fourth word."""
    zero = np.uint64(0)
    lanes = [np.full(len(at), seed, np.uint64) for seed in (_P1 + _P2, _P2, zero, zero - _P1)]
    for stripe in range(int(stripes.max())):
        rows = np.flatnonzero(stripes > stripe)
        for i, lane in enumerate(lanes):
            lane[rows] = _round(lane[rows], words[at[rows] + stripe * _STRIPE + 8 * i])
    state = sum(
        (_rotate(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True)), np.zeros_like(lanes[0])
    )
    for lane in lanes:
        state = (state ^ _round(zero, lane)) * _P1 + _P4
    return state


def _round(state: Any, word: Hashes) -> Hashes:
    return _rotate(state + word * _P2, 31) * _P1


def _rotate(state: Hashes, bits: int) -> Hashes:
    return (state << np.uint64(bits)) | (state >> np.uint64(64 - bits))


KIND = "bloom-filter"
ROOTS = ATOMS | BINARIES
DEFAULT_ITEMS = 1_000_000
DEFAULT_FPP = 0.1

_COUNT = struct.Struct(">i")
_MOST_BITS = 2**31 - 16


class BloomFilterWriter:
    """IndexWriter of one column; it keeps only the filter in memory."""

    def __init__(self, form: ValueForm, options: OptionReader) -> None:
        items, fpp = options.integer("items", DEFAULT_ITEMS), options.number("fpp", DEFAULT_FPP)
        if items < 1 or not 0 < fpp < 1:
            raise InvalidOptionError(
                f"A bloom filter takes at least 1 for 'items' and between 0 and 1 for 'fpp', not {items} and {fpp}."
            )
        wanted = -items * math.log(fpp) / math.log(2) ** 2
        if wanted > _MOST_BITS:
            raise InvalidOptionError(f"A bloom filter for {items} 'items' and 'fpp' {fpp} is too large; take fewer.")
        bits = int(wanted) // 8 * 8 + 8
        self._form = form
        self._functions = max(1, math.floor(bits / items * math.log(2) + 0.5))
        self._bits = np.zeros(bits // 8, np.uint8)

    def add(self, values: Array) -> None:
        """Add values as for IndexWriter.add; nulls are ignored."""
        places = _places(hash_values(values, self._form), self._functions, 8 * len(self._bits)).reshape(-1)
        np.bitwise_or.at(self._bits, places >> 3, (1 << (places & 7)).astype(np.uint8))

    def finish(self) -> bytes:
        """Return the index as for IndexWriter.finish."""
        return _COUNT.pack(self._functions) + self._bits.tobytes()


class BloomFilterReader:
    """IndexReader that excludes files for `=` and IN, and no single rows."""

    def __init__(self, form: ValueForm, content: bytes) -> None:
        self._form = form
        self._functions = _COUNT.unpack_from(content)[0]
        self._bits = np.frombuffer(content, np.uint8, offset=_COUNT.size)
        if not len(self._bits) or self._functions < 1:
            raise ValueError(f"a bloom filter of {len(self._bits)} bytes and {self._functions} hash functions")

    @property
    def nbytes(self) -> int:
        """The size of the filter in bytes."""
        return int(self._bits.nbytes)

    def rows(self, leaf: Leaf) -> Selection:
        """Return the rows as for IndexReader.rows."""
        match leaf:
            case Comparison(Op.EQ, _, value) if value is not None:
                return EVERYTHING if self._may_hold([value]) else NOTHING
            case In(_, values):
                return EVERYTHING if self._may_hold([v for v in values if v is not None]) else NOTHING
            case _:
                return EVERYTHING

    def may_hold(self, values: Array) -> Mask:
        """Return for each value, none of which is null, whether it may be in the file."""
        places = _places(hash_values(values, self._form), self._functions, 8 * len(self._bits))
        bits = (self._bits[places >> 3] >> (places & 7)) & 1
        found: Mask = np.logical_and.reduce(bits, axis=0)
        return found

    def _may_hold(self, values: list[object]) -> bool:
        arrow = type_to_arrow(self._form.type)
        wanted = list(values)
        # Zeros of both signs are equal and have different hashes. NaN has one form.
        if self._form.is_float and any(v == 0 for v in wanted):
            wanted += [0.0, -0.0]
        if not wanted:
            return False
        return bool(self.may_hold(array_of([literal(v, arrow) for v in wanted], arrow)).any())


def _places(hashes: Hashes, functions: int, bits: int) -> npt.NDArray[np.int64]:
    """Return the bits of each value, a row for each hash function: sums of the hash's halves modulo 2 ** 32."""
    low = (hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    high = (hashes >> np.uint64(32)).astype(np.uint32)
    turns = np.arange(1, functions + 1, dtype=np.uint32)[:, None]
    with np.errstate(over="ignore"):
        sums = (low + turns * high).view(np.int32)
    return np.where(sums < 0, ~sums, sums).astype(np.int64) % bits
