"""Times without a zone are in the machine's local zone, also in the gap and the overlap of daylight saving time."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from interbed.storage.base.clock import instant_of, moment_millis
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.base.types.default_value import default_value
from interbed.storage.meta.options.stream import parse_local_millis

TIMES = [
    ("2024-03-31 01:59:59.999", datetime(2024, 3, 31, 0, 59, 59, 999000, UTC)),
    # This time falls into the gap: Java shifts it forward by the length of the gap.
    ("2024-03-31 02:30:00", datetime(2024, 3, 31, 1, 30, tzinfo=UTC)),
    ("2024-03-31 03:00:00", datetime(2024, 3, 31, 1, 0, tzinfo=UTC)),
    # This time occurs twice: the earlier one is taken.
    ("2024-10-27 02:30:00.789", datetime(2024, 10, 27, 0, 30, 0, 789000, UTC)),
    ("2024-07-01 12:00:00.001", datetime(2024, 7, 1, 10, 0, 0, 1000, UTC)),
    ("2024-07-01 12:00:00+02:00", datetime(2024, 7, 1, 10, tzinfo=UTC)),
    ("1900-01-01 00:53:28", datetime(1899, 12, 31, 23, 53, 28, tzinfo=UTC)),
]


@pytest.fixture(autouse=True)
def berlin() -> Iterator[None]:
    """Set the local zone to Europe/Berlin."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(("text", "instant"), TIMES)
def test_all_forms_of_a_local_time_agree(text: str, instant: datetime) -> None:
    millis = round(instant.timestamp() * 1000)
    assert instant_of(datetime.fromisoformat(text)) == instant
    assert moment_millis(text) == millis
    assert parse_local_millis("scan.timestamp", text) == millis
    found: Any = default_value(text, AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=3))
    assert found == instant
