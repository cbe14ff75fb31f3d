"""The clock on the wall, in milliseconds. It is passed in wherever a decision rests on it, so that tests set it."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from interbed.storage.base.errors import InvalidInputError

Moment: TypeAlias = datetime | str | int
"""A time, in the form of ISO 8601 or in milliseconds since the epoch."""
Clock: TypeAlias = Callable[[], int]
"""Gives the time now in milliseconds; which zero it counts from is said where it is asked for."""


def now_millis() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def instant_of(moment: datetime) -> datetime:
    """A time in UTC; without a zone it is local. One that the clock leaps over is as much later, as in Java."""
    # astimezone() would make it as much earlier, and timestamp() has no room for all microseconds.
    whole = datetime.fromtimestamp(moment.replace(microsecond=0).timestamp(), UTC)
    return whole.replace(microsecond=moment.microsecond)


def instant_millis(moment: datetime) -> int:
    """A time in milliseconds since the epoch, without a zone a local one, as `instant_of` has it."""
    return (instant_of(moment) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def local_millis() -> int:
    """The local wall clock as milliseconds, as if it were UTC: how Paimon notes when a data file was made."""
    return (datetime.now() - datetime(1970, 1, 1)) // timedelta(milliseconds=1)


def from_local(local: int, now: int) -> int:
    """A time of the local wall clock since the epoch; the zone's offset is the one of now, which is since the epoch."""
    offset = datetime.fromtimestamp(now / 1000).astimezone().utcoffset()
    return local if offset is None else local - offset // timedelta(milliseconds=1)


def moment_millis(moment: Moment) -> int:
    """A time in milliseconds since the epoch; without a zone it is local. Raises InvalidInputError."""
    if isinstance(moment, bool):
        raise InvalidInputError(f"Not a time: {moment!r}.")
    if isinstance(moment, int):
        return moment
    try:
        parsed = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    except ValueError:
        raise InvalidInputError(f"Not a time: {moment!r}; write '2026-01-31 12:00:00', or milliseconds.") from None
    return instant_millis(parsed)
