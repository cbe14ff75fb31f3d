"""Check at commit time that the table state that a writer relied on is unchanged.

A writer of dynamic buckets assigns keys by the partition's hash indexes. A writer of a cross-partition table assigns
them by where the key is in the whole table. Paimon expects one such writer at a time; two writers would put one key in
two places without an error. Here the commit of the second writer is refused, because its basis has changed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from interbed.storage.base.errors import CommitConflictError, SnapshotNotFoundError
from interbed.storage.meta.manifest.index_manifest import HASH_INDEX
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.meta.snapshot.manager import SnapshotManager
from interbed.storage.meta.snapshot.snapshot import CommitKind, Snapshot
from interbed.storage.scan.manifest_reader import ManifestReader, index_entries
from interbed.storage.scan.partition_filter import AllPartitions, PartitionFilter
from interbed.storage.write.commit_message import CommitMessage

_REDO = "Read the table again and redo the work; a table with dynamic buckets is best written by one writer at a time."

_MANY_SNAPSHOTS = 100


@dataclass(frozen=True, slots=True)
class SnapshotRead:
    """Snapshot from which changes were computed; the id 0 is an empty table.

    After a rollback another commit may get the same id. They differ by `identity`; None is not compared.
    """

    id: int
    identity: str | None = None

    @staticmethod
    def of(snapshot: Snapshot | None) -> "SnapshotRead":
        """Return the reference to a snapshot; None is that of an empty table."""
        return SnapshotRead(0) if snapshot is None else SnapshotRead(snapshot.id, snapshot.identity)

    def is_before(self, latest: Snapshot | None, snapshots: SnapshotManager) -> bool:
        """Return whether the snapshot is in the history of the newest one, as far as it has not expired."""
        if self.id == 0:
            return True
        if latest is None or latest.id < self.id:
            return False
        if self.identity is None:
            return True
        try:
            found = latest if latest.id == self.id else snapshots.snapshot(self.id)
        except SnapshotNotFoundError:
            return True
        return found.identity == self.identity

    def check(self, latest: Snapshot | None, snapshots: SnapshotManager) -> None:
        """Raise CommitConflictError when a rollback has withdrawn the snapshot."""
        if not self.is_before(latest, snapshots):
            raise CommitConflictError(
                f"Snapshot {self.id}, from which these changes were worked out, was rolled back meanwhile. Nothing was "
                "changed; read the table again and redo the work (run the statement again)."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsRead:
    """Rows from which changes were computed: those of some partitions at a snapshot.

    With `columns`, the field ids of columns that were read or written, the changes are new files with columns of rows
    that stay where they are: only other changes of these columns of the same rows are a conflict. With `whole`, rows
    that were added or changed in any way since are a conflict, too.
    """

    snapshot: SnapshotRead
    partitions: PartitionFilter
    columns: frozenset[int] | None = None
    whole: bool = False

    @property
    def depends_on_rows(self) -> bool:
        """Whether any change of the partitions is a conflict."""
        return self.whole or self.columns is None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitBasis:
    """Table state that changes depend on; a field that is None places no demand.

    - `hash_indexes`: partitions with the names of their hash indexes.
    - `keys_as_of`: the snapshot in which keys were looked up.
    - `rows_as_of`: the snapshot of which all rows of `partitions` (None: of all partitions) were read to be replaced.
    - `columns_as_of`: the snapshot of which some columns of rows were read to be replaced.
    - `buckets_as_of`: the snapshot from which the bucket counts were taken.
    - `alone_as_of`: the last snapshot up to which the commits of this user are known. No other writer may commit as the
      same user after it.
    """

    hash_indexes: frozenset[tuple[bytes, frozenset[str]]] = frozenset()
    keys_as_of: SnapshotRead | None = None
    rows_as_of: SnapshotRead | None = None
    partitions: PartitionFilter | None = None
    columns_as_of: RowsRead | None = None
    buckets_as_of: int | None = None
    alone_as_of: int | None = None

    @staticmethod
    def of(messages: Iterable[CommitMessage], rows: RowsRead | None = None) -> "CommitBasis":
        """Return the combined basis of all messages, and of the rows from which they were computed."""
        bases = [(m.partition, m.basis) for m in messages]
        known = [SnapshotRead(b.keys_as_of, b.keys_identity) for _, b in bases if b.keys_as_of is not None]
        indexes = frozenset((p, frozenset(b.hash_indexes)) for p, b in bases if b.hash_indexes is not None)
        whole = rows if rows is not None and rows.depends_on_rows else None
        written = [b.buckets_as_of for _, b in bases if b.buckets_as_of is not None]
        return CommitBasis(
            hash_indexes=indexes,
            keys_as_of=min(known, key=lambda read: read.id, default=None),
            buckets_as_of=min(written, default=None),
            rows_as_of=None if whole is None else whole.snapshot,
            partitions=None if whole is None else whole.partitions,
            columns_as_of=None if rows is None or rows.columns is None else rows,
        )


class BasisCheck:
    """Check of the basis of one commit against the newest snapshot, at each attempt."""

    def __init__(self, reader: ManifestReader, snapshots: SnapshotManager, user: str, basis: CommitBasis) -> None:
        self._reader = reader
        self._snapshots = snapshots
        self._user = user
        self._basis = basis
        self._valid_for: str | None = None
        self._overwritten = False
        asked = [read.id for read in (basis.keys_as_of, basis.rows_as_of) if read is not None]
        if basis.alone_as_of is not None:
            asked.append(basis.alone_as_of)
        self._begin = self._seen = min(asked, default=None)
        self._checked: Snapshot | None = None

    def check(self, latest: Snapshot | None) -> None:
        """Raise CommitConflictError when another writer has changed what the commit depends on."""
        if self._basis.hash_indexes:
            self._check_indexes(latest)
        self._check_columns(latest)
        if self._seen is None:
            return
        self._check_history(latest)
        if latest is not None:
            if self._checked is not None and not SnapshotRead.of(self._checked).is_before(latest, self._snapshots):
                # A rollback since the last attempt: the snapshots after it are others.
                self._seen = self._begin
            for snapshot in self._row_changes_since(self._seen or 0, latest):
                self._check_snapshot(snapshot)
            self._seen, self._checked = latest.id, latest

    def _check_history(self, latest: Snapshot | None) -> None:
        for read in (self._basis.rows_as_of, self._basis.keys_as_of):
            if read is not None:
                read.check(latest, self._snapshots)

    def _check_columns(self, latest: Snapshot | None) -> None:
        if self._basis.columns_as_of is not None:
            self._basis.columns_as_of.snapshot.check(latest, self._snapshots)

    def _check_indexes(self, latest: Snapshot | None) -> None:
        name = None if latest is None else latest.index_manifest
        if name is not None and name == self._valid_for:
            return
        found: dict[bytes, set[str]] = {partition: set() for partition, _ in self._basis.hash_indexes}
        for entry in [] if latest is None else index_entries(self._reader, latest):
            if entry.file.index_type == HASH_INDEX and entry.partition in found:
                found[entry.partition].add(entry.file.file_name)
        if any(found[partition] != names for partition, names in self._basis.hash_indexes):
            raise CommitConflictError(f"Another writer gave keys of the same partition buckets meanwhile. {_REDO}")
        self._valid_for = name

    def may_be_rescaled(self, latest: Snapshot | None) -> bool:
        """Return whether partitions may have another bucket count since, because of an overwrite."""
        first = self._basis.buckets_as_of
        if first is None or latest is None or self._overwritten:
            return self._overwritten
        if latest.id < first or latest.id - first > _MANY_SNAPSHOTS:
            # There was a rollback, or comparing bucket counts costs no more than reading all of these snapshots.
            return True
        try:
            kinds = [s.commit_kind for s in self._row_changes_since(first, latest)]
        except CommitConflictError:
            return True
        self._overwritten = CommitKind.OVERWRITE in kinds
        return self._overwritten

    def _row_changes_since(self, seen: int, latest: Snapshot) -> Iterator[Snapshot]:
        """Yield the snapshots after `seen` that added or removed rows."""
        for snapshot_id in range(seen + 1, latest.id + 1):
            try:
                snapshot = latest if snapshot_id == latest.id else self._snapshots.snapshot(snapshot_id)
            except SnapshotNotFoundError:
                raise CommitConflictError(
                    f"Snapshot {snapshot_id} expired before its changes were checked. {_REDO}"
                ) from None
            if snapshot.commit_kind is not CommitKind.COMPACT:
                yield snapshot

    def _check_snapshot(self, snapshot: Snapshot) -> None:
        if self._basis.alone_as_of is not None and snapshot.commit_user == self._user:
            raise CommitConflictError(
                f"Another process made snapshot {snapshot.id} as the user '{self._user}' meanwhile. Let only one "
                "process at a time commit as that user. Nothing was changed."
            )
        if self._basis.keys_as_of is not None and snapshot.commit_user != self._user:
            raise CommitConflictError(
                f"Another writer made snapshot {snapshot.id} meanwhile, which may have moved keys between partitions. "
                f"{_REDO}"
            )
        if self._basis.rows_as_of is not None and self._touches(snapshot):
            raise CommitConflictError(
                f"Snapshot {snapshot.id} changed rows meanwhile from which these changes were worked out. Nothing was "
                "changed; read the table again and redo the work (run the statement again)."
            )

    def _touches(self, snapshot: Snapshot) -> bool:
        # An overwrite need not list the files that it removes.
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            return True
        meant = self._basis.partitions or AllPartitions()
        manifests = meant.manifests(self._reader.delta(snapshot))
        touched = {e.partition for e in self._reader.entries(manifests) if e.bucket != POSTPONE_BUCKET}
        return bool(meant.select(touched))
