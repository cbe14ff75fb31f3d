"""Index of the locations of the keys of a table, for writers that move keys between partitions. Locations are any
numbers.

A key is represented by a hash of 128 bits; with its location it takes 24 bytes. Among a billion keys, two share a hash
with a probability of less than 10^-20, so keys are not compared. The entries are in sorted runs, the newer ones in
memory. When the runs in memory exceed their limit they are written to local disk, where they are searched without being
read as a whole:

    <scratch>/keys-<random>/<n>.first, <n>.second, <n>.location    8 bytes each, ascending by the two halves of the hash
"""

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from interbed.storage.base.arrays import Mask, Words
from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.row.words import Column, columns_to_words, in_arrow_form
from interbed.storage.base.types.data_type import DataType
from interbed.storage.io.scratch import new_scratch_directory, remove_scratch_directory
from interbed.storage.lsm.key_words import refine_groups

Locations = npt.NDArray[np.int64]

NOWHERE = -1
ENTRY_BYTES = 24
DISK_RUNS = 8
"""The number of runs on disk beyond which they are merged, because each is searched for every key."""
_PIECE_ROWS = 1 << 20
"""The approximate number of entries of all runs in memory while runs on disk are merged."""
_BLOCK_ROWS = 65_536
_COLUMNS = {"first": np.uint64, "second": np.uint64, "location": np.int64}
_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))


@dataclass(frozen=True, slots=True)
class KeyHashes:
    """The hashes of keys, in two halves."""

    first: Words
    second: Words

    @staticmethod
    def of(columns: Sequence[Column], types: Sequence[DataType]) -> "KeyHashes":
        """Return the hashes of the keys in the columns; raise InvalidInputError for columns that can't be keys."""
        arrays = [in_arrow_form(c, t) for c, t in zip(columns, types, strict=True)]
        count = len(arrays[0])
        halves = np.empty((2, count), np.uint64)
        # In blocks, so that the state stays in the processor's cache.
        for start in range(0, count, _BLOCK_ROWS):
            words = columns_to_words([a.slice(start, _BLOCK_ROWS) for a in arrays], types)
            for half, factor in enumerate(_FACTORS):
                state = words.size.view(np.uint64) * factor
                for word in words.fixed:
                    state = _mixed(state ^ word * factor)
                for part in words.variable:
                    counts = part.word_counts()
                    for index in range(int(counts.max())):
                        rows = np.flatnonzero(counts > index)
                        state[rows] = _mixed(state[rows] ^ part.word(index, rows) * factor)
                halves[half, start : start + _BLOCK_ROWS] = state
        return KeyHashes(halves[0], halves[1])

    def __len__(self) -> int:
        return len(self.first)

    def take(self, rows: npt.NDArray[Any]) -> "KeyHashes":
        """Return the hashes of some of the keys."""
        return KeyHashes(self.first[rows], self.second[rows])

    def grouped(self) -> tuple[npt.NDArray[np.int64], Mask]:
        """Return the row numbers with equal keys adjacent and in their order, and a mask of the first row of each
        key.
        """
        order = np.argsort(self.first)
        first = self.first[order]
        starts = np.ones(len(order), np.bool_)
        np.not_equal(first[1:], first[:-1], out=starts[1:])
        if not starts.all():
            arrival = np.arange(len(order), dtype=np.uint64)
            order = refine_groups(order, starts, [self.second, arrival])
            second = self.second[order]
            starts[1:] |= second[1:] != second[:-1]
        return order, starts


@dataclass(frozen=True, slots=True)
class _Run:
    """Entries, each key once, ascending by the first half of the hash alone."""

    first: Words
    second: Words
    location: Locations

    def __len__(self) -> int:
        return len(self.first)

    @staticmethod
    def of(keys: KeyHashes, locations: Locations) -> "_Run":
        """Return the entries of distinct keys."""
        order = np.argsort(keys.first)
        return _Run(keys.first[order], keys.second[order], locations[order])

    def with_newer(self, newer: "_Run") -> "_Run":
        """Return all entries of both; the newer entry of a key that both have."""
        places = self.search(newer.first, newer.second)
        known = places >= 0
        location = self.location
        if known.any():
            location = location.copy()
            location[places[known]] = newer.location[known]
        fresh = ~known
        if not fresh.any():
            return _Run(self.first, self.second, location)
        first = newer.first[fresh]
        slots = np.searchsorted(self.first, first) + np.arange(len(first))
        others = np.ones(len(self) + len(first), np.bool_)
        others[slots] = False

        def both(old: Any, new: Any) -> Any:
            joined = np.empty(len(others), old.dtype)
            joined[slots], joined[others] = new, old
            return joined

        return _Run(
            both(self.first, first), both(self.second, newer.second[fresh]), both(location, newer.location[fresh])
        )

    def slice(self, begin: int, end: int) -> "_Run":
        """Return a range of entries."""
        return _Run(self.first[begin:end], self.second[begin:end], self.location[begin:end])

    def search(self, first: Words, second: Words) -> npt.NDArray[np.int64]:
        """Return the index of each key, -1 if it is missing; `first` ascends."""
        places = np.searchsorted(self.first, first)
        found = np.full(len(first), -1, np.int64)
        left = np.flatnonzero(places < len(self))
        # Almost always one step: more only where keys share the first half.
        while len(left):
            alike = self.first[places[left]] == first[left]
            hit = alike & (self.second[places[left]] == second[left])
            found[left[hit]] = places[left[hit]]
            left = left[alike & ~hit]
            places[left] += 1
            left = left[places[left] < len(self)]
        return found


class KeyLocations:
    """Index of locations, in memory up to `memory_bytes`.

    Not for use by several threads; `close` releases local disk.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_rows = max(1, memory_bytes // ENTRY_BYTES)
        # Both lists begin with the oldest run; the entry of a key in a newer run hides that in an older one.
        self._on_disk: list[_Run] = []
        self._in_memory: list[_Run] = []
        self._directory: Path | None = None
        self._files = 0

    def __len__(self) -> int:
        """Return the number of entries, including those hidden by newer ones."""
        return sum(map(len, (*self._on_disk, *self._in_memory)))

    @property
    def runs_on_disk(self) -> int:
        """The number of sorted runs on local disk."""
        return len(self._on_disk)

    def find(self, keys: KeyHashes) -> Locations:
        """Return the location of each key, NOWHERE for a key that has none."""
        found = np.full(len(keys), NOWHERE, np.int64)
        # In ascending order, so that the searches go through each run once.
        left = np.argsort(keys.first)
        for run in (*reversed(self._in_memory), *reversed(self._on_disk)):
            if not len(left):
                break
            places = run.search(keys.first[left], keys.second[left])
            there = places >= 0
            found[left[there]] = run.location[places[there]]
            left = left[~there]
        return found

    def put(self, keys: KeyHashes, locations: Locations) -> None:
        """Set the locations of distinct keys.

        Raises StorageAccessError when local disk can't be used.
        """
        if not len(keys):
            return
        runs = self._in_memory
        runs.append(_Run.of(keys, locations))
        # Runs of similar size are merged, to keep their number small.
        while len(runs) > 1 and 2 * len(runs[-1]) > len(runs[-2]):
            runs[-2:] = [runs[-2].with_newer(runs[-1])]
        if sum(map(len, runs)) > self._memory_rows:
            self._on_disk.append(self._written([_all(runs)]))
            self._in_memory = []
            if len(self._on_disk) > DISK_RUNS:
                merged = range(self._files - len(self._on_disk), self._files)
                self._on_disk = [self._written(_merged(self._on_disk))]
                self._remove(merged)

    def close(self) -> None:
        """Release all entries and the scratch directory."""
        self._on_disk, self._in_memory = [], []
        directory, self._directory = self._directory, None
        if directory is not None:
            remove_scratch_directory(directory)

    def _remove(self, numbers: Iterable[int]) -> None:
        assert self._directory is not None
        for number in numbers:
            for name in _COLUMNS:
                (self._directory / f"{number}.{name}").unlink(missing_ok=True)

    def _written(self, pieces: Iterable[_Run]) -> _Run:
        """Write the pieces, in order, as one run on disk."""
        if self._directory is None:
            self._directory = new_scratch_directory("keys")
            weakref.finalize(self, remove_scratch_directory, self._directory)
        stem = str(self._directory / str(self._files))
        self._files += 1
        rows = 0
        try:
            with ExitStack() as stack:
                outputs = [stack.enter_context(open(f"{stem}.{name}", "wb")) for name in _COLUMNS]
                for piece in pieces:
                    for output, values in zip(outputs, (piece.first, piece.second, piece.location), strict=True):
                        output.write(values.tobytes())
                    rows += len(piece)
        except OSError as error:
            raise StorageAccessError(f"Can't keep keys on local disk in {stem}: {error.strerror or error}.") from error
        mapped: list[Any] = [
            np.memmap(f"{stem}.{name}", kind, mode="r", shape=(rows,)) for name, kind in _COLUMNS.items()
        ]
        return _Run(*mapped)


def _mixed(state: Words) -> Words:
    """Return the state with every bit spread over all others (the finaliser of splitmix64)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def _merged(runs: Sequence[_Run]) -> Iterator[_Run]:
    """Yield the entries of sorted runs, the oldest first, as pieces of one run."""
    pieces = max(1, -(-sum(map(len, runs)) // _PIECE_ROWS))
    # Hashes are spread evenly, so that equal parts of their range have about as many entries.
    bounds = np.array([(i << 64) // pieces for i in range(1, pieces)], np.uint64)
    cuts = [[0, *np.searchsorted(run.first, bounds).tolist(), len(run)] for run in runs]
    for i in range(pieces):
        yield _all([run.slice(cut[i], cut[i + 1]) for run, cut in zip(runs, cuts, strict=True)])


def _all(runs: Sequence[_Run]) -> _Run:
    """Return the entries of all runs, the oldest first, as one run."""
    return reduce(_Run.with_newer, runs)
