"""Sizes and durations as people write them in options."""

import re

from interbed.storage.base.errors import InvalidOptionError

_MEMORY_UNITS = {
    "": 1,
    "b": 1,
    "bytes": 1,
    "k": 2**10,
    "kb": 2**10,
    "m": 2**20,
    "mb": 2**20,
    "g": 2**30,
    "gb": 2**30,
    "t": 2**40,
    "tb": 2**40,
}
_TIME_UNITS_MILLIS = {
    "": 1,
    "ms": 1,
    "msec": 1,
    "s": 1000,
    "sec": 1000,
    "second": 1000,
    "seconds": 1000,
    "min": 60_000,
    "minute": 60_000,
    "minutes": 60_000,
    "m": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "hours": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "days": 86_400_000,
}
_QUANTITY = re.compile(r"^\s*(\d{1,100})\s*([A-Za-z]*)\s*$")


def parse_memory(key: str, value: str) -> int:
    """A size such as `256 mb` in bytes (binary units)."""
    match = _QUANTITY.match(value)
    unit = _MEMORY_UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise InvalidOptionError(f"Option '{key}' takes a size such as '256 mb', not '{value}'.")
    return int(match[1]) * unit


def parse_duration_millis(key: str, value: str) -> int:
    """A duration such as `8 min` in milliseconds."""
    match = _QUANTITY.match(value)
    unit = _TIME_UNITS_MILLIS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise InvalidOptionError(f"Option '{key}' takes a duration such as '8 min', not '{value}'.")
    return int(match[1]) * unit
