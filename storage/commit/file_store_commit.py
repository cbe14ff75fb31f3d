"""Commit of messages as snapshots: exactly once, or not at all, or with unknown outcome.

This module turns each kind of commit into parts, one for each snapshot; `publication` creates the snapshots.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import (
    CommitConflictError,
    CommitFailedError,
    InterbedError,
    InvalidInputError,
)
from interbed.storage.commit.basis import CommitBasis, RowsRead, SnapshotRead
from interbed.storage.commit.changes import (
    MessageChanges,
    PartChanges,
    changed_partitions,
    check_rewritten_schemas,
    collect_changes,
    new_paths,
    upgrade_to_level,
)
from interbed.storage.commit.committed import PartIdentity
from interbed.storage.commit.contention import RetryPolicy
from interbed.storage.commit.pending_snapshot import (
    BaseFiles,
    OneStep,
    OverwriteChanges,
    PendingSnapshot,
    check_keys_once,
    check_same_columns,
    check_visible,
    in_one_step,
)
from interbed.storage.commit.publication import Publication
from interbed.storage.commit.snapshot_builder import SnapshotFacts, can_merge_fully
from interbed.storage.io.parallel import PendingFiles
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import FileKind, ManifestEntry
from interbed.storage.meta.manifest.index_manifest import IndexManifestEntry
from interbed.storage.meta.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.partition_filter import (
    AllPartitions,
    PartitionChoice,
    PartitionFilter,
    PartitionSet,
    partition_filter,
)
from interbed.storage.scan.support import check_writable
from interbed.storage.write.commit_message import CommitMessage

_log = logging.getLogger(__name__)


class FileStoreCommit:
    """Commits of one user. Identifiers of a user ascend; committing one again does nothing.

    Batch jobs use the identifier BATCH_COMMIT_IDENTIFIER; a batch commit counts as committed when a snapshot of the
    user holds its files. `new_user` declares that the user has no commits yet, which saves a search. With
    `alone_since`, a snapshot id (0: before the first), a commit is refused as a conflict when another writer has added
    rows as the same user after that snapshot. Data files may be `pending` until just before a snapshot is created. Not
    thread-safe.

    After CommitStateUnknownError all files stay, because a snapshot may refer to them. After every other error all
    files of the failed snapshot are deleted, also its data files: they were written against a state of the table that
    has changed, so the caller repeats the work, not the commit.
    """

    def __init__(
        self,
        store: FileStore,
        commit_user: str,
        *,
        new_user: bool = False,
        retry: RetryPolicy | None = None,
        alone_since: int | None = None,
        pending: PendingFiles | None = None,
    ) -> None:
        self._store = store
        self._user = commit_user
        self._alone_since = alone_since
        self._retry = RetryPolicy.of(store.options) if retry is None else retry
        self._reader = ManifestReader(store.file_io, store.paths)
        self._publication = Publication(
            store, commit_user, self._reader, self._retry, new_user=new_user, pending=pending
        )

    def commit(
        self,
        messages: Sequence[CommitMessage],
        *,
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
        check_append_conflicts: bool = False,
        allow_empty: bool = False,
        follows_from: RowsRead | None = None,
        owns_files: bool = True,
    ) -> list[int]:
        """Commit the messages and return the ids of their snapshots: one of new records, then one of compaction.

        New records become an APPEND snapshot (OVERWRITE when files are rewritten), compacted ones a COMPACT snapshot.
        `check_append_conflicts` also compares new files with the whole state of their partitions. Without changes no
        snapshot is made, unless `allow_empty` asks for one that records the identifier. `watermark` is in milliseconds.
        New records may be computed from rows of the table (`follows_from`); a later change of those rows is a conflict.
        With `owns_files` False the files stay when the commit fails. Raises CommitConflictError, CommitFailedError,
        CommitStateUnknownError, NotSupportedError.
        """
        check_writable(self._store)
        changes = collect_changes(messages)
        try:
            if follows_from is not None:
                check_same_columns(self._store)
            if not any(m.replaces for m in messages):
                check_rewritten_schemas(changes.append.files, self._publication.place)
        except CommitConflictError:
            if owns_files:
                self._publication.delete(messages)
            raise
        parts: list[PendingSnapshot] = []
        if changes.append or (allow_empty and not changes.compact):
            replaces = changes.append.take_rows_away
            kind = CommitKind.OVERWRITE if replaces else CommitKind.APPEND
            facts = self._facts(kind, identifier, watermark, properties)
            part = self._fixed_part(facts, changes.append, check=replaces or check_append_conflicts)
            basis = replace(CommitBasis.of(messages, follows_from), alone_as_of=self._alone_since)
            parts.append(replace(part, basis=basis))
        parts += self._compact_part(changes, identifier, watermark, properties)
        return self._publication.make(parts, messages if owns_files else ())

    def overwrite(
        self,
        messages: Sequence[CommitMessage],
        *,
        partition: PartitionChoice = None,
        dynamic: bool = False,
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
        read_at: SnapshotRead | None = None,
    ) -> list[int]:
        """Replace whole partitions by the messages' files and return the ids of the snapshots.

        With `dynamic` the partitions of the new files are replaced; otherwise those that `partition` selects
        (specifications, or a predicate over partition columns; None: the whole table). Messages that delete what they
        replace are appended. With `read_at`, the snapshot that the new rows were computed from,
        later changes of its rows are a conflict, and so are rows that a scan of it does not return yet. Raises
        InvalidInputError for new files outside of the partitions, and as `commit` does.
        """
        check_writable(self._store)
        if any(m.replaces for m in messages):
            rows = None if read_at is None else RowsRead(snapshot=read_at, partitions=AllPartitions())
            return self.commit(
                messages, identifier=identifier, properties=properties, watermark=watermark, follows_from=rows
            )
        schema = self._store.schema
        changes = collect_changes(messages)
        if any(e.kind is FileKind.DELETE for e in changes.append.files):
            raise InvalidInputError("An overwrite replaces whole partitions; its messages can't delete single files.")
        new_files = changes.append.files
        touched = changed_partitions(new_files)
        target: PartitionFilter
        if dynamic and schema.partition_keys:
            # Without new files no partition is replaced.
            if not new_files:
                return self._publication.make(self._compact_part(changes, identifier, watermark, properties), messages)
            target = PartitionSet(touched, schema.partition_fields)
        else:
            target = self._partition_filter(partition)
            outside = touched - target.select(touched)
            if outside:
                self._publication.delete(messages)
                place = self._store.paths.readable_partition(min(outside))
                raise InvalidInputError(
                    f"The new data have rows of partition {place}, which is not what is to be overwritten."
                )
        if new_files or read_at is not None:
            try:
                if new_files:
                    check_keys_once(self._store, self._reader, target)
                if read_at is not None:
                    read_at.check(self._store.snapshots.latest(), self._store.snapshots)
                    check_visible(self._store, self._reader, target, read_at.id)
            except (InterbedError, OSError):
                self._publication.delete(messages)
                raise
        facts = self._facts(CommitKind.OVERWRITE, identifier, watermark, properties)
        basis = CommitBasis(rows_as_of=read_at, partitions=target, alone_as_of=self._alone_since)
        whole = in_one_step(changes) if changes.compact and self._store.options.scans_skip_level_0 else None
        if whole is not None:
            return self._overwrite_at_once(facts, target, whole, messages, basis)
        if schema.has_primary_key and not changes.compact and self._store.options.boolean("overwrite-upgrade", True):
            new_files = upgrade_to_level(new_files, schema.key_types, self._store.options.num_levels - 1)
        # As in Paimon, an overwrite has no changelog: its changes follow from the files that it replaces.
        parts = [replace(self._overwrite_part(facts, target, new_files, changes.append.indexes), basis=basis)]
        parts += self._compact_part(changes, identifier, watermark, properties)
        ids = self._publication.make(parts, messages)
        self._publication.delete([m.changelog_only() for m in messages if m.data.changelog_files])
        return ids

    def _overwrite_at_once(
        self,
        facts: SnapshotFacts,
        target: PartitionFilter,
        whole: OneStep,
        messages: Sequence[CommitMessage],
        basis: CommitBasis,
    ) -> list[int]:
        """Overwrite with the result of the compaction of the new files, in one snapshot.

        Readers that skip level 0 would see neither the old rows nor the new ones between two snapshots. The changelog
        of the compaction follows in a snapshot of its own.
        """
        part = replace(self._overwrite_part(facts, target, whole.files, whole.indexes), basis=basis)
        ids = self._publication.make([part], messages)
        if whole.changelog:
            compaction = replace(facts, kind=CommitKind.COMPACT)
            changes = self._fixed_part(compaction, PartChanges(changelog=whole.changelog), check=False)
            # Its files are in the table already, so a failure must not delete them.
            try:
                ids += self._publication.make([changes], ())
            except (CommitConflictError, CommitFailedError) as error:
                _log.warning("Snapshot %d was committed, but its changelog was dropped: %s", ids[-1], error)
        store = self._store
        needless = [store.index_path(BucketId(e.partition, e.bucket), e.file) for e in whole.needless_indexes]
        for entry in whole.needless_files:
            needless += entry.file.paths_in(store.paths.bucket_directory(entry.bucket_id))
        store.file_io.delete_quietly(needless)
        self._publication.delete([m.changelog_only() for m in messages if m.data.changelog_files])
        return ids

    def replace_partitions(
        self, messages: Sequence[CommitMessage], partitions: Collection[bytes], *, read_at: SnapshotRead
    ) -> list[int]:
        """Replace all files of the partitions by the messages' new ones, which hold the same rows.

        The rows are those of snapshot `read_at`. Return the ids of the snapshots. Postponed rows are left alone.
        `partitions` are serialised BinaryRows. Raises CommitConflictError when rows were added or removed since, and as
        `commit` does.
        """
        check_writable(self._store)
        target = PartitionSet(partitions, self._store.schema.partition_fields)
        facts = self._facts(CommitKind.OVERWRITE, BATCH_COMMIT_IDENTIFIER, None, None)
        new_files = collect_changes(messages).append.files
        part = self._overwrite_part(facts, target, new_files, keeps_postponed=True)
        return self._publication.make(
            [replace(part, basis=CommitBasis(rows_as_of=read_at, partitions=target))], messages
        )

    def truncate(
        self,
        partitions: PartitionChoice = None,
        *,
        identifier: int = BATCH_COMMIT_IDENTIFIER,
    ) -> list[int]:
        """Delete all rows, or those of some partitions; older snapshots keep them.

        Return the snapshot's id, or none for a table without snapshots. Raises InvalidInputError for an unknown
        partition column, and as `commit` does.
        """
        check_writable(self._store)
        if self._store.newest_snapshot() is None:
            return []
        if isinstance(partitions, Sequence) and not partitions:
            return []
        target = self._partition_filter(partitions)
        facts = self._facts(CommitKind.OVERWRITE, identifier, None, None)
        return self._publication.make([self._overwrite_part(facts, target, ())], ())

    def compact_manifests(self) -> int | None:
        """Merge all small and deleting manifests in a COMPACT snapshot without data changes.

        Return its id, or None when there is nothing to merge. Raises CommitFailedError, CommitStateUnknownError.
        """
        check_writable(self._store)
        latest = self._store.newest_snapshot()
        if latest is None or not can_merge_fully(
            self._reader.data(latest), target_size=self._store.options.manifest_target_file_size
        ):
            return None
        commit = FileStoreCommit(
            self._store.with_options({"manifest.full-compaction-threshold-size": "1 b"}),
            self._user,
            new_user=True,
            retry=self._retry,
        )
        facts = self._facts(CommitKind.COMPACT, BATCH_COMMIT_IDENTIFIER, None, latest.properties)
        return commit._publication.make([commit._fixed_part(facts, PartChanges(), check=False)], ())[0]

    def commit_statistics(self, file_name: str) -> list[int]:
        """Make a snapshot of kind ANALYZE that names a file of statistics. Return its id. Raises as `commit` does."""
        check_writable(self._store)
        facts = SnapshotFacts(
            kind=CommitKind.ANALYZE, user=self._user, identifier=BATCH_COMMIT_IDENTIFIER, statistics=file_name
        )
        return self._publication.make([self._fixed_part(facts, collect_changes([]).append, check=False)], ())

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Delete the files of messages that will not be committed. Forbidden after CommitStateUnknownError."""
        self._publication.delete(messages)

    def filter_committed(self, identifiers: Sequence[int]) -> list[int]:
        """Return those of the ascending identifiers that the user has not committed yet."""
        last = self._store.snapshots.latest_of_user(self._user)
        return [i for i in identifiers if last is None or i > last.commit_identifier]

    @property
    def attempts(self) -> int:
        """Number of attempts of this object to create a snapshot; lost races add to it."""
        return self._publication.attempts

    @property
    def gave_up_compaction(self) -> bool:
        """Whether a conflict kept the last commit from making a snapshot of the compaction of its new records.

        Readers that skip level 0 see these records after the next compaction (`upkeep.compact_again`).
        """
        return self._publication.gave_up_compaction

    # -- parts -----------------------------------------------------------------------------------------------------

    def _facts(
        self, kind: CommitKind, identifier: int, watermark: int | None, properties: Mapping[str, str] | None
    ) -> SnapshotFacts:
        return SnapshotFacts(
            kind=kind, user=self._user, identifier=identifier, watermark=watermark, properties=properties
        )

    def _fixed_part(self, facts: SnapshotFacts, changes: PartChanges, *, check: bool) -> PendingSnapshot:
        partitions = changed_partitions(changes.files) | {e.partition for e in changes.indexes}
        touched = PartitionSet(partitions, self._store.schema.partition_fields)
        return PendingSnapshot(
            identity=PartIdentity.of(facts, changes.files, changes.changelog),
            against=lambda latest: changes.files,
            base=BaseFiles(self._reader, self._store.snapshots, touched),
            check=check,
            new_paths=new_paths(self._store, changes),
            changelog=changes.changelog,
            indexes=changes.indexes,
            # A file that is deleted and added again, with other indexes, keeps its rows and their deletion vector.
            compacted=_names(changes, FileKind.DELETE) - _names(changes, FileKind.ADD),
            looked_up=changes.looked_up,
        )

    def _compact_part(
        self, changes: MessageChanges, identifier: int, watermark: int | None, properties: Mapping[str, str] | None
    ) -> list[PendingSnapshot]:
        if not changes.compact:
            return []
        facts = self._facts(CommitKind.COMPACT, identifier, watermark, properties)
        return [self._fixed_part(facts, changes.compact, check=True)]

    def _overwrite_part(
        self,
        facts: SnapshotFacts,
        target: PartitionFilter,
        new_files: tuple[ManifestEntry, ...],
        indexes: tuple[IndexManifestEntry, ...] = (),
        *,
        keeps_postponed: bool = False,
    ) -> PendingSnapshot:
        base = BaseFiles(self._reader, self._store.snapshots, target)
        return PendingSnapshot(
            identity=PartIdentity.of(facts, new_files),
            against=OverwriteChanges(base, new_files, keeps_postponed=keeps_postponed).against,
            base=base,
            check=True,
            new_paths=new_paths(self._store, PartChanges(files=new_files, indexes=indexes)),
            overwritten=target,
            indexes=indexes,
        )

    def _partition_filter(self, given: PartitionChoice) -> PartitionFilter:
        return partition_filter(
            given, self._store.schema.partition_fields, default_name=self._store.options.partition_default_name
        )


def _names(changes: PartChanges, kind: FileKind) -> frozenset[str]:
    return frozenset(entry.file.file_name for entry in changes.files if entry.kind is kind)
