"""Ranges are combined to few requests that cover all of them and little more."""

from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.io.prefetch.content import FetchRange, fetch_ranges_of, united, without

RANGES = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 120)).map(lambda r: (r[0], r[0] + r[1])), max_size=12)


def places(ranges: list[tuple[int, int]]) -> set[int]:
    return {place for low, high in ranges for place in range(low, high)}


@given(RANGES, st.integers(0, 50), st.integers(1, 200))
def test_requests_cover_all_ranges_do_not_overlap_and_have_bounded_sizes(
    ranges: list[tuple[int, int]], gap: int, most: int
) -> None:
    found = fetch_ranges_of(ranges, gap=gap, most=most)
    got = [(each.start, each.end) for each in found]
    assert places(got) >= places(ranges)
    assert sum(each.end - each.start for each in found) == len(places(got))
    assert all(0 < each.end - each.start <= most for each in found)
    assert sum(each.wanted for each in found) == len(places(ranges))
    # Bytes that were not requested lie between two ranges that are near each other.
    for each in found:
        more = sorted(set(range(each.start, each.end)) - places(ranges))
        runs = [place for place in more if place - 1 not in more]
        assert each.end - each.start - each.wanted == len(more)
        assert len(more) <= gap * len(runs)


@given(RANGES)
def test_with_gaps_of_zero_only_the_ranges_are_requested(ranges: list[tuple[int, int]]) -> None:
    assert sum(each.end - each.start for each in fetch_ranges_of(ranges, gap=0, most=100)) == len(places(ranges))


@given(RANGES, RANGES)
def test_bytes_in_memory_are_not_requested_again(ranges: list[tuple[int, int]], held: list[tuple[int, int]]) -> None:
    left = without(ranges, united(held))
    assert places(left) == places(ranges) - places(held)
    assert sum(high - low for low, high in left) == len(places(left))


def test_neighbours_share_a_request_and_large_ranges_begin_first() -> None:
    mib = 1 << 20
    assert fetch_ranges_of([(0, 100), (300, 400)], gap=200, most=1000) == [FetchRange(0, 400, 200)]
    assert fetch_ranges_of([(0, 100), (301, 400)], gap=200, most=1000) == [
        FetchRange(0, 100, 100),
        FetchRange(301, 400, 99),
    ]
    found = fetch_ranges_of([(0, 6 * mib), (10 * mib, 15 * mib)], most=4 * mib)
    assert [(each.start // mib, each.end // mib) for each in found] == [(0, 3), (10, 13), (3, 6), (13, 15)]
