"""An advisory lock of the operating system on a local file; it ends with the process that holds it, however it ends."""

import logging
import os
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from interbed.storage.base.backoff import ExponentialBackoff

_fcntl: Any
try:
    import fcntl as _fcntl
except ImportError:  # Not a POSIX system.
    _fcntl = None

_log = logging.getLogger(__name__)

_BACKOFF = ExponentialBackoff(first_seconds=0.001, longest_seconds=0.02, pause_within_timeout=False)


class FileLock:
    """The lock on a file, which is released by `release` or at the end of a `with`; not for use by several threads."""

    def __init__(self, path: str, *, create: bool = False) -> None:
        self._path = path
        self._flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | (os.O_CREAT if create else 0)
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    @property
    def is_possible(self) -> bool:
        """Whether the system has such locks."""
        return _fcntl is not None

    def take(self, timeout_seconds: float) -> bool:
        """Wait for the lock, but not longer than the timeout; False without it.

        Raises OSError when the file can't be opened, or its file system has no locks.
        """
        if self.is_held:
            return True
        if not self.is_possible:
            return False
        descriptor = os.open(self._path, self._flags, 0o666)
        retries = replace(_BACKOFF, timeout_seconds=timeout_seconds).start()
        try:
            while True:
                try:
                    _fcntl.flock(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
                except BlockingIOError:
                    if not retries.pause():
                        return False
                else:
                    self._descriptor = descriptor
                    return True
        finally:
            if self._descriptor is None:
                os.close(descriptor)

    def release(self) -> None:
        """Give the lock back, if it is held."""
        if self._descriptor is not None:
            try:
                # A process that was forked meanwhile has the descriptor, too.
                _fcntl.flock(self._descriptor, _fcntl.LOCK_UN)
            finally:
                os.close(self._descriptor)
                self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class DirectoryLock(FileLock):
    """The lock on a directory, which a rename of the directory takes along.

    Where two machines share a file system, only some have it for both: NFS refuses it (OSError).
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_DIRECTORY", 0)

    def take(self, timeout_seconds: float) -> bool:
        """See FileLock; False as well when the path has come to name another directory meanwhile, or none."""
        if not super().take(timeout_seconds):
            return False
        if not self._is_at_path():
            self.release()
        return self.is_held

    def _is_at_path(self) -> bool:
        try:
            return self._descriptor is not None and os.path.samestat(os.fstat(self._descriptor), os.stat(self._path))
        except OSError:
            return False
