"""Open files of this process: how many the system still lets it have, and some that are kept for a probe.

A server whose clients have taken all of them can't accept the connection that asks whether it is well.
"""

import errno
import os
import resource
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

HANDLES_LEFT_MIN = 16
"""With fewer the server is not ready: a request may need several, for files of the database and of the warehouse."""

RESERVE = 4
"""Files that are kept open, and closed so that probes can be accepted: one for each probe at a time."""

_NONE_LEFT = (errno.EMFILE, errno.ENFILE)
_OPEN_FILES = ("/proc/self/fd", "/dev/fd")


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
