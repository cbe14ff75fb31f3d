"""FileIO of object stores through obstore: S3 and services with its protocol, Google's, Azure's.

Paths are URIs (`s3://bucket/lake`); the key of an object follows the bucket. A directory is a common prefix of keys, so
it appears and disappears with its files. A directory without files (a new database) has an empty object `.directory`,
which no listing shows. Nor are the markers of Hadoop and Arrow listed, whose keys end with `/`.

Atomic are a put (overwriting, or creating by a condition, see `writes`) and the end of an upload. A rename copies each
file and then deletes it, and other processes may see half of it. Changes are durable on return.
"""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.io.api import OBJECT_STORE_CAPABILITIES, FileStatus, ReadAhead, StoredEnd
from interbed.storage.io.parallel import BATCH, check_deletable
from interbed.storage.io.stores.objects import StoreObjects
from interbed.storage.io.stores.options import StoreSettings
from interbed.storage.io.stores.requests import is_missing_store, was_deleted
from interbed.storage.io.stores.settings import store_settings
from interbed.storage.io.stores.writes import ExclusivePuts, Upload, UploadedFile

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_READING = frozenset({"read", "open"})

DIRECTORY = ".directory"
"""Name of the object that marks a directory without files."""

_used_by: int | None = None
"""Process in which obstore has started its threads."""


class ObjectStoreFileIO:
    """FileIO over one bucket or container; threads may share it. A process that is forked after its first use may not.

    `sweep` deletes a directory with the markers in it that obstore can't name, or is None. `read_ahead` are the limits
    of prefetching.
    """

    capabilities = OBJECT_STORE_CAPABILITIES

    def __init__(
        self,
        scheme: str,
        authority: str,
        settings: StoreSettings,
        *,
        sweep: Callable[[str], None] | None = None,
        read_ahead: ReadAhead | None = None,
    ) -> None:
        self.scheme = scheme
        self._authority = authority
        self._prefix = f"{scheme}://{authority}/"
        self._settings = settings
        self._objects = StoreObjects(settings)
        self._puts = ExclusivePuts(self._objects)
        self._sweep = sweep
        self.read_ahead = read_ahead or ReadAhead()
        self._written_in = ""

    @staticmethod
    def of(
        scheme: str, authority: str, options: dict[str, str], sweep: Callable[[str], None] | None = None
    ) -> "ObjectStoreFileIO":
        """Return the FileIO of an authority; raises InvalidOptionError and StorageAccessError."""
        settings = store_settings(scheme, authority, options)
        return ObjectStoreFileIO(scheme, authority, settings, sweep=sweep, read_ahead=ReadAhead.of(options))

    @property
    def exclusive_create(self) -> bool:
        """Whether conditional puts are honoured; if it is not known, it is probed where the last file was written."""
        self._check_process()
        return self._puts.are_honoured(self._written_in, self._prefix)

    def read_bytes(self, path: str) -> bytes:
        """Return the whole content by one request; raises FileNotFoundError."""
        return self._call("read", path, self._objects.read)

    def open_input(self, path: str) -> "pa.NativeFile":
        """Return a seekable input, opened by the request that reads its end; raises FileNotFoundError."""
        return self.open_sized(path, None)

    def open_sized(self, path: str, size: int | None) -> "pa.NativeFile":
        from interbed.storage.io.prefetch.inputs import opened_by_end

        return opened_by_end(self, path, size)

    def end_of(self, path: str, *, unless: str | None = None, size: int | None = None) -> StoredEnd | None:
        return self._call("open", path, lambda key: self._objects.end_of(key, unless=unless, size=size))

    def range_of(self, path: str, start: int, end: int) -> Any:
        return self._call("read", path, lambda key: self._objects.read_range(key, start, end))

    def open_output(self, path: str) -> UploadedFile:
        """Return an output whose file appears as a whole when it is closed, and is durable then."""
        self._check_process()
        self._note_write(path)
        upload = Upload(self._objects, self._key(path))
        return UploadedFile(upload, lambda step: self._call("write", path, lambda _: step()))

    def create_exclusive(self, path: str, content: bytes) -> bool:
        """Create the file; return False when it exists.

        Atomic with `exclusive_create`. Otherwise it checks and then writes, and the caller holds a lock.
        """
        self._note_write(path)
        if self.exclusive_create:
            return self._puts.put(self._key(path), content, path)
        if self.exists(path):
            return False
        self.overwrite(path, content)
        return True

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """Replace the file atomically; `durable` makes no difference."""
        self._call("write", path, lambda key: self._objects.put(key, content))
        self._note_write(path)

    def sync(self, paths: Iterable[str]) -> None:
        """Do nothing: every change is durable on return."""

    def exists(self, path: str) -> bool:
        """Return whether the file or directory exists."""
        return self._call("look up", path, lambda key: self._objects.is_file(key) or self._objects.is_directory(key))

    def size(self, path: str) -> int:
        """Return the size of the file in bytes; raises FileNotFoundError."""

        def size(key: str) -> int:
            try:
                return self._objects.size(key)
            except FileNotFoundError:
                # The response has no content, so it does not show whether the bucket is missing; a listing does.
                self._objects.is_directory(key)
                raise

        return self._call("look up", path, size)

    def list(self, path: str) -> list[FileStatus]:
        """Return the direct entries of the directory, in no order; none where it does not exist."""

        def entries(key: str) -> list[FileStatus]:
            found = self._objects.entries(key)
            directories = set(found["common_prefixes"]) - {key}
            listed = [_status(path, name, None) for name in sorted(directories)]
            for entry in found["objects"]:
                name = entry["path"]
                # Markers of this directory and of those in it look like empty files of their names.
                if name != key and name not in directories and name.rpartition("/")[2] != DIRECTORY:
                    listed.append(_status(path, name, entry))
            return listed

        return self._call("list", path, entries)

    def make_directories(self, path: str) -> None:
        """Create the directory, which then exists even without files."""

        def make(key: str) -> None:
            if key and not self._objects.is_directory(key):
                self._objects.put(f"{key}/{DIRECTORY}", b"")

        self._call("create the directory", path, make)
        self._note_write(f"{path}/{DIRECTORY}")

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Delete a file, or a directory with `recursive`; return False when there was none."""
        check_deletable(path)

        def delete(key: str) -> bool:
            if self._objects.is_file(key):
                self._objects.remove([key])
                return True
            if not self._objects.is_directory(key):
                return False
            if not recursive:
                self._delete_empty(path, key)
                return True
            for keys in self._objects.below(key):
                self._objects.remove(keys)
            if self._sweep is not None and self._objects.is_directory(key):
                # Only markers are left; another process may delete them, too.
                with suppress(FileNotFoundError):
                    self._sweep(f"{self._settings.bucket}/{key}")
            return True

        return self._call("delete", path, delete)

    def _delete_empty(self, path: str, key: str) -> None:
        """Delete the markers of a directory without files, each object by its name.

        A file that another process creates meanwhile is kept, and then the directory, too. Raises StorageAccessError
        when it is not empty.
        """
        not_empty = f"Can't delete {path}: the directory is not empty."
        if self.list(path):
            raise StorageAccessError(not_empty)
        self._objects.remove([f"{key}/{DIRECTORY}"])
        if not self._objects.is_directory(key):
            return
        # A bucket has no marker, and deleting the empty key in it would delete the bucket.
        if key and self._settings.kind == "S3Store" and not self.list(path):
            from obstore.exceptions import BaseError

            try:
                self._objects.remove_marker(key)
            except BaseError as error:
                # As where AWS has addresses of another form; the empty directory still exists.
                _log.warning("Left the marker of the directory %s: %s", path, error)
        if self.list(path):
            self._objects.put(f"{key}/{DIRECTORY}", b"")
            raise StorageAccessError(not_empty)

    def delete_batch(self, paths: Sequence[str]) -> None:
        for path in paths:
            check_deletable(path)
        self._call("delete", paths[0], lambda _: self._objects.remove([self._key(path) for path in paths]))

    def delete_quietly(self, paths: Iterable[str]) -> None:
        """Delete files that may or may not exist, many by one request; failures are logged, never raised."""
        given = list(paths)
        for first in range(0, len(given), BATCH):
            some = given[first : first + BATCH]
            try:
                self.delete_batch(some)
            except OSError as error:
                _log.warning("Left %s and %d others behind: %s", some[0], len(some) - 1, error)

    def rename(self, source: str, target: str) -> bool:
        """Copy and then delete; return False when the target exists or the source does not. Not atomic.

        Never overwrites: where conditional puts are honoured, a file is copied on the condition that none exists.
        """

        def rename(key: str) -> bool:
            new = self._key(target)
            if self._objects.is_directory(new):
                return False
            if self._objects.is_file(key):
                if not self._objects.copy_new(key, new):
                    return False
                self._objects.remove([key])
                return True
            if self._objects.is_file(new) or not self._objects.is_directory(key):
                return False
            copied: list[str] = []
            for keys in self._objects.below(key):
                for each in keys:
                    self._objects.copy(each, f"{new}{each[len(key) :]}")
                copied.extend(keys)
            for first in range(0, len(copied), BATCH):
                self._objects.remove(copied[first : first + BATCH])
            return True

        return self._call("rename", source, rename)

    # -- paths, errors, processes ----------------------------------------------------------------------------------

    def _key(self, path: str) -> str:
        if not f"{path}/".startswith(self._prefix):
            raise StorageAccessError(f"{path} is not a path of this store, whose paths begin with {self._prefix}")
        return path[len(self._prefix) :].strip("/")

    def _note_write(self, path: str) -> None:
        self._written_in = self._key(path).rpartition("/")[0]

    def _call(self, action: str, path: str, operation: Callable[[str], _T]) -> _T:
        from obstore.exceptions import BaseError

        self._check_process()
        key = self._key(path)
        try:
            return operation(key)
        except StorageAccessError:
            raise
        except FileNotFoundError as error:
            if is_missing_store(error):
                raise self._error(action, path, error) from None
            raise FileNotFoundError(path) from None
        except (BaseError, OSError, ValueError) as error:
            if action in _READING and was_deleted(error):
                raise FileNotFoundError(path) from None
            raise self._error(action, path, error) from None

    def _error(self, action: str, path: str, error: BaseException) -> StorageAccessError:
        return self._objects.error(action, path, error)

    def _check_process(self) -> None:
        global _used_by
        process = os.getpid()
        if _used_by is None:
            _used_by = process
        elif _used_by != process:
            raise StorageAccessError(
                f"{self._prefix} can't be used in a process that was forked from one which has used such a store "
                "already: the threads that wait for answers stayed there. Start processes with 'spawn' or 'forkserver'."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.scheme, self._authority, self._settings, self._sweep, self.read_ahead)


def _rebuilt(
    scheme: str,
    authority: str,
    settings: StoreSettings,
    sweep: Callable[[str], None] | None,
    read_ahead: ReadAhead,
) -> ObjectStoreFileIO:
    return ObjectStoreFileIO(scheme, authority, settings, sweep=sweep, read_ahead=read_ahead)


def _status(directory: str, key: str, entry: Any) -> FileStatus:
    name = key.rpartition("/")[2]
    modified: datetime | None = None if entry is None else entry["last_modified"]
    return FileStatus(
        path=f"{directory.rstrip('/')}/{name}",
        name=name,
        is_directory=entry is None,
        size=0 if entry is None else int(entry["size"]),
        modified_millis=None if modified is None else int(modified.timestamp() * 1000),
    )
