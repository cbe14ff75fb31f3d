"""The workload of a simulated writer: rows of keys, as numbers, commit by commit.

Keys are numbered in the order of their first insert. The key distribution selects the numbers that updates hit; the
insert order determines the position of a key among the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from interbed.storage.base.arrays import Ints, Mask
from interbed.storage.base.errors import InvalidInputError


class KeyDistribution(StrEnum):
    """The distribution of updates and deletes over the existing keys."""

    UNIFORM = "uniform"
    """All keys equally often."""
    ZIPF = "zipf"
    """By Zipf's law, the oldest keys most often."""
    LATEST = "latest"
    """By Zipf's law, the newest keys most often."""


class InsertOrder(StrEnum):
    """The position of new keys in key order."""

    RANDOM = "random"
    """Anywhere, as with UUIDs or hashes."""
    ASCENDING = "ascending"
    """After all others, as with counters and times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRows:
    """The rows of one commit in write order: key numbers, and the mask of the rows that delete."""

    keys: Ints
    deletes: Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Commits of `rows` rows of `row_bytes` bytes each, `interval_millis` apart, into one bucket.

    `update_ratio` and `delete_ratio` are the fractions of rows that hit existing keys; other rows are new keys. The
    same seed gives the same rows. Raises InvalidInputError for invalid figures.
    """

    commits: int = 200
    rows: int = 10_000
    row_bytes: int = 100
    update_ratio: float = 0.5
    delete_ratio: float = 0.0
    distribution: KeyDistribution = KeyDistribution.UNIFORM
    zipf_exponent: float = 0.99
    insert_order: InsertOrder = InsertOrder.RANDOM
    interval_millis: int = 60_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("commits", "rows", "row_bytes"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"A workload has {name} of at least 1, not {getattr(self, name)}.")
        if self.interval_millis < 0 or self.seed < 0:
            raise InvalidInputError("The interval of a workload's commits and its seed are not negative.")
        parts = (self.update_ratio, self.delete_ratio, self.update_ratio + self.delete_ratio)
        if not all(0 <= part <= 1 for part in parts):
            raise InvalidInputError(
                f"The parts of rows that update ({self.update_ratio}) and delete ({self.delete_ratio}) are from 0 to 1,"
                f" also together."
            )
        if not 0 <= self.zipf_exponent <= 10:
            raise InvalidInputError(f"The exponent of Zipf's law is from 0 to 10, not {self.zipf_exponent}.")

    def batches(self) -> Iterator[CommitRows]:
        """Yield the rows of the commits, one after the other."""
        random = np.random.default_rng(self.seed)
        known = 0
        for _ in range(self.commits):
            dice = random.random(self.rows)
            deletes = dice < self.delete_ratio
            existing = dice < self.delete_ratio + self.update_ratio
            if known == 0:
                # There are no keys yet to update or delete.
                deletes[:] = existing[:] = False
            keys = np.empty(self.rows, np.int64)
            keys[existing] = self._existing(random, int(existing.sum()), known)
            fresh = self.rows - int(existing.sum())
            keys[~existing] = np.arange(known, known + fresh)
            known += fresh
            yield CommitRows(keys=keys, deletes=deletes)

    def positions(self, keys: Ints) -> Ints:
        """Return the positions of keys: distinct numbers in the order of the keys."""
        if self.insert_order is InsertOrder.ASCENDING:
            return keys
        return _scattered(keys)

    def _existing(self, random: np.random.Generator, count: int, known: int) -> Ints:
        if self.distribution is KeyDistribution.UNIFORM:
            return random.integers(0, max(known, 1), count)
        ranks = _zipf_ranks(random.random(count), known, self.zipf_exponent)
        return ranks if self.distribution is KeyDistribution.ZIPF else known - 1 - ranks


def _zipf_ranks(uniform: npt.NDArray[np.float64], count: int, exponent: float) -> Ints:
    """Return ranks from 0 to count - 1 by Zipf's law, from uniform numbers by its continuous inverse."""
    if abs(exponent - 1) < 1e-6:
        values = (count + 1.0) ** uniform
    else:
        power = 1 - exponent
        values = (uniform * ((count + 1.0) ** power - 1) + 1) ** (1 / power)
    return np.clip(values.astype(np.int64) - 1, 0, max(count - 1, 0))


def _scattered(keys: Ints) -> Ints:
    """Return distinct numbers over the range of int64, by the finalizer of SplitMix64, which is one-to-one."""
    word = keys.astype(np.uint64)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (word ^ (word >> np.uint64(31))).view(np.int64)
