"""Work is dealt out whole, in the same way each time, and about as evenly as it can be."""

from fractions import Fraction
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.byte_budget import longest_first, spread

COSTS = st.lists(st.integers(0, 1_000) | st.sampled_from([0, 1, 7, 1 << 40]), max_size=40)
BINS = st.integers(1, 9)


def _makespan(costs: list[int], dealt: list[list[int]]) -> int:
    return max((sum(costs[i] for i in each) for each in dealt), default=0)


def _best(costs: list[int], bins: int) -> int:
    """The least makespan of all ways to deal the work out."""
    ways = product(range(bins), repeat=len(costs))
    return min(max(sum(c for c, b in zip(costs, way, strict=True) if b == n) for n in range(bins)) for way in ways)


@given(COSTS, BINS)
def test_every_piece_is_dealt_out_once_and_nobody_is_left_without(costs: list[int], bins: int) -> None:
    dealt = spread(costs, bins)

    assert sorted(index for each in dealt for index in each) == list(range(len(costs)))
    assert len(dealt) == min(bins, len(costs))
    assert all(dealt)


@given(COSTS, BINS)
def test_everybody_begins_with_the_longest(costs: list[int], bins: int) -> None:
    order = longest_first(costs)
    assert order == sorted(range(len(costs)), key=lambda i: (-costs[i], i))
    place = {index: number for number, index in enumerate(order)}
    for each in spread(costs, bins):
        assert [place[i] for i in each] == sorted(place[i] for i in each)


@given(COSTS, BINS)
def test_nobody_is_busy_for_longer_than_a_share_and_the_rest_of_one_piece(costs: list[int], bins: int) -> None:
    longest = max(costs, default=0)
    share = Fraction(sum(costs), bins) + (1 - Fraction(1, bins)) * longest

    assert _makespan(costs, spread(costs, bins)) <= share


@given(st.lists(st.integers(0, 50), min_size=1, max_size=7), st.integers(1, 3))
def test_the_best_way_is_shorter_by_a_third_at_most(costs: list[int], bins: int) -> None:
    most = (Fraction(4, 3) - Fraction(1, 3 * bins)) * _best(costs, bins)

    assert _makespan(costs, spread(costs, bins)) <= most


@given(COSTS, BINS)
def test_the_same_work_is_dealt_out_in_the_same_way(costs: list[int], bins: int) -> None:
    assert spread(costs, bins) == spread(tuple(costs), bins)


def test_two_share_work_of_which_a_half_is_one_piece() -> None:
    assert spread([1, 2, 9, 3, 3], 2) == [[2], [3, 4, 1, 0]]
    assert spread([0, 0, 0, 0], 2) == [[0, 2], [1, 3]]
    assert spread([], 2) == []
