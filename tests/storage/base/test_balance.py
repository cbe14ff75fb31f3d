"""Partitioning of weighted work among workers: complete, deterministic and nearly even."""

from fractions import Fraction
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.prefetch import longest_first, spread

COSTS = st.lists(st.integers(0, 1_000) | st.sampled_from([0, 1, 7, 1 << 40]), max_size=40)
BINS = st.integers(1, 9)


def _makespan(costs: list[int], dealt: list[list[int]]) -> int:
    return max((sum(costs[i] for i in each) for each in dealt), default=0)


def _best(costs: list[int], bins: int) -> int:
    """The least makespan of all possible assignments."""
    ways = product(range(bins), repeat=len(costs))
    return min(max(sum(c for c, b in zip(costs, way, strict=True) if b == n) for n in range(bins)) for way in ways)


@given(COSTS, BINS)
def test_every_piece_is_assigned_once_and_every_worker_gets_one(costs: list[int], bins: int) -> None:
    dealt = spread(costs, bins)

    assert sorted(index for each in dealt for index in each) == list(range(len(costs)))
    assert len(dealt) == min(bins, len(costs))
    assert all(dealt)


@given(COSTS, BINS)
def test_each_worker_begins_with_its_longest_piece(costs: list[int], bins: int) -> None:
    order = longest_first(costs)
    assert order == sorted(range(len(costs)), key=lambda i: (-costs[i], i))
    place = {index: number for number, index in enumerate(order)}
    for each in spread(costs, bins):
        assert [place[i] for i in each] == sorted(place[i] for i in each)


@given(COSTS, BINS)
def test_no_worker_is_busy_for_longer_than_its_share_plus_one_piece(costs: list[int], bins: int) -> None:
    longest = max(costs, default=0)
    share = Fraction(sum(costs), bins) + (1 - Fraction(1, bins)) * longest

    assert _makespan(costs, spread(costs, bins)) <= share


@given(st.lists(st.integers(0, 50), min_size=1, max_size=7), st.integers(1, 3))
def test_the_makespan_is_at_most_four_thirds_of_the_optimum(costs: list[int], bins: int) -> None:
    most = (Fraction(4, 3) - Fraction(1, 3 * bins)) * _best(costs, bins)

    assert _makespan(costs, spread(costs, bins)) <= most


@given(COSTS, BINS)
def test_the_same_work_is_assigned_in_the_same_way(costs: list[int], bins: int) -> None:
    assert spread(costs, bins) == spread(tuple(costs), bins)


def test_one_piece_of_half_the_weight_goes_to_a_worker_of_its_own() -> None:
    assert spread([1, 2, 9, 3, 3], 2) == [[2], [3, 4, 1, 0]]
    assert spread([0, 0, 0, 0], 2) == [[0, 2], [1, 3]]
    assert spread([], 2) == []
