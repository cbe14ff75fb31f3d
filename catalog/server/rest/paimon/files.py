"""File systems of the catalogs of Paimon's REST interface.

Operations on remote ones run through `REMOTE_FILES`, so that an object store or name node that does not answer suspends
its own tables, and the threads of requests are free for others.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from interbed.catalog.server.service.directories.remote_files import REMOTE_FILES, StoreUnavailableError
from interbed.storage.base.errors import NotSupportedError, StorageAccessError
from interbed.storage.io.api import FileIO, FileStatus, WrappedFileIO, open_sized
from interbed.storage.io.resolve import FileOpener, file_io_for, normalize_path, same_file_system, scheme_of

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

_log = logging.getLogger(__name__)


def files_of_warehouse(warehouse: str) -> FileOpener:
    """Return the opener of the file system of a warehouse.

    It raises NotSupportedError for a location in another file system: the server does not use its keys wherever a
    client wants.
    """

    def opened(location: str, options: Mapping[str, str]) -> tuple[FileIO, str]:
        if not same_file_system(normalize_path(location), normalize_path(warehouse)):
            raise NotSupportedError(
                f"{location} is in another file system than {warehouse}, the warehouse of this catalog of the server: "
                "open the table by a client of the metastore ('metastore' = 'hive'), or use a catalog whose location "
                "is there."
            )
        return suspending(*file_io_for(location, options))

    return opened


def suspending(file_io: FileIO, location: str) -> tuple[FileIO, str]:
    """Return a file system whose operations fail at once while it is suspended, and the location; a local one as it
    is.
    """
    return (file_io if scheme_of(location) == "file" else SuspendingFileIO(file_io)), location


class SuspendingFileIO(WrappedFileIO):
    """Remote file system whose operations have a deadline, after which all of them fail for some seconds.

    They raise StorageAccessError then.
    """

    @property
    def exclusive_create(self) -> bool:
        return self.inner.exclusive_create

    def read_bytes(self, path: str) -> bytes:
        return _run(path, lambda: self.inner.read_bytes(path))

    def open_input(self, path: str) -> "pa.NativeFile":
        return _run(path, lambda: self.inner.open_input(path))

    def open_sized(self, path: str, size: int | None) -> "pa.NativeFile":
        """Open the file like open_input; see SizedOpening."""
        return _run(path, lambda: open_sized(self.inner, path, size))

    def open_output(self, path: str) -> Any:
        return _run(path, lambda: self.inner.open_output(path), changes=True)

    def create_exclusive(self, path: str, content: bytes) -> bool:
        return _run(path, lambda: self.inner.create_exclusive(path, content), changes=True)

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        _run(path, lambda: self.inner.overwrite(path, content, durable=durable), changes=True)

    def exists(self, path: str) -> bool:
        return _run(path, lambda: self.inner.exists(path))

    def size(self, path: str) -> int:
        return _run(path, lambda: self.inner.size(path))

    def list(self, path: str) -> "list[FileStatus]":
        return _run(path, lambda: self.inner.list(path))

    def make_directories(self, path: str) -> None:
        _run(path, lambda: self.inner.make_directories(path), changes=True)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        return _run(path, lambda: self.inner.delete(path, recursive=recursive), changes=True)

    def delete_quietly(self, paths: Iterable[str]) -> None:
        given = [*paths]
        if not given:
            return
        try:
            _run(given[0], lambda: self.inner.delete_quietly(given), changes=True)
        except StorageAccessError as error:
            _log.warning("%d files, such as %s, are not deleted: %s", len(given), given[0], error)

    def rename(self, source: str, target: str) -> bool:
        return _run(source, lambda: self.inner.rename(source, target), changes=True)


def _run(path: str, action: Callable[[], T], *, changes: bool = False) -> T:
    try:
        return REMOTE_FILES.run(path, action, changes=changes)
    except StoreUnavailableError as error:
        raise StorageAccessError(str(error)) from error
