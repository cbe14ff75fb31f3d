"""The starting point of a read, by its options."""

import os
import time

import pytest

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.stream import StartupMode


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, StartupMode.LATEST_FULL),
        ({"scan.mode": "full"}, StartupMode.LATEST_FULL),
        ({"log.scan": "latest"}, StartupMode.LATEST),
        ({"scan.mode": "Compacted-Full"}, StartupMode.COMPACTED_FULL),
        ({"scan.snapshot-id": "3"}, StartupMode.FROM_SNAPSHOT),
        ({"scan.mode": "default", "scan.snapshot-id": "3"}, StartupMode.FROM_SNAPSHOT),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "3"}, StartupMode.FROM_SNAPSHOT_FULL),
        ({"scan.tag-name": "t"}, StartupMode.FROM_SNAPSHOT),
        ({"scan.watermark": "3"}, StartupMode.FROM_SNAPSHOT),
        ({"scan.version": "3"}, StartupMode.FROM_SNAPSHOT),
        ({"scan.timestamp-millis": "3"}, StartupMode.FROM_TIMESTAMP),
        ({"log.scan.timestamp-millis": "3"}, StartupMode.FROM_TIMESTAMP),
        ({"scan.timestamp": "2026-01-31"}, StartupMode.FROM_TIMESTAMP),
        ({"scan.file-creation-time-millis": "3"}, StartupMode.FROM_FILE_CREATION_TIME),
        ({"scan.creation-time-millis": "3"}, StartupMode.FROM_CREATION_TIMESTAMP),
        ({"scan.creation-time-millis": "3", "scan.snapshot-id": "3"}, StartupMode.FROM_SNAPSHOT),
        ({"incremental-between": "1,2"}, StartupMode.INCREMENTAL),
        ({"scan.mode": "incremental", "incremental-between-timestamp": "1,2"}, StartupMode.INCREMENTAL),
    ],
)
def test_the_mode_is_given_or_follows_from_other_options(options: dict[str, str], mode: StartupMode) -> None:
    assert CoreOptions(options).startup_mode is mode


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"scan.mode": "sideways"}, "one of default, latest-full"),
        ({"scan.mode": "from-snapshot"}, "needs the option 'scan.snapshot-id'"),
        ({"scan.mode": "from-snapshot-full", "scan.tag-name": "t"}, "'scan.tag-name' must not be given"),
        ({"scan.mode": "from-timestamp"}, "needs the option 'scan.timestamp-millis'"),
        ({"scan.timestamp": "2026-01-31", "scan.timestamp-millis": "3"}, "only one"),
        ({"scan.snapshot-id": "3", "scan.tag-name": "t"}, "only one"),
        ({"scan.mode": "latest", "scan.snapshot-id": "3"}, "'scan.snapshot-id' must not be given"),
        ({"scan.mode": "incremental"}, "needs the option 'incremental-between'"),
    ],
)
def test_options_that_contradict_the_mode_are_refused(options: dict[str, str], part: str) -> None:
    with pytest.raises(InvalidOptionError, match=part):
        _ = CoreOptions(options).startup_mode


@pytest.mark.long
def test_times_are_in_the_local_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.environ.get("TZ")
    try:
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert CoreOptions({"scan.timestamp": "1970-01-02 09:00:00.5"}).scan_time_millis == 86_400_500
        between = CoreOptions({"incremental-between-timestamp": "1970-01-01 09:00:00,1970-01-02 09:00:00"})
        assert between.incremental_between_millis == (0, 86_400_000)
    finally:
        if before is None:
            monkeypatch.delenv("TZ")
        else:
            monkeypatch.setenv("TZ", before)
        time.tzset()
    with pytest.raises(InvalidOptionError, match="'noon'"):
        _ = CoreOptions({"scan.timestamp": "noon"}).scan_time_millis
