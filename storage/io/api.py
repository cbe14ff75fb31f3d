"""The FileIO protocol: the only way in which storage touches files.

Paths are absolute strings without a scheme for the local file system (`/tmp/lake/db.db/t`) and URIs for the others
(`s3://bucket/lake`); `FileIO` implementations are picked by `interbed.storage.io.resolve.file_io_for`.
All methods raise `StorageAccessError` naming the path when the store refuses, and FileNotFoundError where noted. A file
that is not written completely is deleted.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from interbed.storage.base.errors import StorageAccessError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """One entry of a directory; `size` in bytes, `modified_millis` since the epoch (None where the store has none).

    Of a symbolic link, which only the local file system has, the rest is about what it leads to.
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
    """That of a disk or of the page cache: microseconds."""
    REMOTE = auto()
    """That of a request to another machine: milliseconds, however small the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemCapabilities:
    """What the file system behind a FileIO can do, without a request to it.

    Code that depends on the file system asks for one of these, and never for its scheme. Whether exclusive creation
    needs a lock is not among them, because some object stores have to be probed: see FileIO.exclusive_create.
    """

    latency: Latency
    """See `slow_requests`, which most callers ask for."""

    atomic_rename: bool
    """`rename` moves a directory in one step. Otherwise it copies file by file, and others see half of it."""

    exact_results: bool
    """The result or the error of a call says for certain what the call did, and nothing happens after an error.

    Over a network the answer may be lost: the client repeats the request, and then our own
    file looks like another process's.
    """

    directories: bool
    """Directories exist without files, and removing an empty one never removes a file that was created meanwhile.

    Otherwise a directory is what paths have in common, or it is not known how its removal behaves.
    """

    links: bool
    """Symbolic links exist, and the `os` module sees them."""

    file_locks: bool
    """The operating system can lock files and directories (see file_lock). A mount may still refuse it."""

    durable_on_return: bool
    """What a call wrote or deleted is durable when it returns, and `sync` does nothing."""

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
"""HDFS, and what Hadoop's ViewFs mounts."""

OBJECT_STORE_CAPABILITIES = FileSystemCapabilities(
    latency=Latency.REMOTE,
    atomic_rename=False,
    exact_results=False,
    directories=False,
    links=False,
    file_locks=False,
    durable_on_return=True,
)
"""Object stores, and every file system of which no more is known."""


@runtime_checkable
class FileIO(Protocol):
    """List, read, write and create files; safe to share between threads."""

    scheme: str
    """`file` for the local file system, otherwise the URI's scheme: for messages, and to compare two locations."""

    @property
    def capabilities(self) -> FileSystemCapabilities:
        """What the file system can do. A FileIO around another one has those of the inner one."""
        ...

    @property
    def exclusive_create(self) -> bool:
        """Whether create_exclusive is atomic without a lock; where it is not, commits must hold a catalog lock.

        Where that is not known of a store, it is tried, once in a process; raises StorageAccessError when it can't be.
        """
        ...

    def read_bytes(self, path: str) -> bytes:
        """The whole file; raises FileNotFoundError."""
        ...

    def open_input(self, path: str) -> "pa.NativeFile":
        """A seekable Arrow input (memory-mapped or buffered); raises FileNotFoundError."""
        ...

    def open_output(self, path: str) -> Any:
        """A writable binary file object; parents are created; the file appears whole on close where the store can.

        It is durable after `sync`.
        """
        ...

    def create_exclusive(self, path: str, content: bytes) -> bool:
        """Create the file with the content, atomically and durably; False when it exists already. Never overwrites.

        After a SyncFailedError the file may be there, and be gone after a power cut.
        """
        ...

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """Replace the file's content, atomically where the store can.

        Without `durable`, which is for hints, it may be stale, empty or gone after a power cut.
        """
        ...

    def sync(self, paths: Iterable[str]) -> None:
        """Make files, their names and the directories above them durable; of a directory, the names in it.

        Of a path that is not there it is made durable that it is gone. Does nothing where the capabilities say
        `durable_on_return`. Raises SyncFailedError; it is not known then what outlives a power cut.
        """
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        ...

    def size(self, path: str) -> int:
        """The file's size in bytes; raises FileNotFoundError."""
        ...

    def list(self, path: str) -> list[FileStatus]:
        """The directory's direct entries in no order; an empty list when there is no such directory."""
        ...

    def make_directories(self, path: str) -> None:
        """Create the directory and its parents; it may exist."""
        ...

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Delete a file, or a directory, durably; False when there was none.

        Without `recursive` a directory goes only if it is empty, and nothing goes that others put into it meanwhile,
        but in stores that pyarrow opens; raises StorageAccessError when there is something in it.
        """
        ...

    def delete_quietly(self, paths: Iterable[str]) -> None:
        """Delete files that may or may not exist; failures are logged, never raised (cleaning up after an error).

        They may be back after a power cut.
        """
        ...

    def rename(self, source: str, target: str) -> bool:
        """Move a file or directory, durably; False when the target exists or the source does not. Never overwrites.

        The capabilities say whether that is one step.
        """
        ...


@runtime_checkable
class SizedOpening(Protocol):
    """A FileIO that sends less where it is known how large a file is."""

    def open_sized(self, path: str, size: int | None) -> "pa.NativeFile":
        """As open_input; where the size, which need not be right, is not known, it is None."""
        ...


@runtime_checkable
class AbortableOutput(Protocol):
    """An output that can be closed without leaving a file."""

    def abort(self) -> None:
        """Close it, and let no file appear; never raises OSError."""
        ...


@contextmanager
def write_errors(path: str) -> Iterator[None]:
    """Turn the system's errors while a file is written into StorageAccessError naming it."""
    try:
        yield
    except StorageAccessError:
        raise
    except OSError as error:
        raise StorageAccessError(f"Can't write {path}: {error.strerror or error}.") from error


def abort_output(output: Any) -> None:
    """Close a file that nobody wants any more; where the store can, it never appears."""
    if isinstance(output, AbortableOutput):
        output.abort()
    else:
        output.close()


def open_sized(file_io: FileIO, path: str, size: int | None) -> "pa.NativeFile":
    """Return a seekable input of a file whose size in bytes is known or assumed; raises FileNotFoundError."""
    return file_io.open_sized(path, size) if isinstance(file_io, SizedOpening) else file_io.open_input(path)


def write_file(file_io: FileIO, path: str, content: bytes) -> None:
    """Write a whole new file; raises StorageAccessError naming it, and deletes it then."""
    try:
        with write_errors(path), file_io.open_output(path) as output:
            output.write(content)
    except BaseException:
        file_io.delete_quietly([path])
        raise


class WrappedFileIO:
    """Does everything as the `inner` one; see FileIO."""

    def __init__(self, inner: FileIO) -> None:
        self.inner = inner
        self.scheme = inner.scheme
        self.capabilities = inner.capabilities
        # For `read_ahead_of`, which knows what it means.
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
