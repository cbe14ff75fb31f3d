"""Local times of this machine's time zone, which casts from and to TIMESTAMP WITH LOCAL TIME ZONE mean.

Java Paimon takes the time zone of its JVM for these casts, which is the machine's unless it is started with another.
"""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.casting.values import Int64s

_DATABASE = "zoneinfo/"
_DAY_SECONDS = 86_400


def local_zone() -> str:
    """The name of the machine's time zone, as `Europe/Berlin`: that of the variable TZ or of /etc/localtime.

    Raises InvalidInputError when it has none.
    """
    named = os.environ.get("TZ", "").removeprefix(":") or str(Path("/etc/localtime").resolve())
    _, _, below = named.rpartition(_DATABASE)
    zone = below.removeprefix("posix/").removeprefix("right/")
    if zone and not zone.startswith("/"):
        return zone
    if time.timezone == 0 and not time.daylight:
        return "UTC"
    raise InvalidInputError(
        "The name of this machine's time zone is not known, which casts from and to TIMESTAMP WITH LOCAL TIME ZONE "
        "need. Set the environment variable TZ, for example to Europe/Berlin."
    )


def to_local(seconds: Int64s, zone: str) -> Int64s:
    """What a clock of the zone shows at instants, both in seconds since 1970."""
    return seconds + _offsets(seconds, zone)


def from_local(seconds: Int64s, zone: str) -> Int64s:
    """The instants at which a clock of the zone shows times, both in seconds since 1970.

    Of two instants the earlier; a time that the clock leaps over is as much later, as Java has it.
    """
    before = _offsets(seconds - _DAY_SECONDS, zone)
    after = _offsets(seconds + _DAY_SECONDS, zone)
    early, late = seconds - before, seconds - after
    only_late = (_offsets(early, zone) != before) & (_offsets(late, zone) == after)
    return np.where(only_late, late, early)


def _offsets(seconds: Int64s, zone: str) -> Int64s:
    if zone in ("UTC", "Etc/UTC", "GMT", "Etc/GMT"):
        return np.zeros_like(seconds)
    try:
        instants: Any = from_numpy(seconds).view(pa.timestamp("s", zone))
        shown: Any = pc.local_timestamp(instants)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            f"The time zone {zone!r} of this machine is not known: {error}. Set the environment variable TZ."
        ) from error
    offsets: Int64s = to_numpy(shown.view(pa.int64())) - seconds
    return offsets
