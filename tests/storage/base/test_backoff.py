"""Pauses between retries: their bounds, jitter and end, and the log messages about them."""

import logging
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff, doubled


class FakeClock:
    """A clock that advances only by pauses."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def of(self, backoff: ExponentialBackoff) -> ExponentialBackoff:
        return replace(backoff, clock=lambda: self.now, sleep=self.sleep)


FRACTIONS = st.floats(0, 1, exclude_max=True)
BACKOFFS = st.builds(
    ExponentialBackoff,
    first_seconds=st.floats(0.001, 10),
    longest_seconds=st.floats(0.001, 100),
    growth=st.floats(1, 4),
    jitter=st.tuples(st.floats(0, 1), st.floats(1, 2)),
    retries=st.integers(0, 40),
    timeout_seconds=st.none() | st.floats(0, 200),
    pause_within_timeout=st.booleans(),
)


@given(BACKOFFS, st.integers(0, 100_000), FRACTIONS)
def test_a_pause_is_within_the_bounds_and_the_jitter(backoff: ExponentialBackoff, retry: int, chance: float) -> None:
    longest = min(backoff.longest_seconds, backoff.first_seconds * backoff.growth ** min(retry, 60))
    low, high = backoff.jitter
    assert backoff.longest_pause_seconds(retry) == longest
    pause = replace(backoff, random=lambda: chance).pause_seconds(retry)
    assert longest * low * 0.999 <= pause <= longest * high * 1.001


@given(BACKOFFS, st.integers(0, 200))
def test_pauses_never_shrink(backoff: ExponentialBackoff, retry: int) -> None:
    assert backoff.longest_pause_seconds(retry) <= backoff.longest_pause_seconds(retry + 1)


@given(BACKOFFS, FRACTIONS)
def test_a_retry_loop_ends_by_its_retries_or_its_timeout(backoff: ExponentialBackoff, chance: float) -> None:
    clock = FakeClock()
    retries = clock.of(replace(backoff, random=lambda: chance)).start()
    while retries.pause():
        pass
    assert backoff.retries is not None
    assert len(clock.pauses) == retries.count <= backoff.retries
    assert retries.elapsed_seconds == pytest.approx(sum(clock.pauses), abs=1e-6)
    if backoff.timeout_seconds is None:
        assert retries.count == backoff.retries
    elif backoff.pause_within_timeout:
        assert retries.elapsed_seconds <= backoff.timeout_seconds + 1e-9
    else:
        assert sum(clock.pauses[:-1]) <= backoff.timeout_seconds + 1e-6
    if retries.count < backoff.retries:
        assert backoff.timeout_seconds is not None


def test_pauses_grow_to_the_longest_one() -> None:
    clock = FakeClock()
    backoff = ExponentialBackoff(first_seconds=0.1, longest_seconds=0.5, jitter=NO_JITTER, retries=5)
    retries = clock.of(backoff).start()
    assert [retries.pause() for _ in range(6)] == [True] * 5 + [False]
    assert clock.pauses == pytest.approx([0.1, 0.2, 0.4, 0.5, 0.5])


def test_pauses_of_urgent_work_do_not_grow_and_progress_resets_them() -> None:
    clock = FakeClock()
    retries = clock.of(ExponentialBackoff(first_seconds=1.0, jitter=NO_JITTER, retries=4)).start(count=1)
    for hurry in (False, True, False):
        assert retries.pause(hurry=hurry)
    assert retries.is_exhausted
    assert not retries.pause()
    retries.reset()
    assert retries.pause()
    assert clock.pauses == [2.0, 1.0, 8.0, 1.0]


def test_without_a_limit_there_is_always_a_retry() -> None:
    clock = FakeClock()
    retries = clock.of(ExponentialBackoff(first_seconds=1.0, jitter=NO_JITTER)).start()
    assert all(retries.pause() for _ in range(2000))
    assert math.isfinite(retries.elapsed_seconds)
    assert clock.pauses[-1] == 2.0**60


def test_a_timeout_of_zero_allows_one_attempt() -> None:
    for within in (False, True):
        backoff = ExponentialBackoff(first_seconds=0.001, timeout_seconds=0.0, pause_within_timeout=within)
        assert not FakeClock().of(backoff).start().pause()


def test_the_log_names_the_retried_work_the_attempts_and_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("tests.backoff")
    backoff = FakeClock().of(ExponentialBackoff(first_seconds=0.25, jitter=NO_JITTER, retries=2))
    with caplog.at_level(logging.INFO, "tests.backoff"):
        retries = backoff.start("the commit to t", log, logging.WARNING)
        assert retries.pause(OSError("connection reset"))
        assert backoff.start().pause("not logged")
        assert replace(backoff, retries=None).start("a look", log).pause("not there")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "Retry 1 of 2 of the commit to t in 0.25 s, because of: connection reset"),
        ("INFO", "Retry 1 of a look in 0.25 s, because of: not there"),
    ]


@given(st.integers(1, 10_000), st.integers(0, 5_000), st.integers(1, 10**9))
def test_pauses_double_up_to_the_maximum(first: int, retry: int, most: int) -> None:
    pause = doubled(first, retry, most)
    assert isinstance(pause, int)
    assert pause == min(first * 2**retry, most)
