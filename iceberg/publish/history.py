"""The history of a table's snapshots as Iceberg's: published snapshots are kept, and newer ones are appended.

If that is not possible, all live files of the newest snapshot become one snapshot of Iceberg's, the only one.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.manifest import ManifestEntry as IcebergEntry
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.snapshots import Snapshot as Published
from pyiceberg.typedef import Record

from interbed.iceberg.meta.live_files import live_file
from interbed.iceberg.meta.table_metadata import IDENTITY
from interbed.iceberg.publish.document import (
    InheritedIds,
    MetadataDocument,
    first_changed,
    iceberg_schema,
    partition_spec,
    same_columns,
)
from interbed.iceberg.publish.entries import (
    TOTALS,
    FileChanges,
    FileSchema,
    ShownLevels,
    Totals,
    VectorFiles,
    added_entry,
    changes_of,
    partition_record,
    summary_of,
)
from interbed.iceberg.publish.manifests import Manifests
from interbed.iceberg.publish.place import (
    FORMAT_VERSION,
    PublishPlace,
    PublishSettings,
    StoreIO,
    identity_of,
    is_of,
    shows_vectors,
)
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError, SnapshotNotFoundError
from interbed.storage.io.resolve import normalize_path, respelled
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import ManifestEntry
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot
from interbed.storage.scan.live_files import LiveFiles

_EXTERNAL = "data-file.external-paths"


@dataclass(frozen=True, slots=True)
class PublishedState:
    """The published state: the numbers of the versions, the Puffin files, and the content of the newest version."""

    versions: tuple[int, ...]
    vectors: tuple[str, ...]
    document: MetadataDocument | None
    inherited: InheritedIds
    is_pending: bool


class PublishedHistory:
    """The snapshots of the table up to the newest, as Iceberg's: those that are published already, and newer ones."""

    def __init__(
        self, store: FileStore, settings: PublishSettings, place: PublishPlace, state: PublishedState, latest: Snapshot
    ) -> None:
        self._store = store
        self._settings = settings
        self._state = state
        self._latest = latest
        # Another process may have changed the schema since the table was opened.
        self._table = store.schemas.latest() or store.schema
        self._spec = partition_spec(self._table)
        self._schema = iceberg_schema(self._table)
        base = state.document
        # The first publication chose the spelling of the location for its readers.
        by_first = base.location if base and normalize_path(base.location) == store.location else None
        self._location = by_first or store.told_location
        self._place = place.spelled_as(self._location)
        self._io = StoreIO(store.file_io)
        self.manifests = Manifests(self._io, self._place, settings, self._schema, self._spec)
        self._reader = LiveFiles(store)
        self._written_by: dict[int, FileSchema] = {}
        self._partitions: dict[bytes, Record] = {}
        self._external: tuple[int, dict[tuple[BucketId, str], str]] | None = None
        self._puffins = VectorFiles(
            store.file_io, index_path=store.index_path, puffin_path=self.puffin_path, partition=self._partition
        )
        self.is_rebuilt = False

    @property
    def written(self) -> list[str]:
        """The written files, whose names no other run uses."""
        return self._io.written

    @property
    def needed(self) -> list[str]:
        """All files that this run has written, or a killed run has left: they must be durable before metadata name
        them.
        """
        return [*self._io.written, *self._puffins.made]

    def puffin_path(self, index_file: str) -> str:
        """Return the path of the Puffin file of an index file."""
        return self._place.vectors(index_file, None if self._location == self._store.location else self._location)

    def document(self) -> MetadataDocument:
        """Return the content of the metadata, before snapshots expire."""
        base = self._base()
        self.is_rebuilt = base is None
        return self._rebuilt() if base is None else self._continued(*base)

    # -- continuing ------------------------------------------------------------------------------------------------

    def _base(self) -> tuple[MetadataDocument, list[Snapshot]] | None:
        """Return the published content up to the newest snapshot that is still of the table, and the snapshots after
        it.

        None if it must be rebuilt: it is of another table, of another format version or spec, or there is a gap.
        """
        found = self._state.document
        if found is None:
            return None
        if normalize_path(found.location) != self._store.location:
            # The table was moved: the manifests name the files at the old location.
            return None
        if found.format_version > self._settings.format_version:
            raise InvalidOptionError(
                f"Option '{FORMAT_VERSION}' = '{self._settings.format_version}' is less than {found.format_version}, "
                f"in which {self._store.location} is published; a table never goes back. Set it to that."
            )
        if found.format_version < self._settings.format_version or found.spec != self._spec:
            return None
        if not self._is_known(found.schemas):
            return None
        for published in reversed(found.snapshots):
            if published.snapshot_id > self._latest.id:
                continue
            try:
                snapshot = self._store.snapshots.read(published.snapshot_id)
                following = [
                    self._store.snapshots.read(number) for number in range(snapshot.id + 1, self._latest.id + 1)
                ]
            except SnapshotNotFoundError:
                return None
            if not is_of(published, snapshot):
                continue
            if any(self._shown(one) != self._shown(self._latest) for one in (snapshot, *following)):
                return None
            if first_changed(self._schema_of(snapshot.schema_id).table.fields, self._table.fields) is not None:
                return None
            snapshots = tuple(one for one in found.snapshots if one.snapshot_id <= published.snapshot_id)
            return replace(found, snapshots=snapshots), [snapshot, *following]
        return None

    def _is_known(self, schemas: Sequence[Schema]) -> bool:
        """Return whether the published schemas are those of the table, except schemas that a rollback has removed."""
        ids = set(self._store.schemas.ids())
        return all(
            same_columns(self._schema_of(schema.schema_id).iceberg, schema)
            for schema in schemas
            if schema.schema_id in ids
        )

    def _shown(self, snapshot: Snapshot) -> tuple[ShownLevels, bool]:
        """Return the visible levels of a snapshot, and whether its deletion vectors are visible."""
        return self._shown_by(self._schema_of(snapshot.schema_id).table)

    def _shown_by(self, schema: TableSchema) -> tuple[ShownLevels, bool]:
        options = CoreOptions({**schema.options, **self._store.dynamic_options})
        return ShownLevels.of(schema, options), shows_vectors(options)

    def _continued(self, base: MetadataDocument, snapshots: list[Snapshot]) -> MetadataDocument:
        published = list(base.snapshots)
        next_row_id = base.next_row_id
        for before, snapshot in pairwise(snapshots):
            made, next_row_id = self._next(published[-1], before, snapshot, next_row_id)
            published.append(made)
        return self._finished(
            table_uuid=base.table_uuid, last_column=base.last_column_id, published=published, next_row_id=next_row_id
        )

    def _next(
        self, parent: Published, before: Snapshot, snapshot: Snapshot, next_row_id: int | None
    ) -> tuple[Published, int | None]:
        """Return the snapshot after a published one, and the next row id after it."""
        manifests = self.manifests.of(parent)
        shown, vectors = self._shown(snapshot)
        delta = self._reader.changes_of(snapshot, changelog=False)
        changes = changes_of(((self._path(entry), entry) for entry in delta), shown)
        data = [m for m in manifests if m.content == ManifestContent.DATA]
        deletes = [m for m in manifests if m.content == ManifestContent.DELETES]
        operation = Operation.APPEND
        if not changes.adds_only:
            rewritten = self.manifests.without(
                data, self._partitions_of(changes.removed), self._partitions_of(changes.added), snapshot.id
            )
            data = rewritten.manifests
            changes = FileChanges(
                {path: entry for path, entry in changes.added.items() if path not in rewritten.known},
                {path: entry for path, entry in changes.removed.items() if path in rewritten.removed},
            )
            if changes.removed:
                is_compaction = snapshot.commit_kind is CommitKind.COMPACT
                operation = Operation.REPLACE if is_compaction else Operation.OVERWRITE
        data += self.manifests.write((self._entry(entry, snapshot.id) for entry in changes.added.values()), snapshot.id)
        data = self.manifests.compacted(data, snapshot.id)
        if vectors and snapshot.index_manifest != before.index_manifest:
            deletes = self._vectors(snapshot, deletes)
        path, following = self.manifests.write_list([*data, *deletes], snapshot.id, parent.snapshot_id, next_row_id)
        metrics = summary_of(
            list(changes.added.values()),
            list(changes.removed.values()),
            self._totals_of(parent, manifests),
            _totals(deletes),
        )
        made = self._snapshot(snapshot, parent.snapshot_id, path, operation, metrics, (next_row_id, following))
        return made, following

    # -- rebuilding --------------------------------------------------------------------------------------------------

    def _rebuilt(self) -> MetadataDocument:
        """Return all live files of the newest snapshot, as one snapshot of Iceberg's."""
        latest, inherited = self._latest, self._state.inherited
        if latest.id == FIRST_SNAPSHOT_ID:
            # The table was created in place of a dropped one.
            inherited = InheritedIds()
        # By the present options: a snapshot from before vectors were published would show deleted rows without them.
        shown, vectors = self._shown_by(self._table)
        live = [e for e in self._reader.entries(latest)[0] if e.bucket >= 0 and shown(e.file.level)]
        manifests = self.manifests.write((self._entry(entry, latest.id) for entry in live), latest.id)
        deletes = self._vectors(latest, []) if vectors else []
        next_row_id = inherited.next_row_id if self._settings.format_version == 3 else None
        path, following = self.manifests.write_list([*manifests, *deletes], latest.id, None, next_row_id)
        metrics = summary_of(live, [], {}, _totals(deletes))
        made = self._snapshot(latest, None, path, Operation.APPEND, metrics, (next_row_id, following))
        return self._finished(
            table_uuid=inherited.table_uuid or str(uuid.uuid4()),
            last_column=inherited.last_column_id,
            published=[made],
            next_row_id=following,
        )

    # -- parts -----------------------------------------------------------------------------------------------------

    def _finished(
        self, *, table_uuid: str, last_column: int, published: list[Published], next_row_id: int | None
    ) -> MetadataDocument:
        ids = [number for number in self._store.schemas.ids() if number <= self._table.id]
        return MetadataDocument(
            format_version=self._settings.format_version,
            table_uuid=table_uuid,
            location=self._location,
            last_column_id=max(last_column, self._table.highest_field_id),
            schemas=tuple(self._schema_of(number).iceberg for number in ids),
            current_schema_id=self._table.id,
            spec=self._spec,
            snapshots=tuple(published),
            refs={},
            next_row_id=next_row_id,
        )

    def _snapshot(
        self,
        snapshot: Snapshot,
        parent_id: int | None,
        manifest_list: str,
        operation: Operation,
        metrics: dict[str, str],
        row_ids: tuple[int | None, int | None],
    ) -> Published:
        first, following = row_ids
        properties = {key: value for key, value in (snapshot.properties or {}).items() if key != "operation"}
        return Published.model_validate(
            {
                "snapshot-id": snapshot.id,
                "parent-snapshot-id": parent_id,
                "sequence-number": snapshot.id,
                "timestamp-ms": snapshot.time_millis,
                "manifest-list": manifest_list,
                "summary": Summary(operation, **{**metrics, **properties, IDENTITY: identity_of(snapshot)}),
                "schema-id": snapshot.schema_id,
                "first-row-id": first,
                "added-rows": None if first is None or following is None else following - first,
            }
        )

    def _entry(self, entry: ManifestEntry, snapshot_id: int) -> IcebergEntry:
        file = entry.file
        written_by = self._schema_of(file.schema_id)
        path = self._path(entry)
        if self._table.core.data_evolution_enabled:
            raise NotSupportedError(
                f"{path} may have some columns of its rows only ('data-evolution.enabled' = 'true'), and a row of "
                "Iceberg is in one file; copy the rows to a table without that option."
            )
        if file.format != "parquet":
            raise NotSupportedError(
                f"{path} is an {file.format.upper()} file, in which readers of Iceberg do not find columns by their "
                "ids; set 'file.format' = 'parquet' and compact the table fully."
            )
        changed = first_changed(written_by.table.fields, self._table.fields)
        if changed is not None:
            raise NotSupportedError(
                f"{path} has the column '{changed}' with a type that Iceberg can't convert to the present one; "
                "compact the table fully."
            )
        return added_entry(file, self._spelled(path), self._partition(entry.partition), written_by, snapshot_id)

    def _vectors(self, snapshot: Snapshot, before: Sequence[ManifestFile]) -> list[ManifestFile]:
        entries = self._puffins.entries(
            self._reader.index_entries(snapshot),
            snapshot.id,
            named=[live_file(entry) for manifest in before for entry in self.manifests.entries(manifest)],
            data_path=lambda bucket_id, name: self._spelled(self._data_path(snapshot, bucket_id, name)),
        )
        return self.manifests.write(entries, snapshot.id, ManifestContent.DELETES)

    def _totals_of(self, parent: Published, manifests: list[ManifestFile]) -> dict[str, str]:
        """Return the totals in the summary of a published snapshot; counted if Java has left them out."""
        known = {} if parent.summary is None else parent.summary.additional_properties
        if all(name in known for name in TOTALS):
            return {name: known[name] for name in TOTALS}
        data = [manifest for manifest in manifests if manifest.content == ManifestContent.DATA]
        files = [entry.data_file for manifest in data for entry in self.manifests.entries(manifest)]
        counted = (len(files), sum(f.record_count for f in files), sum(f.file_size_in_bytes for f in files))
        return {name: str(number) for name, number in zip(TOTALS, counted, strict=True)}

    def _schema_of(self, schema_id: int) -> FileSchema:
        found = self._written_by.get(schema_id)
        if found is None:
            found = self._written_by[schema_id] = FileSchema.of(self._store.schema_of(schema_id))
        return found

    def _path(self, entry: ManifestEntry) -> str:
        bucket = BucketId(entry.partition, entry.bucket)
        return entry.file.path_in(self._store.paths.bucket_directory(bucket))

    def _data_path(self, snapshot: Snapshot, bucket_id: BucketId, name: str) -> str:
        if not self._store.options.raw.get(_EXTERNAL):
            return f"{self._store.paths.bucket_directory(bucket_id)}/{name}"
        if self._external is None or self._external[0] != snapshot.id:
            live = self._reader.entries(snapshot)[0]
            paths = {(BucketId(e.partition, e.bucket), e.file.file_name): self._path(e) for e in live}
            self._external = snapshot.id, paths
        return self._external[1][bucket_id, name]

    def _spelled(self, path: str) -> str:
        """Return the path in the spelling of the location of the table, so that both name the same file."""
        here = self._store.location
        if path.startswith(f"{here}/"):
            return f"{self._location.rstrip('/')}{path[len(here) :]}"
        return respelled(path, self._location)

    def _partition(self, partition: bytes) -> Record:
        found = self._partitions.get(partition)
        if found is None:
            types = self._table.partition_types
            found = self._partitions[partition] = partition_record(partition, types)
        return found

    def _partitions_of(self, files: dict[str, ManifestEntry]) -> dict[str, Record]:
        return {path: self._partition(entry.partition) for path, entry in files.items()}


def _totals(deletes: Sequence[ManifestFile]) -> Totals:
    files = sum((m.added_files_count or 0) + (m.existing_files_count or 0) for m in deletes)
    records = sum((m.added_rows_count or 0) + (m.existing_rows_count or 0) for m in deletes)
    return Totals(files=files, records=records)
