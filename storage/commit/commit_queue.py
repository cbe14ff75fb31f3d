"""Turns of the writers on one machine: they queue up for the next snapshot instead of racing each other for it.

A matter of speed and fairness alone: whether a snapshot is made is decided by its exclusive creation, with or without a
turn. The turn is an advisory lock of the operating system on `snapshot/.commit-turn`, which ends with the process that
holds it, however it ends. Where there is no such lock there are no turns.
"""

import logging
from types import TracebackType
from typing import Self

from interbed.storage.base.fileio.file_lock import FileLock

_log = logging.getLogger(__name__)


class CommitQueue:
    """One writer's place in the queue for a directory of snapshots; `directory` None means a store without a queue."""

    def __init__(self, directory: str | None) -> None:
        self._lock = None if directory is None else FileLock(f"{directory}/.commit-turn", create=True)

    @property
    def is_taken(self) -> bool:
        """Whether this writer has its turn."""
        return self._lock is not None and self._lock.is_held

    def take(self, timeout_seconds: float) -> bool:
        """Wait for the turn, but not longer than the timeout; False without one."""
        if self._lock is None:
            return False
        try:
            return self._lock.take(timeout_seconds)
        except OSError as error:
            _log.debug("No turns: %s", error)
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.release()
