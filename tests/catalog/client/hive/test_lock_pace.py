"""Back-off of clients that wait for a lock."""

import pytest

from interbed.catalog.client.hive.lock import (
    CHECKS_PAUSED,
    PAUSE_SECONDS_MAX,
    REQUEST_PAUSE_SECONDS,
    REQUESTS_PAUSED,
    CheckPace,
    RequestPace,
)


def test_the_back_off_grows_to_a_limit_below_the_commits_timeout() -> None:
    pace = CheckPace(longest_seconds=8.0, random=lambda: 1.0)
    assert [pace.pause_seconds(0.0) for _ in range(7)] == [
        0.1,
        0.2,
        0.4,
        0.8,
        1.6,
        PAUSE_SECONDS_MAX,
        PAUSE_SECONDS_MAX,
    ]


def test_no_pause_is_longer_than_the_configured_maximum() -> None:
    pace = CheckPace(longest_seconds=0.3, random=lambda: 1.0)
    assert [pace.pause_seconds(0.0) for _ in range(4)] == [0.1, 0.2, 0.3, 0.3]
    assert RequestPace(longest_seconds=0.3, random=lambda: 1.0).pause_seconds(9.0) == 0.3


def test_a_metastore_that_waits_itself_is_polled_without_pause() -> None:
    pace = CheckPace(longest_seconds=8.0, server_wait_seconds=2.0, random=lambda: 1.0)
    assert pace.pause_seconds(1.9) == 0.0
    assert pace.pause_seconds(0.0) == 0.1


def test_a_slow_metastore_is_polled_less_often() -> None:
    check, request = (pace(longest_seconds=8.0, random=lambda: 0.5) for pace in (CheckPace, RequestPace))
    assert check.pause_seconds(1.0) == pytest.approx(CHECKS_PAUSED * 0.875)
    assert request.pause_seconds(0.0) == pytest.approx(REQUEST_PAUSE_SECONDS)
    assert request.pause_seconds(1.0) == pytest.approx(REQUESTS_PAUSED)
    assert check.pause_seconds(9.0) == pytest.approx(8.0 * 0.875)
