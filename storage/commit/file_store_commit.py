"""From commit messages to a snapshot: exactly once, or not at all, or not known.

A commit writes its manifests under new names and then creates the file of the next snapshot, which fails when another
writer was faster; it then looks at what is new, checks again and tries the next number. Until that one creation nobody
sees anything, so a process that dies leaves files behind that nobody refers to, and nothing else.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from interbed.storage.commit.base_files import BaseFiles
from interbed.storage.commit.changes import (
    Changes,
    PartChanges,
    changed_partitions,
    collect_changes,
    upgrade_to_level,
)
from interbed.storage.commit.committed import CommittedParts, PartIdentity
from interbed.storage.commit.conflict import (
    DuplicateFileError,
    check_conflicts,
    check_delta,
    check_total_buckets,
    check_vectors,
)
from interbed.storage.commit.ground import Ground, GroundCheck, RowsRead
from interbed.storage.commit.index_files import IndexFiles
from interbed.storage.commit.manifest_merge import can_merge_fully
from interbed.storage.commit.manifest_writer import ManifestWriter
from interbed.storage.commit.overwrite import OverwriteChanges, check_keys_once
from interbed.storage.commit.owned_paths import owned_paths
from interbed.storage.commit.retry import RetryPolicy
from interbed.storage.commit.snapshot_builder import SnapshotBuilder, SnapshotFacts
from interbed.storage.commit.turn import Turn
from interbed.storage.errors import (
    CommitConflictError,
    CommitFailedError,
    CommitStateUnknownError,
    InterbedError,
    InvalidInputError,
    SnapshotNotFoundError,
)
from interbed.storage.manifest.entry import FileKind, ManifestEntry
from interbed.storage.manifest.index_manifest import IndexManifestEntry
from interbed.storage.predicate.expr import Predicate
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.partition_filter import (
    AllPartitions,
    AnyOfPartitions,
    PartitionFilter,
    PartitionSet,
    partition_filter,
)
from interbed.storage.scan.support import check_writable
from interbed.storage.schema.replacement import is_replacement
from interbed.storage.schema.table_schema import TableSchema
from interbed.storage.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from interbed.storage.store import TableStore
from interbed.storage.version.maintenance import maintain
from interbed.storage.write.commit_message import CommitMessage

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One snapshot to be made. `against` gives its changes on top of a snapshot; `base` the files to check against."""

    identity: PartIdentity
    against: Callable[[Snapshot | None], tuple[ManifestEntry, ...]]
    base: BaseFiles
    check: bool
    overwritten: PartitionFilter | None = None
    changelog: tuple[ManifestEntry, ...] = ()
    indexes: tuple[IndexManifestEntry, ...] = ()
    ground: Ground = field(default_factory=Ground)
    compacted: frozenset[str] = frozenset()

    @property
    def facts(self) -> SnapshotFacts:
        """What is said of the snapshot."""
        return self.identity.facts


class FileStoreCommit:
    """Commits for one user. A user's identifiers ascend; committing one again does nothing.

    Batch jobs use the identifier BATCH_COMMIT_IDENTIFIER; one of theirs counts as committed when a snapshot of the user
    holds its files. `new_user` says that nobody has committed as that user yet, which saves looking for it.
    Not for use by several threads.

    What an error leaves behind: CommitStateUnknownError everything, because a snapshot may refer to it. Every other
    error nothing of the snapshot that failed, the data files included: they were written against a state of the table
    that is gone, so the work is redone, not the commit.
    """

    def __init__(
        self,
        store: TableStore,
        commit_user: str,
        *,
        new_user: bool = False,
        retry: RetryPolicy | None = None,
    ) -> None:
        self._store = store
        self._user = commit_user
        self._retry = RetryPolicy.of(store.options) if retry is None else retry
        self._reader = ManifestReader(store.file_io, store.paths)
        self._committed = CommittedParts(self._reader, store.snapshots, commit_user, new_user=new_user)

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
    ) -> list[int]:
        """Commit the messages; the ids of their snapshots: one of new records, then one of compaction, as there are.

        New records become an APPEND snapshot (OVERWRITE when files are rewritten), compacted ones a COMPACT snapshot.
        `check_append_conflicts` compares new files with the whole state of their partitions, too. Without any change
        nothing is made, unless `allow_empty` asks for a snapshot that notes the identifier. `watermark` in
        milliseconds. New records that follow from rows of the table conflict with who changed those meanwhile. Raises
        CommitConflictError, CommitFailedError, CommitStateUnknownError, NotSupportedError.
        """
        check_writable(self._store)
        changes = collect_changes(messages)
        parts: list[_Part] = []
        if changes.append or (allow_empty and not changes.compact):
            replaces = changes.append.take_rows_away
            kind = CommitKind.OVERWRITE if replaces else CommitKind.APPEND
            facts = self._facts(kind, identifier, watermark, properties)
            part = self._fixed_part(facts, changes.append, check=replaces or check_append_conflicts)
            parts.append(replace(part, ground=Ground.of(messages, follows_from)))
        parts += self._compact_part(changes, identifier, watermark, properties)
        return self._publish_all(parts, messages)

    def overwrite(
        self,
        messages: Sequence[CommitMessage],
        *,
        partition: Mapping[str, object] | Predicate | None = None,
        dynamic: bool = False,
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
    ) -> list[int]:
        """Replace whole partitions by the messages' files; the ids of the snapshots made.

        Which ones: with `dynamic` those that the new files are in; else those that `partition` (some or all partition
        columns, or a predicate over them; nothing means the whole table) selects. Raises InvalidInputError for new
        files outside of them, and as `commit` does.
        """
        check_writable(self._store)
        schema = self._store.schema
        changes = collect_changes(messages)
        if any(e.kind is FileKind.DELETE for e in changes.append.files):
            raise InvalidInputError("An overwrite replaces whole partitions; its messages can't delete single files.")
        new_files = changes.append.files
        touched = changed_partitions(new_files)
        target: PartitionFilter
        if dynamic and schema.partition_keys:
            # Nothing written means nothing to replace.
            if not new_files:
                return self._publish_all(self._compact_part(changes, identifier, watermark, properties), messages)
            target = PartitionSet(touched, schema.partition_fields)
        else:
            target = self._partition_filter(partition)
            outside = touched - target.select(touched)
            if outside:
                self._delete(messages)
                place = self._place(min(outside), None)
                raise InvalidInputError(f"The new data have rows of {place}, which is not what is to be overwritten.")
        if new_files:
            try:
                check_keys_once(self._store, self._reader, target)
            except (InterbedError, OSError):
                self._delete(messages)
                raise
        if schema.has_primary_key and not changes.compact and self._store.options.boolean("overwrite-upgrade", True):
            new_files = upgrade_to_level(new_files, schema.key_types, self._store.options.num_levels - 1)
        facts = self._facts(CommitKind.OVERWRITE, identifier, watermark, properties)
        # What an overwrite changes is told by the files that it replaces, so it has no changelog, as in Paimon.
        parts = [self._overwrite_part(facts, target, new_files, changes.append.indexes)]
        parts += self._compact_part(changes, identifier, watermark, properties)
        ids = self._publish_all(parts, messages)
        self._delete([m.changelog_only() for m in messages if m.changelog_files])
        return ids

    def replace_partitions(
        self, messages: Sequence[CommitMessage], partitions: Collection[bytes], *, read_at: int
    ) -> list[int]:
        """Replace all files of the partitions by the messages' new ones, which hold the same rows, as of snapshot
        `read_at`; the ids of the snapshots made. Postponed rows are left alone.

        `partitions` are serialised BinaryRows. Raises CommitConflictError when rows came or went since, and as `commit`
        does.
        """
        check_writable(self._store)
        target = PartitionSet(partitions, self._store.schema.partition_fields)
        facts = self._facts(CommitKind.OVERWRITE, BATCH_COMMIT_IDENTIFIER, None, None)
        new_files = collect_changes(messages).append.files
        part = self._overwrite_part(facts, target, new_files, keeps_postponed=True)
        return self._publish_all([replace(part, ground=Ground(rows_as_of=read_at, partitions=target))], messages)

    def truncate(
        self,
        partitions: Sequence[Mapping[str, object]] | None = None,
        *,
        identifier: int = BATCH_COMMIT_IDENTIFIER,
    ) -> list[int]:
        """Delete all rows, or those of the (partial) partitions given; older snapshots keep them.

        The snapshot's id, or none for a table without snapshots. Raises InvalidInputError for an unknown partition
        column, and as `commit` does.
        """
        check_writable(self._store)
        if self._store.snapshots.latest_id() is None:
            return []
        filters = [AllPartitions()] if partitions is None else [self._partition_filter(p) for p in partitions]
        if not filters:
            return []
        target = filters[0] if len(filters) == 1 else AnyOfPartitions(filters)
        facts = self._facts(CommitKind.OVERWRITE, identifier, None, None)
        return self._publish_all([self._overwrite_part(facts, target, ())], ())

    def compact_manifests(self) -> int | None:
        """Merge all small and deleting manifests in a COMPACT snapshot that changes nothing else; its id.

        None when there is nothing to merge. Raises CommitFailedError, CommitStateUnknownError.
        """
        check_writable(self._store)
        latest = self._store.snapshots.latest()
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
        return commit._publish_all([commit._fixed_part(facts, PartChanges(), check=False)], ())[0]

    def commit_statistics(self, file_name: str) -> list[int]:
        """Make a snapshot of kind ANALYZE that names a file of statistics; its id. Raises as `commit` does."""
        check_writable(self._store)
        facts = SnapshotFacts(
            kind=CommitKind.ANALYZE, user=self._user, identifier=BATCH_COMMIT_IDENTIFIER, statistics=file_name
        )
        return self._publish_all([self._fixed_part(facts, collect_changes([]).append, check=False)], ())

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Delete the files of messages that are not going to be committed. Never after CommitStateUnknownError."""
        self._delete(messages)

    def filter_committed(self, identifiers: Sequence[int]) -> list[int]:
        """Those of the ascending identifiers that the user has not committed yet."""
        last = self._store.snapshots.latest_of_user(self._user)
        return [i for i in identifiers if last is None or i > last.commit_identifier]

    # -- parts -----------------------------------------------------------------------------------------------------

    def _facts(
        self, kind: CommitKind, identifier: int, watermark: int | None, properties: Mapping[str, str] | None
    ) -> SnapshotFacts:
        return SnapshotFacts(
            kind=kind, user=self._user, identifier=identifier, watermark=watermark, properties=properties
        )

    def _fixed_part(self, facts: SnapshotFacts, changes: PartChanges, *, check: bool) -> _Part:
        partitions = changed_partitions(changes.files) | {e.partition for e in changes.indexes}
        touched = PartitionSet(partitions, self._store.schema.partition_fields)
        return _Part(
            identity=PartIdentity.of(facts, changes.files),
            against=lambda latest: changes.files,
            base=BaseFiles(self._reader, self._store.snapshots, touched),
            check=check,
            changelog=changes.changelog,
            indexes=changes.indexes,
            compacted=frozenset(e.file.file_name for e in changes.files if e.kind is FileKind.DELETE),
        )

    def _compact_part(
        self, changes: Changes, identifier: int, watermark: int | None, properties: Mapping[str, str] | None
    ) -> list[_Part]:
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
    ) -> _Part:
        base = BaseFiles(self._reader, self._store.snapshots, target)
        return _Part(
            identity=PartIdentity.of(facts, new_files),
            against=OverwriteChanges(base, new_files, keeps_postponed=keeps_postponed).against,
            base=base,
            check=True,
            overwritten=target,
            indexes=indexes,
        )

    def _partition_filter(self, given: Mapping[str, object] | Predicate | None) -> PartitionFilter:
        return partition_filter(
            given, self._store.schema.partition_fields, default_name=self._store.options.partition_default_name
        )

    # -- publishing ------------------------------------------------------------------------------------------------

    def _publish_all(self, parts: Sequence[_Part], messages: Sequence[CommitMessage]) -> list[int]:
        done = self._committed.find([p.identity for p in parts])
        ids: list[int] = []
        for part in parts:
            known = done.get(part.facts.kind)
            if known is not None:
                _log.info("Snapshot %d of user %s exists already.", known, self._user)
                ids.append(known)
                continue
            try:
                ids.append(self._publish(part))
            except CommitStateUnknownError:
                self._committed.unknown()
                raise
            except DuplicateFileError:
                raise
            except (CommitConflictError, CommitFailedError) as error:
                if not self._committed.is_unknown:
                    self._delete(messages, compact_only=part.facts.kind is CommitKind.COMPACT)
                if not ids:
                    raise
                # The new records are in the table, and whoever was faster has compacted the same files or will.
                _log.info("Snapshot %d was made, its compaction was given up: %s", ids[-1], error)
            except (InterbedError, OSError) as error:
                if ids:
                    error.add_note(
                        f"The new records were committed as snapshot {ids[-1]}; only their compaction failed."
                    )
                if not self._committed.is_unknown:
                    self._delete(messages, compact_only=part.facts.kind is CommitKind.COMPACT)
                raise
        if parts:
            self._committed.note(parts[-1].facts.identifier)
            maintain(self._store)
        return ids

    def _publish(self, part: _Part) -> int:
        """Create the part's snapshot; its id. Removes its manifests on every error but CommitStateUnknownError."""
        store = self._store
        writer = ManifestWriter(
            store.file_io,
            store.paths,
            store.options,
            partition_types=store.schema.partition_types,
            schema_id=store.schema.id,
        )
        try:
            # Only a local directory has turns.
            with Turn(store.paths.latest_hint.rpartition("/")[0] if store.file_io.scheme == "file" else None) as turn:
                snapshot_id = self._race(part, writer, turn)
        except CommitStateUnknownError:
            raise
        except (InterbedError, OSError):
            # Anything else, an interruption above all, may have struck just after the snapshot was created: then the
            # files stay, at worst as orphans.
            writer.discard_all()
            raise
        store.snapshots.write_hints(snapshot_id)
        return snapshot_id

    def _race(self, part: _Part, writer: ManifestWriter, turn: Turn) -> int:
        store = self._store
        builder = SnapshotBuilder(self._reader, writer, store.options, store.schema.partition_fields, part.facts)
        indexes = IndexFiles(
            self._reader,
            writer,
            part.overwritten,
            part.indexes,
            bucketed=store.options.bucket > 0 or store.schema.has_primary_key,
            compacted=part.compacted,
            compression=store.options.manifest_compression,
        )
        ground = GroundCheck(self._reader, store.snapshots, self._user, part.ground)
        retries = self._retry.start()
        # All that takes long is done before the turn; within it, only what came since is looked at.
        builder.prepare(self._checked_delta(part, store.snapshots.latest(), self._current_schema()))
        previous: Snapshot | None = None
        while True:
            # Who waited for a turn in vain loses to those who have one, and queues up again.
            retries.take(turn)
            latest = store.snapshots.latest()
            if retries.count:
                known = self._committed.since(previous, latest, part.identity)
                if known is not None:
                    writer.discard_all()
                    return known
            schema = self._current_schema()
            ground.check(latest)
            delta = self._checked_delta(part, latest, schema, compare=ground.may_be_rescaled(latest))
            snapshot = builder.build(
                latest,
                delta,
                schema_id=schema.id,
                index_manifest=indexes.after(latest),
                changelog=part.changelog,
            )
            if self._created(snapshot):
                return snapshot.id
            _log.info("Snapshot %d was taken by another writer; retry %d.", snapshot.id, retries.count + 1)
            previous = latest
            if not retries.pause(hurry=turn.is_taken):
                raise CommitFailedError(
                    f"Lost the race for a snapshot of {store.location} {retries.count + 1} times in "
                    f"{retries.elapsed_millis / 1000:.1f} s; 'commit.max-retries' is {self._retry.max_retries}. The "
                    "data files were removed; write again, or with fewer writers at a time."
                )

    def _created(self, snapshot: Snapshot) -> bool:
        """Publish; before an error is taken for a failure, and files are deleted, make sure that it is one."""
        try:
            return self._store.publisher.publish(snapshot)
        except CommitStateUnknownError:
            raise
        except (InterbedError, OSError) as error:
            try:
                found = self._store.snapshots.read(snapshot.id)
            except SnapshotNotFoundError:
                raise error from None
            except (InterbedError, OSError) as second:
                raise CommitStateUnknownError(
                    f"It is not known whether snapshot {snapshot.id} of {self._store.location} was created: {error}"
                ) from second
            if found.uuid != snapshot.uuid:
                raise
            _log.warning("Snapshot %d was created, but then: %s", snapshot.id, error)
            return True

    def _checked_delta(
        self, part: _Part, latest: Snapshot | None, schema: TableSchema, *, compare: bool = False
    ) -> tuple[ManifestEntry, ...]:
        delta = part.against(latest)
        check_delta(delta, place=self._place)
        # Files of a table whose number of buckets was altered meanwhile must not mix with rescaled ones.
        check = part.check or compare or schema.core.bucket != self._store.schema.core.bucket
        if part.overwritten is None:
            check_total_buckets(delta, place=self._place)
        if latest is not None and check:
            check_conflicts(
                part.base.at(latest),
                delta,
                kind=part.facts.kind,
                key_types=self._store.schema.key_types if self._store.schema.has_primary_key else (),
                place=self._place,
            )
            if not self._store.schema.has_primary_key:
                check_vectors(part.base.at(latest), delta, part.indexes)
        elif latest is None and part.facts.kind is not CommitKind.APPEND:
            check_conflicts((), delta, kind=part.facts.kind, key_types=(), place=self._place)
        return delta

    def _current_schema(self) -> TableSchema:
        own = self._store.schema
        if is_replacement(own) and self._store.schemas.next_id() == own.id + 1:
            # What replaces a table is committed under its schema, which counts from this commit on.
            schema: TableSchema | None = own
        else:
            schema = self._store.schemas.latest()
        # A table of the same name made meanwhile has none of the files that were written for the old one.
        if schema is None or self._store.schemas.is_gone(self._store.schema):
            raise CommitFailedError(
                f"The table at {self._store.location} was dropped while it was written; nothing was committed."
            )
        if self._store.schemas.is_replaced(own, schema.id):
            raise CommitConflictError(
                f"The table at {self._store.location} was replaced while it was written; nothing was committed. Get it "
                "from its catalog again and write again."
            )
        return schema

    def _delete(self, messages: Sequence[CommitMessage], *, compact_only: bool = False) -> None:
        """Delete the files that exist for the messages' sake alone."""
        self._store.file_io.delete_quietly(owned_paths(self._store, messages, compact_only=compact_only))

    def _place(self, partition: bytes, bucket: int | None) -> str:
        directory = self._store.paths.partition_directory(partition)
        name = f"partition {directory}" if directory else "the table"
        return name if bucket is None else f"bucket {bucket} of {name}"
