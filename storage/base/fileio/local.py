"""The local file system, and any POSIX mount of it.

A file that must never be overwritten (a snapshot, a schema) is written whole and synced under a hidden name first and
then linked to its own name: `link` fails when the name exists, so exactly one of several racing writers wins, and a
process that is killed leaves at most a hidden `.tmp` file, which no reader looks at.
"""

import contextlib
import errno
import logging
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator

import pyarrow as pa

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.fileio.api import FileStatus

_log = logging.getLogger(__name__)

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class LocalFileIO:
    """FileIO over absolute local paths; holds no state, so threads and forked processes may share it."""

    scheme = "file"
    exclusive_create = True

    def read_bytes(self, path: str) -> bytes:
        """The whole file; raises FileNotFoundError."""
        with _translated("read", path), open(path, "rb") as file:
            return file.read()

    def open_input(self, path: str) -> pa.NativeFile:
        """The file as a memory map, or an empty buffer for an empty file (which can't be mapped)."""
        with _translated("open", path):
            if os.path.getsize(path) == 0:
                return pa.BufferReader(b"")
            return pa.memory_map(path, "r")

    def open_output(self, path: str) -> pa.NativeFile:
        """A native output file, created or truncated; its name must be new, for readers see it while it grows."""
        with _translated("create", path):
            try:
                return pa.OSFile(path, "wb")
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                return pa.OSFile(path, "wb")

    def create_exclusive(self, path: str, content: bytes) -> bool:
        """Create the synced file in one step; False when the name is taken. Raises StorageAccessError."""
        if os.path.lexists(path):
            return False
        with _translated("create", path):
            staged = _stage(path, content)
            try:
                os.link(staged, path)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_HARD_LINKS:
                    raise
                raise StorageAccessError(
                    f"Can't create {path}: its file system has no hard links, which interbed needs to create a file "
                    "without ever overwriting one. Put the warehouse on another file system or an object store."
                ) from error
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(staged)
            _sync_directory(os.path.dirname(path))
            return True

    def overwrite(self, path: str, content: bytes) -> None:
        """Replace the file in one step; a reader sees the old content or the new."""
        with _translated("write", path):
            staged = _stage(path, content, sync=False)
            try:
                os.replace(staged, path)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(staged)
                raise

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there; a broken link is not."""
        with _translated("look up", path):
            try:
                os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def size(self, path: str) -> int:
        """The file's size in bytes; raises FileNotFoundError."""
        with _translated("look up", path):
            return os.path.getsize(path)

    def list(self, path: str) -> list[FileStatus]:
        """The directory's direct entries in no order; empty when there is no such directory."""
        entries: list[FileStatus] = []
        with _translated("list", path):
            try:
                scan = os.scandir(path)
            except FileNotFoundError:
                return entries
            with scan:
                for entry in scan:
                    # An entry may be deleted between being listed and being looked at; it is gone then.
                    with contextlib.suppress(FileNotFoundError):
                        status = entry.stat()
                        entries.append(
                            FileStatus(
                                path=f"{path.rstrip('/')}/{entry.name}",
                                name=entry.name,
                                is_directory=entry.is_dir(),
                                size=status.st_size,
                                modified_millis=status.st_mtime_ns // 1_000_000,
                            )
                        )
        return entries

    def make_directories(self, path: str) -> None:
        """Create the directory and its parents; it may exist."""
        with _translated("create the directory", path):
            os.makedirs(path, exist_ok=True)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Delete a file, or a directory with `recursive`; False when there was none."""
        with _translated("delete", path):
            try:
                if os.path.isdir(path) and not os.path.islink(path):
                    if recursive:
                        shutil.rmtree(path)
                    else:
                        os.rmdir(path)
                else:
                    os.unlink(path)
            except FileNotFoundError:
                return False
            return True

    def delete_quietly(self, paths: Iterable[str]) -> None:
        """Delete files that may or may not exist; failures are logged, never raised."""
        for path in paths:
            try:
                self.delete(path)
            except OSError as error:
                _log.warning("Left %s behind: %s", path, error)

    def rename(self, source: str, target: str) -> bool:
        """Move a file or directory; False when the target exists or the source does not. Never overwrites a file."""
        with _translated("rename", source):
            if os.path.lexists(target) or not os.path.lexists(source):
                return False
            os.makedirs(os.path.dirname(target), exist_ok=True)
            try:
                if os.path.isdir(source):
                    # Renaming a directory onto a non-empty one fails by itself.
                    os.rename(source, target)
                else:
                    os.link(source, target)
                    os.unlink(source)
            except (FileExistsError, FileNotFoundError):
                return False
            except OSError as error:
                if error.errno == errno.ENOTEMPTY:
                    return False
                raise
            return True


def _stage(path: str, content: bytes, *, sync: bool = True) -> str:
    """Write the content under a hidden name beside the path, creating parents, and return that name."""
    directory, name = os.path.split(path)
    staged = f"{directory}/.{name}.{uuid.uuid4()}.tmp"
    try:
        file = open(staged, "xb")  # noqa: SIM115 - closed by the `with` below; opened here to create parents once.
    except FileNotFoundError:
        os.makedirs(directory, exist_ok=True)
        file = open(staged, "xb")  # noqa: SIM115
    try:
        with file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(staged)
        raise
    return staged


def _sync_directory(path: str) -> None:
    """Make a new name durable; a failure leaves the name in place, so it is only logged."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError as error:
        _log.warning("Can't sync the directory %s: %s", path, error)
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        _log.warning("Can't sync the directory %s: %s", path, error)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _translated(action: str, path: str) -> Iterator[None]:
    """Turn the system's errors into StorageAccessError naming the path; FileNotFoundError stays what it is."""
    try:
        yield
    except (FileNotFoundError, StorageAccessError):
        raise
    except OSError as error:
        raise StorageAccessError(f"Can't {action} {path}: {error.strerror or error}.") from error
