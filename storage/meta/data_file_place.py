"""Paths of the new files of one bucket: below the table's directory, or below one of its external paths.

Names below an external path are those below the table: `<external path>/[<partition>/]bucket-<n>/<file>`; with
`entropy-inject` four directories made of a hash of the file's name precede it. Source: paimon-common
`fs.RoundRobinExternalPathProvider`, `fs.EntropyInjectExternalPathProvider` and `fs.WeightedExternalPathProvider`.
"""

import random
from dataclasses import dataclass

from interbed.storage.io.resolve import normalize_path
from interbed.storage.meta.options.format import ExternalPaths, ExternalPathStrategy

_MASK = 0xFFFFFFFF
_ENTROPY_BITS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """Path of a new file, and the external path for its metadata: None for a file below the table's directory."""

    path: str
    external_path: str | None = None


class DataFilePlace:
    """Source of the paths of new files of one bucket; `directory` is the bucket's own.

    `relative` is the bucket's directory relative to the table.
    """

    def __init__(self, directory: str, external: ExternalPaths | None = None, relative: str = "") -> None:
        self.directory = directory
        self._external = external
        self._relative = relative
        # As in Paimon, begin at random: otherwise all short writers would put their one file below the first path.
        self._index = 0 if external is None else random.randrange(len(external.roots))

    def take(self, name: str) -> NewFile:
        """Return the path of the new file of that name."""
        external = self._external
        if external is None:
            return NewFile(path=f"{self.directory}/{name}")
        inner = f"{self._relative}/{name}"
        if external.strategy is ExternalPathStrategy.ENTROPY_INJECT:
            inner = f"{self._relative}/{entropy_directories(name)}/{name}"
        path = f"{self._next(external)}/{inner}"
        return NewFile(path=normalize_path(path), external_path=path)

    def _next(self, external: ExternalPaths) -> str:
        if external.weights is not None:
            return random.choices(external.roots, external.weights)[0]
        self._index = (self._index + 1) % len(external.roots)
        return external.roots[self._index]


def entropy_directories(name: str) -> str:
    """Return directories such as `1001/1101/0100/10011001`: the last 20 bits of the name's hash."""
    bits = f"{_murmur3(name.encode()) & _MASK >> 32 - _ENTROPY_BITS:0{_ENTROPY_BITS}b}"
    return "/".join((bits[:4], bits[4:8], bits[8:12], bits[12:]))


def _murmur3(data: bytes) -> int:
    """Return the MurmurHash3 x86, 32 bits, with seed 0, as in Guava."""
    state = 0
    whole = len(data) & ~3
    # Loop over the words of one file's name.
    for at in range(0, whole, 4):
        state ^= _mixed(int.from_bytes(data[at : at + 4], "little"))
        state = (_rotated(state, 13) * 5 + 0xE6546B64) & _MASK
    if whole < len(data):
        state ^= _mixed(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    return state ^ state >> 16


def _mixed(word: int) -> int:
    return _rotated(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _MASK
