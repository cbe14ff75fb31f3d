"""Sizes and durations in the text of options: `256 mb`, `8 min`."""

import re

from interbed.storage.base.errors import InvalidOptionError

_MEMORY_UNITS = {
    name: size
    for size, names in {
        1: ("", "b", "bytes"),
        2**10: ("k", "kb", "kibibytes"),
        2**20: ("m", "mb", "mebibytes"),
        2**30: ("g", "gb", "gibibytes"),
        2**40: ("t", "tb", "tebibytes"),
    }.items()
    for name in names
}
"""Paimon's units (org.apache.paimon.options.MemorySize)."""

_TIME_UNITS_NANOS = {
    name: nanos
    for nanos, names in {
        1: ("ns", "nano", "nanos", "nanosecond", "nanoseconds"),
        1000: ("µs", "micro", "micros", "microsecond", "microseconds"),
        1_000_000: ("", "ms", "msec", "milli", "millis", "millisecond", "milliseconds"),
        1_000_000_000: ("s", "sec", "secs", "second", "seconds"),
        60_000_000_000: ("m", "min", "minute", "minutes"),
        3_600_000_000_000: ("h", "hour", "hours"),
        86_400_000_000_000: ("d", "day", "days"),
    }.items()
    for name in names
}
"""Paimon's units (org.apache.paimon.utils.TimeUtils), and `msec`."""

_QUANTITY = re.compile(r"^\s*(\d{1,100})\s*([A-Za-zµ]*)\s*$")


def parse_memory(key: str, value: str) -> int:
    """Return a size such as `256 mb` in bytes (binary units). Raises InvalidOptionError naming the option `key`."""
    match = _QUANTITY.match(value)
    unit = _MEMORY_UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise InvalidOptionError(f"Option '{key}' takes a size such as '256 mb', not '{value}'.")
    return int(match[1]) * unit


def parse_duration_millis(key: str, value: str) -> int:
    """Return a duration such as `8 min` in whole milliseconds, rounded down as in Java. Raises InvalidOptionError."""
    match = _QUANTITY.match(value)
    unit = _TIME_UNITS_NANOS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise InvalidOptionError(f"Option '{key}' takes a duration such as '8 min', not '{value}'.")
    return int(match[1]) * unit // 1_000_000
