"""Iceberg metadata of any table in Paimon's format, for a catalog server, when a client requests them.

The metadata of a table that is published are read at its place. Those of any other table are made for its newest
snapshot, by the code of publications:

<table>/.iceberg/…         by default; programs that look for a table in a directory do not find it there
<root>/<table UUID>/…      with a root, for warehouses that the server cannot write to

They are made once for a snapshot: other requests for the table wait meanwhile, and later ones find them in the cache or
in the files. A table without snapshots has no files.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from interbed.iceberg.meta.table_metadata import IDENTITY
from interbed.iceberg.publish.document import MetadataDocument, iceberg_schema, partition_spec
from interbed.iceberg.publish.place import (
    FORMAT_VERSION,
    MANIFEST_COMPRESSION,
    STORAGE,
    PublishPlace,
    PublishSettings,
    Storage,
    identity_of,
    shows_vectors,
    version_of,
)
from interbed.iceberg.publish.publication import PUBLISHING, publish, published_state
from interbed.storage.base.errors import FileGoneError
from interbed.storage.base.memory_cache import MemoryCache
from interbed.storage.io.resolve import normalize_path
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.snapshot.tag import TagManager

FOLDER = ".iceberg"
"""The directory below a table with metadata that were made on request."""

VISIBLE_ROWS = "interbed.visible-rows"
"""Property of served metadata: `all`, or `compacted` if readers see the rows as of the last full compactions."""

TABLE_FORMAT = "interbed.table-format"
"""Property of served metadata: the format of the table, `paimon`."""

CACHE_BYTES = 64 << 20
RUNS_MAX = 8
"""Requests at once that make metadata or wait for them."""
WAIT_SECONDS_MAX = 20.0

_LOCKS = 64
_READS_MAX = 5
_VECTORS = "deletion-vectors.bitmap64"


class MetadataNotMadeError(Exception):
    """The files of metadata cannot be written: the table is as before. The server answers with it."""


class MetadataBusyError(Exception):
    """Too many requests make metadata, or those of the table take long: nothing was changed, and the request may be
    repeated. The server answers with it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedMetadata:
    """Metadata of a table: the JSON for clients, and the location of the file, None for a table without snapshots.

    `snapshot` is the id of the current snapshot and the identity of its commit.
    """

    location: str | None
    content: bytes
    snapshot: tuple[int, str] | None = None

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes."""
        return len(self.content)


class MetadataOnRequest:
    """The Iceberg metadata of tables. Safe for many threads."""

    def __init__(
        self,
        root: str | None = None,
        *,
        runs_max: int = RUNS_MAX,
        wait_seconds: float = WAIT_SECONDS_MAX,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make metadata below a `root`, in the file system of the tables; below the tables without one."""
        self._root = None if root is None else normalize_path(root)
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._cache = MemoryCache()
        self._runs = threading.BoundedSemaphore(runs_max)
        self._locks = tuple(threading.Lock() for _ in range(_LOCKS))

    def of(self, store: FileStore, table_uuid: str) -> ServedMetadata:
        """Return the metadata of a table, which clients shall know by that UUID.

        Raises NotSupportedError for a table that Iceberg cannot represent, InvalidOptionError, MetadataNotMadeError,
        MetadataBusyError, and as reads do.
        """
        settings = PublishSettings.of(store.options)
        if settings.storage is not Storage.DISABLED:
            place = PublishPlace.of(store.location, settings.location)
            found = _newest_file(store, place, table_uuid)
            if found is not None:
                return found
        latest = store.newest_snapshot()
        if latest is None:
            return _without_snapshots(store, table_uuid)
        key = self._key(store, latest, table_uuid)
        for _ in range(_READS_MAX):
            made = self._cache.get(key, lambda: self._made(store, table_uuid), limit=CACHE_BYTES)
            if made.snapshot != (latest.id, identity_of(latest)):
                # Another commit came in between. Its metadata are not those of this key.
                self._cache.discard(key)
                return made
            if made.location is not None and store.file_io.exists(made.location):
                return made
            self._cache.discard(key)
        raise _deleted(store)

    def _key(self, store: FileStore, latest: Snapshot, table_uuid: str) -> object:
        """Return what the metadata depend on: the snapshots, the tags and the schema of the table."""
        names = TagManager(store.file_io, store.paths).names()
        return (
            *(store.location, table_uuid, latest.id, identity_of(latest), store.snapshots.earliest_id()),
            *((store.schemas.latest() or store.schema).id, *names),
        )

    @contextmanager
    def _alone(self, store: FileStore) -> Iterator[None]:
        """Hold the lock of a table, one of a few requests that do. MetadataBusyError if it takes too long."""
        busy = MetadataBusyError(
            f"Iceberg metadata of {store.location} are not made yet, because the server makes others; repeat the "
            "request."
        )
        if not self._runs.acquire(blocking=False):
            raise busy
        try:
            lock = self._locks[hash(store.location) % _LOCKS]
            if not lock.acquire(timeout=self._wait_seconds):
                raise busy
            try:
                yield
            finally:
                lock.release()
        finally:
            self._runs.release()

    def _made(self, store: FileStore, table_uuid: str) -> ServedMetadata:
        with self._alone(store):
            return self._published(store, table_uuid)

    def _published(self, store: FileStore, table_uuid: str) -> ServedMetadata:
        directory = f"{store.location}/{FOLDER}" if self._root is None else f"{self._root}/{table_uuid}"
        place = PublishPlace(directory)
        try:
            state = published_state(store.file_io, place)
            least = 2 if state.document is None else state.document.format_version
            as_published = _as_published(store, least)
            PUBLISHING.check(replace(as_published.schema, options=as_published.options.raw), None)
            publish(as_published, self._clock, place=place, rounds_max=2)
        except OSError as error:
            raise MetadataNotMadeError(
                f"Iceberg metadata cannot be made in {directory}: {error} Give the server write access there, set its "
                f"iceberg_metadata_root, or have the writers of the table publish it: '{STORAGE}' = "
                f"'{Storage.TABLE_LOCATION}'."
            ) from error
        found = _newest_file(as_published, place, table_uuid)
        if found is None:
            raise _deleted(store)
        return found


def _deleted(store: FileStore) -> FileGoneError:
    return FileGoneError(f"Iceberg metadata of {store.location} were deleted while they were read; try again.")


def _as_published(store: FileStore, least_version: int) -> FileStore:
    """Return the table with options by which it would be published, in a version of the format that its features need
    and that is not less than `least_version`.
    """
    options = store.options
    needed = 3 if options.deletion_vectors_enabled else 2
    version = max(least_version, needed, options.integer(FORMAT_VERSION, 2))
    further = {
        STORAGE: str(Storage.TABLE_LOCATION),
        FORMAT_VERSION: str(version),
        # Readers of Iceberg get the vectors in Puffin files of 64 bits, whatever the table writes.
        _VECTORS: "true",
        # All readers know this codec without further libraries.
        MANIFEST_COMPRESSION: "deflate",
    }
    return replace(
        store,
        options=CoreOptions({**options.raw, **further}),
        dynamic_options={**store.dynamic_options, **further},
    )


def _newest_file(store: FileStore, place: PublishPlace, table_uuid: str) -> ServedMetadata | None:
    """Return the newest metadata file of a place, None if there is none."""
    for _ in range(_READS_MAX):
        names = [status.name for status in store.file_io.list(place.directory)]
        newest = max((number for name in names if (number := version_of(name)) is not None), default=None)
        if newest is None:
            return None
        try:
            content = store.file_io.read_bytes(place.version(newest))
        except FileNotFoundError:
            # The next version has replaced it.
            continue
        document = json.loads(content)
        location = place.spelled_as(document["location"]).version(newest)
        return ServedMetadata(
            location=location, content=_for_clients(store, document, table_uuid), snapshot=_current(document)
        )
    return None


def _current(document: Mapping[str, Any]) -> tuple[int, str] | None:
    for snapshot in document.get("snapshots", ()):
        if snapshot["snapshot-id"] == document.get("current-snapshot-id"):
            return snapshot["snapshot-id"], snapshot.get("summary", {}).get(IDENTITY, "")
    return None


def _without_snapshots(store: FileStore, table_uuid: str) -> ServedMetadata:
    schema = store.schemas.latest() or store.schema
    as_published = _as_published(store, 2)
    PUBLISHING.check(replace(as_published.schema, options=as_published.options.raw), None)
    settings = PublishSettings.of(as_published.options)
    document = MetadataDocument(
        format_version=settings.format_version,
        table_uuid=table_uuid,
        location=store.told_location,
        last_column_id=schema.highest_field_id,
        schemas=(iceberg_schema(schema),),
        current_schema_id=schema.id,
        spec=partition_spec(schema),
        snapshots=(),
        refs={},
        next_row_id=0 if settings.format_version == 3 else None,
    )
    content = json.loads(document.encode(schema.time_millis))
    return ServedMetadata(location=None, content=_for_clients(as_published, content, table_uuid))


def _for_clients(store: FileStore, document: Mapping[str, Any], table_uuid: str) -> bytes:
    """Return a document with the UUID by which clients know the table, and with properties that describe it."""
    schema = store.schema
    shows_all = not schema.has_primary_key or shows_vectors(store.options)
    properties = {
        **document.get("properties", {}),
        TABLE_FORMAT: "paimon",
        VISIBLE_ROWS: "all" if shows_all else "compacted",
    }
    if schema.comment:
        properties.setdefault("comment", schema.comment)
    return json.dumps({**document, "table-uuid": table_uuid, "properties": properties}).encode()
