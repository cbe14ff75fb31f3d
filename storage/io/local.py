"""The local file system, and any POSIX mount of it.

A file that must never be overwritten (a snapshot, a schema) is first written and synced under a hidden name and then
linked to its own name. `link` fails when the name exists, so exactly one of several racing writers wins. A process that
is killed leaves at most a hidden `.tmp` file, which readers ignore. Then the name is synced, too. So the changes of
these methods survive a power cut when they return, except for files of `open_output`, which `sync` syncs in groups, for
directories, and for the deletions of `delete_quietly`.

`LocalDisk` has the single steps. A power cut loses everything that was not synced: the bytes of a file (`fdatasync`),
and independently of them its name, which is an entry of its directory (`fsync` of the directory). A new directory is an
entry of its parent. A second sync does not repair a failed one: Linux reports the error once and then marks the pages
as clean.
"""

import contextlib
import copy
import errno
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from interbed.storage.base.errors import StorageAccessError, SyncFailedError
from interbed.storage.io.api import LOCAL_CAPABILITIES, FileStatus, FileSystemCapabilities
from interbed.storage.io.parallel import check_deletable, delete_one_by_one

SYNC_THREADS = 4
"""Files that are synced at the same time: the journal of the file system joins their transactions."""
_RACE_TRIES = 5
"""Tries of a step whose directory other processes delete."""

_NOT_FOR_DIRECTORIES = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EOPNOTSUPP})
"""Errors of file systems that can't sync directories: they write names immediately, or have no call for it."""

_QUIET_NANOS = 100_000_000
"""Longer than a tick of the clock: two changes of a directory within a tick may have the same time."""

_Result = TypeVar("_Result")

_fdatasync = getattr(os, "fdatasync", os.fsync)


class LocalDisk:
    """Single steps on the disk; threads and forked processes may share it.

    Every method raises the system's OSError; those that sync raise SyncFailedError. `clock` is that of the times of
    directories, in nanoseconds.
    """

    def __init__(self, clock: Callable[[], int] = time.time_ns) -> None:
        self._clock = clock
        # Directories whose names are durable, with inodes and time, which differ after any change.
        self._known: dict[str, tuple[int, int, int]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    # -- changes ---------------------------------------------------------------------------------------------------

    def open_output(self, path: str) -> Any:
        """Open a native output file, created or truncated."""
        # The catalog server only syncs directories; Arrow would double its memory.
        import pyarrow as pa

        return pa.OSFile(path, "wb")

    def write_new(self, path: str, content: bytes, *, sync: bool) -> None:
        """Create a file with the content; after an error the file does not exist."""
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
        """Give a file a second name, which must be free."""
        os.link(source, target)

    def unlink(self, path: str) -> None:
        """Remove the name of a file."""
        os.unlink(path)

    def replace(self, source: str, target: str) -> None:
        """Rename a file; the new name may be taken."""
        os.replace(source, target)

    def rename_directory(self, source: str, target: str) -> None:
        """Move a directory; the target may be an empty one."""
        os.rename(source, target)

    def make_directories(self, path: str) -> None:
        """Create the directory and its parents, as far as they are missing."""
        os.makedirs(path, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory and everything in it."""
        import shutil

        shutil.rmtree(path)

    # -- durability ------------------------------------------------------------------------------------------------

    def sync(self, paths: Iterable[str]) -> None:
        """Make files and directories durable, with their names, and the names of the directories above them.

        For a path that does not exist its deletion is made durable.
        """
        given = list(dict.fromkeys(paths))
        is_directory = self._each(self.sync_file, given)
        self.sync_names(p if known else os.path.dirname(p) for p, known in zip(given, is_directory, strict=True))

    def sync_names(self, directories: Iterable[str]) -> None:
        """Make the entries of the directories durable, and the directories themselves.

        For a directory that does not exist, or that another process deletes meanwhile, its deletion is made durable.
        """
        wanted = list(directories)
        for tries_left in reversed(range(_RACE_TRIES)):
            existing = dict.fromkeys(map(_nearest, wanted))
            try:
                self._each(self.sync_directory, list(existing))
                synced = set(existing)
                for directory in existing:
                    self._sync_above(directory, synced)
            except (FileNotFoundError, SyncFailedError) as error:
                if not tries_left or not isinstance(error.__cause__ or error, FileNotFoundError):
                    raise
            else:
                return

    def sync_file(self, path: str) -> bool:
        """Make the content of a file durable. Return True, and do nothing, for a directory."""
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
        """Make the entries of a directory durable."""
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
        """Sync the directories above one, up to the mount point, except those that are known to be durable.

        An entry of a directory that has not changed since its sync is durable.
        """
        own = os.stat(directory)
        while True:
            above = os.path.dirname(directory)
            status = os.stat(above)
            if above == directory or own.st_dev != status.st_dev:
                return
            mark = (own.st_ino, status.st_ino, status.st_mtime_ns)
            if self._known.get(directory) != mark:
                if above not in synced and self._sync_ancestor(above):
                    synced.add(above)
                if status.st_mtime_ns < self._clock() - _QUIET_NANOS:
                    self._known[directory] = mark
            directory, own = above, status

    def _sync_ancestor(self, path: str) -> bool:
        try:
            self.sync_directory(path)
        except SyncFailedError as error:
            # A process that may not read a directory has created nothing in it.
            if isinstance(error.__cause__, PermissionError):
                return False
            raise
        return True


def _nearest(directory: str) -> str:
    """Return the directory, or the nearest existing one above it."""
    while not os.path.isdir(directory) and os.path.dirname(directory) != directory:
        directory = os.path.dirname(directory)
    return directory


LOCAL_DISK = LocalDisk()
"""Disk of this process, shared by all its FileIOs."""


@contextlib.contextmanager
def _sync_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SyncFailedError(
            f"Can't sync {path} to the disk: {error.strerror or error}. The last writes may be lost when the machine "
            "stops; check the disk and the system's log."
        ) from error


if TYPE_CHECKING:
    import pyarrow as pa

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class LocalFileIO:
    """FileIO over absolute local paths; threads and forked processes may share it."""

    scheme = "file"
    capabilities: FileSystemCapabilities = LOCAL_CAPABILITIES
    exclusive_create = True
    _disk = LOCAL_DISK
    _syncs = True

    def __init__(self, disk: LocalDisk | None = None) -> None:
        if disk is not None:
            self._disk = disk

    def with_sync(self, syncs: bool) -> "LocalFileIO":
        """Return a FileIO with or without syncs. Without them the system writes changes at its own time."""
        if syncs == self._syncs:
            return self
        other = copy.copy(self)
        other._syncs = syncs
        return other

    def read_bytes(self, path: str) -> bytes:
        """Return the whole content; raises FileNotFoundError."""
        with _translated("read", path), open(path, "rb") as file:
            return file.read()

    def open_input(self, path: str) -> "pa.NativeFile":
        """Return the file as a memory map, or an empty buffer for an empty file (which can't be mapped)."""
        import pyarrow as pa

        with _translated("open", path):
            if os.path.getsize(path) == 0:
                return pa.BufferReader(b"")
            return pa.memory_map(path, "r")

    def open_output(self, path: str) -> Any:
        """Return a native output file. Its name must be new, because readers see the file while it grows."""
        with _translated("create", path):
            try:
                return self._disk.open_output(path)
            except FileNotFoundError:
                self._disk.make_directories(os.path.dirname(path))
                return self._disk.open_output(path)

    def create_exclusive(self, path: str, content: bytes) -> bool:
        """Create the synced file atomically; return False when the name is taken. Raises StorageAccessError.

        After a SyncFailedError the file may exist, and may be lost in a power cut.
        """
        if os.path.lexists(path):
            return False
        with _translated("create", path):
            staged = self._stage(path, content)
            try:
                self._disk.link(staged, path)
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
                    self._disk.unlink(staged)
            self._sync_names(os.path.dirname(path))
            return True

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """Replace the file atomically; a reader sees the old content or the new one."""
        with _translated("write", path):
            staged = self._stage(path, content, sync=durable)
            try:
                self._disk.replace(staged, path)
            except OSError:
                with contextlib.suppress(OSError):
                    self._disk.unlink(staged)
                raise
            if durable:
                self._sync_names(os.path.dirname(path))

    def sync(self, paths: Iterable[str]) -> None:
        """Make files and directories durable, with the names above them; raises SyncFailedError."""
        paths = list(paths)
        if paths and self._syncs:
            with _translated("sync", paths[0]):
                self._disk.sync(paths)

    def exists(self, path: str) -> bool:
        """Return whether the file or directory exists; a broken link does not."""
        with _translated("look up", path):
            try:
                os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def size(self, path: str) -> int:
        """Return the size of the file in bytes; raises FileNotFoundError."""
        with _translated("look up", path):
            return os.path.getsize(path)

    def list(self, path: str) -> list[FileStatus]:
        """Return the direct entries of the directory, in no order; none where it does not exist."""
        entries: list[FileStatus] = []
        with _translated("list", path):
            try:
                scan = os.scandir(path)
            except FileNotFoundError:
                return entries
            with scan:
                for entry in scan:
                    # An entry may be deleted after it was listed; it is left out.
                    with contextlib.suppress(FileNotFoundError):
                        status = entry.stat()
                        entries.append(
                            FileStatus(
                                path=f"{path.rstrip('/')}/{entry.name}",
                                name=entry.name,
                                is_directory=entry.is_dir(),
                                size=status.st_size,
                                modified_millis=status.st_mtime_ns // 1_000_000,
                                is_link=entry.is_symlink(),
                            )
                        )
        return entries

    def make_directories(self, path: str) -> None:
        """Create the directory and its parents; it may exist."""
        with _translated("create the directory", path):
            self._disk.make_directories(path)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Delete a file, or a directory with `recursive`; return False when there was none."""
        with _translated("delete", path):
            if not self._delete(path, recursive=recursive):
                return False
            self._sync_names(os.path.dirname(path.rstrip("/")))
            return True

    def _delete(self, path: str, *, recursive: bool = False) -> bool:
        check_deletable(path)
        # With a slash at its end the path of a link is that of its target.
        path = path.rstrip("/")
        with _translated("delete", path):
            try:
                if os.path.isdir(path) and not os.path.islink(path):
                    if recursive:
                        self._disk.remove_tree(path)
                    else:
                        self._disk.remove_directory(path)
                else:
                    self._disk.unlink(path)
            except FileNotFoundError:
                return False
            return True

    def delete_quietly(self, paths: Iterable[str]) -> None:
        """Delete files that may or may not exist; failures are logged, never raised."""
        delete_one_by_one(self._delete, paths)

    def rename(self, source: str, target: str) -> bool:
        """Move a file or directory; return False when the target exists or the source does not. Overwrites no file."""
        before, after = os.path.dirname(source), os.path.dirname(target)
        with _translated("rename", source):
            for tries_left in reversed(range(_RACE_TRIES)):
                if os.path.lexists(target) or not os.path.lexists(source):
                    return False
                try:
                    self._move(source, target)
                    break
                except FileExistsError:
                    return False
                except FileNotFoundError:
                    # Another process has moved the source, or has deleted the directory of the target.
                    if not tries_left:
                        raise
                except OSError as error:
                    if error.errno == errno.ENOTEMPTY:
                        return False
                    raise
            self._sync_names(after, before)
            return True

    def _move(self, source: str, target: str) -> None:
        after = os.path.dirname(target)
        self._disk.make_directories(after)
        if os.path.isdir(source):
            # The target's directory has to be durable before the move.
            self._sync_names(after)
            # Renaming a directory onto a non-empty one fails by itself.
            self._disk.rename_directory(source, target)
        else:
            self._disk.link(source, target)
            # The new name has to be durable before the old one is removed.
            self._sync_names(after)
            self._disk.unlink(source)

    def _sync_names(self, *directories: str) -> None:
        if self._syncs:
            self._disk.sync_names(directories)

    def _stage(self, path: str, content: bytes, *, sync: bool = True) -> str:
        """Write the content under a hidden name beside the path, creating parents, and return that name."""
        directory, name = os.path.split(path)
        staged = f"{directory}/.{name}.{uuid.uuid4()}.tmp"
        sync = sync and self._syncs
        try:
            self._disk.write_new(staged, content, sync=sync)
        except FileNotFoundError:
            self._disk.make_directories(directory)
            self._disk.write_new(staged, content, sync=sync)
        return staged


@contextlib.contextmanager
def _translated(action: str, path: str) -> Iterator[None]:
    """Raise errors of the system as StorageAccessError, which names the path; FileNotFoundError stays as it is."""
    try:
        yield
    except (FileNotFoundError, StorageAccessError):
        raise
    except OSError as error:
        raise StorageAccessError(f"Can't {action} {path}: {error.strerror or error}.") from error
