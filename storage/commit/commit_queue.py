"""Turns of the writers on one machine: they queue up for the next snapshot instead of racing each other for it.

A matter of speed and fairness alone: whether a snapshot is made is decided by its exclusive creation, with or without a
turn. The turn is an advisory lock of the operating system on `snapshot/.commit-turn`, which ends with the process that
holds it, however it ends. Where there is no such lock there are no turns.
"""

import logging
import os
import random
import time
from types import TracebackType
from typing import Self

try:
    import fcntl
except ImportError:  # Not a POSIX system.
    fcntl = None  # type: ignore[assignment, unused-ignore]

_log = logging.getLogger(__name__)

_LONGEST_POLL_SECONDS = 0.02


class CommitQueue:
    """One writer's place in the queue for a directory of snapshots; `directory` None means a store without a queue."""

    def __init__(self, directory: str | None) -> None:
        self._path = None if directory is None else f"{directory}/.commit-turn"
        self._descriptor: int | None = None

    @property
    def is_taken(self) -> bool:
        """Whether this writer has its turn."""
        return self._descriptor is not None

    def take(self, timeout_seconds: float) -> bool:
        """Wait for the turn, but not longer than the timeout; False without one."""
        if self.is_taken:
            return True
        if self._path is None or fcntl is None:
            return False
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            _log.debug("No turns in %s: %s", self._path, error)
            return False
        deadline = time.monotonic() + timeout_seconds
        poll = 0.001
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    break
                time.sleep(poll * (0.5 + 0.5 * random.random()))
                poll = min(poll * 2, _LONGEST_POLL_SECONDS)
            except OSError as error:
                _log.debug("No turns in %s: %s", self._path, error)
                break
            else:
                self._descriptor = descriptor
                return True
        os.close(descriptor)
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
