"""What a serving process reports of itself every second, the problems that this shows, and its open files.

A loop that no longer turns, a request that waits while all threads are busy, few file descriptors left: none of them
shows in a query of the database or a look at the warehouse. A server whose clients have taken all descriptors cannot
accept the connection of a probe, so that some descriptors are kept in reserve for probes.
"""

import errno
import os
import resource
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

HANDLES_LEFT_MIN = 16
"""With fewer the server is not ready: a request may need several, for files of the database and of the warehouse."""

RESERVE = 4
"""Files that are kept open, and closed so that probes can be accepted: one for each probe at a time."""

_NONE_LEFT = (errno.EMFILE, errno.ENFILE)
_OPEN_FILES = ("/proc/self/fd", "/dev/fd")

SILENT_SECONDS_MAX = 5.0
"""How long a process may say nothing; it does every second."""

WAIT_SECONDS_MAX = 5.0
"""How long requests may wait without one being begun."""

NO_LIMIT = -1
"""Where the system limits no handles."""


def handles_left() -> int | None:
    """How many files this process may open until it comes to its limit; None where the system does not say."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return None
    for directory in _OPEN_FILES:
        try:
            return limit - len(os.listdir(directory))
        except OSError as error:
            # To list them takes one.
            if error.errno in _NONE_LEFT:
                return 0
    return None


class HandleReserve:
    """Files that are open for nothing but to be closed when one is needed. Safe for many threads."""

    def __init__(self, count: int = RESERVE) -> None:
        self._guard = threading.Lock()
        self._count = count
        self._kept: list[int] = []
        self.refill()

    def use(self, action: Callable[[], T]) -> T:
        """Run what opens a file, with one of the reserve where there is no other. OSError."""
        try:
            return action()
        except OSError as error:
            with self._guard:
                if error.errno not in _NONE_LEFT or not self._kept:
                    raise
                os.close(self._kept.pop())
        return action()

    def refill(self) -> None:
        """Open what is missing, as far as there are files to be had."""
        with self._guard, suppress(OSError):
            while len(self._kept) < self._count:
                self._kept.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def close(self) -> None:
        """Close them all."""
        with self._guard:
            while self._kept:
                os.close(self._kept.pop())


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
