"""HDFS, through hdfs-native: a client in Rust of name nodes and data nodes, without a JVM.

Every file is written under a hidden name beside its own, `.<name>.<uuid>.tmp`, and then renamed. A rename of the name
node is atomic, and without overwriting it refuses a name that is taken: exactly one of several racing writers wins,
without a lock. A process that is killed leaves at most a hidden file, which readers ignore and the removal of orphan
files deletes.

The client repeats a request whose response was lost, on another name node where there are two. A rename that was
carried out the first time is refused the second time. Then the files decide: no other process has the hidden name.
A closed file is on as many data nodes as HDFS requires, and its name is in the name node's journal: there is nothing
to sync.
"""

import ctypes
import errno
import logging
import os
import uuid
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff
from interbed.storage.base.errors import StorageAccessError, load_extra
from interbed.storage.io.api import HDFS_CAPABILITIES, FileStatus, ReadAhead
from interbed.storage.io.hdfs.files import NOT_A_FILE, HdfsOutput, translated
from interbed.storage.io.hdfs.settings import HdfsLogin
from interbed.storage.io.parallel import check_deletable, delete_one_by_one
from interbed.storage.io.prefetch.inputs import opened_by_ranges

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, FileWriter

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

LAST_BLOCK_SECONDS_MAX = 10.0
_BACKOFF = ExponentialBackoff(
    first_seconds=0.005,
    growth=1.0,
    jitter=NO_JITTER,
    timeout_seconds=LAST_BLOCK_SECONDS_MAX,
    pause_within_timeout=False,
)
_CHECKSUM_BYTES = 512

_DIRECTORY_MODE = 0o777
_FILE_MODE = 0o666
"""Modes that Hadoop's own client requests. The umask is applied here, because name nodes don't apply it."""


class HdfsFileIO:
    """FileIO over one HDFS; threads and forked processes may share it.

    `authority` is a name node's `host:port` or the name of a nameservice, which `settings` or the files of `conf_dir`
    (core-site.xml, hdfs-site.xml) describe. `login` is that by a keytab, None for the tickets or delegation tokens of
    the process. `read_ahead` are the limits of prefetching. The first call connects.
    """

    scheme = "hdfs"
    capabilities = HDFS_CAPABILITIES
    exclusive_create = True

    def __init__(
        self,
        authority: str,
        settings: Mapping[str, str] | None = None,
        conf_dir: str | None = None,
        *,
        login: HdfsLogin | None = None,
        umask: int = 0o022,
        read_ahead: ReadAhead | None = None,
    ) -> None:
        self._authority = authority
        self._settings = dict(settings or {})
        self._conf_dir = conf_dir
        self._login = login
        self._umask = umask
        self.read_ahead = read_ahead or ReadAhead()
        self._prefix = f"hdfs://{authority}"
        self._client: Client | None = None
        _OPEN.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._authority, self._settings, self._conf_dir, self._login, self._umask, self.read_ahead)

    # -- reading ---------------------------------------------------------------------------------------------------

    def read_bytes(self, path: str) -> bytes:
        """Return the whole content; raises FileNotFoundError."""

        def read() -> bytes:
            reader = self._reader(path)
            return reader.read_range(0, len(reader))

        return self._call("read", path, read)

    def open_input(self, path: str) -> pa.NativeFile:
        """Return a seekable input that reads ranges; raises FileNotFoundError."""
        return self.open_sized(path, None)

    def open_sized(self, path: str, size: int | None) -> pa.NativeFile:
        """Open the file like SizedOpening, with the size that the name node reports."""
        reader = self._call("open", path, lambda: self._reader(path))

        def fetch(start: int, end: int) -> bytes:
            try:
                return reader.read_range(start, end - start)
            except (OSError, RuntimeError) as error:
                raise self.read_error(path, error) from error

        return opened_by_ranges(fetch, len(reader), self.read_ahead)

    def exists(self, path: str) -> bool:
        """Return whether the file or directory exists."""
        return self._status("look up", path) is not None

    def size(self, path: str) -> int:
        """Return the size of the file in bytes; raises FileNotFoundError."""
        status = self._status("look up", path)
        if status is None:
            raise _missing(path)
        return int(status.length)

    def list(self, path: str) -> list[FileStatus]:
        """Return the direct entries of the directory, in no order; none where it does not exist."""
        inner = self._inner(path)
        try:
            found = self._call("list", path, lambda: list(self._connected().list_status(inner)))
        except FileNotFoundError:
            return []
        if len(found) == 1 and found[0].path == inner and not found[0].isdir:
            raise StorageAccessError(f"Can't list {path}: it is a file.")
        return [_file_status(path, status) for status in found]

    # -- writing ---------------------------------------------------------------------------------------------------

    def open_output(self, path: str) -> Any:
        """Return a writable output; the file appears as a whole when it is closed.

        An error within its `with` block leaves no file.
        """
        staged = _staged(path)
        writer = self._call("create", path, lambda: self._create(staged))
        return HdfsOutput(self, path, staged, writer)

    def create_exclusive(self, path: str, content: bytes) -> bool:
        """Create the file atomically; return False when the name is taken.

        After a StorageAccessError because of a lost response the file may exist, unless it `changed_nothing`.
        """
        try:
            # The loser of a race usually sees the winner's file here, and writes nothing.
            if self.exists(path):
                return False
            staged = self._stage(path, content)
        except StorageAccessError as error:
            error.changed_nothing = True
            raise
        try:
            return self._call("create", path, lambda: self._take_name(staged, path, content))
        finally:
            self.delete_quietly([staged])

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """Replace the file atomically; `durable` makes no difference."""
        staged = self._stage(path, content)
        try:
            self._call("write", path, lambda: self._replace(staged, path))
        except BaseException:
            self.delete_quietly([staged])
            raise

    def sync(self, paths: Iterable[str]) -> None:
        """Do nothing: a file that is closed has its replicas, and its name is in the name node's journal."""

    def make_directories(self, path: str) -> None:
        """Create the directory and its parents; it may exist."""
        self._call("create the directory", path, lambda: self._make_directories(self._inner(path)))

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Delete a file, or a directory with `recursive`; return False when there was none."""
        check_deletable(path)
        return self._call("delete", path, lambda: self._connected().delete(self._inner(path), recursive))

    def delete_quietly(self, paths: Iterable[str]) -> None:
        """Delete files that may or may not exist; failures are logged, never raised."""
        delete_one_by_one(self.delete, paths)

    def rename(self, source: str, target: str) -> bool:
        """Move a file or directory; return False when the target exists or the source does not. Never overwrites."""
        before, after = self._inner(source), self._inner(target)

        def rename() -> bool:
            client = self._connected()
            try:
                client.rename(before, after, False)
            except FileExistsError:
                return False
            except FileNotFoundError:
                if self._status("look up", source) is None:
                    return False
                # The directory above the target is missing.
                self._make_directories(_above(after))
                try:
                    client.rename(before, after, False)
                except (FileExistsError, FileNotFoundError):
                    return False
            return True

        return self._call("rename", source, rename)

    # -- steps -----------------------------------------------------------------------------------------------------

    def discard(self, staged: str) -> None:
        """Delete a hidden file that does not get its name."""
        self.delete_quietly([staged])

    def finish(self, staged: str, path: str) -> None:
        """Rename a hidden file to its own name, which may be taken."""
        self._call("create", path, lambda: self._replace(staged, path))

    def read_error(self, path: str, error: Exception) -> OSError:
        """Return the error to raise for one of a read: FileNotFoundError when the file was deleted."""
        try:
            if self._status("look up", path) is None:
                return _missing(path)
        except OSError as second:
            _log.debug("It is not known whether %s still exists: %s", path, second)
        return translated(error, "read", path, self._authority)

    def write_error(self, path: str, error: Exception) -> OSError:
        """Return the error to raise for one that occurred while a file was written."""
        return translated(error, "write", path, self._authority)

    def _reader(self, path: str) -> "FileReader":
        """Return the open file, with all of its blocks.

        Where `dfs.namenode.file.close.num-committed-allowed` is set, a file may be closed before data nodes have
        reported its last block. For these few milliseconds the client sees it without that block.
        """
        client, inner = self._connected(), self._inner(path)
        retries = _BACKOFF.start()
        while True:
            reader = client.read(inner)
            # Blocks are multiples of this, so the last block is there if it is not full, as in most files.
            if len(reader) % _CHECKSUM_BYTES or len(reader) == client.get_file_info(inner).length:
                return reader
            if not retries.pause():
                raise StorageAccessError(f"Can't read {path}: no data node has reported its last block.")

    def _take_name(self, staged: str, path: str, content: bytes) -> bool:
        """Rename without overwriting; after an error because of a lost response the files decide."""
        try:
            self._connected().rename(self._inner(staged), self._inner(path), False)
        except FileExistsError:
            # Another process has the name, or this request when it was sent for the first time.
            return self._status("look up", staged) is None and self._has(path, content)
        except (OSError, RuntimeError) as error:
            gone = self._status("look up", staged) is None
            if gone and self._has(path, content):
                _log.info("%s was created, although the name node reported: %s", path, str(error).partition("\n")[0])
                return True
            if gone and isinstance(error, FileNotFoundError):
                raise _directory_deleted(path) from None
            raise
        return True

    def _replace(self, staged: str, path: str) -> None:
        try:
            self._connected().rename(self._inner(staged), self._inner(path), True)
        except FileNotFoundError:
            # No other process has the hidden name. It is missing if the first request was carried out, unless the
            # directory was deleted, and the target with it.
            if self._status("look up", staged) is not None or self._status("look up", path) is None:
                raise _directory_deleted(path) from None

    def _has(self, path: str, content: bytes) -> bool:
        try:
            return self.read_bytes(path) == content
        except FileNotFoundError:
            return False

    def _stage(self, path: str, content: bytes) -> str:
        """Write the content under a hidden name beside the path, create parents, and return that name."""
        staged = _staged(path)

        def write() -> None:
            with self._create(staged) as writer:
                writer.write(content)

        try:
            self._call("write", path, write)
        except BaseException:
            self.delete_quietly([staged])
            raise
        return staged

    def _create(self, staged: str) -> "FileWriter":
        options = load_extra("hdfs_native", needed_by=self._prefix).WriteOptions(
            permission=_FILE_MODE & ~self._umask,
            # The name is new, and the request may be sent twice.
            overwrite=True,
            create_parent=True,
        )
        return self._connected().create(self._inner(staged), options)

    def _make_directories(self, inner: str) -> None:
        self._connected().mkdirs(inner, _DIRECTORY_MODE & ~self._umask, True)

    def _status(self, action: str, path: str) -> Any:
        """Return the status of a path from the name node; None where nothing exists."""
        try:
            return self._call(action, path, lambda: self._connected().get_file_info(self._inner(path)))
        except FileNotFoundError:
            return None

    def _inner(self, path: str) -> str:
        if path != self._prefix and not path.startswith(f"{self._prefix}/"):
            raise StorageAccessError(f"{path} is not a path of this file system, whose paths begin with {self._prefix}")
        return path[len(self._prefix) :].rstrip("/") or "/"

    def _connected(self) -> "Client":
        client = self._client
        if client is None:
            native = load_extra("hdfs_native", needed_by=self._prefix)
            # Two threads may do this at the same time; either client will do.
            login = {} if self._login is None else self._login.arguments()
            client = self._client = native.Client(self._prefix, self._settings, self._conf_dir, **login)
        return client

    def forget_client(self) -> None:
        """Drop the client in a forked process: its threads run in the parent, and freeing it would wait for them."""
        if self._client is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._client))
            self._client = None

    def _call(self, action: str, path: str, operation: Callable[[], _T]) -> _T:
        try:
            return operation()
        except StorageAccessError:
            raise
        except FileNotFoundError as error:
            if str(error).startswith(NOT_A_FILE):
                raise translated(error, action, path, self._authority) from error
            raise _missing(path) from None
        except (OSError, RuntimeError) as error:
            raise translated(error, action, path, self._authority) from error


def _staged(path: str) -> str:
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name}.{uuid.uuid4()}.tmp"


def _directory_deleted(path: str) -> StorageAccessError:
    return StorageAccessError(f"Can't create {path}: its directory was deleted meanwhile.")


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _above(inner: str) -> str:
    return inner.rpartition("/")[0] or "/"


def _file_status(path: str, status: Any) -> FileStatus:
    name = status.path.rpartition("/")[2]
    return FileStatus(
        path=f"{path.rstrip('/')}/{name}",
        name=name,
        is_directory=status.isdir,
        size=status.length,
        modified_millis=status.modification_time,
    )


def _again(
    authority: str,
    settings: Mapping[str, str],
    conf_dir: str | None,
    login: HdfsLogin | None,
    umask: int,
    read_ahead: ReadAhead,
) -> HdfsFileIO:
    return HdfsFileIO(authority, settings, conf_dir, login=login, umask=umask, read_ahead=read_ahead)


_OPEN: "weakref.WeakSet[HdfsFileIO]" = weakref.WeakSet()


def _forget_clients() -> None:
    for file_io in list(_OPEN):
        file_io.forget_client()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_clients)
