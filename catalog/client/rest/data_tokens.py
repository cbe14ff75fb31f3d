"""Data tokens of a Paimon REST server: options of the file system for the files of one table, valid for a time.

`GET …/tables/<table>/token` answers `{"token": {option: value}, "expiresAtMillis": …}`. The options of a token are
above those of the catalog; they have the names of Paimon (`s3.access-key`, `fs.s3.accessKeyId`) or of Hadoop. A token
is renewed an hour before it expires, or after half of its time if that is shorter. The readers and writers of a process
share the token of a table, and one of them renews it. An open file sends its next request with the newest token. Tokens
are in no message, log line or pickle: a process that gets a table asks for tokens itself.
Source: paimon-common's RESTTokenFileIO, version 1.4.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from interbed.catalog.client.errors import CatalogUnavailableError
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.options import CatalogOptions
from interbed.catalog.client.rest.client import RestClient
from interbed.catalog.client.rest.refusal import RestRefusedError, catalog_error
from interbed.storage.base.clock import Clock, now_millis
from interbed.storage.base.errors import CorruptFileError, missing_extra
from interbed.storage.base.memory_cache import LruCache
from interbed.storage.io.api import FileIO, FileStatus, WrappedFileIO, open_sized
from interbed.storage.io.cached.options import PREFIX as CACHE_PREFIX
from interbed.storage.io.cached.options import CacheOptions
from interbed.storage.io.deleting import delete_together
from interbed.storage.io.prefetch.versions import StoredEnd, VersionedFiles
from interbed.storage.io.resolve import file_io_for

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

RENEWED_BEFORE_MILLIS = 3_600_000
"""Time before its expiration from which a token is renewed; Paimon's TOKEN_EXPIRATION_SAFE_TIME_MILLIS."""
_TOKENS_MAX = 1000
_PAUSE_MILLIS = 10_000
"""Time between two failed renewals of a token that is still valid."""
_LOCAL_SCHEMES = ("file", "hdfs")
"""File systems that take no keys, so that no token is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataToken:
    """Options of the file system for one table, secrets among them, and the end of their validity."""

    options: Mapping[str, str] = field(repr=False)
    expires_millis: int

    @staticmethod
    def from_json(value: Any, *, source: str) -> "DataToken":
        """Return the token of a response; raises CorruptFileError naming `source`, and not the content."""
        try:
            given = {str(k): str(v) for k, v in value["token"].items() if v is not None}
            return DataToken(options=given, expires_millis=int(value["expiresAtMillis"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptFileError(f"{source} has no valid token ({type(error).__name__}).") from None


class TableTokens:
    """The tokens of one table, one after another. Thread-safe."""

    def __init__(self, fetch: Callable[[], DataToken], name: str, clock: Clock = now_millis) -> None:
        self._fetch = fetch
        self._name = name
        self._clock = clock
        self._guard = threading.Lock()
        self._token: DataToken | None = None
        self._renewal_millis = 0

    def valid(self) -> DataToken:
        """Return the token, renewed if it is time.

        A token that is still valid is used if the server can't be reached. Raises the errors of the catalog.
        """
        token = self._token
        if token is not None and self._clock() < self._renewal_millis:
            return token
        with self._guard:
            token = self._token
            now = self._clock()
            if token is not None and now < self._renewal_millis:
                # Another thread has renewed it.
                return token
            try:
                renewed = self._fetch()
            except (CatalogUnavailableError, RestRefusedError) as error:
                if token is None or now >= token.expires_millis:
                    raise
                _log.warning("The data token of '%s' was not renewed, and is still valid: %s", self._name, error)
                self._renewal_millis = now + _PAUSE_MILLIS
                return token
            _log.debug("Got a data token of '%s', which expires at %d ms.", self._name, renewed.expires_millis)
            left = renewed.expires_millis - now
            self._renewal_millis = max(renewed.expires_millis - RENEWED_BEFORE_MILLIS, now + max(left // 2, 1))
            self._token = renewed
            return renewed


class DataTokens:
    """The tokens of the tables of one catalog, shared by all readers and writers in a process. Thread-safe."""

    def __init__(self, client: RestClient, options: CatalogOptions, clock: Clock = now_millis) -> None:
        self._client = client
        self._options = options
        self._clock = clock
        self._guard = threading.Lock()
        self._tables: LruCache[TableTokens] = LruCache(_TOKENS_MAX)

    def file_io(self, identifier: Identifier, table_id: str, path: str) -> tuple[FileIO, str]:
        """Return the file system of a table at the path, and its location in normal form."""
        inner, location = file_io_for(path, self._options.raw)
        if inner.scheme in _LOCAL_SCHEMES:
            return inner, location

        def make() -> TableTokens:
            return TableTokens(partial(self._fetch, identifier), str(identifier), self._clock)

        with self._guard:
            tokens = self._tables.get((table_id, identifier), make)
        made = DataTokenFileIO(tokens, DataTokenOrigin(self._options, identifier, table_id, path))
        cache = CacheOptions.of(self._options.raw)
        return (made if cache is None else cached_files(made, cache)), location

    def _fetch(self, identifier: Identifier) -> DataToken:
        try:
            answer = self._client.table_token(identifier)
        except RestRefusedError as error:
            raise catalog_error(error) from error
        return DataToken.from_json(answer, source=f"The answer of {self._client.uri} about '{identifier}'")


@dataclass(frozen=True, slots=True)
class DataTokenOrigin:
    """All that another process needs to get tokens for the files of a table: the catalog's options, and the table."""

    options: CatalogOptions
    identifier: Identifier
    table_id: str
    path: str


def file_io_of(origin: DataTokenOrigin) -> FileIO:
    """Return a file system with tokens that this process gets itself; the tables of a catalog share its connections."""
    tokens = _tokens_of(tuple(sorted(origin.options.raw.items())))
    return tokens.file_io(origin.identifier, origin.table_id, origin.path)[0]


def origin_of(file_io: FileIO) -> DataTokenOrigin | None:
    """Return the origin of the tokens of a file system; None for one without tokens."""
    inner = file_io.inner if isinstance(file_io, WrappedFileIO) else file_io
    return inner.origin if isinstance(inner, DataTokenFileIO) else None


@lru_cache(maxsize=16)
def _tokens_of(options: tuple[tuple[str, str], ...]) -> DataTokens:
    # By use: it imports the catalog's settings, which import this module.
    from interbed.catalog.client.rest.settings import open_client

    return DataTokens(*open_client(CatalogOptions(dict(options))))


class DataTokenFileIO:
    """FileIO of one table whose requests have the options of the newest token. Threads may share it."""

    def __init__(self, tokens: TableTokens, origin: DataTokenOrigin) -> None:
        # The cache, which is in front of this, has the versions of files that are independent of tokens.
        self._options = {k: v for k, v in origin.options.raw.items() if not k.startswith(CACHE_PREFIX)}
        inner, _ = file_io_for(origin.path, self._options)
        self.scheme = inner.scheme
        self.capabilities = inner.capabilities
        # Limits of prefetching; see `read_ahead_of`.
        self.read_ahead: Any = getattr(inner, "read_ahead", None)
        self.origin = origin
        self._tokens = tokens
        self._opened: tuple[DataToken, FileIO] | None = None

    def __repr__(self) -> str:
        return f"DataTokenFileIO({self.origin.path!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.origin,)

    @property
    def _inner(self) -> FileIO:
        token = self._tokens.valid()
        opened = self._opened
        if opened is None or opened[0] is not token:
            opened = token, file_io_for(self.origin.path, {**self._options, **token.options})[0]
            self._opened = opened
        return opened[1]

    @property
    def exclusive_create(self) -> bool:
        return self._inner.exclusive_create

    def read_bytes(self, path: str) -> bytes:
        return self._inner.read_bytes(path)

    def open_input(self, path: str) -> "pa.NativeFile":
        return self.open_sized(path, None)

    def open_sized(self, path: str, size: int | None) -> "pa.NativeFile":
        """Open a file whose later requests have the newest token."""
        # By use: planning needs no Arrow.
        from interbed.storage.io.prefetch.inputs import opened_by_end

        inner = self._inner
        return opened_by_end(self, path, size) if isinstance(inner, VersionedFiles) else open_sized(inner, path, size)

    def end_of(self, path: str, *, unless: str | None = None, size: int | None = None) -> StoredEnd | None:
        return self._versioned.end_of(path, unless=unless, size=size)

    def range_of(self, path: str, start: int, end: int) -> Any:
        return self._versioned.range_of(path, start, end)

    @property
    def _versioned(self) -> VersionedFiles:
        inner = self._inner
        if isinstance(inner, VersionedFiles):
            return inner
        raise missing_extra("obstore", needed_by=f"The cache of {self.origin.path}")

    def open_output(self, path: str) -> Any:
        return self._inner.open_output(path)

    def create_exclusive(self, path: str, content: bytes) -> bool:
        return self._inner.create_exclusive(path, content)

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        self._inner.overwrite(path, content, durable=durable)

    def sync(self, paths: Iterable[str]) -> None:
        self._inner.sync(paths)

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def size(self, path: str) -> int:
        return self._inner.size(path)

    def list(self, path: str) -> list[FileStatus]:
        return self._inner.list(path)

    def make_directories(self, path: str) -> None:
        self._inner.make_directories(path)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        return self._inner.delete(path, recursive=recursive)

    def delete_batch(self, paths: Sequence[str]) -> None:
        delete_together(self._inner, paths)

    def delete_quietly(self, paths: Iterable[str]) -> None:
        self._inner.delete_quietly(paths)

    def rename(self, source: str, target: str) -> bool:
        return self._inner.rename(source, target)


def _unpickled(origin: DataTokenOrigin) -> DataTokenFileIO:
    made = file_io_of(origin)
    inner = made.inner if isinstance(made, WrappedFileIO) else made
    assert isinstance(inner, DataTokenFileIO)
    return inner


def cached_files(files: DataTokenFileIO, options: CacheOptions) -> FileIO:
    """Return a cache on the local disk in front of the files."""
    from interbed.storage.io.cached.file_io import CachedFileIO

    return CachedFileIO(files, options)
