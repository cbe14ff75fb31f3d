"""Temporary directories on local disk, for spilled write buffers and lookup files.

Each process has its own directory `interbed-scratch-<random>` where the system keeps temporary files (TMPDIR), and
beside it `interbed-scratch-<random>.lock`, which it keeps locked while it runs. The directory is removed when the
process ends. The directory of a killed process is removed by the next process that needs local disk: a lock file that
can be locked has no process any more.
"""

import atexit
import contextlib
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from interbed.storage.base.errors import StorageAccessError

try:
    import fcntl
except ImportError:  # Not a POSIX system: nothing is locked, and the directory of a killed process is kept.
    fcntl = None  # type: ignore[assignment, unused-ignore]

_log = logging.getLogger(__name__)

_HAS_LOCKS = fcntl is not None
PREFIX = "interbed-scratch-"
_LOCK = ".lock"


class ScratchDirectory:
    """Directory of one process below `parent`; safe for several threads."""

    def __init__(self, parent: Path) -> None:
        _remove_orphans(parent)
        self._process = os.getpid()
        self.path, self._descriptor = _claim(parent)

    def new_directory(self, purpose: str) -> Path:
        """Create a new, empty directory; raises OSError."""
        # The system may have cleaned up the parent meanwhile.
        self.path.mkdir(mode=0o700, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f"{purpose}-", dir=self.path))

    def release(self) -> None:
        """Close the lock file without removing anything: for a child process, whose parent keeps the lock."""
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    def close(self) -> None:
        """Remove the directory; never raises. Does nothing in a child process."""
        if os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.unlink(_lock_of(self.path))
            self.release()


_guard = threading.Lock()
_own: ScratchDirectory | None = None


def new_scratch_directory(purpose: str) -> Path:
    """Create a directory on local disk, named after its purpose; it is removed at the end of the process at the latest.

    Raises StorageAccessError when local disk can't be used.
    """
    global _own
    parent = Path(tempfile.gettempdir())
    try:
        with _guard:
            # TMPDIR may have been another directory before, which is gone now.
            if _own is None or not _own.path.parent.is_dir():
                _own = ScratchDirectory(parent)
                atexit.register(_own.close)
        return _own.new_directory(purpose)
    except OSError as error:
        raise StorageAccessError(
            f"Can't use local disk in {parent}: {error.strerror or error}. Free space there, or set the environment "
            "variable TMPDIR to another directory."
        ) from error


def remove_scratch_directory(path: Path) -> None:
    """Remove a directory of this process before its end; never raises. Keeps directories of the parent process."""
    own = _own
    if own is not None and path.parent == own.path:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def local_disk_errors(path: str | Path, hint: str) -> Iterator[None]:
    """Raise errors of the system while a file on local disk is written as StorageAccessError with a way out.

    `hint` is another way out; it follows a comma.
    """
    try:
        yield
    except StorageAccessError:
        raise
    except OSError as error:
        raise StorageAccessError(
            f"Can't write {path} on local disk: {error.strerror or error}. Free space there, set the environment "
            f"variable TMPDIR to a directory on another disk, or {hint}."
        ) from error


def _claim(parent: Path) -> tuple[Path, int]:
    """Return a name that no process has, and the descriptor of its locked lock file."""
    while True:
        descriptor, name = tempfile.mkstemp(prefix=PREFIX, suffix=_LOCK, dir=parent)
        if _lock(descriptor) and _is_at(descriptor, name):
            return Path(name.removesuffix(_LOCK)), descriptor
        # Another process took the new lock file for an orphan before it was locked.
        os.close(descriptor)


def _remove_orphans(parent: Path) -> None:
    if not _HAS_LOCKS:
        return
    for lock in parent.glob(f"{PREFIX}*{_LOCK}"):
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            # It was deleted, or belongs to another user.
            continue
        try:
            if _lock(descriptor) and _is_at(descriptor, str(lock)):
                directory = Path(str(lock).removesuffix(_LOCK))
                if directory.exists():
                    _log.info("Removing %s, the directory of a process that was killed.", directory)
                shutil.rmtree(directory, ignore_errors=True)
                with contextlib.suppress(OSError):
                    os.unlink(lock)
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(descriptor: int, path: str) -> bool:
    """Return whether the path still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _lock_of(directory: Path) -> str:
    return f"{directory}{_LOCK}"


def _forget_in_child() -> None:
    """Let a forked process create its own directory, and not keep the one of its parent locked."""
    global _guard, _own
    _guard = threading.Lock()
    if _own is not None:
        _own.release()
        _own = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
