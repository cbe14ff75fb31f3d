"""Writing files through a FileIO: errors that name the file, and nothing left of one that was not finished."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.fileio.api import FileIO


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
