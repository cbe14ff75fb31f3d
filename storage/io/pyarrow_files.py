"""Object stores and other remote file systems, through pyarrow.fs or an fsspec file system.

Paths are URIs (`s3://bucket/lake`); the file system behind sees them without the scheme. Few of these stores can create
a file only if it is absent; `exclusive_create` says whether this one can. Where it can't, create_exclusive checks and
then writes, and a commit must hold a catalog lock around it.

pyarrow opens an object store where obstore is not installed, or cannot name it. Options are read as for obstore. Those
that pyarrow's clients do not support are refused by name.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs as pafs

from interbed.storage.base.errors import MissingExtraError, StorageAccessError, missing_extra
from interbed.storage.io.api import HDFS_CAPABILITIES, OBJECT_STORE_CAPABILITIES, FileStatus, ReadAhead
from interbed.storage.io.parallel import check_deletable, delete_one_by_one
from interbed.storage.io.prefetch.inputs import opened_by_ranges
from interbed.storage.io.stores.options import FixedKeys, StoreSettings

if TYPE_CHECKING:
    from pyarrow import fs as pafs

_DONE: Mapping[str, frozenset[str]] = {
    "S3Store": frozenset(
        (
            *("endpoint", "access", "secret", "token", "region", "path_style", "ssl", "provider", "conditional"),
            *("retries", "connect_seconds", "read_seconds"),
        )
    ),
    # Only a new bucket needs a project, and none is created here.
    "GCSStore": frozenset(("auth", "endpoint", "project", "enabled")),
    "AzureStore": frozenset(
        ("endpoint", "account", "key", "sas", "auth", "client", "secret", "authority", "tenant", "provider")
    ),
}
"""Options that pyarrow's clients support, by the name of obstore's class."""

_LOGIN = "https://login.microsoftonline.com"
_KEY_VARIABLES = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY")
_SIGNATURE_VARIABLES = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")


def pyarrow_store(settings: StoreSettings) -> "pafs.FileSystem":
    """Return the file system of an object store, whose paths begin with the bucket or container.

    Raises MissingExtraError naming the option that only obstore can do; pyarrow's own errors come through.
    """
    for what, name in settings.given.items():
        if what not in _DONE[settings.kind]:
            raise _beyond(settings, name)
    if settings.kind == "S3Store":
        return _s3_store(settings)
    return _google_store(settings) if settings.kind == "GCSStore" else _azure_store(settings)


def pyarrow_s3(settings: StoreSettings, keys: Mapping[str, Any]) -> "pafs.FileSystem":
    """Return pyarrow's client of a bucket that obstore opens, with obstore's keys and pyarrow's own limits."""
    from pyarrow import fs as pafs

    return pafs.S3FileSystem(**_s3_arguments(settings, keys))


def _beyond(settings: StoreSettings, name: str) -> MissingExtraError:
    return missing_extra("obstore", needed_by=f"What the option '{name}' says of {settings.location}")


def _s3_arguments(settings: StoreSettings, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for endpoint and credentials; without keys pyarrow looks for some."""
    found: dict[str, Any] = {
        "access_key": keys.get("access_key_id"),
        "secret_key": keys.get("secret_access_key"),
        "session_token": keys.get("token"),
        "region": settings.config.get("region"),
        "anonymous": settings.config.get("skip_signature"),
    }
    if settings.endpoint is not None:
        found["scheme"], _, found["endpoint_override"] = settings.endpoint.partition("://")
        found["force_virtual_addressing"] = settings.config["virtual_hosted_style_request"] or None
    return {name: value for name, value in found.items() if value is not None}


def _s3_store(settings: StoreSettings) -> "pafs.FileSystem":
    from pyarrow import fs as pafs

    given, limits = settings.given, settings.limits
    if settings.endpoint is None and "path_style" in given and not settings.config["virtual_hosted_style_request"]:
        # pyarrow always addresses AWS's buckets by host.
        raise _beyond(settings, given["path_style"])
    if "conditional" in given and settings.honours_conditions:
        raise _beyond(settings, given["conditional"])
    keys = settings.credentials() if isinstance(settings.credentials, FixedKeys) else {}
    arguments = _s3_arguments(settings, keys)
    if "retries" in given:
        arguments["retry_strategy"] = pafs.AwsStandardS3RetryStrategy(max_attempts=limits.retries + 1)
    if "connect_seconds" in given:
        arguments["connect_timeout"] = limits.connect_seconds
    if "read_seconds" in given:
        arguments["request_timeout"] = limits.read_seconds
    return pafs.S3FileSystem(**arguments)


def _google_store(settings: StoreSettings) -> "pafs.FileSystem":
    from pyarrow import fs as pafs

    arguments: dict[str, Any] = {"retry_time_limit": timedelta(seconds=settings.limits.retry_seconds)}
    if settings.endpoint is not None:
        arguments["scheme"], _, arguments["endpoint_override"] = settings.endpoint.partition("://")
    return pafs.GcsFileSystem(anonymous=bool(settings.config.get("skip_signature")), **arguments)


def _azure_store(settings: StoreSettings) -> "pafs.FileSystem":
    if sys.platform == "win32":
        raise missing_extra("obstore", needed_by=settings.location)
    from pyarrow import fs as pafs

    config, given = settings.config, settings.given
    secret = config.get("client_secret")
    if config.get("authority_host") not in (None, _LOGIN):
        raise _beyond(settings, given["authority"])
    if secret is None and "tenant" in given:
        raise _beyond(settings, given["tenant"])
    key, signature, client = config.get("account_key"), config.get("sas_key"), config.get("client_id")
    if not (key or signature or client or "auth" in given):
        key = _variable(_KEY_VARIABLES)
        signature = None if key else (_variable(_SIGNATURE_VARIABLES) or "").lstrip("?") or None
    arguments: dict[str, Any] = {
        "account_key": key,
        "sas_token": signature,
        "client_id": client,
        "client_secret": secret,
        "tenant_id": None if secret is None else config.get("tenant_id") or os.environ.get("AZURE_TENANT_ID"),
        **_azure_addresses(settings),
    }
    return pafs.AzureFileSystem(config["account_name"], **{k: v for k, v in arguments.items() if v is not None})


def _azure_addresses(settings: StoreSettings) -> dict[str, str]:
    """Return the addresses of blobs and of files; pyarrow adds the account to their host or path."""
    if settings.endpoint is None:
        return {}
    account, parts = settings.config["account_name"], urlsplit(settings.endpoint)
    path = parts.path.strip("/")
    if path == account:
        blobs = parts.netloc
    elif not path and parts.netloc.startswith(f"{account}."):
        blobs = parts.netloc.removeprefix(account)
    else:
        raise missing_extra("obstore", needed_by=f"{settings.location} at {settings.endpoint}")
    files = blobs.replace(".blob.", ".dfs.", 1)
    return {
        "blob_storage_authority": blobs,
        "blob_storage_scheme": parts.scheme,
        "dfs_storage_authority": files,
        "dfs_storage_scheme": parts.scheme,
    }


def _variable(names: tuple[str, ...]) -> str | None:
    return next(filter(None, map(os.environ.get, names)), None)


_T = TypeVar("_T")


class PyarrowFileIO:
    """FileIO over a pyarrow file system. Its paths are URIs with the `bucket` instead of the scheme and `authority`.

    `fsspec` is the fsspec file system behind `filesystem`, if there is one; it creates files exclusively.
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
        self.capabilities = HDFS_CAPABILITIES if scheme in _HADOOP_SCHEMES else OBJECT_STORE_CAPABILITIES
        self.exclusive_create = exclusive_create
        self._filesystem = filesystem
        self._fsspec = fsspec
        self.read_ahead = read_ahead or ReadAhead()
        self._prefix = f"{scheme}://{authority}"
        self._bucket = bucket

    def read_bytes(self, path: str) -> bytes:
        """Return the whole content; raises FileNotFoundError."""

        def read() -> bytes:
            with self._filesystem.open_input_stream(self._inner(path), compression=None) as stream:
                return stream.read()

        return self._call("read", path, read)

    def open_input(self, path: str) -> pa.NativeFile:
        """Return a seekable input; raises FileNotFoundError."""
        return self.open_sized(path, None)

    def open_sized(self, path: str, size: int | None) -> pa.NativeFile:
        """Open the file like SizedOpening, with the size that the file system reports."""
        source: Any = self._call("open", path, lambda: self._filesystem.open_input_file(self._inner(path)))

        def fetch(start: int, end: int) -> bytes:
            # Several threads may read an Arrow file at once.
            return self._call("read", path, lambda: bytes(source.read_at(end - start, start)))

        length = self._call("open", path, source.size)
        return opened_by_ranges(fetch, length, self.read_ahead)

    def open_output(self, path: str) -> pa.NativeFile:
        """Return a writable output; parents are created where the file system has directories."""

        def open_stream() -> pa.NativeFile:
            inner = self._inner(path)
            self._make_parent(inner)
            return self._filesystem.open_output_stream(inner, compression=None)

        return self._call("create", path, open_stream)

    def create_exclusive(self, path: str, content: bytes) -> bool:
        """Create the file; return False when it exists. Atomic only with `exclusive_create`."""
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
        """Replace the content of the file; `durable` makes no difference."""
        self._call("write", path, lambda: self._write(self._inner(path), content))

    def sync(self, paths: Iterable[str]) -> None:
        """Do nothing: every change is durable on return."""

    def exists(self, path: str) -> bool:
        """Return whether the file or directory exists."""
        return self._call("look up", path, lambda: self._kind(self._inner(path)) is not pafs.FileType.NotFound)

    def size(self, path: str) -> int:
        """Return the size of the file in bytes; raises FileNotFoundError."""

        def size() -> int:
            info = self._filesystem.get_file_info(self._inner(path))
            if info.type is not pafs.FileType.File:
                raise FileNotFoundError(path)
            return int(info.size)

        return self._call("look up", path, size)

    def list(self, path: str) -> list[FileStatus]:
        """Return the direct entries of the directory, in no order; none where it does not exist."""

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
        """Delete a file, or a directory with `recursive`; return False when there was none."""
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
            # Some fsspec file systems refuse a directory that is not empty; others may do nothing.
            with suppress(FileNotFoundError):
                self._fsspec.rmdir(inner)
            if self._kind(inner) is pafs.FileType.NotFound:
                return
        # Arrow's file systems never refuse: files that are created meanwhile are deleted, too.
        self._filesystem.delete_dir(inner)

    def delete_quietly(self, paths: Iterable[str]) -> None:
        """Delete files that may or may not exist; failures are logged, never raised."""
        delete_one_by_one(self.delete, paths)

    def rename(self, source: str, target: str) -> bool:
        """Move a file or directory; return False when the target exists or the source does not. Rarely atomic."""

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
        # Object stores have no directories; the others (HDFS, SFTP, memory) refuse files without a parent.
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


_HADOOP_SCHEMES = frozenset({"hdfs", "viewfs"})
_FLAT_SCHEMES = frozenset({"s3", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "oss"})
