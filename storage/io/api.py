"""The FileIO protocol: the only way in which storage touches files.

Paths are absolute strings without a scheme for the local file system (`/tmp/lake/db.db/t`) and URIs for the others
(`s3://bucket/lake`); `FileIO` implementations are picked by `interbed.storage.io.resolve.file_io_for`.
All methods raise `StorageAccessError` naming the path when the store refuses, and FileNotFoundError where noted. A file
that is not written completely is deleted.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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


@runtime_checkable
class FileIO(Protocol):
    """List, read, write and create files; safe to share between threads."""

    scheme: str
    """`file` for the local file system, else the URI's scheme."""

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

        Of a path that is not there it is made durable that it is gone. Does nothing on a store whose writes are durable
        when they return. Raises SyncFailedError; it is not known then what outlives a power cut.
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
        """Move a file or directory, durably; False when the target exists or the source does not. Never overwrites."""
        ...


def is_remote(file_io: FileIO) -> bool:
    """Whether each read of a file waits for another machine, so that several are better begun at once."""
    return file_io.scheme != "file"


@runtime_checkable
class GivesUp(Protocol):
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


def give_up(output: Any) -> None:
    """Close a file that nobody wants any more; where the store can, it never appears."""
    if isinstance(output, GivesUp):
        output.abort()
    else:
        output.close()


def write_file(file_io: FileIO, path: str, content: bytes) -> None:
    """Write a whole new file; raises StorageAccessError naming it, and deletes it then."""
    try:
        with write_errors(path), file_io.open_output(path) as output:
            output.write(content)
    except BaseException:
        file_io.delete_quietly([path])
        raise
