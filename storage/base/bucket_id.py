"""Identifier of a bucket of a table: the unit of writes, merges and compactions."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar


class BucketId(NamedTuple):
    """A partition, as a serialised BinaryRow, and the number of a bucket in it.

    Numbers count from 0; -2 is the bucket of rows that have none yet (`bucket` = -2, postponed buckets).
    """

    partition: bytes
    bucket: int


class InBucket(Protocol):
    """An object of one bucket: an entry of a manifest, a split, a commit message."""

    @property
    def partition(self) -> bytes:
        """The bucket's partition, a serialised BinaryRow."""
        ...

    @property
    def bucket(self) -> int:
        """The bucket's number in the partition."""
        ...


T = TypeVar("T", bound=InBucket)


def by_bucket(items: Iterable[T]) -> dict[BucketId, list[T]]:
    """Return the items by bucket, buckets and items in order of appearance."""
    # There may be a million items: a plain tuple for each item, and a BucketId for each bucket.
    groups: dict[tuple[bytes, int], list[T]] = {}
    for item in items:
        groups.setdefault((item.partition, item.bucket), []).append(item)
    return {BucketId(*key): group for key, group in groups.items()}
