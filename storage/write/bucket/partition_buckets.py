"""The bucket of each key hash in one partition, and the assignment of new hashes (documentation: primary-key table,
data distribution, dynamic bucket). Pure: arrays in, arrays out.

A known hash keeps its bucket. A new hash goes to the first bucket with fewer hashes than the target. If there is none
it goes to a new bucket, or, when the number of buckets is limited, to one of the existing buckets.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from interbed.storage.base.arrays import Mask
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError
from interbed.storage.meta.options.lsm import LsmOptions

Hashes = npt.NDArray[np.int32]

Buckets = npt.NDArray[np.int16]

MAX_BUCKET = 2**15 - 2
"""The highest bucket number: Paimon counts buckets in 16 bits."""

_LIMIT_MAX = 2**15
"""The highest number of buckets that Java Paimon takes as a limit."""

_RECENT_MIN = 65_536

_RECENT_SHARE = 4
"""Recent hashes are merged into the others when they exceed both this fraction of them (1/4) and _RECENT_MIN."""


class BucketSpace(NamedTuple):
    """A bucket and the number of new keys that it takes."""

    bucket: int
    keys: int


def take_space(
    counts: dict[int, int], existing: Iterable[int], new: Iterable[int], wanted: int, target: int
) -> Iterator[BucketSpace]:
    """Yield buckets for new keys: existing buckets with free space, in this order, then new ones; fewer than wanted if
    all are full.

    `counts` has the number of keys of each bucket and is increased. Numbers in `new` that are in `counts` are skipped.
    """
    # A loop over buckets, not keys.
    for bucket in chain(list(existing), (b for b in new if b not in counts)):
        if not wanted:
            return
        count = counts.get(bucket, 0)
        room = min(max(target - count, 0), wanted)
        if room:
            counts[bucket] = count + room
            wanted -= room
            yield BucketSpace(bucket, room)


def too_many_buckets(target: int) -> InvalidInputError:
    """Return the error for a partition whose buckets are all full."""
    return InvalidInputError(
        f"A partition can't have more than {MAX_BUCKET + 1} dynamic buckets; raise 'dynamic-bucket.target-row-num', "
        f"which is {target}."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicBucketRules:
    """The rules by which the buckets of a partition are filled.

    `target_rows` is the number of keys that a bucket should have. `max_buckets` limits the buckets of a partition
    (None: as many as possible). `initial_buckets` is the number of buckets over which the first keys of a new partition
    are spread.
    """

    target_rows: int
    max_buckets: int | None = None
    initial_buckets: int = 1

    @staticmethod
    def of(options: LsmOptions) -> "DynamicBucketRules":
        """Return the rules of the options of a table; raise InvalidOptionError."""
        target, most = options.dynamic_bucket_target_rows, options.dynamic_bucket_max_buckets
        if target < 1:
            raise InvalidOptionError(f"Option 'dynamic-bucket.target-row-num' takes a positive number, not {target}.")
        if most == 0 or most < -1:
            raise InvalidOptionError(f"Option 'dynamic-bucket.max-buckets' takes a positive number or -1, not {most}.")
        initial = options.dynamic_bucket_initial_buckets
        if initial < 1:
            raise InvalidOptionError(f"Option 'dynamic-bucket.initial-buckets' takes a positive number, not {initial}.")
        return DynamicBucketRules(target_rows=target, max_buckets=None if most == -1 else most, initial_buckets=initial)

    @staticmethod
    def check_new(options: LsmOptions) -> None:
        """Raise InvalidOptionError for options that a table must not get.

        Tables that have a higher limit are written with as many buckets as there can be.
        """
        most = DynamicBucketRules.of(options).max_buckets
        if most is not None and most > _LIMIT_MAX:
            raise InvalidOptionError(
                f"Option 'dynamic-bucket.max-buckets' takes at most {_LIMIT_MAX}, because Paimon counts buckets in 16 "
                f"bits; it is {most}. Set -1 for no limit of its own."
            )

    @property
    def groups(self) -> int:
        """The number of groups of hashes; group g has the buckets g, g + groups, g + 2 * groups and so on."""
        most = MAX_BUCKET + 1 if self.max_buckets is None else self.max_buckets
        return max(1, min(self.initial_buckets, most))


class PartitionBuckets:
    """The hashes of one partition and their buckets, six bytes for each. Not for use by several threads."""

    def __init__(self, rules: DynamicBucketRules, known: Mapping[int, Hashes] | None = None, seed: int = 0) -> None:
        """Take the known hashes by bucket; `seed`, the hash of the partition, selects the group of its first hashes."""
        self._rules = rules
        self._seed = abs(seed) % rules.groups
        self._counts: dict[int, int] = {}
        self._main = _SortedHashes.empty()
        self._recent = _SortedHashes.empty()
        if known:
            self._counts = {bucket: len(hashes) for bucket, hashes in sorted(known.items())}
            hashes = np.concatenate(list(known.values()))
            buckets = np.repeat(
                np.fromiter(known.keys(), np.int16, len(known)), [len(hashes) for hashes in known.values()]
            )
            self._main = _SortedHashes.of(hashes, buckets)
        self._changed: set[int] = set()

    @property
    def hash_count(self) -> int:
        """The number of hashes that have a bucket."""
        return len(self._main.hashes) + len(self._recent.hashes)

    @property
    def changed(self) -> frozenset[int]:
        """The buckets that got new hashes since `clear_changed`."""
        return frozenset(self._changed)

    def clear_changed(self) -> None:
        """Reset the buckets that got new hashes."""
        self._changed.clear()

    def hashes_of(self, bucket: int) -> Hashes:
        """Return the hashes of a bucket, ascending."""
        found = np.concatenate([part.hashes[part.buckets == bucket] for part in (self._main, self._recent)])
        found.sort()
        return found

    def assign(self, hashes: Hashes) -> Buckets:
        """Return the bucket of each hash. New hashes get a bucket, in order of arrival.

        Raises InvalidInputError when the partition would need more buckets than Paimon can count.
        """
        if not len(hashes):
            return np.empty(0, np.int16)
        # Searches in ascending order scan the known hashes once, instead of jumping through memory.
        order = np.argsort(hashes)
        ascending = hashes[order]
        starts = np.ones(len(order), np.bool_)
        np.not_equal(ascending[1:], ascending[:-1], out=starts[1:])
        distinct = ascending[starts]
        buckets, unknown = self._main.find(distinct)
        places = np.flatnonzero(unknown)
        if len(places):
            buckets[places], still = self._recent.find(distinct[places])
            places = places[still]
        if len(places):
            arrival = np.minimum.reduceat(order, np.flatnonzero(starts))[places]
            given = self._give(distinct[places], np.argsort(arrival))
            buckets[places] = given
            self._remember(distinct[places], given)
        assigned = np.empty(len(order), np.int16)
        assigned[order] = buckets[np.cumsum(starts) - 1]
        return assigned

    def _give(self, fresh: Hashes, arrival: npt.NDArray[np.int64]) -> Buckets:
        """Return buckets for new hashes; `arrival` has their indices in order of arrival."""
        given = np.empty(len(fresh), np.int16)
        groups = self._rules.groups
        if groups == 1:
            self._fill(given, fresh, arrival, 0)
            return given
        # As Paimon distributes hashes to its assigners: the remainder of the partition plus that of the hash.
        shares = np.abs(np.fmod(fresh.astype(np.int64), groups))
        dealt = ((self._seed + shares) % groups)[arrival]
        for group in range(groups):
            self._fill(given, fresh, arrival[dealt == group], group)
        return given

    def _fill(self, given: Buckets, fresh: Hashes, arrival: npt.NDArray[np.int64], group: int) -> None:
        start = 0
        own = [b for b in sorted(self._counts) if b % self._rules.groups == group]
        new = range(group, self._most, self._rules.groups)
        for bucket, keys in take_space(self._counts, own, new, len(arrival), self._rules.target_rows):
            given[arrival[start : start + keys]] = bucket
            self._changed.add(bucket)
            start += keys
        if start < len(arrival):
            full = [b for b in sorted(self._counts) if b % self._rules.groups == group]
            self._spread(given, fresh, arrival[start:], full or sorted(self._counts))

    @property
    def _most(self) -> int:
        """The maximum number of buckets."""
        limit = self._rules.max_buckets
        return MAX_BUCKET + 1 if limit is None else min(limit, MAX_BUCKET + 1)

    def _spread(self, given: Buckets, fresh: Hashes, rest: npt.NDArray[np.int64], buckets: list[int]) -> None:
        if self._rules.max_buckets is None:
            raise too_many_buckets(self._rules.target_rows)
        # Paimon chooses at random; choosing by the hash spreads the same data in the same way each time.
        chosen = np.asarray(buckets, np.int16)[fresh[rest].view(np.uint32) % np.uint32(len(buckets))]
        given[rest] = chosen
        for bucket, more in zip(*np.unique(chosen, return_counts=True), strict=True):
            self._counts[int(bucket)] += int(more)
            self._changed.add(int(bucket))

    def _remember(self, fresh: Hashes, given: Buckets) -> None:
        self._recent = self._recent.merged(_SortedHashes(fresh, given))
        if len(self._recent.hashes) > max(_RECENT_MIN, len(self._main.hashes) // _RECENT_SHARE):
            self._main = self._main.merged(self._recent)
            self._recent = _SortedHashes.empty()


@dataclass(frozen=True, slots=True)
class _SortedHashes:
    """Distinct hashes, ascending, with their buckets."""

    hashes: Hashes
    buckets: Buckets

    @staticmethod
    def empty() -> "_SortedHashes":
        return _SortedHashes(np.empty(0, np.int32), np.empty(0, np.int16))

    @staticmethod
    def of(hashes: Hashes, buckets: Buckets) -> "_SortedHashes":
        """Sort hashes; of a repeated hash the last bucket counts."""
        order = np.argsort(hashes, kind="stable")
        hashes, buckets = hashes[order], buckets[order]
        last = np.ones(len(hashes), np.bool_)
        np.not_equal(hashes[1:], hashes[:-1], out=last[:-1])
        return _SortedHashes(hashes[last], buckets[last])

    def find(self, hashes: Hashes) -> tuple[Buckets, Mask]:
        """Return the bucket of each hash, and a mask of the hashes that have none."""
        if not len(self.hashes):
            return np.zeros(len(hashes), np.int16), np.ones(len(hashes), np.bool_)
        places = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return self.buckets[places], self.hashes[places] != hashes

    def merged(self, others: "_SortedHashes") -> "_SortedHashes":
        """Return these hashes together with others that are not among them."""
        if not len(self.hashes):
            return others
        places = np.searchsorted(self.hashes, others.hashes)
        return _SortedHashes(
            np.insert(self.hashes, places, others.hashes), np.insert(self.buckets, places, others.buckets)
        )
