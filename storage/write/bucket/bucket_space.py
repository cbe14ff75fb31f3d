"""Room for new keys in dynamic buckets: the first bucket with fewer keys than the target, else a new one. Pure."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from interbed.storage.base.errors import InvalidInputError

MAX_BUCKET = 2**15 - 2
"""The greatest number of a bucket: Paimon counts buckets in 16 bits."""


class BucketSpace(NamedTuple):
    """So many keys go to a bucket."""

    bucket: int
    keys: int


def take_space(
    counts: dict[int, int], existing: Iterable[int], new: Iterable[int], wanted: int, target: int
) -> Iterator[BucketSpace]:
    """Places for new keys: in existing buckets that have room, in this order, then in new ones; fewer than wanted where
    there is no more.

    `counts` are the keys that buckets have, and grow with it; numbers among `new` that are in it are passed over.
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
    """The error for a partition in which new keys have no room."""
    return InvalidInputError(
        f"A partition can't have more than {MAX_BUCKET + 1} dynamic buckets; raise 'dynamic-bucket.target-row-num', "
        f"which is {target}."
    )
