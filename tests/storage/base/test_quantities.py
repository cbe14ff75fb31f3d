"""Sizes and durations accept the units of Paimon's options."""

import pytest

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.shown_text import parse_duration_millis, parse_memory

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        *((f"3{blank}{unit}", 3 * HOUR * 24) for unit in ("d", "day", "days") for blank in ("", " ")),
        *((f"3 {unit}", 3 * HOUR) for unit in ("h", "hour", "hours", "HOURS")),
        *((f"3 {unit}", 180_000) for unit in ("m", "min", "minute", "minutes")),
        *((f"3 {unit}", 3000) for unit in ("s", "sec", "secs", "second", "seconds")),
        *((f"3 {unit}", 3) for unit in ("", "ms", "milli", "millis", "millisecond", "milliseconds")),
        *((f"3500 {unit}", 3) for unit in ("µs", "micro", "micros", "microsecond", "microseconds")),
        *((f"3500000{unit}", 3) for unit in ("ns", "nano", "nanos", "nanosecond", "nanoseconds")),
        ("500micro", 0),
    ],
)
def test_a_duration_may_have_any_of_the_units(text: str, millis: int) -> None:
    assert parse_duration_millis("k", text) == millis


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *((f"3{unit}", 3) for unit in ("", "b", " bytes")),
        *((f"3 {unit}", 3 << 10) for unit in ("k", "kb", "kibibytes")),
        *((f"3 {unit}", 3 << 20) for unit in ("m", "mb", "MB", "mebibytes")),
        *((f"3 {unit}", 3 << 30) for unit in ("g", "gb", "gibibytes")),
        *((f"3 {unit}", 3 << 40) for unit in ("t", "tb", "tebibytes")),
    ],
)
def test_a_size_may_have_any_of_the_units(text: str, size: int) -> None:
    assert parse_memory("k", text) == size


@pytest.mark.parametrize("text", ["", "mb", "-1 mb", "1.5 mb", "1 megabyte", "1 fortnight", "1 mb 2"])
def test_other_texts_are_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="'k' takes a size"):
        parse_memory("k", text)
    with pytest.raises(InvalidOptionError, match="'k' takes a duration"):
        parse_duration_millis("k", text.replace("mb", "fortnights"))
