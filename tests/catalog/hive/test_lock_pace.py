"""The pauses between two checks of a lock that waits."""

from interbed.catalog.hive.locking.lock_pace import PAUSE_SECONDS_MAX, CheckPace


def test_pauses_grow_to_a_bound_that_is_shorter_than_a_commit_waits() -> None:
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


def test_no_pause_is_longer_than_the_option_says() -> None:
    pace = CheckPace(longest_seconds=0.3, random=lambda: 1.0)
    assert [pace.pause_seconds(0.0) for _ in range(4)] == [0.1, 0.2, 0.3, 0.3]


def test_a_metastore_that_waits_itself_is_asked_at_once() -> None:
    pace = CheckPace(longest_seconds=8.0, server_wait_seconds=2.0, random=lambda: 1.0)
    assert pace.pause_seconds(1.9) == 0.0
    assert pace.pause_seconds(0.0) == 0.1
