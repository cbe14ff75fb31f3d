"""Publication of a table as an Iceberg table: metadata with its newest snapshot, its tags and its schemas.

`IcebergPublishing` is the commit listener that storage calls; see interbed.commit_listeners. A run does not depend on
earlier ones. It continues the published metadata, written by interbed or by Java, if they belong to the same history of
snapshots, also after a rollback; otherwise it writes them again. So the next run publishes whatever an earlier one
missed. Creating the new metadata file is the only step that readers see: the files that it names are written before it,
and files that it no longer names are deleted after it. Source: paimon-core's IcebergCommitCallback.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot as Published

from interbed.iceberg.publish.document import (
    InheritedIds,
    MetadataDocument,
    first_changed,
    iceberg_schema,
)
from interbed.iceberg.publish.history import PublishedHistory, PublishedState
from interbed.iceberg.publish.manifests import Manifests
from interbed.iceberg.publish.place import (
    FORMAT_VERSION,
    PUFFIN,
    RETIRE_PENDING,
    STORAGE,
    PublishedRetention,
    PublishPlace,
    PublishSettings,
    Storage,
    forgotten,
    index_file_of,
    kept,
    references,
    version_of,
)
from interbed.iceberg.publish.registration import (
    MetastoreRegistration,
    RestPublication,
    metastore_address,
    rest_properties,
)
from interbed.storage.base.errors import (
    CorruptFileError,
    InterbedError,
    InvalidOptionError,
    NotSupportedError,
    SnapshotNotFoundError,
)
from interbed.storage.io.api import FileIO
from interbed.storage.io.resolve import normalize_path
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.format import CommitSync
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.scan.live_files import LiveFiles

_log = logging.getLogger(__name__)
_MOST_ROUNDS = 8


_FORMAT = "parquet"


_PER_LEVEL = "file.format.per.level"


def publish(
    store: FileStore,
    clock: Callable[[], float] = time.time,
    *,
    place: PublishPlace | None = None,
    rounds_max: int = _MOST_ROUNDS,
) -> int | None:
    """Publish the newest snapshot of the table. Return its id, None for a table without one.

    The metadata are written to the place that the options of the table name, or to another `place`. If other writers
    commit meanwhile, their snapshots are published too, in at most `rounds_max` rounds. Raises NotSupportedError for
    features that Iceberg lacks, InvalidOptionError, StorageAccessError, and as reads do.
    """
    settings = PublishSettings.of(store.options)
    chosen = PublishPlace.of(store.location, settings.location) if place is None else place
    return _Publication(store, settings, chosen, clock).run(rounds_max)


def published_state(files: FileIO, place: PublishPlace) -> PublishedState:
    """Return the state that is published at a place. Raises StorageAccessError."""
    names = [status.name for status in files.list(place.directory)]
    versions = tuple(sorted(number for name in names if (number := version_of(name)) is not None))
    document, inherited = None, InheritedIds()
    if versions:
        try:
            content = files.read_bytes(place.version(versions[-1]))
        except FileNotFoundError:
            content = b""
        document, inherited = MetadataDocument.decode(content), InheritedIds.of(content)
    vectors = tuple(name for name in names if name.endswith(PUFFIN))
    return PublishedState(versions, vectors, document, inherited, RETIRE_PENDING in names)


class _Publication:
    def __init__(
        self, store: FileStore, settings: PublishSettings, place: PublishPlace, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._place = place
        self._files = store.file_io

    def run(self, rounds_max: int) -> int | None:
        """Publish the newest snapshot, again if another commit was faster."""
        newest = None
        for _ in range(rounds_max):
            # The versions first: the snapshot of a listed version was committed before.
            state = published_state(self._files, self._place)
            latest = self._store.snapshots.latest()
            if latest is None:
                self._clear(state)
                return None
            newest = latest.id
            if self._publish(latest, state) and self._store.snapshots.latest_id() == newest:
                return newest
        _log.info("Other writers commit to %s faster than it is published here; they publish it.", self._store.location)
        return newest

    def _publish(self, latest: Snapshot, state: PublishedState) -> bool:
        """Write the metadata of the snapshot. Return false if another run was faster."""
        now = int(self._clock() * 1000)
        history = PublishedHistory(self._store, self._settings, self._place, state, latest)
        document = self._retained(history.document(), now)
        path = self._place.version(latest.id)
        is_there = latest.id in state.versions
        if not (is_there and state.document is not None and document.is_same_as(state.document)):
            if self._store.options.commit_sync is CommitSync.FULL:
                self._files.sync(history.needed)
            content = document.encode(now)
            if is_there or not self._files.exclusive_create:
                self._files.overwrite(path, content)
            elif not self._files.create_exclusive(path, content):
                self._files.delete_quietly(history.written)
                return False
        self._point_to(latest.id)
        place = self._place.spelled_as(document.location)
        metadata = place.version(latest.id)
        if self._settings.storage is Storage.HIVE_CATALOG:
            MetastoreRegistration(self._store, self._settings, place).point_to(metadata, document.schema)
        elif self._settings.storage is Storage.REST_CATALOG:
            RestPublication(self._store, self._settings).publish(metadata, document)
        self._clean(state, document, latest.id, history)
        return True

    def _retained(self, document: MetadataDocument, now: int) -> MetadataDocument:
        tags = {tag.name: tag.snapshot for tag in TagManager(self._files, self._store.paths).all()}
        if MAIN_BRANCH in tags:
            _log.warning(
                "The tag '%s' of %s is not published: in Iceberg that is the name of the branch. Rename the tag.",
                MAIN_BRANCH,
                self._store.location,
            )
        retention = PublishedRetention.of(self._store.options)
        snapshots = kept(document.snapshots, set(self._store.snapshots.ids()), tags, retention, now)
        return replace(document, snapshots=tuple(snapshots), refs=references(snapshots, tags))

    def _point_to(self, number: int) -> None:
        text = str(number).encode()
        try:
            if self._files.read_bytes(self._place.hint).strip() == text:
                return
        except FileNotFoundError:
            pass
        self._files.overwrite(self._place.hint, text)

    def _clean(self, state: PublishedState, document: MetadataDocument, newest: int, history: PublishedHistory) -> None:
        """Delete files that nothing names any more: newer versions first, which readers would look for."""
        late = [number for number in state.versions if number > newest]
        self._files.delete_quietly(map(self._place.version, reversed(late)))
        before = () if state.document is None else state.document.snapshots
        # Everything is read before files are deleted: removed snapshots share manifests.
        unused: dict[str, None] = {}
        for removed, neighbours in forgotten(before, document.snapshots):
            unused.update(dict.fromkeys(self._unused(removed, neighbours, history)))
        # Metadata that another program wrote may name files elsewhere.
        below = f"{normalize_path(self._place.directory)}/"
        self._files.delete_quietly(
            path for path in map(normalize_path, unused) if path.startswith(below) and ".." not in path.split("/")
        )
        if history.is_rebuilt:
            self._sweep(state, document, newest, history.manifests)
        if self._settings.deletes_old:
            oldest = newest - self._settings.previous_max
            old = [number for number in state.versions if number < oldest]
            self._files.delete_quietly(map(self._place.version, old))
        if state.is_pending:
            self._files.delete_quietly([f"{self._place.directory}/{RETIRE_PENDING}"])

    def _unused(self, removed: Published, neighbours: Sequence[Published], history: PublishedHistory) -> list[str]:
        """Return the files that a removed snapshot names, and no neighbouring one; none if it cannot be read.

        Snapshots with a vector file are consecutive, as are those with its index file. Java names the index file itself
        if it has published in between.
        """
        manifests = history.manifests
        used = {manifest.manifest_path: manifest for one in neighbours for manifest in manifests.of(one)}
        try:
            named = [manifest for manifest in manifests.of(removed) if manifest.manifest_path not in used]
            vectors = _index_files(named, manifests)
        except (CorruptFileError, OSError):
            return []
        if vectors:
            vectors -= _index_files(used.values(), manifests)
        paths = [manifest.manifest_path for manifest in named]
        return [*paths, removed.manifest_list, *map(history.puffin_path, vectors)]

    def _sweep(self, state: PublishedState, document: MetadataDocument, newest: int, manifests: Manifests) -> None:
        """Delete Puffin files that the metadata do not name any more, after metadata that were not continued.

        Such metadata, as Java's, do not list the Puffin files. Files that another run has just written are of a newer
        snapshot, which was committed before they were written.
        """
        named = {file for one in document.snapshots for file in _index_files(manifests.of(one), manifests)}
        left = [name for name in state.vectors if index_file_of(name) not in named]
        if not left:
            return
        reader = LiveFiles(self._store)
        try:
            ids = self._store.snapshots.ids()
            if newest not in ids:
                return
            newer = [self._store.snapshots.read(number) for number in ids if number > newest]
            needed = {entry.file.file_name for one in newer for entry in reader.index_entries(one)}
        except (CorruptFileError, SnapshotNotFoundError, OSError):
            return
        unused = [name for name in left if index_file_of(name) not in needed]
        self._files.delete_quietly(f"{self._place.directory}/{name}" for name in unused)

    def _clear(self, state: PublishedState) -> None:
        """Delete the metadata of a table that has no snapshot any more."""
        if state.versions:
            self._files.delete(self._place.directory, recursive=True)


def _index_files(found: Iterable[ManifestFile], manifests: Manifests) -> set[str]:
    """Return the names of the index files of the vectors in manifests of deletes."""
    deletes = [manifest for manifest in found if manifest.content == ManifestContent.DELETES]
    return {index_file_of(entry.data_file.file_path) for one in deletes for entry in manifests.entries(one)}


class IcebergPublishing:
    """Commit listener that publishes tables (storage.meta.commit_listener.CommitListener)."""

    def check(self, schema: TableSchema, before: TableSchema | None) -> None:
        """Check that a table with these options and columns can be published.

        Raises InvalidOptionError for contradicting options, NotSupportedError for columns that Iceberg lacks, and for a
        change of a type that Iceberg's readers cannot read.
        """
        options = schema.core
        settings = PublishSettings.of(options)
        if before is None or _storage_of(before) is Storage.DISABLED or _files_of(before) != _files_of(schema):
            _check_formats(options)
            _check_vectors(options, settings)
            if settings.storage is Storage.HIVE_CATALOG:
                # Report a missing address now, instead of after each commit.
                metastore_address(settings, os.environ)
            elif settings.storage is Storage.REST_CATALOG:
                rest_properties(settings, os.environ)
        iceberg_schema(schema)
        if before is None or _storage_of(before) is Storage.DISABLED:
            return
        was = PublishSettings.of(before.core).format_version
        if was > settings.format_version:
            raise InvalidOptionError(
                f"Option '{FORMAT_VERSION}' is {was} and can't become {settings.format_version}: Iceberg tables never "
                "go back."
            )
        changed = first_changed(before.fields, schema.fields)
        if changed is not None:
            raise NotSupportedError(
                f"The column '{changed}' of a table that is published as an Iceberg table can't get that type, because "
                "Iceberg can't read the existing values with it; add another column, or end the publication "
                f"('{STORAGE}' = '{Storage.DISABLED}')."
            )

    def follow(self, store: FileStore) -> None:
        """Publish a commit or another change. Failures are logged and do not affect the commit; a later commit
        publishes again.
        """
        try:
            publish(store)
        except (InterbedError, OSError, ValueError, pa.ArrowException) as error:
            _log.warning(
                "The newest snapshot of %s is not published as Iceberg's yet; a later commit, or "
                "table.maintenance.publish_iceberg(), publishes it: %s",
                store.location,
                error,
            )

    def publish(self, store: FileStore) -> int | None:
        """Publish the newest snapshot. Return its id, None for a table without one. Raises as publication.publish
        does.
        """
        return publish(store)


PUBLISHING = IcebergPublishing()


def _storage_of(schema: TableSchema) -> Storage:
    return PublishSettings.of(schema.core).storage


def _files_of(schema: TableSchema) -> tuple[object, ...]:
    """Return the options that may contradict the publication; a table that Java created with such options keeps
    them.
    """
    options = schema.core
    formats = (options.file_format, tuple(options.by_level(_PER_LEVEL).values()))
    vectors = (options.deletion_vectors_enabled, options.deletion_vectors_bitmap64)
    return (*formats, *vectors, PublishSettings.of(options).format_version)


def _check_formats(options: CoreOptions) -> None:
    formats = [("file.format", options.file_format)]
    formats += [(_PER_LEVEL, name) for name in options.by_level(_PER_LEVEL).values()]
    for key, name in formats:
        if name.lower() != _FORMAT:
            raise InvalidOptionError(
                f"Options '{STORAGE}' and '{key}' = '{options.raw.get(key, name)}' contradict each other: Iceberg's "
                f"readers find columns by their ids, which {name} files lack. Set '{key}' = '{_FORMAT}'."
            )


def _check_vectors(options: CoreOptions, settings: PublishSettings) -> None:
    if not options.deletion_vectors_enabled:
        return
    if settings.format_version < 3:
        raise InvalidOptionError(
            f"Option '{STORAGE}' with 'deletion-vectors.enabled' = 'true' needs '{FORMAT_VERSION}' = '3': older "
            "versions of Iceberg's format have no deletion vectors."
        )
    if not options.deletion_vectors_bitmap64:
        raise InvalidOptionError(
            f"Option '{STORAGE}' with 'deletion-vectors.enabled' = 'true' needs 'deletion-vectors.bitmap64' = 'true': "
            "Iceberg's deletion vectors are of 64 bits."
        )
