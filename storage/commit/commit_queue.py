"""Turns of the writers of a table: they queue up for the next snapshot instead of racing each other for it.

A matter of speed and fairness alone: whether a snapshot is made is decided by its exclusive creation, with or without a
turn.
"""

import logging
from types import TracebackType
from typing import Protocol, Self

from interbed.storage.base.fileio.file_lock import FileLock

_log = logging.getLogger(__name__)


class CommitQueue(Protocol):
    """One commit's place in the queue of a table, which it leaves at the end of the `with`."""

    longest_wait_millis: float
    """For how long it is worth while to wait."""

    @property
    def is_taken(self) -> bool:
        """Whether this commit has its turn."""
        ...

    def take(self, timeout_seconds: float) -> bool:
        """Wait for the turn, but not longer than the timeout; False without one, which is no reason not to try."""
        ...

    def lost(self) -> None:
        """Learn that this commit has lost a race."""
        ...

    def meet(self) -> None:
        """Learn that another writer has its turn, while this commit has none."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class MachineQueue:
    """That of the writers on one machine: a lock of the operating system on a file.

    It ends with the process that holds it, however it ends. Where there is no such lock there are no turns.
    """

    longest_wait_millis = 2000.0
    """Turns take milliseconds; one that takes longer than this belongs to a process that hangs."""

    def __init__(self, file: str) -> None:
        self._lock = FileLock(file, create=True)

    @property
    def is_taken(self) -> bool:
        """See CommitQueue."""
        return self._lock.is_held

    def take(self, timeout_seconds: float) -> bool:
        """See CommitQueue."""
        try:
            return self._lock.take(timeout_seconds)
        except OSError as error:
            _log.debug("No turns: %s", error)
            return False

    def lost(self) -> None:
        """See CommitQueue: the next turn is waited for anyway."""

    def meet(self) -> None:
        """See CommitQueue: the next turn is waited for anyway."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
