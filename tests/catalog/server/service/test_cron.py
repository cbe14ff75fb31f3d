"""Cron expressions of Quartz: their execution times, and invalid ones."""

import itertools
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from interbed.catalog.server.service.schedule import ScheduleError, parse_schedule

START = "2024-02-28 12:34:56"


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Return the server's time zone, which tests may change."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


def times(schedule: str, start: str = START, count: int = 3) -> list[str]:
    """Return the next times of a schedule after a given time."""
    parsed = parse_schedule(schedule)
    now: float = datetime.fromisoformat(start).timestamp()
    found = []
    for _ in range(count):
        following = parsed.next_after(now)
        if following is None:
            break
        now = following
        found.append(str(datetime.fromtimestamp(now)))
    return found


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("* * * * * ? *", ["2024-02-28 12:34:57", "2024-02-28 12:34:58", "2024-02-28 12:34:59"]),
        ("* * * 22 * ? *", ["2024-03-22 00:00:00", "2024-03-22 00:00:01", "2024-03-22 00:00:02"]),
        ("0 */10 * * * ?", ["2024-02-28 12:40:00", "2024-02-28 12:50:00", "2024-02-28 13:00:00"]),
        ("0 5/20 8-9 * * ?", ["2024-02-29 08:05:00", "2024-02-29 08:25:00", "2024-02-29 08:45:00"]),
        ("0 0 12 29 2 ?", ["2024-02-29 12:00:00", "2028-02-29 12:00:00", "2032-02-29 12:00:00"]),
        ("0 0 0 ? * MON-WED", ["2024-03-04 00:00:00", "2024-03-05 00:00:00", "2024-03-06 00:00:00"]),
        ("0 0 0 ? * FRI-SUN", ["2024-03-01 00:00:00", "2024-03-02 00:00:00", "2024-03-03 00:00:00"]),
        ("0 0 0 ? * 1", ["2024-03-03 00:00:00", "2024-03-10 00:00:00", "2024-03-17 00:00:00"]),
        ("0 0 0 ? * 6#3", ["2024-03-15 00:00:00", "2024-04-19 00:00:00", "2024-05-17 00:00:00"]),
        ("0 0 0 ? * 6L", ["2024-03-29 00:00:00", "2024-04-26 00:00:00", "2024-05-31 00:00:00"]),
        ("0 0 0 L * ?", ["2024-02-29 00:00:00", "2024-03-31 00:00:00", "2024-04-30 00:00:00"]),
        ("0 0 0 L-2 * ?", ["2024-03-29 00:00:00", "2024-04-28 00:00:00", "2024-05-29 00:00:00"]),
        ("0 0 0 LW * ?", ["2024-02-29 00:00:00", "2024-03-29 00:00:00", "2024-04-30 00:00:00"]),
        ("0 0 0 1W * ?", ["2024-03-01 00:00:00", "2024-04-01 00:00:00", "2024-05-01 00:00:00"]),
        ("0 0 0 1W JUN ?", ["2024-06-03 00:00:00", "2025-06-02 00:00:00", "2026-06-01 00:00:00"]),
        ("0 0 0 1,15 JAN,jul ? 2025", ["2025-01-01 00:00:00", "2025-01-15 00:00:00", "2025-07-01 00:00:00"]),
        ("0 0 0 1 1 ? 2023", []),
        ("59 59 23 31 12 ? 2098-2099", ["2098-12-31 23:59:59", "2099-12-31 23:59:59"]),
        ("0 0 0 31 2 ?", []),
    ],
)
def test_a_schedule_has_the_expected_times(schedule: str, expected: list[str]) -> None:
    assert times(schedule) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "asd asd",
        "* * * * *",
        "* * * * * * *",
        "* * * ? * ? *",
        "60 * * * * ?",
        "* * 24 * * ?",
        "* * * 0 * ?",
        "* * * 32 * ?",
        "* * * ? * 8",
        "* * * ? * MO",
        "* * * ? * 2#6",
        "* * * * 13 ?",
        "*/0 * * * * ?",
        "5-1 * * * * ?",
        "*-5 * * * * ?",
        "1, * * * * ?",
        "٣ * * * * ?",
        "* * * * * ? 1969",
        "-1 * * * * ?",
    ],
)
def test_an_invalid_schedule_is_refused(text: str) -> None:
    with pytest.raises(ScheduleError):
        parse_schedule(text)


def test_times_are_in_the_servers_time_zone_and_follow_daylight_saving_time(
    zone: pytest.MonkeyPatch,
) -> None:
    zone.setenv("TZ", "Europe/Berlin")
    time.tzset()
    parsed = parse_schedule("0 0 * * * ?")
    for start in (datetime(2024, 3, 30, 22, 0).timestamp(), datetime(2024, 10, 26, 22, 0).timestamp()):
        found = [start]
        for _ in range(8):
            following = parsed.next_after(found[-1])
            assert following is not None
            found.append(following)
        assert {later - earlier for earlier, later in itertools.pairwise(found)} == {3600}
