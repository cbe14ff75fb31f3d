"""Normal form of locations, and the FileIO of a path: local, HDFS by hdfs-native, obstore, pyarrow, or fsspec."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from interbed.storage.base.errors import (
    InterbedError,
    InvalidInputError,
    NotSupportedError,
    StorageAccessError,
    is_installed,
    missing_extra,
)
from interbed.storage.io.api import PREFIX as AHEAD
from interbed.storage.io.api import FileIO, ReadAhead
from interbed.storage.io.cached.options import ENABLED, CacheOptions
from interbed.storage.io.cached.options import PREFIX as CACHE
from interbed.storage.io.local import LocalFileIO
from interbed.storage.io.stores.settings import AZURE_SCHEMES, SCHEMES, store_settings

FileOpener = Callable[[str, Mapping[str, str]], tuple[FileIO, str]]
"""Opener of the file system of a location, with options; it returns the normal form of the location, too."""

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]*):(.*)$", re.DOTALL)
_SPELLINGS = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
"""Schemes that are other names of one file system."""
_HADOOPS = "s3a"
_STORE_OPTIONS = ("s3.", "fs.", "google.", "hadoop.", AHEAD, CACHE)
_ATOMIC_FSSPEC = frozenset({"memory"})
"""fsspec file systems whose mode `create` refuses an existing file in one step."""


def one_scheme(scheme: str) -> str:
    """Return the canonical scheme: for example `s3` for `s3a`, the scheme of Hadoop's client."""
    return _SPELLINGS.get(scheme, scheme)


def respelled(location: str, like: str) -> str:
    """Return a normal location with `s3a` for `s3` where the location `like` has it: Hadoop knows only that.

    Few programs know `s3n` and `gcs`, so these are not restored.
    """
    scheme, _, rest = location.partition("://")
    is_hadoops = like.partition("://")[0].lower() == _HADOOPS
    return f"{_HADOOPS}://{rest}" if is_hadoops and scheme == one_scheme(_HADOOPS) else location


def normalize_path(path: str) -> str:
    """Return the normal form of a location: `/x/y` for `file:/x/y`, `file:///x/y/` and relative paths, s3 for s3a.

    Nothing is percent-decoded: Hive's locations aren't encoded, and partition directories hold literal `%` escapes.
    """
    match = _SCHEME.match(path)
    if match is None:
        if not path:
            raise InvalidInputError("A path can't be empty.")
        return os.path.abspath(path)
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        # file://host/x names a host, which can only be this one.
        if rest.startswith("//"):
            rest = "/" + rest[2:].partition("/")[2]
        return os.path.abspath("/" + rest.lstrip("/"))
    if not rest.startswith("//") or not rest.strip("/"):
        # The part before an @ may be a key.
        shown = f"{scheme}:{rest.rpartition('@')[2]}"
        raise InvalidInputError(f"{shown!r} is not a location; write it as {scheme}://bucket-or-host/path.")
    normal = f"{one_scheme(scheme)}:{rest.rstrip('/')}"
    _check_authority(normal)
    if ".." in normal and ".." in normal.split("/"):
        # Object stores have no such directory, and HDFS and others follow it to the parent.
        raise InvalidInputError(f"The location {normal} leads to a directory above by '..': write it without.")
    return normal


def _check_authority(location: str) -> None:
    """Raise InvalidInputError for a location in an object store without a bucket or container, or with keys in it."""
    scheme, _, rest = location.partition("://")
    if scheme not in SCHEMES:
        return
    authority, _, path = rest.partition("/")
    before, at, host = authority.rpartition("@")
    if scheme in AZURE_SCHEMES:
        kind, name, form = (
            "container",
            before if at else host,
            f"{scheme}://container@account.dfs.core.windows.net/path",
        )
        has_keys = ":" in before or "@" in before
    else:
        kind, name, form = "bucket", host, f"{scheme}://bucket/path"
        # A key of AWS may have a `/`.
        has_keys = bool(at) or (":" in authority and "@" in path)
    if has_keys:
        raise InvalidInputError(
            f"The location {scheme}://…@{rest.rpartition('@')[2]} has a user or a key in it, which others would see: "
            f"write it as {form}, and give keys as options of the catalog (docs/stores.md)."
        )
    if not name:
        raise InvalidInputError(f"{location} names no {kind}; write it as {form}.")


def check_exclusive(
    file_io: FileIO, path: str, way: str = "A catalog with metastore=hive and lock.enabled=true has one."
) -> None:
    """Raise NotSupportedError where a caller without a lock can't create the file exclusively.

    `way` is a sentence on how to get a lock.
    """
    if file_io.exclusive_create:
        return
    why = f"The store of {path} can't create a file exclusively, so what changes a table needs a catalog lock"
    if file_io.scheme in SCHEMES and not is_installed("obstore"):
        why = f"{why}; or install a client that can: pip install 'interbed[stores]'"
    raise NotSupportedError(f"{why}. {way}")


def scheme_of(location: str) -> str:
    """Return the scheme of a location as normalize_path gives it: that of its FileIO, `file` for a local path."""
    return location.partition("://")[0] if "://" in location else "file"


def same_file_system(left: str, right: str) -> bool:
    """Return whether two normal locations have one scheme and one bucket, container or host; one without a host is on
    that of the other.
    """
    one, other = (path.partition("://")[2].partition("/")[0] for path in (left, right))
    return scheme_of(left) == scheme_of(right) and (one == other or not (one and other))


def local_path(location: str) -> str | None:
    """Return the path of a location in the local file system; None for other file systems and invalid locations."""
    try:
        path = normalize_path(location)
    except InvalidInputError:
        return None
    return None if "://" in path else path


def file_io_for(path: str, options: Mapping[str, str] | None = None) -> tuple[FileIO, str]:
    """Return the FileIO for a path or URI, and the normal form of the path.

    `options` may hold those of ReadAhead, CacheOptions and, by Paimon's and Hadoop's names, store_settings; for HDFS
    `hadoop-conf-dir` and Hadoop's own settings (hdfs.settings). Raises InvalidInputError for an unknown scheme or a
    wrong option, MissingExtraError for one that only obstore can do where it is not installed, StorageAccessError when
    the store refuses.
    """
    normal = normalize_path(path)
    # Wrong options are refused for every file system.
    ReadAhead.of(options or {})
    CacheOptions.of(options or {})
    scheme = scheme_of(normal)
    if scheme == "file":
        return _LOCAL, normal
    if scheme == "hdfs":
        return _hdfs(normal, options or {}), normal
    store_options = tuple(sorted((k, v) for k, v in (options or {}).items() if k.startswith(_STORE_OPTIONS)))
    authority = normal.partition("://")[2].partition("/")[0]
    return _remote(scheme, authority, store_options), normal


@lru_cache(maxsize=64)
def _remote(scheme: str, authority: str, options: tuple[tuple[str, str], ...]) -> FileIO:
    cache = CacheOptions.of(dict(options))
    if scheme in SCHEMES and is_installed("obstore"):
        from interbed.storage.io.stores.file_io import ObjectStoreFileIO

        store = ObjectStoreFileIO.of(
            scheme, authority, dict(options), _MarkerSweep(options) if scheme == "s3" else None
        )
        if cache is None:
            return store
        from interbed.storage.io.cached.file_io import CachedFileIO

        return CachedFileIO(store, cache)
    import pyarrow as pa
    from pyarrow import fs as pafs

    from interbed.storage.io.pyarrow_files import PyarrowFileIO

    try:
        ahead = ReadAhead.of(dict(options))
        if scheme in SCHEMES:
            return _through_pyarrow(scheme, authority, dict(options), ahead)
        if scheme == "viewfs":
            filesystem, _ = pafs.FileSystem.from_uri(f"{scheme}://{authority}/")
            return PyarrowFileIO(filesystem, scheme=scheme, read_ahead=ahead)
        return _through_fsspec(scheme, ahead)
    except InterbedError:
        raise
    except (OSError, ImportError, ValueError, pa.ArrowException) as error:
        raise StorageAccessError(f"Can't open the store {scheme}://{authority}: {error}") from error


def _through_pyarrow(scheme: str, authority: str, options: dict[str, str], read_ahead: ReadAhead) -> FileIO:
    from interbed.storage.io.pyarrow_files import PyarrowFileIO, pyarrow_store

    settings = store_settings(scheme, authority, options)
    if CacheOptions.of(options) is not None:
        raise missing_extra("obstore", needed_by=f"What the option '{ENABLED}' says of {settings.location}")
    return PyarrowFileIO(
        pyarrow_store(settings), scheme=scheme, authority=authority, bucket=settings.bucket, read_ahead=read_ahead
    )


def _hdfs(location: str, options: Mapping[str, str]) -> FileIO:
    from interbed.storage.io.hdfs.settings import VARIABLES, is_hdfs_option

    authority = location.partition("://")[2].partition("/")[0]
    given = tuple(sorted((k, v) for k, v in options.items() if is_hdfs_option(k) or k.startswith(AHEAD)))
    return _hdfs_of(authority, given, tuple(os.environ.get(name) for name in VARIABLES))


@lru_cache(maxsize=64)
def _hdfs_of(authority: str, options: tuple[tuple[str, str], ...], variables: tuple[str | None, ...]) -> FileIO:
    """Return the client of one HDFS. `variables` are those of the environment that it depends on."""
    from interbed.storage.io.hdfs.settings import HdfsLogin, client_settings, configuration_directory, umask_of

    login = HdfsLogin.of(dict(options))
    if not is_installed("hdfs_native"):
        return _hdfs_through_java(authority, ReadAhead.of(dict(options)))
    from interbed.storage.io.hdfs.store import HdfsFileIO

    conf_dir = configuration_directory(dict(options))
    settings = client_settings(dict(options), conf_dir)
    ahead = ReadAhead.of(dict(options))
    umask = umask_of(settings, conf_dir)
    return HdfsFileIO(authority, settings, conf_dir, login=login, umask=umask, read_ahead=ahead)


def _hdfs_through_java(authority: str, read_ahead: ReadAhead) -> FileIO:
    """Return the FileIO over Hadoop's client in a JVM, if libhdfs is found; it can't create files exclusively."""
    import pyarrow as pa
    from pyarrow import fs as pafs

    from interbed.storage.io.pyarrow_files import PyarrowFileIO

    try:
        filesystem, _ = pafs.FileSystem.from_uri(f"hdfs://{authority}/")
    except (OSError, pa.ArrowException) as error:
        if "libhdfs" in str(error) or "libjvm" in str(error):
            raise missing_extra("hdfs_native", needed_by=f"hdfs://{authority}") from None
        raise StorageAccessError(f"Can't open the store hdfs://{authority}: {error}") from error
    return PyarrowFileIO(filesystem, scheme="hdfs", authority=authority, read_ahead=read_ahead)


@dataclass(frozen=True, slots=True)
class _MarkerSweep:
    """Deletion of a directory by pyarrow, which can name objects whose keys end with `/`."""

    options: tuple[tuple[str, str], ...] = field(repr=False)

    def __call__(self, directory: str) -> None:
        from interbed.storage.io.pyarrow_files import pyarrow_s3

        settings = store_settings("s3", directory.partition("/")[0], dict(self.options))
        keys = {} if settings.credentials is None else settings.credentials()
        pyarrow_s3(settings, keys).delete_dir(directory)


def _through_fsspec(scheme: str, read_ahead: ReadAhead) -> FileIO:
    # By use: it loads asyncio and ssl, and most tables are read without it.
    import fsspec
    from pyarrow import fs as pafs

    from interbed.storage.io.pyarrow_files import PyarrowFileIO

    try:
        filesystem = fsspec.filesystem(scheme)
    except ValueError:
        raise InvalidInputError(
            f"No file system is known for '{scheme}:' paths. Use a local path, s3://, gs://, hdfs://, or install the "
            "fsspec package for it."
        ) from None
    return PyarrowFileIO(
        # The stubs declare the handler as an abstract class, which it is not.
        pafs.PyFileSystem(pafs.FSSpecHandler(filesystem)),  # type: ignore[abstract]
        scheme=scheme,
        fsspec=filesystem,
        exclusive_create=scheme in _ATOMIC_FSSPEC,
        read_ahead=read_ahead,
    )


_LOCAL = LocalFileIO()
