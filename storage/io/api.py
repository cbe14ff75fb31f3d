"""The FileIO protocol, by which storage accesses all files, the capabilities of file systems, and the ranges that a
reader needs, which it announces to remote ones.

Paths are absolute strings without a scheme for the local file system (`/tmp/lake/db.db/t`) and URIs for the others
(`s3://bucket/lake`); `interbed.storage.io.resolve.file_io_for` chooses the implementation. All methods raise
StorageAccessError naming the path when the file system refuses, and FileNotFoundError where noted. A file that is not
written completely is deleted.

This module is loaded with every FileIO, so it imports little.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from interbed.storage.base.errors import InvalidOptionError, NotSupportedError, StorageAccessError
from interbed.storage.base.shown_text import parse_memory

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """Entry of a directory; `size` in bytes, `modified_millis` since the epoch, None where it is not recorded.

    For a symbolic link, which only the local file system has, the other fields are those of its target.
    """

    path: str
    name: str
    is_directory: bool
    size: int
    modified_millis: int | None
    is_link: bool = False


class Latency(Enum):
    """Time that a request takes before the first byte."""

    LOCAL = auto()
    """Microseconds, as of a disk or of the page cache."""
    REMOTE = auto()
    """Milliseconds, as of a request to another machine, however small the response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemCapabilities:
    """Properties of the file system behind a FileIO, which are known without a request to it.

    Code that depends on the file system asks for one of these, and never for its scheme. Whether exclusive creation
    needs a lock is not among them, because some object stores have to be probed: see FileIO.exclusive_create.
    """

    latency: Latency
    """See `slow_requests`, which most callers ask for."""

    atomic_rename: bool
    """`rename` moves a directory in one step. Otherwise it copies file by file, and others see half of it."""

    exact_results: bool
    """The result or the error of a call says for certain what the call did, and nothing happens after an error.

    Over a network the response may be lost. The client repeats the request, and then our own file looks like that of
    another process.
    """

    directories: bool
    """Directories exist without files. The removal of an empty one keeps a file that is created meanwhile, except
    through pyarrow (see FileIO.delete).

    Otherwise a directory is what paths have in common, or it is not known how its removal behaves.
    """

    links: bool
    """Symbolic links exist, and the `os` module sees them."""

    file_locks: bool
    """The operating system can lock files and directories (see file_lock). A mount may still refuse it."""

    durable_on_return: bool
    """Changes are durable when the call returns, and `sync` does nothing."""

    @property
    def slow_requests(self) -> bool:
        """Whether requests cost more than local work: send several at once, save each that can be saved, prefetch."""
        return self.latency is Latency.REMOTE

    @property
    def exclusive_rename(self) -> bool:
        """Whether `rename` of a directory is atomic, and its result says which of several processes moved it."""
        return self.atomic_rename and self.exact_results


LOCAL_CAPABILITIES = FileSystemCapabilities(
    latency=Latency.LOCAL,
    atomic_rename=True,
    exact_results=True,
    directories=True,
    links=True,
    file_locks=True,
    durable_on_return=False,
)
"""Local disks, and mounts of POSIX file systems."""

HDFS_CAPABILITIES = FileSystemCapabilities(
    latency=Latency.REMOTE,
    atomic_rename=True,
    exact_results=False,
    directories=True,
    links=False,
    file_locks=False,
    durable_on_return=True,
)
"""HDFS, and the file systems that Hadoop's ViewFs mounts."""

OBJECT_STORE_CAPABILITIES = FileSystemCapabilities(
    latency=Latency.REMOTE,
    atomic_rename=False,
    exact_results=False,
    directories=False,
    links=False,
    file_locks=False,
    durable_on_return=True,
)
"""Object stores, and other file systems whose properties are not known."""


@runtime_checkable
class FileIO(Protocol):
    """List, read, write and create files; safe to share between threads."""

    scheme: str
    """`file` for the local file system, otherwise the URI's scheme: for messages, and to compare two locations."""

    @property
    def capabilities(self) -> FileSystemCapabilities:
        """Properties of the file system. A FileIO around another one has those of the inner one."""
        ...

    @property
    def exclusive_create(self) -> bool:
        """Whether create_exclusive is atomic without a lock. Where it is not, commits must hold a catalog lock.

        Where it is not known, the object store is probed once in a process; raises StorageAccessError when that fails.
        """
        ...

    def read_bytes(self, path: str) -> bytes:
        """Return the whole content; raises FileNotFoundError."""
        ...

    def open_input(self, path: str) -> "pa.NativeFile":
        """Return a seekable Arrow input (memory-mapped or buffered); raises FileNotFoundError."""
        ...

    def open_output(self, path: str) -> Any:
        """Return a writable binary file object; parents are created.

        Where the file system can, the file appears as a whole when it is closed. It is durable after `sync`.
        """
        ...

    def create_exclusive(self, path: str, content: bytes) -> bool:
        """Create the file with the content, atomically and durably; return False when it exists. Never overwrites.

        After a SyncFailedError the file may exist, and may be lost in a power cut.
        """
        ...

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """Replace the content of the file, atomically where the file system can.

        Without `durable`, which is for hints, the file may be stale, empty or missing after a power cut.
        """
        ...

    def sync(self, paths: Iterable[str]) -> None:
        """Make files, their names and the directories above them durable; for a directory, the names in it.

        For a path that does not exist its deletion is made durable. Does nothing where the capabilities say
        `durable_on_return`. Raises SyncFailedError; then it is not known what survives a power cut.
        """
        ...

    def exists(self, path: str) -> bool:
        """Return whether the file or directory exists."""
        ...

    def size(self, path: str) -> int:
        """Return the size of the file in bytes; raises FileNotFoundError."""
        ...

    def list(self, path: str) -> list[FileStatus]:
        """Return the direct entries of the directory, in no order; none where it does not exist."""
        ...

    def make_directories(self, path: str) -> None:
        """Create the directory and its parents; it may exist."""
        ...

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Delete a file, or a directory, durably; return False when there was none.

        Without `recursive` a directory is deleted only if it is empty; otherwise StorageAccessError is raised. A file
        that another process creates in it meanwhile is kept, except in file systems that pyarrow opens.
        """
        ...

    def delete_quietly(self, paths: Iterable[str]) -> None:
        """Delete files that may or may not exist; failures are logged, never raised, as after an earlier error.

        The deletion is not durable: the files may exist again after a power cut.
        """
        ...

    def rename(self, source: str, target: str) -> bool:
        """Move a file or directory durably; return False when the target exists or the source does not.

        Never overwrites. The capabilities say whether it is atomic.
        """
        ...


@runtime_checkable
class SizedOpening(Protocol):
    """FileIO that sends fewer requests if the size of a file is known."""

    def open_sized(self, path: str, size: int | None) -> "pa.NativeFile":
        """Open the file like open_input. `size` is in bytes, may be wrong, and is None where it is not known."""
        ...


@runtime_checkable
class AbortableOutput(Protocol):
    """Output that can be closed without creating a file."""

    def abort(self) -> None:
        """Close it without creating a file; never raises OSError."""
        ...


@contextmanager
def write_errors(path: str) -> Iterator[None]:
    """Raise errors of the system while a file is written as StorageAccessError, which names it."""
    try:
        yield
    except StorageAccessError:
        raise
    except OSError as error:
        raise StorageAccessError(f"Can't write {path}: {error.strerror or error}.") from error


def abort_output(output: Any) -> None:
    """Close an output whose file is not needed; where the output can be aborted, the file is not created."""
    if isinstance(output, AbortableOutput):
        output.abort()
    else:
        output.close()


def open_sized(file_io: FileIO, path: str, size: int | None) -> "pa.NativeFile":
    """Return a seekable input of a file whose size in bytes is known or assumed; raises FileNotFoundError."""
    return file_io.open_sized(path, size) if isinstance(file_io, SizedOpening) else file_io.open_input(path)


def write_file(file_io: FileIO, path: str, content: bytes) -> None:
    """Write a new file; after an error delete it and raise StorageAccessError, which names it."""
    try:
        with write_errors(path), file_io.open_output(path) as output:
            output.write(content)
    except BaseException:
        file_io.delete_quietly([path])
        raise


class WrappedFileIO:
    """FileIO that passes every call on to an `inner` one, as a base of those that change some calls."""

    def __init__(self, inner: FileIO) -> None:
        self.inner = inner
        self.scheme = inner.scheme
        self.capabilities = inner.capabilities
        # Limits of prefetching; see `read_ahead_of`.
        self.read_ahead: Any = getattr(inner, "read_ahead", None)

    @property
    def exclusive_create(self) -> bool:
        return self.inner.exclusive_create

    def read_bytes(self, path: str) -> bytes:
        return self.inner.read_bytes(path)

    def open_input(self, path: str) -> "pa.NativeFile":
        return self.inner.open_input(path)

    def open_output(self, path: str) -> Any:
        return self.inner.open_output(path)

    def create_exclusive(self, path: str, content: bytes) -> bool:
        return self.inner.create_exclusive(path, content)

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        self.inner.overwrite(path, content, durable=durable)

    def sync(self, paths: Iterable[str]) -> None:
        self.inner.sync(paths)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def size(self, path: str) -> int:
        return self.inner.size(path)

    def list(self, path: str) -> list[FileStatus]:
        return self.inner.list(path)

    def make_directories(self, path: str) -> None:
        self.inner.make_directories(path)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        return self.inner.delete(path, recursive=recursive)

    def delete_quietly(self, paths: Iterable[str]) -> None:
        self.inner.delete_quietly(paths)

    def rename(self, source: str, target: str) -> bool:
        return self.inner.rename(source, target)


class ConfinedFileIO(WrappedFileIO):
    """FileIO that reads files below some directories, for a reader with keys that the writer of the metadata lacks: the
    metadata may name any file. Local paths are compared without symbolic links. Methods that read raise
    NotSupportedError for another path.
    """

    def __init__(self, inner: FileIO, *directories: str) -> None:
        super().__init__(inner)
        self._directories = tuple(each.rstrip("/") for each in directories)
        self._roots = tuple(map(self._plain, self._directories))

    def read_bytes(self, path: str) -> bytes:
        return self.inner.read_bytes(self._checked(path))

    def open_input(self, path: str) -> "pa.NativeFile":
        return self.inner.open_input(self._checked(path))

    def open_sized(self, path: str, size: int | None) -> "pa.NativeFile":
        """Open the file like SizedOpening."""
        return open_sized(self.inner, self._checked(path), size)

    def exists(self, path: str) -> bool:
        return self.inner.exists(self._checked(path))

    def size(self, path: str) -> int:
        return self.inner.size(self._checked(path))

    def list(self, path: str) -> list[FileStatus]:
        return self.inner.list(self._checked(path))

    def _checked(self, path: str) -> str:
        plain = self._plain(path)
        is_inside = any(plain == root or plain.startswith(f"{root}/") for root in self._roots)
        if ".." in path.split("/") or not is_inside:
            raise NotSupportedError(
                f"The file {path} is not in {self._directories[0]}, the directory of its table. The server reads no "
                "other files for its clients: have the owner move them there, or read the table with keys of its store."
            )
        return path

    def _plain(self, path: str) -> str:
        return os.path.realpath(path) if self.capabilities.links else path


READ_AHEAD = "store.read-ahead"
READ_THREADS = "store.read-threads"
PREFIX = "store."
"""Prefix of the options of prefetching."""

MOST_THREADS = 256

Range = tuple[int, int]
"""First byte of a range, and the byte after its last one."""

STEP_BYTES = 4 << 20
"""Length of a step of a reader that reads a file from its beginning to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAhead:
    """Limits of prefetching: bytes that may be fetched before they are needed (0 for none), and parallel requests."""

    most_bytes: int = 64 << 20
    threads: int = 32

    @staticmethod
    def of(options: Mapping[str, str]) -> "ReadAhead":
        """Return the limits that options name; raises InvalidOptionError for an unknown option of this prefix."""
        known = ReadAhead()
        most, threads = known.most_bytes, known.threads
        for key, value in options.items():
            if key == READ_AHEAD:
                most = parse_memory(key, value)
            elif key == READ_THREADS:
                if not value.strip().isdecimal() or not 1 <= int(value) <= MOST_THREADS:
                    raise InvalidOptionError(f"The option '{key}' is a number from 1 to {MOST_THREADS}, not '{value}'.")
                threads = int(value)
            elif key.startswith(PREFIX):
                raise InvalidOptionError(
                    f"Nothing is known of the option '{key}'. Known are {READ_AHEAD} and {READ_THREADS}."
                )
        return ReadAhead(most_bytes=most, threads=threads)


@runtime_checkable
class PrefetchingInput(Protocol):
    """Input of a remote file, which fetches announced ranges before they are read."""

    def prefetch(self, steps: Iterable[Sequence[Range]]) -> None:
        """Fetch the ranges of the steps in order; see RangedContent.prefetch."""
        ...


def read_ahead_of(file_io: FileIO) -> ReadAhead | None:
    """Return the limits of prefetching of a FileIO; None where it has none."""
    limits: ReadAhead | None = getattr(file_io, "read_ahead", None)
    return limits


def prefetch(source: Any, steps: Callable[[], Iterable[Sequence[Range]]]) -> None:
    """Announce what will be read of an input: for each step the ranges that are read side by side.

    `steps` is not called for inputs that don't prefetch, such as those of local files.
    """
    if isinstance(source, PrefetchingInput):
        source.prefetch(steps())


def whole_file(size: int) -> Iterator[list[Range]]:
    """Yield the steps of a reader that reads a file of `size` bytes from its beginning to its end."""
    for start in range(0, size, STEP_BYTES):
        yield [(start, min(start + STEP_BYTES, size))]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEnd:
    """End of a file, or all of it: the bytes from `start` on, the size of the file, and its version."""

    size: int
    start: int
    held: Any
    version: str


@runtime_checkable
class VersionedFiles(Protocol):
    """FileIO that can report without sending a file that it has not changed."""

    read_ahead: ReadAhead

    def end_of(self, path: str, *, unless: str | None = None, size: int | None = None) -> StoredEnd | None:
        """Return the end of a file by one request; None if its version is `unless`. Raises FileNotFoundError.

        `size` is the assumed size in bytes, which may be wrong.
        """
        ...

    def range_of(self, path: str, start: int, end: int) -> Any:
        """Return the bytes from `start` to before `end` by one request."""
        ...
