"""The single steps by which LocalFileIO changes a disk and makes the changes last.

What a file system has not been told to write is lost when the power goes: the bytes of a file (`fdatasync`), and apart
from them its name, which is an entry of its directory (`fsync` of the directory). A new directory is an entry of the
directory above it. A sync that fails is an error that is not repaired by another one: Linux reports it once and then
takes the pages for clean.
"""

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from interbed.storage.base.errors import SyncFailedError

SYNC_THREADS = 4
"""Files synced at the same time: their transactions in the journal of the file system become one."""

_NOT_FOR_DIRECTORIES = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EOPNOTSUPP})
"""What file systems answer that can't sync directories: they write names at once, or have no way to ask for it."""

_QUIET_NANOS = 100_000_000
"""Two changes of a directory within a tick of the clock may have the same time; no tick is as long as this."""

_Result = TypeVar("_Result")

_fdatasync = getattr(os, "fdatasync", os.fsync)


class LocalDisk:
    """The disk itself; threads and forked processes may share it. Every method raises the system's OSError, and those
    that sync SyncFailedError.
    """

    def __init__(self) -> None:
        # Directories whose names are on the disk, by what would have changed if they were not the same any more.
        self._known: dict[str, tuple[int, int, int]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    # -- changes ---------------------------------------------------------------------------------------------------

    def open_output(self, path: str) -> Any:
        """A native output file, created or truncated."""
        # The catalog server syncs directories, and does not need half of its memory for Arrow.
        import pyarrow as pa

        return pa.OSFile(path, "wb")

    def write_new(self, path: str, content: bytes, *, sync: bool) -> None:
        """Create a file with that content; after an error there is none."""
        with open(path, "xb") as file:
            try:
                file.write(content)
                file.flush()
                if sync:
                    self._sync_descriptor(file.fileno(), path)
            except OSError:
                self.unlink(path)
                raise

    def link(self, source: str, target: str) -> None:
        """Give a file one more name, which must be free."""
        os.link(source, target)

    def unlink(self, path: str) -> None:
        """Take a name away."""
        os.unlink(path)

    def replace(self, source: str, target: str) -> None:
        """Give a file another name, which may be taken."""
        os.replace(source, target)

    def rename_directory(self, source: str, target: str) -> None:
        """Move a directory; the target may be an empty one."""
        os.rename(source, target)

    def make_directories(self, path: str) -> None:
        """Make the directory and those above it, as far as there are none."""
        os.makedirs(path, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all that is in it."""
        import shutil

        shutil.rmtree(path)

    # -- making them last ------------------------------------------------------------------------------------------

    def sync(self, paths: Iterable[str]) -> None:
        """Make files and directories last, with their names, and the names of the directories above them.

        Of a path that is not there this is made to last: that it is gone.
        """
        given = list(dict.fromkeys(paths))
        is_directory = self._each(self.sync_file, given)
        self.sync_names(p if known else os.path.dirname(p) for p, known in zip(given, is_directory, strict=True))

    def sync_names(self, directories: Iterable[str]) -> None:
        """Make the entries of the directories last, and the directories themselves."""
        existing = dict.fromkeys(map(_nearest, directories))
        self._each(self.sync_directory, list(existing))
        synced = set(existing)
        for directory in existing:
            self._sync_above(directory, synced)

    def sync_file(self, path: str) -> bool:
        """Make the content of a file last; whether the path is that of a directory, for which nothing is done."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                return True
            self._sync_descriptor(descriptor, path)
            return False
        finally:
            os.close(descriptor)

    def sync_directory(self, path: str) -> None:
        """Make the entries of a directory last."""
        with _sync_errors(path):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0))
            try:
                os.fsync(descriptor)
            except OSError as error:
                if error.errno not in _NOT_FOR_DIRECTORIES:
                    raise
            finally:
                os.close(descriptor)

    def _sync_descriptor(self, descriptor: int, path: str) -> None:
        with _sync_errors(path):
            _fdatasync(descriptor)

    def _each(self, work: Callable[[str], _Result], paths: list[str]) -> list[_Result]:
        if len(paths) < 2:
            return [work(path) for path in paths]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(SYNC_THREADS, len(paths)), thread_name_prefix="sync") as pool:
            return list(pool.map(work, paths))

    def _sync_above(self, directory: str, synced: set[str]) -> None:
        """Sync the directories above one, up to where another file system begins, but for those known to last.

        An entry of a directory that has not changed since it was synced is on the disk.
        """
        while True:
            above = os.path.dirname(directory)
            own, status = os.stat(directory), os.stat(above)
            if above == directory or own.st_dev != status.st_dev:
                return
            mark = (own.st_ino, status.st_ino, status.st_mtime_ns)
            if self._known.get(directory) != mark:
                if above not in synced and self._sync_ancestor(above):
                    synced.add(above)
                if status.st_mtime_ns < time.time_ns() - _QUIET_NANOS:
                    self._known[directory] = mark
            directory = above

    def _sync_ancestor(self, path: str) -> bool:
        try:
            self.sync_directory(path)
        except SyncFailedError as error:
            # Whoever may not read a directory has not made anything in it.
            if isinstance(error.__cause__, PermissionError):
                return False
            raise
        return True


def _nearest(directory: str) -> str:
    """The directory, or where there is none, the first above it that there is."""
    while not os.path.isdir(directory) and os.path.dirname(directory) != directory:
        directory = os.path.dirname(directory)
    return directory


LOCAL_DISK = LocalDisk()
"""The disk of this process."""


@contextlib.contextmanager
def _sync_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SyncFailedError(
            f"Can't write {path} to the disk for good: {error.strerror or error}. What was written last may be lost "
            "when the machine stops; look into the disk and the system's log."
        ) from error
