"""What a process that serves says of itself every second, and what is wrong with it by that.

A loop that no longer turns, a request that waits while all threads are busy, few open files left: none of them shows in
a look at the database or at the warehouse.
"""

import time
from dataclasses import dataclass

from interbed.catalog.server.ops.handles import HANDLES_LEFT_MIN, handles_left

SILENT_SECONDS_MAX = 5.0
"""How long a process may say nothing; it does every second."""

WAIT_SECONDS_MAX = 5.0
"""How long requests may wait without one being begun."""

NO_LIMIT = -1
"""Where the system limits no handles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VitalSigns:
    """The state of a process at a time of the monotonic clock, which all processes of a machine share."""

    at: float
    wait_seconds: float
    handles_left: int

    def problem(self, now: float) -> str | None:
        """What is wrong by these signs, the latest that there are; None if nothing is."""
        if now - self.at > SILENT_SECONDS_MAX:
            return f"has not answered for {now - self.at:.0f} s: it is stopped, or starved of processor time"
        if self.wait_seconds > WAIT_SECONDS_MAX:
            return f"a request has waited for {self.wait_seconds:.0f} s: all threads are busy"
        if 0 <= self.handles_left < HANDLES_LEFT_MIN:
            return f"{self.handles_left} open files are left (RLIMIT_NOFILE): raise the limit or lower connections_max"
        return None


def current_signs(wait_seconds: float) -> VitalSigns:
    """The signs of this process now, with how long requests have waited without one being begun."""
    left = handles_left()
    return VitalSigns(
        at=time.monotonic(), wait_seconds=wait_seconds, handles_left=NO_LIMIT if left is None else max(0, left)
    )


class OwnSigns:
    """The latest signs of this process, where it serves alone."""

    def __init__(self) -> None:
        self._latest: VitalSigns | None = None

    def beat(self, wait_seconds: float) -> None:
        """Take the signs now."""
        self._latest = current_signs(wait_seconds)

    def problem(self) -> str | None:
        """What is wrong, None if nothing is or nothing is known yet."""
        latest = self._latest
        return None if latest is None else latest.problem(time.monotonic())
