"""Partitions that are older than the expiration time."""

from datetime import datetime

import pytest

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.options.version import ExpirationStrategy, PartitionTime, outdated, strptime_format

VALUES = ExpirationStrategy.VALUES_TIME
WRITTEN = datetime(2026, 6, 1)


@pytest.mark.parametrize(
    ("pattern", "formatter", "spec", "expected"),
    [
        (None, None, {"dt": "2026-01-31"}, datetime(2026, 1, 31)),
        (None, None, {"dt": "2026-1-3 4:5:6.25"}, datetime(2026, 1, 3, 4, 5, 6, 250_000)),
        (None, None, {"dt": "2026-02-30"}, datetime(2026, 3, 2)),
        (None, None, {"dt": "__DEFAULT_PARTITION__"}, None),
        (None, "yyyyMMdd", {"dt": "20260131"}, datetime(2026, 1, 31)),
        (None, "yyyyMMdd", {"dt": "2026-01-31"}, None),
        (None, "yyyy-MM-dd'T'HH:mm", {"dt": "2026-01-31T07:05"}, datetime(2026, 1, 31, 7, 5)),
        ("$dt $h:00:00", None, {"dt": "2026-01-31", "h": "7"}, datetime(2026, 1, 31, 7)),
        ("$y-$m-$d", None, {"y": "2026", "m": "2", "d": "1"}, datetime(2026, 2, 1)),
        ("$dt1", None, {"dt": "2026-01-31", "dt1": "2025-01-31"}, datetime(2025, 1, 31)),
    ],
)
def test_the_time_of_a_partition_is_parsed_from_its_values(
    pattern: str | None, formatter: str | None, spec: dict[str, str], expected: datetime | None
) -> None:
    assert PartitionTime(pattern, formatter).of(spec) == expected


def test_the_error_names_unknown_pattern_letters() -> None:
    assert strptime_format("yyyy'%'MM'o''clock'") == "%Y%%%mo'clock"
    with pytest.raises(InvalidOptionError, match="has 'EEE', which is not understood"):
        strptime_format("EEE, dd")


def test_only_partitions_before_the_time_are_outdated() -> None:
    partitions = [({"dt": day}, WRITTEN) for day in ("2026-03-01", "2026-01-01", "nothing", "2026-02-01")]
    time = PartitionTime()
    assert outdated(partitions, datetime(2026, 3, 1), strategy=VALUES, time=time) == [
        {"dt": "2026-01-01"},
        {"dt": "2026-02-01"},
    ]
    assert outdated(partitions, datetime(2026, 3, 1), strategy=VALUES, time=time, most=1) == [{"dt": "2026-01-01"}]
    by_update = ExpirationStrategy.UPDATE_TIME
    assert outdated(partitions, datetime(2026, 6, 1), strategy=by_update, time=time) == []
    assert len(outdated(partitions, datetime(2026, 6, 2), strategy=by_update, time=time)) == 4
