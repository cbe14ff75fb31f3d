"""The clock on the wall, in milliseconds. It is passed in wherever a decision rests on it, so that tests set it."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeAlias

Clock: TypeAlias = Callable[[], int]
"""Gives the time now in milliseconds; which zero it counts from is said where it is asked for."""


def now_millis() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def local_millis() -> int:
    """The local wall clock as milliseconds, as if it were UTC: how Paimon notes when a data file was made."""
    return (datetime.now() - datetime(1970, 1, 1)) // timedelta(milliseconds=1)


def from_local(local: int, now: int) -> int:
    """A time of the local wall clock since the epoch; the zone's offset is the one of now, which is since the epoch."""
    offset = datetime.fromtimestamp(now / 1000).astimezone().utcoffset()
    return local if offset is None else local - offset // timedelta(milliseconds=1)
