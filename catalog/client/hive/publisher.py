"""Publication of a snapshot of a table in a Hive metastore: under the table's lock, with a pointer in its parameters.

The snapshot file decides, because foreign writers of Paimon's format do not move the pointer. The pointer saves readers
the lookups and is shown to users of the metastore. It is verified on reading and only moved forward.

Between the two steps, new partitions are registered for tables with `metastore.partitioned-table`, so that the pointer
also says up to which snapshot partitions are registered. The snapshot is committed by then: failures are logged, and
the next commit or a repair registers what is missing.

The entry of a partition is as Paimon registers it: it has the descriptor of its table and the location
`<table>/dt=2026-01-31/`, with the final slash. Its values are the text that names the directory. An entry says where a
partition is, for Hive and for people. The content of a partition is defined by the table's snapshots alone, so readers
of Paimon's format read the same rows without the entry.
"""

import copy
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from interbed.catalog.client.errors import CatalogError, TableModifiedError, TableNotFoundError
from interbed.catalog.client.files.table_files import read_mark
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.commit_lock import CommitLock, LockSettings
from interbed.catalog.client.hive.connection import CallStateUnknownError
from interbed.catalog.client.hive.registration import (
    CURRENT_SNAPSHOT,
    Locations,
    is_partitioned_in_metastore,
    plain_columns,
    same_location,
    synced_properties,
)
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.partition import PartitionStatistics
from interbed.storage.base.errors import CommitConflictError, InterbedError
from interbed.storage.io.api import FileIO
from interbed.storage.io.resolve import check_exclusive
from interbed.storage.meta.manifest.entry import FileKind
from interbed.storage.meta.paths import TablePaths, escape_path, unescape_path
from interbed.storage.meta.schema.manager import SchemaManager
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.manager import SnapshotManager
from interbed.storage.meta.snapshot.snapshot import Snapshot, create_snapshot
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.table.opening import HOOKS
from interbed.thrift_idl.hive_metastore.ttypes import Partition as HivePartition

_log = logging.getLogger(__name__)

Spec = Mapping[str, str]

_POINTER_TRIES = 5

_CATCH_UP_MAX = 100
"""Maximum number of snapshots whose partitions one commit registers; more would hold the lock too long."""

_DDL_TIME = "transient_lastDdlTime"


class HivePublisher:
    """Creates snapshot files under the lock of the table, then moves the pointer; see SnapshotPublisher.

    `schema` is the one with which the table was opened: it shows whether the table was dropped and recreated.
    """

    def __init__(
        self,
        client: HiveMetastoreClient,
        identifier: Identifier,
        file_io: FileIO,
        paths: TablePaths,
        lock: LockSettings,
        *,
        schema: TableSchema,
        locations: Locations,
        sync_properties: bool,
    ) -> None:
        self._client = client
        self._identifier = identifier
        self._file_io = file_io
        self._paths = paths
        self._lock = lock
        self._schema = schema
        self._locations = locations
        self._sync_properties = sync_properties
        self._schemas = SchemaManager(file_io, paths, HOOKS.check_options)
        self._attempts = threading.local()

    @contextmanager
    def attempts(self) -> Iterator[None]:
        self._attempts.are_several = True
        try:
            yield
        finally:
            self._attempts.are_several = False
            self._release_kept()

    @property
    def keeps_lock(self) -> bool:
        return self._kept is not None

    @property
    def _kept(self) -> CommitLock | None:
        kept: CommitLock | None = getattr(self._attempts, "kept", None)
        return kept

    def _release_kept(self) -> None:
        kept, self._attempts.kept = self._kept, None
        if kept is not None:
            kept.release()

    def publish(self, snapshot: Snapshot) -> bool:
        """Create the snapshot file as SnapshotPublisher.

        LockError; CommitConflictError when the table was dropped or moved.
        """
        if not self._lock.enabled:
            way = f"Set 'lock.enabled' = 'true' for '{self._identifier}'."
            check_exclusive(self._file_io, self._paths.location, way)
        lock = self._kept_or_new_lock()
        is_lost = False
        try:
            if lock is not None and not lock.is_held:
                lock.acquire()
            is_lost = not self._publish(snapshot, lock)
        finally:
            if is_lost and getattr(self._attempts, "are_several", False):
                self._attempts.kept = lock
            elif lock is not None:
                lock.release()
        return not is_lost

    def _publish(self, snapshot: Snapshot, lock: CommitLock | None) -> bool:
        if lock is not None and not self._file_io.capabilities.slow_requests and self._is_taken(snapshot.id):
            # The previous holder of the lock has made it: the metastore need not be asked.
            return False
        entry = self._current_entry()
        self._check_schemas_exist(snapshot)
        if lock is not None:
            lock.ensure_held()
        created = create_snapshot(self._file_io, self._paths.snapshot(snapshot.id), snapshot)
        if created and self._are_partitions_registered(snapshot, entry):
            self._move_pointer(snapshot, entry)
        return created

    def _kept_or_new_lock(self) -> CommitLock | None:
        kept, self._attempts.kept = self._kept, None
        if kept is not None and kept.is_held:
            return kept
        if kept is not None:
            kept.release()
        return self._lock.of_commit(self._client, self._identifier, self._file_io, self._paths.location)

    def _is_taken(self, snapshot_id: int) -> bool:
        return self._file_io.exists(self._paths.snapshot(snapshot_id))

    def _current_entry(self) -> Any:
        """Return the entry of the table; a table that was dropped or renamed must not reappear without one."""
        try:
            entry = self._client.get_table(self._identifier.database, self._identifier.table)
        except TableNotFoundError as error:
            raise CommitConflictError(f"The table '{self._identifier}' was dropped or renamed meanwhile.") from error
        location = self._locations.of(entry)
        if not same_location(location, self._paths.location) and not self._is_to_move_to(location):
            raise CommitConflictError(f"The table '{self._identifier}' moved to {location} meanwhile; open it again.")
        return entry

    def _is_to_move_to(self, location: str) -> bool:
        """Return whether a rename was killed before it moved the directory."""
        mark = read_mark(self._file_io, self._paths.location)
        if mark is None or mark.source is None or mark.target is None or not mark.is_of(self._identifier):
            return False
        return same_location(mark.source, self._paths.location) and same_location(mark.target, location)

    def _check_schemas_exist(self, snapshot: Snapshot) -> None:
        """Raise CommitConflictError if the table was recreated in place, or if the schema of the snapshot was
        withdrawn.
        """
        if self._schemas.is_gone(self._schema):
            raise CommitConflictError(f"The table '{self._identifier}' was dropped and recreated meanwhile.")
        if snapshot.schema_id != self._schema.id and not self._file_io.exists(self._paths.schema(snapshot.schema_id)):
            raise CommitConflictError(
                f"The schema {snapshot.schema_id} of '{self._identifier}' was withdrawn meanwhile; commit again."
            )

    def _move_pointer(self, snapshot: Snapshot, entry: Any) -> None:
        """Move the pointer by compare-and-swap; the snapshot is committed in any case, so failures are only logged.

        The entry is replaced as a whole. A foreign catalog changes the schema without the lock, so its new columns
        might be overwritten by older ones; therefore the newest columns are written, too.
        """
        database, name = self._identifier.database, self._identifier.table
        try:
            for attempt in range(_POINTER_TRIES):
                table = entry if attempt == 0 else self._client.get_table(database, name)
                current = (table.parameters or {}).get(CURRENT_SNAPSHOT)
                if current is not None and current.isdigit() and int(current) >= snapshot.id:
                    return
                table.parameters[CURRENT_SNAPSHOT] = str(snapshot.id)
                properties = {"DO_NOT_UPDATE_STATS": "true"}
                if self._update_schema(table):
                    properties["CASCADE"] = "true"
                expected = None if current is None else (CURRENT_SNAPSHOT, current)
                try:
                    self._client.alter_table(database, name, table, properties=properties, expected_parameter=expected)
                except (TableModifiedError, CallStateUnknownError):
                    # Another writer was faster, or the reply was lost: the entry shows which.
                    continue
                return
            _log.warning(
                "Snapshot %d of %s is made, but its pointer was not moved in %d tries.",
                snapshot.id,
                self._identifier,
                _POINTER_TRIES,
            )
        except (CatalogError, InterbedError) as error:
            _log.warning(
                "Snapshot %d of %s is made, but its pointer was not moved: %s", snapshot.id, self._identifier, error
            )

    def _update_schema(self, table: Any) -> bool:
        """Give the entry the properties of the newest schema, and its columns if they differ in names.

        Return whether it got columns.
        """
        schema = self._schemas.latest() or self._schema
        table.parameters.update(synced_properties(schema, everything=self._sync_properties))
        columns = plain_columns(schema, {key.name.lower() for key in table.partitionKeys or ()})
        if [c.name.lower() for c in columns] == [c.name.lower() for c in table.sd.cols]:
            return False
        table.sd.cols = columns
        return True

    def _are_partitions_registered(self, snapshot: Snapshot, entry: Any) -> bool:
        """Register the partitions of the snapshots after the pointer, including those of a process that died before it
        could.

        If that fails the pointer stays, so that the next commit registers them.
        """
        if not entry.partitionKeys or not is_partitioned_in_metastore(self._schema):
            return True
        pointer = (entry.parameters or {}).get(CURRENT_SNAPSHOT, "")
        first = int(pointer) + 1 if pointer.isdigit() else snapshot.id
        if snapshot.id - first >= _CATCH_UP_MAX:
            _log.warning(
                "Snapshots %d to %d of %s were not registered; a repair of the table registers their partitions.",
                first,
                snapshot.id - 1,
                self._identifier,
            )
            first = snapshot.id
        try:
            self._register_partitions([*self._snapshots(first, snapshot.id), snapshot], entry)
        except InterbedError as error:
            _log.warning(
                "Snapshot %d of %s is made, but its partitions are not all registered: %s. The next commit or a repair "
                "of the table registers them.",
                snapshot.id,
                self._identifier,
                error,
            )
            return False
        return True

    def _snapshots(self, first: int, end: int) -> list[Snapshot]:
        """Return the snapshots of these ids that have not expired."""
        snapshots = SnapshotManager(self._file_io, self._paths)
        return [snapshots.snapshot(number) for number in range(first, end) if snapshots.exists(number)]

    def _register_partitions(self, snapshots: Sequence[Snapshot], entry: Any) -> None:
        reader = ManifestReader(self._file_io, self._paths)
        added = {e.partition for s in snapshots for e in reader.entries(reader.delta(s)) if e.kind is FileKind.ADD}
        if added:
            specs = [self._paths.directory_spec(partition) for partition in sorted(added)]
            MetastorePartitions(self._client, self._identifier, self._paths, self._locations).create(entry, specs)


class MetastorePartitions:
    """The entries of one table's partitions. Specifications are complete, their values the text of directories."""

    def __init__(
        self, client: HiveMetastoreClient, identifier: Identifier, paths: TablePaths, locations: Locations
    ) -> None:
        self._client = client
        self._database, self._table = identifier.database, identifier.table
        self._paths = paths
        self._locations = locations

    def specs(self) -> list[dict[str, str]]:
        """Return the partitions that the metastore has."""
        names = self._client.get_partition_names(self._database, self._table)
        return [self._spec(name) for name in names]

    def create(self, entry: Any, specs: Sequence[Spec], *, if_not_exists: bool = True) -> None:
        """Add entries; `entry` is that of the table. PartitionExistsError for an existing one, unless `if_not_exists`.

        Partitions with the same directory, such as null and the empty text, get one entry.
        """
        now = int(time.time())
        unique = {tuple(self._values(spec)): spec for spec in specs}
        self._client.add_partitions(
            self._database,
            self._table,
            [self._new(entry, spec, now) for spec in unique.values()],
            if_not_exists=if_not_exists,
        )

    def drop(self, specs: Sequence[Spec]) -> list[Spec]:
        """Remove entries without their files; return those that existed."""
        return [s for s in specs if self._client.drop_partition(self._database, self._table, self._values(s))]

    def report(self, partitions: Sequence[PartitionStatistics]) -> None:
        """Record the statistics of each partition; partitions without an entry are skipped."""
        by_values: dict[tuple[str, ...], PartitionStatistics] = {}
        for partition in partitions:
            values = tuple(self._values(partition.spec))
            by_values[values] = _together(by_values.get(values), partition)
        # Metastores fold the case of columns, but not all of them fold it in a name to look for.
        names = [self._name(p.spec, fold=True) for p in by_values.values()]
        entries = self._client.get_partitions_by_names(self._database, self._table, names)
        for entry in entries:
            known = by_values[tuple(entry.values)]
            seconds = known.last_file_creation_time // 1000
            entry.lastAccessTime = seconds
            entry.parameters = {
                **(entry.parameters or {}),
                "numFiles": str(known.file_count),
                "totalSize": str(known.file_size_in_bytes),
                "numRows": str(known.record_count),
                "lastUpdateTime": str(seconds),
                "totalBuckets": str(known.total_buckets),
                _DDL_TIME: str(seconds),
            }
        if entries:
            self._client.alter_partitions(self._database, self._table, entries)

    def move(self, before: str, after: str) -> None:
        """Change the locations of entries from below one directory of the table to below another one."""
        names = self._client.get_partition_names(self._database, self._table)
        moved: list[Any] = []
        for entry in self._client.get_partitions_by_names(self._database, self._table, names):
            location = self._locations.of(entry)
            if location.startswith(f"{before.rstrip('/')}/"):
                self._locations.set(entry, after.rstrip("/") + location[len(before.rstrip("/")) :])
                moved.append(entry)
        if moved:
            self._client.alter_partitions(self._database, self._table, moved)

    def _new(self, entry: Any, spec: Spec, now: int) -> Any:
        partition = HivePartition(
            values=self._values(spec),
            dbName=self._database,
            tableName=self._table,
            createTime=now,
            lastAccessTime=now,
            sd=copy.copy(entry.sd),
            parameters={},
        )
        root = self._locations.of(entry).rstrip("/")
        if self._paths.data_directory:
            root = f"{root}/{self._paths.data_directory}"
        self._locations.set(partition, f"{root}/{self._name(spec)}/")
        return partition

    def _values(self, spec: Spec) -> list[str]:
        texts = self._paths.in_directories(spec)
        return [texts[name] for name in self._paths.partition_names]

    def _name(self, spec: Spec, *, fold: bool = False) -> str:
        columns = [name.lower() if fold else name for name in self._paths.partition_names]
        names = zip(columns, self._values(spec), strict=True)
        return "/".join(f"{escape_path(n)}={escape_path(v)}" for n, v in names)

    def _spec(self, name: str) -> dict[str, str]:
        # A metastore folds the case of columns; the order is the table's.
        values = [unescape_path(part.partition("=")[2]) for part in name.split("/")]
        return dict(zip(self._paths.partition_names, values, strict=True))


def _together(one: PartitionStatistics | None, other: PartitionStatistics) -> PartitionStatistics:
    """Return the sum of the statistics of two partitions with the same directory."""
    if one is None:
        return other
    return PartitionStatistics(
        spec=other.spec,
        record_count=one.record_count + other.record_count,
        file_size_in_bytes=one.file_size_in_bytes + other.file_size_in_bytes,
        file_count=one.file_count + other.file_count,
        last_file_creation_time=max(one.last_file_creation_time, other.last_file_creation_time),
        total_buckets=max(one.total_buckets, other.total_buckets),
    )
