"""A file read by ranges has the right content, whatever is prefetched, in bounded memory and without leftovers."""

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.errors import InvalidOptionError, StorageAccessError
from interbed.storage.io.api import ReadAhead, prefetch
from interbed.storage.io.prefetch import content as content_module
from interbed.storage.io.prefetch.content import RangedContent
from interbed.storage.io.prefetch.inputs import RangedFile, RangedInput
from interbed.storage.io.prefetch.pool import FetchPool, pool_of
from interbed.storage.io.resolve import file_io_for
from tests.support.examples import examples
from tests.support.waits import at_most

MIB = 1 << 20
SIZE = 20 * MIB
WHOLE = random.Random(7).randbytes(SIZE)
END = SIZE - MIB
SECONDS_MAX = at_most(60)


class RangeSource:
    """The bytes of one file, and the requests for them. `hold` delays requests; reads at `broken` positions fail."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.running = 0
        self.most_running = 0
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Semaphore(0)
        self.broken: Callable[[int], bool] = lambda _: False
        self._lock = threading.Lock()

    def fetch(self, start: int, end: int) -> bytes:
        with self._lock:
            self.asked.append((start, end))
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        self.begun.release()
        try:
            assert self.gate.wait(SECONDS_MAX)
            if self.broken(start):
                raise StorageAccessError(f"Can't read the place {start}.")
            return WHOLE[start:end]
        finally:
            with self._lock:
                self.running -= 1

    def opened(self, pool: FetchPool | None) -> RangedContent:
        return RangedContent(self.fetch, SIZE, END, WHOLE[END:], pool)


@pytest.fixture
def store() -> RangeSource:
    return RangeSource()


@pytest.fixture
def pool() -> FetchPool:
    return FetchPool(ReadAhead(most_bytes=64 * MIB, threads=4))


RANGES = st.lists(
    st.tuples(st.integers(0, SIZE - 1), st.integers(1, 5 * MIB)).map(lambda r: (r[0], min(r[0] + r[1], SIZE))),
    max_size=5,
)


@settings(deadline=None, max_examples=examples(60))
@given(
    plans=st.lists(st.lists(RANGES, max_size=4), max_size=3),
    reads=RANGES,
    most=st.sampled_from([0, MIB, 3 * MIB, 9 * MIB, 64 * MIB]),
)
def test_every_read_returns_the_content_within_the_memory_bound(
    plans: list[list[list[tuple[int, int]]]], reads: list[tuple[int, int]], most: int
) -> None:
    store, pool = RangeSource(), FetchPool(ReadAhead(most_bytes=most, threads=3)) if most else None
    content = store.opened(pool)
    ahead = iter(plans)
    for start, end in [*reads, *(each for plan in plans for step in plan for each in step)]:
        content.prefetch(next(ahead, []))
        assert pool is None or pool.held <= most + pool.needed_bytes
        assert content.between(start, end) == WHOLE[start:end]
    content.close()
    assert pool is None or (pool.held, store.running) == (0, 0)


def test_announced_ranges_are_fetched_once_by_concurrent_requests(store: RangeSource, pool: FetchPool) -> None:
    store.gate.clear()
    content = store.opened(pool)
    content.prefetch([[(0, 6 * MIB), (8 * MIB, 8 * MIB + 1000)], [(10 * MIB, 11 * MIB)]])
    for _ in range(4):
        assert store.begun.acquire(timeout=SECONDS_MAX)
    store.gate.set()
    for start, end in ((0, 6 * MIB), (8 * MIB, 8 * MIB + 1000), (10 * MIB, 11 * MIB)):
        for at in range(start, end, MIB):
            assert content.between(at, min(at + MIB, end)) == WHOLE[at : min(at + MIB, end)]
    assert sorted(store.asked) == [
        (0, 3 * MIB),
        (3 * MIB, 6 * MIB),
        (8 * MIB, 8 * MIB + 1000),
        (10 * MIB, 11 * MIB),
    ]
    assert store.most_running == 4
    assert pool.held == 0
    content.close()


def test_steps_are_requested_gradually(store: RangeSource, pool: FetchPool) -> None:
    taken: list[int] = []

    def steps() -> Iterator[list[tuple[int, int]]]:
        for number in range(19):
            taken.append(number)
            yield [(number * MIB, (number + 1) * MIB)]

    content = store.opened(pool)
    content.prefetch(steps())
    ahead = content_module.FIRST_BYTES // MIB
    assert len(taken) == ahead + 1
    for number in range(19):
        content.between(number * MIB, (number + 1) * MIB)
    assert (len(taken), len(store.asked)) == (19, 19)
    content.close()


def test_a_file_without_budget_reads_on_demand(store: RangeSource) -> None:
    pool = FetchPool(ReadAhead(most_bytes=4 * MIB, threads=2))
    greedy, poor = RangeSource().opened(pool), store.opened(pool)
    greedy.prefetch([[(0, 4 * MIB)]])
    assert pool.held == 4 * MIB
    poor.prefetch([[(0, 3 * MIB)]])
    assert store.asked == []
    assert poor.between(100, 200) == WHOLE[100:200]
    assert store.asked == [(100, MIB)]
    greedy.close()
    # There is budget now, and nothing is fetched twice.
    assert poor.between(0, 3 * MIB) == WHOLE[: 3 * MIB]
    assert sorted(store.asked) == [(0, 100), (100, MIB), (MIB, 2 * MIB), (2 * MIB, 3 * MIB)]
    poor.close()
    assert pool.held == 0


def test_closing_waits_for_pending_requests_and_starts_no_more(store: RangeSource, pool: FetchPool) -> None:
    store.gate.clear()
    content = store.opened(pool)
    content.prefetch([[(number * MIB, number * MIB + MIB // 2)] for number in range(0, 18, 2)])
    for _ in range(4):
        assert store.begun.acquire(timeout=SECONDS_MAX)
    closing = threading.Thread(target=content.close)
    closing.start()
    store.gate.set()
    closing.join(SECONDS_MAX)
    assert not closing.is_alive()
    assert store.running == 0
    assert pool.held == 0
    asked = len(store.asked)
    content.prefetch([[(0, MIB)]])
    assert len(store.asked) == asked < 9


def test_an_error_of_a_prefetch_is_raised_where_its_bytes_are_read(store: RangeSource, pool: FetchPool) -> None:
    store.broken = lambda place: place >= 8 * MIB
    content = store.opened(pool)
    content.prefetch([[(0, MIB), (8 * MIB, 9 * MIB)]])
    assert content.between(0, MIB) == WHOLE[:MIB]
    for _ in range(2):
        with pytest.raises(StorageAccessError, match=f"the place {8 * MIB}"):
            content.between(8 * MIB, 9 * MIB)
    content.close()
    assert pool.held == 0


def test_a_response_that_is_too_short_is_an_error(pool: FetchPool) -> None:
    content = RangedContent(lambda start, end: WHOLE[start : end - 1], SIZE, END, WHOLE[END:], pool)
    content.prefetch([[(0, MIB)]])
    with pytest.raises(OSError, match="has sent"):
        content.between(0, 10)
    with pytest.raises(OSError, match="has sent"):
        content.between(5 * MIB, 5 * MIB + 10)
    content.close()


def test_announced_ranges_that_were_skipped_release_their_budget(store: RangeSource, pool: FetchPool) -> None:
    content = store.opened(pool)
    content.prefetch([[(number * MIB, (number + 1) * MIB)] for number in range(16)])
    assert content.between(9 * MIB, 10 * MIB) == WHOLE[9 * MIB : 10 * MIB]
    # Parts of the step before it may still be wanted.
    assert pool.held == 7 * MIB
    content.close()


def test_arrow_reads_a_file_and_raises_its_errors_unchanged(store: RangeSource, pool: FetchPool) -> None:
    store.broken = lambda place: place >= 8 * MIB
    with RangedInput.over(store.opened(pool)) as source:
        prefetch(source, lambda: [[(0, 2 * MIB)]])
        assert source.size() == SIZE
        assert source.read(3) == WHOLE[:3]
        source.seek(MIB)
        assert source.read_buffer(10).to_pybytes() == WHOLE[MIB : MIB + 10]
        # The stubs of pyarrow lag behind its classes.
        read_at: Any = getattr(source, "read_at")  # noqa: B009
        with pytest.raises(StorageAccessError, match="the place"):
            read_at(10, 9 * MIB)
    assert pool.held == 0
    # A file whose content is available does not need the steps.
    prefetch(pa.BufferReader(b""), lambda: pytest.fail("the steps are not requested"))


def test_a_borrowed_file_leaves_its_content_open(store: RangeSource) -> None:
    content = store.opened(None)
    with RangedFile(content, borrowed=True) as file:
        target = bytearray(10)
        assert file.readinto(target) == 10
        assert (bytes(target), file.tell(), file.seek(-1, 2)) == (WHOLE[:10], 10, SIZE - 1)
        with pytest.raises(ValueError, match="no position"):
            file.seek(-1)
    assert content.between(0, 5) == WHOLE[:5]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"store.read-threads": "0"}, "store.read-threads' is a number from 1 to 256, not '0'"),
        ({"store.read-threads": "many"}, "not 'many'"),
        ({"store.read-ahead": "much"}, "takes a size"),
        ({"store.read-behind": "1"}, "Nothing is known of the option 'store.read-behind'"),
    ],
)
@pytest.mark.parametrize("place", ["/tmp/x", "memory://lake/x"])
def test_invalid_options_are_refused_by_name(options: dict[str, str], words: str, place: str) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        file_io_for(place, options)


def test_files_with_the_same_limits_share_a_pool() -> None:
    limits = ReadAhead.of({"store.read-ahead": "8 mb", "store.read-threads": "3"})
    assert limits == ReadAhead(most_bytes=8 * MIB, threads=3)
    assert pool_of(limits) is pool_of(ReadAhead(most_bytes=8 * MIB, threads=3))
    assert pool_of(ReadAhead.of({"store.read-ahead": "0"})) is None


def test_files_share_the_budget_by_their_sizes(pool: FetchPool) -> None:
    store = RangeSource()
    sizes = [5 * MIB, 5 * MIB, 15 * MIB]
    files = [RangedContent(store.fetch, size, size - MIB, WHOLE[size - MIB : size], pool) for size in sizes]
    for file in files:
        file.prefetch([[(0, 100)]])
    # Each has 4 MiB, and the remaining budget is shared.
    left = (64 - 3 * 4) * MIB
    assert [pool.share(size) for size in sizes] == [4 * MIB + left // 5, 4 * MIB + left // 5, 4 * MIB + 3 * left // 5]
    for file in files[:2]:
        file.close()
        file.close()
    assert pool.share(sizes[2]) == 64 * MIB


@given(weights=st.lists(st.integers(1, 1 << 40), min_size=1, max_size=60), most=st.integers(1, 64 * MIB))
def test_the_shares_of_all_files_fit_into_the_budget(weights: list[int], most: int) -> None:
    pool = FetchPool(ReadAhead(most_bytes=most, threads=1))
    for weight in weights:
        pool.join(weight)
    shares = [pool.share(weight) for weight in weights]
    assert sum(shares) <= most
    assert min(shares) >= min(4 * MIB, 3 * most // (4 * len(weights)))


def test_a_read_next_to_awaited_bytes_joins_their_request(store: RangeSource, pool: FetchPool) -> None:
    greedy, poor = RangeSource().opened(pool), store.opened(pool)
    assert pool.take(64 * MIB, 0, SIZE)
    beside = [(0, MIB), (2 * MIB, 3 * MIB), (4 * MIB, 5 * MIB)]
    poor.prefetch([beside, [(6 * MIB, 7 * MIB)]])
    assert store.asked == []
    store.gate.clear()
    reading = threading.Thread(target=poor.between, args=(0, 100))
    reading.start()
    for _ in beside:
        assert store.begun.acquire(timeout=SECONDS_MAX)
    store.gate.set()
    reading.join(SECONDS_MAX)
    assert sorted(store.asked) == beside
    poor.close()
    greedy.close()
    assert pool.held == 64 * MIB


def test_threads_can_be_started_before_they_are_needed(pool: FetchPool) -> None:
    before = {thread for thread in threading.enumerate() if thread.name.startswith("interbed-fetch")}
    pool.start_threads()
    started = {thread for thread in threading.enumerate() if thread.name.startswith("interbed-fetch")} - before
    assert len(started) == 4
    assert pool.begin(lambda: threading.current_thread() in started).result(SECONDS_MAX)
