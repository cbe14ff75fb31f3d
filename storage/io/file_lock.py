"""Advisory lock of the operating system on a local file. It is released when its process ends, even by a kill."""

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

_BACKOFF = ExponentialBackoff(first_seconds=0.001, longest_seconds=0.02, pause_within_timeout=False)


class FileLock:
    """Lock on a file, which is released by `release` or at the end of a `with` block; not for several threads."""

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
        """Wait for the lock, at most for the timeout; return whether it was taken.

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
        """Release the lock, if it is held."""
        if self._descriptor is not None:
            try:
                # A process that was forked meanwhile shares the descriptor, so closing it is not enough.
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
    """Lock on a directory, which stays with the directory when that is renamed.

    Not every shared file system has a lock that two machines see: NFS refuses it (OSError).
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_DIRECTORY", 0)

    def take(self, timeout_seconds: float) -> bool:
        """Take the lock like FileLock; return False also when the path names another directory by now, or none."""
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
