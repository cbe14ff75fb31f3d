"""The 64-bit hashes of bloom filters: Thomas Wang's of integers, xxHash64 (seed 0) of bytes; many values at once.

Source: paimon-common, `fileindex.bloomfilter.FastHash`; xxHash's own specification.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from interbed.storage.base.arrays import Ints
from interbed.storage.base.arrow_values import to_numpy
from interbed.storage.base.row.words import Array, unaligned_words
from interbed.storage.files.file_index.values import ValueForm

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
"""Values that are hashed together, so that what is in work stays in the processor's cache."""


def hash_values(values: Array, form: ValueForm) -> Hashes:
    """The hash of each value that is not null, as the form converts them."""
    converted: Any = form.convert(values).drop_null()
    if form.width:
        return hash_integers(to_numpy(converted).astype(np.int64))
    return hash_binary(converted)


def hash_integers(values: Ints) -> Hashes:
    """Thomas Wang's hash; its shifts to the right keep the sign."""
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
    """xxHash64 of each of the binaries, none of which is null."""
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
    """What values of at least a stripe begin with: four lanes, each of every fourth word."""
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
