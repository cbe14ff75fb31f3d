"""Object stores and other remote file systems, through pyarrow.fs or an fsspec file system.

Paths are URIs (`s3://bucket/lake`); the file system behind sees them without the scheme. Few of these stores can create
a file only if it is absent; `exclusive_create` says whether this one can. Where it can't, create_exclusive checks and
then writes, and a commit must hold a catalog lock around it.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import fs as pafs

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.fileio.ahead.limits import ReadAhead
from interbed.storage.base.fileio.ahead.opening import opened_by_ranges
from interbed.storage.base.fileio.api import FileStatus
from interbed.storage.base.fileio.deleting import check_deletable, delete_in_turn

_T = TypeVar("_T")


class ObjectStoreFileIO:
    """FileIO over a pyarrow file system, which sees URIs without the scheme and without the `authority` that is given,
    and with the `bucket` in the place of that.

    `fsspec` is the fsspec file system behind `filesystem` when there is one; it is asked for atomic creation.
    """

    def __init__(
        self,
        filesystem: pafs.FileSystem,
        *,
        scheme: str,
        fsspec: Any = None,
        exclusive_create: bool = False,
        authority: str = "",
        bucket: str = "",
        read_ahead: ReadAhead | None = None,
    ) -> None:
        self.scheme = scheme
        self.exclusive_create = exclusive_create
        self._filesystem = filesystem
        self._fsspec = fsspec
        self.read_ahead = read_ahead or ReadAhead()
        self._prefix = f"{scheme}://{authority}"
        self._bucket = bucket

    def read_bytes(self, path: str) -> bytes:
        """The whole file; raises FileNotFoundError."""

        def read() -> bytes:
            with self._filesystem.open_input_stream(self._inner(path), compression=None) as stream:
                return stream.read()

        return self._call("read", path, read)

    def open_input(self, path: str) -> pa.NativeFile:
        """A seekable input; raises FileNotFoundError."""
        return self.open_sized(path, None)

    def open_sized(self, path: str, size: int | None) -> pa.NativeFile:
        """See OpensSized; the store says what the size is."""
        source: Any = self._call("open", path, lambda: self._filesystem.open_input_file(self._inner(path)))

        def fetch(start: int, end: int) -> bytes:
            # Arrow's files are read at a place by several threads at once.
            return self._call("read", path, lambda: bytes(source.read_at(end - start, start)))

        length = self._call("open", path, source.size)
        return opened_by_ranges(fetch, length, self.read_ahead)

    def open_output(self, path: str) -> pa.NativeFile:
        """A writable output; parents are created (where the store has directories at all)."""

        def open_stream() -> pa.NativeFile:
            inner = self._inner(path)
            self._make_parent(inner)
            return self._filesystem.open_output_stream(inner, compression=None)

        return self._call("create", path, open_stream)

    def create_exclusive(self, path: str, content: bytes) -> bool:
        """Create the file; False when it exists. Atomic only where `exclusive_create` says so."""
        inner = self._inner(path)

        def create() -> bool:
            if self.exclusive_create and self._fsspec is not None:
                try:
                    self._make_parent(inner)
                    self._fsspec.pipe_file(inner, content, mode="create")
                except FileExistsError:
                    return False
                return True
            if self._kind(inner) is not pafs.FileType.NotFound:
                return False
            self._write(inner, content)
            return True

        return self._call("create", path, create)

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """Replace the file's content; `durable` makes no difference."""
        self._call("write", path, lambda: self._write(self._inner(path), content))

    def sync(self, paths: Iterable[str]) -> None:
        """Do nothing: what these stores have taken is durable."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        return self._call("look up", path, lambda: self._kind(self._inner(path)) is not pafs.FileType.NotFound)

    def size(self, path: str) -> int:
        """The file's size in bytes; raises FileNotFoundError."""

        def size() -> int:
            info = self._filesystem.get_file_info(self._inner(path))
            if info.type is not pafs.FileType.File:
                raise FileNotFoundError(path)
            return int(info.size)

        return self._call("look up", path, size)

    def list(self, path: str) -> list[FileStatus]:
        """The directory's direct entries in no order; empty when there is no such directory."""

        def entries() -> list[FileStatus]:
            selector = pafs.FileSelector(self._inner(path), allow_not_found=True, recursive=False)
            return [
                FileStatus(
                    path=f"{path.rstrip('/')}/{info.base_name}",
                    name=info.base_name,
                    is_directory=info.type is pafs.FileType.Directory,
                    size=int(info.size or 0),
                    modified_millis=None if info.mtime_ns is None else info.mtime_ns // 1_000_000,
                )
                for info in self._filesystem.get_file_info(selector)
            ]

        return self._call("list", path, entries)

    def make_directories(self, path: str) -> None:
        """Create the directory and its parents; it may exist."""
        self._call("create the directory", path, lambda: self._filesystem.create_dir(self._inner(path), recursive=True))

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Delete a file, or a directory with `recursive`; False when there was none."""
        check_deletable(path)

        def delete() -> bool:
            inner = self._inner(path)
            kind = self._kind(inner)
            if kind is pafs.FileType.NotFound:
                return False
            if kind is not pafs.FileType.Directory:
                self._filesystem.delete_file(inner)
            elif recursive:
                self._filesystem.delete_dir(inner)
            elif not self._filesystem.get_file_info(pafs.FileSelector(inner)):
                self._delete_empty(inner)
            else:
                raise StorageAccessError(f"Can't delete {path}: the directory is not empty.")
            return True

        return self._call("delete", path, delete)

    def _delete_empty(self, inner: str) -> None:
        if self._fsspec is not None:
            # It refuses what is not empty, where fsspec knows how; elsewhere it may do nothing.
            with suppress(FileNotFoundError):
                self._fsspec.rmdir(inner)
            if self._kind(inner) is pafs.FileType.NotFound:
                return
        # Of Arrow's there is none that refuses: whatever comes meanwhile goes as well.
        self._filesystem.delete_dir(inner)

    def delete_quietly(self, paths: Iterable[str]) -> None:
        """Delete files that may or may not exist; failures are logged, never raised."""
        delete_in_turn(self.delete, paths)

    def rename(self, source: str, target: str) -> bool:
        """Move a file or directory; False when the target exists or the source does not. Not atomic on most stores."""

        def rename() -> bool:
            inner_source, inner_target = self._inner(source), self._inner(target)
            if self._kind(inner_target) is not pafs.FileType.NotFound:
                return False
            if self._kind(inner_source) is pafs.FileType.NotFound:
                return False
            self._make_parent(inner_target)
            self._filesystem.move(inner_source, inner_target)
            return True

        return self._call("rename", source, rename)

    def _inner(self, path: str) -> str:
        if not path.startswith(self._prefix):
            raise StorageAccessError(f"{path} is not a path of this file system, whose paths begin with {self._prefix}")
        return f"{self._bucket}{path[len(self._prefix) :]}".rstrip("/")

    def _kind(self, inner: str) -> pafs.FileType:
        return self._filesystem.get_file_info(inner).type

    def _make_parent(self, inner: str) -> None:
        # Object stores proper have no directories; the others (HDFS, SFTP, memory) refuse files without a parent.
        if self.scheme not in _FLAT_SCHEMES and "/" in inner.strip("/"):
            self._filesystem.create_dir(inner.rsplit("/", 1)[0], recursive=True)

    def _write(self, inner: str, content: bytes) -> None:
        self._make_parent(inner)
        with self._filesystem.open_output_stream(inner, compression=None) as stream:
            stream.write(content)

    def _call(self, action: str, path: str, operation: Callable[[], _T]) -> _T:
        try:
            return operation()
        except (FileNotFoundError, StorageAccessError):
            raise
        except (OSError, pa.ArrowException) as error:
            raise StorageAccessError(f"Can't {action} {path}: {error}") from error


_FLAT_SCHEMES = frozenset({"s3", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "oss"})
