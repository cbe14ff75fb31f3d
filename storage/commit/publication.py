"""Creation of snapshots: the race for the next id, and the clean-up after a lost race.

Manifests are written under new names, and then the file of the next snapshot is created. The creation fails when
another writer was faster; then the commit reads the new snapshots, is checked again, and tries the next id. Nothing is
visible before that one creation, so a process that dies leaves only files that no snapshot refers to.

With `commit.sync` = full all files that a snapshot is the first to refer to are durable before it is created. The files
of the messages may be those of other processes, so they are synced by their paths.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress

from interbed.storage.base.errors import (
    CommitConflictError,
    CommitError,
    CommitFailedError,
    CommitStateUnknownError,
    CorruptFileError,
    InterbedError,
    SnapshotNotFoundError,
    StorageAccessError,
)
from interbed.storage.commit.basis import BasisCheck
from interbed.storage.commit.changes import (
    DuplicateFileError,
    check_conflicts,
    check_delta,
    check_lookups,
    check_order,
    check_rewritten_schemas,
    check_total_buckets,
    check_vectors,
    owned_paths,
)
from interbed.storage.commit.committed import PROGRESS, CommittedParts, SnapshotOutcome
from interbed.storage.commit.contention import CommitLease, ContentionLock, LocalCommitLock, RetryPolicy
from interbed.storage.commit.manifest_writer import IndexFiles, ManifestWriter
from interbed.storage.commit.pending_snapshot import PendingSnapshot
from interbed.storage.commit.row_ids import NumberedEntries, brings_row_ids, check_row_ranges, numbered_entries
from interbed.storage.commit.snapshot_builder import SnapshotBuilder
from interbed.storage.io.parallel import PendingFiles, both
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import ManifestEntry
from interbed.storage.meta.options.format import CommitSync
from interbed.storage.meta.options.log import LogConsistency
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.history_journal import JournalOutcome, finish_history_change
from interbed.storage.meta.snapshot.progress import LogPositions
from interbed.storage.meta.snapshot.snapshot import CommitKind, DecidingPublisher, Snapshot, attempts_of, is_waited_for
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.write.commit_message import CommitMessage

_log = logging.getLogger(__name__)


class Publication:
    """Creator of the snapshots of one user's commits, after their `pending` data files are written. Not thread-safe."""

    def __init__(
        self,
        store: FileStore,
        commit_user: str,
        reader: ManifestReader,
        retry: RetryPolicy,
        *,
        new_user: bool,
        pending: PendingFiles | None = None,
    ) -> None:
        self._store = store
        self._user = commit_user
        self._reader = reader
        self._retry = retry
        self._pending = pending
        self._syncs = store.options.commit_sync is CommitSync.FULL
        self.attempts = 0
        """Number of attempts to create snapshots."""
        self.gave_up_compaction = False
        """Whether the last `make` committed new records, but not their compaction."""
        self._committed = CommittedParts(reader, store.snapshots, commit_user, new_user=new_user)

    def make(self, parts: Sequence[PendingSnapshot], messages: Sequence[CommitMessage]) -> list[int]:
        """Create the missing snapshots of the parts and return the ids of all. Errors as of FileStoreCommit."""
        done = self._committed.find([p.identity for p in parts])
        ids: list[int] = []
        self.gave_up_compaction = False
        for part in parts:
            known = done.get(part.facts.kind)
            if known is not None:
                _log.info("Snapshot %d of user %s exists already.", known, self._user)
                ids.append(known)
                continue
            try:
                ids.append(self._publish(part))
            except CommitStateUnknownError as error:
                self._committed.unknown()
                if not ids:
                    raise
                self._give_up_compaction(ids[-1], error)
            except DuplicateFileError:
                raise
            except (InterbedError, OSError) as error:
                if self._pending is not None:
                    self._pending.settle()
                if not self._committed.is_unknown:
                    self.delete(messages, compact_only=part.facts.kind is CommitKind.COMPACT)
                if not ids:
                    raise
                self._give_up_compaction(ids[-1], error)
        if parts:
            self._committed.note(parts[-1].facts.identifier)
            self._store.hooks.after_commit(self._store)
        return ids

    def _give_up_compaction(self, snapshot_id: int, error: Exception) -> None:
        """Record that the commit has no compaction, and continue.

        The new records are in the table: after an error the caller would write them again. A faster writer has
        compacted the same files or will. After a storage error the next compaction tries again.
        """
        self.gave_up_compaction = True
        lost_race = isinstance(error, CommitConflictError | CommitFailedError)
        _log.log(
            logging.INFO if lost_race else logging.WARNING,
            "Snapshot %d of %s was made, its compaction was given up: %s",
            snapshot_id,
            self._store.location,
            error,
        )

    def _publish(self, part: PendingSnapshot) -> int:
        """Create the part's snapshot and return its id.

        Removes its manifests on every error but CommitStateUnknownError.
        """
        store = self._store
        writer = ManifestWriter(
            store.file_io,
            store.paths,
            store.options,
            partition_types=store.schema.partition_types,
            schema_id=store.schema.id,
        )
        try:
            with store.changing(), self._queue() as queue, attempts_of(store.publisher):
                snapshot_id = self._race(part, writer, queue)
        except CommitStateUnknownError:
            raise
        except (InterbedError, OSError):
            # Any other exception, such as an interrupt, may have occurred just after the creation of the snapshot. Then
            # the files stay, at worst as orphans.
            writer.discard_all()
            raise
        store.snapshots.write_hints(snapshot_id)
        return snapshot_id

    def _queue(self) -> ContentionLock:
        file_io, paths = self._store.file_io, self._store.paths
        if file_io.capabilities.file_locks:
            return LocalCommitLock(paths.turn_on_disk)
        return CommitLease(file_io, paths.turn_in_store)

    def _race(self, part: PendingSnapshot, writer: ManifestWriter, queue: ContentionLock) -> int:
        store = self._store
        builder, indexes = self._builders(part, writer)
        check = BasisCheck(self._reader, store.snapshots, self._user, part.basis)
        retries = self._retry.start()
        if not store.file_io.capabilities.slow_requests:
            # Do all slow work before the turn; within it only changes since are checked. In an object store turns are
            # rare, and each look-up takes a request.
            with suppress(CorruptFileError):
                # The snapshot may have expired since. Other read errors recur below.
                latest, schema = self._state(queue)
                builder.prepare(self._with_row_ids(self._checked_delta(part, latest, schema), latest).entries)
        # Sync these files, which are by far the most bytes, before the turn, so that no other writer waits for them.
        self._sync(writer, part.new_paths)
        log_offsets = self._log_offsets(part.facts.kind)
        previous: Snapshot | None = None
        while True:
            # A writer whose wait for a turn timed out loses to the holder of the turn, and queues up again. A writer
            # that kept a lock must not wait for the holder of a turn that waits for the lock.
            if not is_waited_for(store.publisher):
                retries.take(queue)
            latest, schema = self._state(queue, is_new=retries.count > 0 or queue.is_taken)
            if retries.count:
                known = self._committed.since(previous, latest, part.identity)
                if known is not None:
                    writer.discard_all()
                    return known
            try:
                check.check(latest)
                delta = self._checked_delta(part, latest, schema, compare=check.may_be_rescaled(latest))
                numbered = self._with_row_ids(delta, latest)
                delta = numbered.entries
                snapshot = builder.build(
                    latest,
                    delta,
                    schema_id=schema.id,
                    index_manifest=indexes.after(latest),
                    changelog=part.changelog,
                    log_offsets=log_offsets,
                    next_row_id=numbered.next_row_id,
                )
            except CorruptFileError:
                if latest is None or store.snapshots.is_stored(latest):
                    raise
                # Another writer has committed, and the files that were being read have expired.
                must_rewrite = True
            else:
                self.attempts += 1
                self._sync(writer)
                if self._pending is not None:
                    self._pending.finish()
                must_rewrite = self._created(latest, snapshot, delta)
                if must_rewrite and self._is_in_history(snapshot, latest, part, delta, builder.delta_manifests):
                    store.schemas.note_beside(store.schema, snapshot)
                    return snapshot.id
            if must_rewrite:
                # Not all manifests are written, or other processes may have seen and deleted them.
                writer.discard_all()
                builder, indexes = self._builders(part, writer)
            after = 0 if latest is None else latest.id
            _log.info("Another writer committed first after snapshot %d; retry %d.", after, retries.count + 1)
            previous = latest
            queue.lost()
            if not retries.pause(hurry=queue.is_taken or is_waited_for(store.publisher)):
                raise CommitFailedError(
                    f"Lost the race for a snapshot of {store.location} {retries.count + 1} times in "
                    f"{retries.elapsed_seconds:.1f} s; 'commit.max-retries' is {self._retry.max_retries}. The "
                    "data files were removed; write again, or with fewer writers at a time."
                )

    def _builders(self, part: PendingSnapshot, writer: ManifestWriter) -> tuple[SnapshotBuilder, IndexFiles]:
        store = self._store
        builder = SnapshotBuilder(self._reader, writer, store.options, store.schema.partition_fields, part.facts)
        indexes = IndexFiles(
            self._reader,
            writer,
            part.overwritten,
            part.indexes,
            bucketed=store.options.bucket > 0 or store.schema.has_primary_key,
            compacted=part.compacted,
        )
        return builder, indexes

    def _log_offsets(self, kind: CommitKind) -> Mapping[str, int] | None:
        """Return the known end offsets of the table's log: readers of the snapshot begin there."""
        consistency = self._store.log_consistency
        if consistency is None:
            return None
        if consistency is LogConsistency.EVENTUAL:
            # A compaction commits no records, and other writers may have sent records that are not committed yet.
            return None if kind is CommitKind.COMPACT else self._store.hooks.log_ends(self._store)
        try:
            recorded = LogPositions(self._store.file_io, self._store.paths).read()
        except CorruptFileError as error:
            _log.warning("The next snapshot of %s has no log offsets: %s", self._store.location, error)
            return None
        return None if recorded is None else recorded.as_log_offsets

    def _sync(self, writer: ManifestWriter, files: Sequence[str] = ()) -> None:
        writer.finish()
        if self._syncs:
            writer.sync(files)

    def _created(self, base: Snapshot | None, snapshot: Snapshot, delta: Sequence[ManifestEntry]) -> bool:
        """Publish the snapshot and return whether it was created.

        An error counts as a failure only once that is confirmed.
        """
        with PROGRESS.creating(self._store.location, snapshot.id):
            created = self._created_or_not(base, snapshot, delta)
            PROGRESS.done(created=created)
        return created

    def _created_or_not(self, base: Snapshot | None, snapshot: Snapshot, delta: Sequence[ManifestEntry]) -> bool:
        publisher = self._store.publisher
        try:
            if isinstance(publisher, DecidingPublisher):
                return publisher.publish_on(base, snapshot, delta)
            return publisher.publish(snapshot)
        except CommitStateUnknownError:
            raise
        except (InterbedError, OSError) as error:
            if isinstance(error, StorageAccessError) and error.changed_nothing:
                raise
            try:
                found = self._store.snapshots.read(snapshot.id)
            except SnapshotNotFoundError:
                if not isinstance(error, CommitError) and self._store.is_gone():
                    raise CommitStateUnknownError(
                        f"It is not known whether snapshot {snapshot.id} was created before the table at "
                        f"{self._store.location} was dropped or renamed: {error}"
                    ) from error
                raise error from None
            except (InterbedError, OSError) as second:
                raise CommitStateUnknownError(
                    f"It is not known whether snapshot {snapshot.id} of {self._store.location} was created: {error}"
                ) from second
            if found.uuid != snapshot.uuid:
                raise
            _log.warning("Snapshot %d was created, but then: %s", snapshot.id, error)
            return True

    def _is_in_history(
        self,
        snapshot: Snapshot,
        base: Snapshot | None,
        part: PendingSnapshot,
        delta: tuple[ManifestEntry, ...],
        manifests: frozenset[str],
    ) -> bool:
        """Return whether a snapshot that was just created is part of the table's history; otherwise withdraw it.

        It is part of the history if its base snapshot exists:

        - A rollback deletes the base first and looks for new snapshots afterwards, so that either the rollback finds
          this snapshot or this method misses the base.
        - Snapshots expire oldest first. While the base exists, no snapshot with the id of this one has expired.

        Without the base, CommittedParts.outcome decides: another writer may have built on this snapshot, or its id may
        be one that has expired (LATE). `delta` and `manifests` are its arguments.
        """
        store = self._store
        if isinstance(store.publisher, DecidingPublisher):
            return True
        try:
            if base is not None and store.file_io.capabilities.slow_requests:
                # One request is enough: while the base exists, a process that rolls back has yet to look for new
                # snapshots, and treats this one as an older one.
                change = JournalOutcome.NONE
            else:
                change = finish_history_change(store.file_io, store.paths)
            if change is not JournalOutcome.BUSY and base is not None and store.snapshots.is_stored(base):
                return change is JournalOutcome.NONE or store.snapshots.is_stored(snapshot)
        except (InterbedError, OSError) as error:
            _log.warning("Snapshot %d is committed, but its base snapshot can't be looked up: %s", snapshot.id, error)
            return True
        try:
            if change is not JournalOutcome.BUSY and store.schemas.is_gone(store.schema):
                # It was created where the table was dropped, or in another table that has its location now.
                if store.snapshots.exists(snapshot.id + 1):
                    raise self._unknown(
                        snapshot, "the table was dropped and recreated, and another snapshot follows it"
                    )
                if not store.snapshots.is_stored(snapshot):
                    # A table that was renamed has taken the snapshot along.
                    raise self._unknown(snapshot, "the table was dropped or renamed since")
                store.file_io.delete(store.paths.snapshot(snapshot.id))
                raise CommitFailedError(self._was_dropped())
            if change is JournalOutcome.BUSY:
                outcome = SnapshotOutcome.WITHDRAWN
            else:
                outcome = self._committed.outcome(snapshot, delta, manifests)
            if outcome in (SnapshotOutcome.WITHDRAWN, SnapshotOutcome.LATE) and store.snapshots.is_stored(snapshot):
                store.file_io.delete(store.paths.snapshot(snapshot.id))
        except (CommitFailedError, CommitStateUnknownError):
            raise
        except (InterbedError, OSError) as error:
            raise self._unknown(snapshot, f"it can't be looked up: {error}") from error
        if outcome is SnapshotOutcome.UNKNOWN:
            raise self._unknown(snapshot, "it has expired since")
        if outcome is SnapshotOutcome.LATE and (part.changelog or part.indexes):
            # A concurrent expiry may have seen the snapshot, and deletes such files with it.
            raise CommitFailedError(
                f"This writer of {store.location} was delayed until its base snapshot had expired; nothing "
                "was committed, and its files were removed. Write again."
            )
        return outcome is SnapshotOutcome.IN_HISTORY

    def _was_dropped(self) -> str:
        return f"The table at {self._store.location} was dropped while it was written; nothing was committed."

    def _unknown(self, snapshot: Snapshot, why: str) -> CommitStateUnknownError:
        return CommitStateUnknownError(
            f"Snapshot {snapshot.id} of {self._store.location} was created, but it is not known whether it is part of "
            f"the table's history: {why}. Its files were left in place; check whether its rows are in the table."
        )

    def _checked_delta(
        self, part: PendingSnapshot, latest: Snapshot | None, schema: TableSchema, *, compare: bool = False
    ) -> tuple[ManifestEntry, ...]:
        delta = part.against(latest)
        check_delta(delta, place=self.place)
        if part.facts.kind is CommitKind.COMPACT:
            check_rewritten_schemas(delta, self.place)
        # Files of a table whose bucket count was altered since must not mix with rescaled ones.
        check = part.check or compare or schema.core.bucket != self._store.schema.core.bucket
        if part.overwritten is None:
            check_total_buckets(delta, place=self.place)
        if latest is not None and check:
            check_conflicts(
                part.base.at(latest),
                delta,
                kind=part.facts.kind,
                key_types=self._store.schema.key_types if self._store.schema.has_primary_key else (),
                place=self.place,
            )
            if part.facts.kind is CommitKind.COMPACT and not self._store.options.scans_skip_level_0:
                check_order(part.base.at(latest), delta, key_types=self._store.schema.key_types, place=self.place)
            check_vectors(part.base.at(latest), delta, part.indexes)
            check_lookups(
                part.base.at(latest), delta, part.looked_up, key_types=self._store.schema.key_types, place=self.place
            )
        if brings_row_ids(delta) and self._store.options.data_evolution_enabled:
            check_row_ranges(
                part.base.at(latest),
                delta,
                read=part.basis.columns_as_of,
                schema_of=self._store.schema_of,
                place=self.place,
            )
        if latest is None and part.facts.kind is not CommitKind.APPEND:
            check_conflicts((), delta, kind=part.facts.kind, key_types=(), place=self.place)
        return delta

    def _with_row_ids(self, delta: tuple[ManifestEntry, ...], latest: Snapshot | None) -> NumberedEntries:
        """Return the changes with the ids of new rows; they depend on the snapshot that the commit builds on."""
        options = self._store.options
        if not options.row_tracking_enabled:
            return NumberedEntries(entries=delta, next_row_id=None if latest is None else latest.next_row_id)
        return numbered_entries(delta, latest, by_partition=options.row_ids_by_partition)

    def _state(self, queue: ContentionLock, *, is_new: bool = False) -> tuple[Snapshot | None, TableSchema]:
        """Return the snapshot to build on and the newest schema.

        Raises CorruptFileError while the table's history changes. In an object store the snapshot is the one that was
        the newest before, if it still exists, unless other writers are known to commit (`is_new`).
        """
        store = self._store
        remote = store.file_io.capabilities.slow_requests

        def look() -> Snapshot | None:
            known = store.snapshots.standing() if remote and not is_new else None
            return known or store.snapshots.latest()

        latest, schemas = both(store.file_io, look, store.schemas.settled)
        if schemas.was_changing:
            latest = store.snapshots.latest()
        if schemas.is_turn and not queue.is_taken:
            queue.meet()
        return latest, self._current_schema(schemas.ids, latest if remote else None)

    def _current_schema(self, ids: Sequence[int], beside: Snapshot | None) -> TableSchema:
        own, schemas = self._store.schema, self._store.schemas
        if own.is_replacement and max(ids, default=-1) == own.id:
            # A table replacement is committed under its own schema, which is valid from this commit on.
            schema: TableSchema | None = own
        else:
            schema = schemas.newest_of(ids)
        # A table of the same name that was created since has none of the files that were written for the old one.
        if schema is None or schemas.is_gone(own, beside):
            raise CommitFailedError(self._was_dropped())
        if schemas.is_replaced(own, schema.id):
            raise CommitConflictError(
                f"The table at {self._store.location} was replaced while it was written; nothing was committed. Get it "
                "from its catalog again and write again."
            )
        return schema

    def delete(self, messages: Sequence[CommitMessage], *, compact_only: bool = False) -> None:
        """Delete the files that exist only for the messages."""
        self._store.file_io.delete_quietly(owned_paths(self._store, messages, compact_only=compact_only))

    def place(self, partition: bytes, bucket: int | None) -> str:
        """Return the name of a partition or a bucket, for messages."""
        directory = self._store.paths.partition_directory(partition)
        name = f"partition {directory}" if directory else "the table"
        return name if bucket is None else f"bucket {bucket} of {name}"
