"""The wall clock in milliseconds. Code that decides by the time takes a clock as an argument, so that tests set it."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TypeAlias

from interbed.storage.base.errors import InvalidInputError

Moment: TypeAlias = datetime | str | int
"""A time, in the form of ISO 8601 or in milliseconds since the epoch."""
Clock: TypeAlias = Callable[[], int]
"""Returns the current time in milliseconds; the function that takes the clock says from which zero it counts."""


def now_millis() -> int:
    """Return the current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def instant_of(moment: datetime) -> datetime:
    """Return a time in UTC; a time without a zone is local. A time in a gap of the clock moves later, as in Java."""
    # astimezone() would move it earlier, and timestamp() does not hold all microseconds.
    whole = datetime.fromtimestamp(moment.replace(microsecond=0).timestamp(), UTC)
    return whole.replace(microsecond=moment.microsecond)


def instant_millis(moment: datetime) -> int:
    """Return a time in milliseconds since the epoch; a time without a zone is local, as in `instant_of`."""
    return (instant_of(moment) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def local_millis() -> int:
    """Return the local wall clock in milliseconds, as if it were UTC: Paimon's creation time of data files."""
    return (datetime.now() - datetime(1970, 1, 1)) // timedelta(milliseconds=1)


def from_local(local: int, now: int) -> int:
    """Return a local wall clock time in milliseconds since the epoch, by the zone's offset at the time `now`."""
    offset = datetime.fromtimestamp(now / 1000).astimezone().utcoffset()
    return local if offset is None else local - offset // timedelta(milliseconds=1)


def moment_millis(moment: Moment, zone: tzinfo | None = None) -> int:
    """Return a time in milliseconds since the epoch; a time without a zone is of `zone`, by default local.

    Raises InvalidInputError for what is no time.
    """
    if isinstance(moment, int) and not isinstance(moment, bool):
        return moment
    try:
        parsed = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    except ValueError:
        within = "" if zone is None else f" which is in {zone},"
        raise InvalidInputError(
            f"Not a time: {moment!r}; write '2026-01-31 12:00:00',{within} or milliseconds."
        ) from None
    if not isinstance(parsed, datetime):
        raise InvalidInputError(f"Not a time: {moment!r}; give a datetime, a text, or milliseconds since the epoch.")
    return instant_millis(parsed if zone is None or parsed.tzinfo is not None else parsed.replace(tzinfo=zone))
