"""Buckets of key hashes in one partition, against a model that assigns the hashes one by one."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.write.bucket.partition_buckets import MAX_BUCKET, DynamicBucketRules, PartitionBuckets

SMALL = st.integers(-40, 40) | st.integers(-(2**31), 2**31 - 1)
BLOCKS = st.lists(st.lists(SMALL, min_size=1, max_size=30), max_size=6)


class AssignerModel:
    """Paimon's bucket assigners, hash by hash; each group is one of its assigners."""

    def __init__(self, rules: DynamicBucketRules, known: dict[int, list[int]], seed: int) -> None:
        self.rules = rules
        self.seed = seed
        self.places = {h: bucket for bucket, hashes in known.items() for h in hashes}
        self.counts = {bucket: len(hashes) for bucket, hashes in known.items()}

    def assign(self, value: int) -> int | None:
        """Return the bucket; None where any bucket is right."""
        if value in self.places:
            return self.places[value]
        groups = self.rules.groups
        group = (abs(self.seed) % groups + abs(value) % groups) % groups
        candidates = [b for b in sorted(self.counts) if b % groups == group]
        limit = self.rules.max_buckets or 1000
        new = [b for b in range(group, limit, groups) if b not in self.counts]
        for bucket in [*(b for b in candidates if self.counts[b] < self.rules.target_rows), *new[:1]]:
            self.note(value, bucket)
            return bucket
        return None

    def note(self, value: int, bucket: int) -> None:
        self.places[value] = bucket
        self.counts[bucket] = self.counts.get(bucket, 0) + 1


def hashes(values: list[int]) -> npt.NDArray[np.int32]:
    return np.array(values, np.int32)


@given(
    blocks=BLOCKS,
    target=st.integers(1, 12),
    most=st.none() | st.integers(1, 5),
    initial=st.integers(1, 4),
    known=st.dictionaries(st.integers(0, 4), st.sets(SMALL, min_size=1, max_size=8), max_size=3),
    seed=st.integers(-(2**31), 2**31 - 1),
)
def test_hashes_get_the_buckets_of_one_by_one_assignment(
    blocks: list[list[int]], target: int, most: int | None, initial: int, known: dict[int, set[int]], seed: int
) -> None:
    taken: set[int] = set()
    distinct: dict[int, list[int]] = {}
    for bucket, values in known.items():
        distinct[bucket] = sorted(values - taken)
        taken |= values
    distinct = {bucket: values for bucket, values in distinct.items() if values}
    rules = DynamicBucketRules(target_rows=target, max_buckets=most, initial_buckets=initial)
    buckets = PartitionBuckets(rules, {b: hashes(v) for b, v in distinct.items()}, seed=seed)
    model = AssignerModel(rules, distinct, seed)
    for block in blocks:
        assigned = buckets.assign(hashes(block)).tolist()
        for value, bucket in zip(block, assigned, strict=True):
            expected = model.assign(value)
            if expected is None:
                assert bucket in model.counts
                model.note(value, bucket)
            else:
                assert bucket == expected
    assert buckets.hash_count == len(model.places)
    for bucket in model.counts:
        assert buckets.hashes_of(bucket).tolist() == sorted(h for h, b in model.places.items() if b == bucket)


def test_only_buckets_with_new_hashes_count_as_changed() -> None:
    buckets = PartitionBuckets(DynamicBucketRules(target_rows=2), {0: hashes([1, 2]), 1: hashes([3])})
    assert buckets.assign(hashes([1, 3])).tolist() == [0, 1]
    assert buckets.changed == frozenset()
    assert buckets.assign(hashes([4, 5])).tolist() == [1, 2]
    assert buckets.changed == {1, 2}
    buckets.clear_changed()
    assert buckets.changed == frozenset()


def test_many_hashes_are_merged_and_can_be_found() -> None:
    buckets = PartitionBuckets(DynamicBucketRules(target_rows=100_000))
    blocks = [np.arange(start, start + 90_000, dtype=np.int32) * 7919 for start in range(0, 360_000, 90_000)]
    first = [buckets.assign(block) for block in blocks]
    assert [np.array_equal(buckets.assign(b), found) for b, found in zip(blocks, first, strict=True)] == [True] * 4
    assert np.bincount(np.concatenate(first)).tolist() == [100_000] * 3 + [60_000]


def test_too_many_buckets_are_refused_with_an_alternative() -> None:
    buckets = PartitionBuckets(DynamicBucketRules(target_rows=1))
    assert buckets.assign(np.arange(MAX_BUCKET + 1, dtype=np.int32)).max() == MAX_BUCKET
    with pytest.raises(InvalidInputError, match=r"dynamic-bucket\.target-row-num"):
        buckets.assign(hashes([-1]))
