"""Where each key of a table is: an index from keys to locations (any numbers) for those who move keys about.

A key is held by a hash of 128 bits, 24 bytes with its location. Two keys of a billion share one with a probability of
less than 10^-20, for which no key is compared. The entries stand in sorted runs, the newer ones in memory; when those
there take more than their share they go to local disk, where they are searched without being read as a whole:

    <scratch>/keys-<random>/<n>.first, <n>.second, <n>.location    8 bytes each, ascending by the hash's two halves
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
"""With more runs on disk they are merged, because each is searched for every key."""
_PIECE_ROWS = 1 << 20
"""About how many entries of all runs are in memory while runs on disk are merged."""
_BLOCK_ROWS = 65_536
_COLUMNS = {"first": np.uint64, "second": np.uint64, "location": np.int64}
_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))


@dataclass(frozen=True, slots=True)
class KeyHashes:
    """The hashes of some keys, in two halves."""

    first: Words
    second: Words

    @staticmethod
    def of(columns: Sequence[Column], types: Sequence[DataType]) -> "KeyHashes":
        """The hashes of the keys that the columns make; raises InvalidInputError for columns that are no keys."""
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
        """Those of some keys."""
        return KeyHashes(self.first[rows], self.second[rows])

    def grouped(self) -> tuple[npt.NDArray[np.int64], Mask]:
        """The rows' numbers with equal keys beside each other in their order, and where each key begins."""
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
        """The entries of keys that are distinct."""
        order = np.argsort(keys.first)
        return _Run(keys.first[order], keys.second[order], locations[order])

    def with_newer(self, newer: "_Run") -> "_Run":
        """All entries of both; of a key that both have the newer one."""
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
        """A stretch of entries."""
        return _Run(self.first[begin:end], self.second[begin:end], self.location[begin:end])

    def search(self, first: Words, second: Words) -> npt.NDArray[np.int64]:
        """The place of each key, -1 where it is not; `first` ascends."""
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
    """The index, in memory up to `memory_bytes`. Not for use by several threads; `close` gives local disk back."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory_rows = max(1, memory_bytes // ENTRY_BYTES)
        # Both with the oldest first; a newer run's entry of a key hides an older one's.
        self._on_disk: list[_Run] = []
        self._in_memory: list[_Run] = []
        self._directory: Path | None = None
        self._files = 0

    def __len__(self) -> int:
        """Entries, hidden ones included."""
        return sum(map(len, (*self._on_disk, *self._in_memory)))

    @property
    def runs_on_disk(self) -> int:
        """How many sorted runs are on local disk."""
        return len(self._on_disk)

    def find(self, keys: KeyHashes) -> Locations:
        """The location of each key, NOWHERE for one that has none."""
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
        """Set the locations of keys, each of which is there once.

        Raises StorageAccessError when local disk can't be used.
        """
        if not len(keys):
            return
        runs = self._in_memory
        runs.append(_Run.of(keys, locations))
        # Runs of like size are merged, so that there are few of them.
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
        """Forget everything."""
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
        """The pieces, one after the other, as one run on disk."""
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
    """Every bit of the state spread over all others (the finaliser of splitmix64)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def _merged(runs: Sequence[_Run]) -> Iterator[_Run]:
    """Sorted runs, the oldest first, as pieces of one run."""
    pieces = max(1, -(-sum(map(len, runs)) // _PIECE_ROWS))
    # Hashes are spread evenly, so that equal parts of their range have about as many entries.
    bounds = np.array([(i << 64) // pieces for i in range(1, pieces)], np.uint64)
    cuts = [[0, *np.searchsorted(run.first, bounds).tolist(), len(run)] for run in runs]
    for i in range(pieces):
        yield _all([run.slice(cut[i], cut[i + 1]) for run, cut in zip(runs, cuts, strict=True)])


def _all(runs: Sequence[_Run]) -> _Run:
    """The entries of all runs, the oldest first."""
    return reduce(_Run.with_newer, runs)
