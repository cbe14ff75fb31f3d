"""Data tokens of a Paimon REST server: options of the file system for the files of one table, valid for a time.

`GET …/tables/<table>/token` answers `{"token": {option: value}, "expiresAtMillis": …}`. The options of a token are
above those of the catalog; they have the names of Paimon (`s3.access-key`, `fs.s3.accessKeyId`) or of Hadoop. A token
is renewed an hour before it expires, or after half of its time if that is shorter. The readers and writers of a process
share the token of a table, and one of them renews it. An open file sends its next request with the newest token. Tokens
are in no message, log line or pickle: a process that gets a table asks for tokens itself. A process without the
catalog's secrets, such as an executor of Spark, gets the present token of one table (`files_with`).
Source: paimon-common's RESTTokenFileIO, version 1.4.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from interbed.catalog.client.errors import CatalogAccessError, CatalogUnavailableError
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.options import CatalogOptions
from interbed.catalog.client.rest.client import RestClient
from interbed.catalog.client.rest.http import FORBIDDEN, RestRefusedError, catalog_error
from interbed.storage.base.clock import Clock, now_millis
from interbed.storage.base.errors import CorruptFileError, InvalidOptionError, missing_extra
from interbed.storage.base.memory_cache import LruCache
from interbed.storage.io.api import FileIO, FileStatus, StoredEnd, VersionedFiles, WrappedFileIO, open_sized
from interbed.storage.io.cached.options import PREFIX as CACHE_PREFIX
from interbed.storage.io.cached.options import CacheOptions
from interbed.storage.io.parallel import delete_together
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

    def renewal_millis(self, now: int) -> int:
        """Return the time from which the token is renewed, if it was got now."""
        left = self.expires_millis - now
        return max(self.expires_millis - RENEWED_BEFORE_MILLIS, now + max(left // 2, 1))

    def to_json(self) -> Any:
        """Return the token as a server sends it, for a process that uses it in place of this one."""
        return {"token": dict(self.options), "expiresAtMillis": self.expires_millis}

    @staticmethod
    def from_json(value: Any, *, source: str) -> "DataToken":
        """Return the token of a response; raises CorruptFileError naming `source`, and not the content."""
        try:
            given = {str(k): str(v) for k, v in value["token"].items() if v is not None}
            return DataToken(options=given, expires_millis=int(value["expiresAtMillis"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptFileError(f"{source} has no valid token ({type(error).__name__}).") from None


class ValidTokens(Protocol):
    """Source of the present token of one table."""

    def valid(self) -> DataToken:
        """Return a token that has not expired; raises the errors of its source."""
        ...


class HandedToken:
    """The token of one table that another process has got, and that is not renewed here."""

    def __init__(self, token: DataToken, name: str, clock: Clock = now_millis) -> None:
        self._token = token
        self._name = name
        self._clock = clock

    def valid(self) -> DataToken:
        """Return the token. Raises CatalogAccessError after its end."""
        if self._clock() >= self._token.expires_millis:
            end = datetime.fromtimestamp(self._token.expires_millis / 1000, UTC)
            raise CatalogAccessError(
                f"The credentials of the files of '{self._name}' that this process was given expired at "
                f"{end:%Y-%m-%dT%H:%M:%SZ}. Run the statement again. For longer tasks give the catalog a token in a "
                "file that exists on the executors, too ('token.provider.path'): they renew the credentials by it."
            )
        return self._token


class TableTokens:
    """The tokens of one table, one after another. Thread-safe. `first` is a token that another process has got."""

    def __init__(
        self,
        fetch: Callable[[], DataToken],
        name: str,
        clock: Clock = now_millis,
        first: DataToken | None = None,
    ) -> None:
        self._fetch = fetch
        self._name = name
        self._clock = clock
        self._guard = threading.Lock()
        self._token: DataToken | None = None
        self._renewal_millis = 0
        if first is not None:
            self._take(first)

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
            self._take(renewed)
            return renewed

    def _take(self, token: DataToken) -> None:
        self._renewal_millis = token.renewal_millis(self._clock())
        self._token = token


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
            return TableTokens(partial(self.fetch, identifier), str(identifier), self._clock)

        with self._guard:
            tokens = self._tables.get((table_id, identifier), make)
        made = DataTokenFileIO(tokens, DataTokenOrigin(self._options, identifier, table_id, path))
        cache = CacheOptions.of(self._options.raw)
        return (made if cache is None else cached_files(made, cache)), location

    def are_refused(self, identifier: Identifier, path: str) -> bool:
        """Return whether the server refuses the user tokens of a table. Raises other errors of the catalog."""
        inner, _ = file_io_for(path, self._options.raw)
        if inner.scheme in _LOCAL_SCHEMES:
            return False
        try:
            self._client.table_token(identifier)
        except RestRefusedError as error:
            if error.status == FORBIDDEN:
                return True
            raise catalog_error(error) from error
        return False

    def fetch(self, identifier: Identifier) -> DataToken:
        """Return a new token of a table. Raises the errors of the catalog, CorruptFileError."""
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
    inner = _by_tokens(file_io)
    return None if inner is None else inner.origin


def token_of(file_io: FileIO) -> DataToken | None:
    """Return the present token of a file system; None for one without tokens. Raises the errors of the catalog."""
    inner = _by_tokens(file_io)
    return None if inner is None else inner.token


def _by_tokens(file_io: FileIO) -> "DataTokenFileIO | None":
    inner = file_io.inner if isinstance(file_io, WrappedFileIO) else file_io
    return inner if isinstance(inner, DataTokenFileIO) else None


def files_with(token: DataToken, origin: DataTokenOrigin) -> FileIO:
    """Return a file system with a token that another process has got.

    The token is renewed if the options of the origin can authenticate this process, as those of a token in a file do.
    """
    name = str(origin.identifier)
    tokens: ValidTokens = HandedToken(token, name)
    if origin.options.authenticates_by_file:
        tokens = TableTokens(partial(_renewed, origin), name, first=token)
    made = DataTokenFileIO(tokens, origin)
    cache = CacheOptions.of(origin.options.raw)
    return made if cache is None else cached_files(made, cache)


def _renewed(origin: DataTokenOrigin) -> DataToken:
    try:
        return _tokens_of(tuple(sorted(origin.options.raw.items()))).fetch(origin.identifier)
    except InvalidOptionError as error:
        # The file of the catalog's token is not on this machine: the given token serves to its end.
        raise CatalogUnavailableError(str(error)) from error


@lru_cache(maxsize=16)
def _tokens_of(options: tuple[tuple[str, str], ...]) -> DataTokens:
    # By use: it imports the catalog's settings, which import this module.
    from interbed.catalog.client.rest.settings import open_client

    return DataTokens(*open_client(CatalogOptions(dict(options))))


class DataTokenFileIO:
    """FileIO of one table whose requests have the options of the newest token. Threads may share it."""

    def __init__(self, tokens: ValidTokens, origin: DataTokenOrigin) -> None:
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
    def token(self) -> DataToken:
        """The present token. Raises the errors of the catalog."""
        return self._tokens.valid()

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
