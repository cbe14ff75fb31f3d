"""Rollback of a table to a snapshot or a tag, or of its schema: later commits or schemas are withdrawn.

A rollback is one change of the history (meta.snapshot.history_journal): after a process was killed in between, the
next process that opens the table finishes it, and readers see the rows of before or of after. Data files of withdrawn
snapshots stay until orphan files are removed. Source: paimon-core's RollbackHelper.

`repair_earliest` moves the other end: the hint of the earliest snapshot, past a gap that lost files have left.

A rollback of the schema deletes the schema files after one. No snapshot, tag, changelog or data file may need a later
schema; roll the table itself back first. The deletion is one change of the history (meta.snapshot.history_journal),
newest file first. A process that is killed in it leaves a journal that the next one finishes. A writer that commits at
the same time, under a schema that is being deleted, gets its schema back, and the rollback is refused.

Source: paimon-core's SchemaManager.rollbackTo, which does not look into manifests.
"""

from collections.abc import Iterator
from contextlib import suppress

from interbed.storage.base.errors import CommitConflictError, InvalidInputError, SnapshotNotFoundError
from interbed.storage.commit.stream_commits import settle_positions
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.history_journal import (
    FileChange,
    HistoryChange,
    NewHistory,
    change_history,
    deletion,
    digests,
)
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.starting_point import has_changelog, snapshot_or_tagged
from interbed.storage.version.expire import SnapshotExpiry
from interbed.storage.version.references import tagged


def roll_back(store: FileStore, version: int | str) -> Snapshot:
    """Make the snapshot of that id, or that of the tag of that name, the newest. Return it.

    A snapshot that has expired is found by its tag. Raises SnapshotNotFoundError, TagNotFoundError.
    """
    tags = TagManager(store.file_io, store.paths)
    target = tags.get(version).snapshot if isinstance(version, str) else _snapshot(store, version)
    return _roll_back(store, target, version)


def roll_back_to_time(store: FileStore, time_millis: int) -> Snapshot:
    """Make the newest snapshot of that time (milliseconds since the epoch) or before the newest of all."""
    return _roll_back(store, store.snapshots.by_time_millis(time_millis))


def roll_back_to_watermark(store: FileStore, watermark: int) -> Snapshot:
    """Make the newest snapshot whose watermark is at most that the newest of all; raises SnapshotNotFoundError."""
    target = next(
        (s for s in store.snapshots.descending() if s.watermark is not None and s.watermark <= watermark), None
    )
    if target is None:
        raise SnapshotNotFoundError(f"No snapshot of {store.location} has a watermark of {watermark} or less.")
    return _roll_back(store, target)


def _snapshot(store: FileStore, snapshot_id: int) -> Snapshot:
    if snapshot_id < 1:
        raise InvalidInputError(f"A snapshot's id is 1 or more, not {snapshot_id}.")
    return snapshot_or_tagged(store, snapshot_id)


def _roll_back(store: FileStore, target: Snapshot, version: int | str | None = None) -> Snapshot:
    """Make the target, which `version` names, the newest snapshot. Return it in its restored form."""
    if (keeper := store.version_keeper) is not None:
        keeper.roll_back(target.id if version is None else version)
        return store.snapshots.read(target.id)
    store.check_exclusive()
    newest = target

    def make() -> HistoryChange:
        nonlocal newest
        SnapshotExpiry(store).finish()
        is_there = store.snapshots.exists(target.id)
        newest = target if is_there else restored(store, target)
        return _change(store, newest, is_there=is_there)

    with store.environment.new_lock().hold():
        change_history(store.file_io, store.paths, make)
    if newest != target:
        # Reading replaces the cached snapshot, which names a changelog. Another rollback may have deleted it since.
        with suppress(SnapshotNotFoundError):
            store.snapshots.stored(target.id)
    settle_positions(store)
    return newest


def restored(store: FileStore, snapshot: Snapshot) -> Snapshot:
    """Return a snapshot that a tag or a branch restores to the history, without a changelog that has expired."""
    if snapshot.changelog_manifest_list is None or has_changelog(store, snapshot):
        return snapshot
    return snapshot.without_changelog()


def _change(store: FileStore, target: Snapshot, *, is_there: bool) -> HistoryChange:
    """Return the history change of a rollback to the snapshot.

    Raises SnapshotNotFoundError when it was deleted since.
    """
    file_io, paths = store.file_io, store.paths
    newer = digests(file_io, paths, [number for number in store.snapshots.stored_ids() if number > target.id])
    then: list[FileChange] = []
    # Changelogs of withdrawn snapshots are deleted.
    for number in ChangelogManager(file_io, paths).ids():
        if number > target.id:
            then += deletion(file_io, paths, paths.changelog(number))
    tags = TagManager(file_io, paths)
    for tag in tags.all():
        if tag.snapshot.id > target.id:
            then += deletion(file_io, paths, paths.tag(tag.name))
    after: dict[int, str] = {}
    if not is_there:
        if not any(tag.snapshot.is_same(target) for tag in tags.all()):
            store.snapshots.read(target.id)
        # All that is left is newer: the tag's snapshot is the only one from now on.
        after[target.id] = target.to_json()
    line = NewHistory(first=target.id if after else target.id + 1, before=newer, after=after, newest=target)
    return HistoryChange(what=f"rollback to snapshot {target.id}", line=line, then=tuple(then))


def repair_earliest(store: FileStore, snapshot_id: int) -> int:
    """Make that snapshot the earliest one in the hint. Return the earlier one.

    Raises InvalidInputError unless it follows a gap, or is the earliest already, and no later one is missing.
    """
    ids = set(store.snapshots.ids())
    earliest, latest = store.snapshots.earliest_id(), store.snapshots.latest_id()
    if earliest is None or latest is None:
        raise InvalidInputError(f"The table at {store.location} has no snapshots, so none can be the earliest.")
    if not earliest <= snapshot_id <= latest:
        raise InvalidInputError(f"The earliest snapshot is one of {earliest} to {latest}, not {snapshot_id}.")
    missing = set(range(snapshot_id, latest + 1)) - ids
    if missing:
        raise InvalidInputError(
            f"After snapshot {snapshot_id} the snapshot {min(missing)} is missing; name a later one."
        )
    if snapshot_id != earliest and snapshot_id - 1 in ids:
        raise InvalidInputError(f"Snapshot {snapshot_id} follows snapshot {snapshot_id - 1}, not a gap.")
    store.snapshots.note_earliest(snapshot_id)
    return earliest


def roll_back_schema(store: FileStore, schema_id: int) -> TableSchema:
    """Make the schema of that id the newest, and return it.

    InvalidInputError without such a schema, or if a later one is needed. CommitConflictError if a writer commits under
    a later one at the same time.
    """
    store.check_exclusive()
    deleted: dict[int, str] = {}

    def make() -> HistoryChange:
        deleted.clear()
        ids = store.schemas.ids()
        if schema_id not in ids:
            raise InvalidInputError(
                f"Schema {schema_id} of {store.location} does not exist. Its schemas are "
                f"{', '.join(map(str, ids))}; name one of them."
            )
        _check_unused(store, schema_id)
        then: list[FileChange] = []
        for number in sorted((each for each in ids if each > schema_id), reverse=True):
            deleted[number] = store.schemas.schema(number).to_json()
            then += deletion(store.file_io, store.paths, store.paths.schema(number))
        return HistoryChange(what=f"rollback to schema {schema_id}", then=tuple(then))

    with store.environment.new_lock().hold():
        change_history(store.file_io, store.paths, make)
        # Without a lock a writer may have looked for its schema before that was deleted.
        with suppress(InvalidInputError):
            _check_unused(store, schema_id)
            return store.schemas.schema(schema_id)
        for number in sorted(deleted):
            store.file_io.create_exclusive(store.paths.schema(number), deleted[number].encode())
    raise CommitConflictError(
        f"A writer has committed to {store.location} under a schema after {schema_id} at the same time; the schemas "
        "were restored. Stop the writer, or roll the table back first."
    )


def _check_unused(store: FileStore, schema_id: int) -> None:
    """Raise InvalidInputError if a version of the table needs a schema after this one."""
    for number in _needed(store):
        if number > schema_id:
            raise InvalidInputError(
                f"Cannot rollback to schema {schema_id} of {store.location}: schema {number} is still referenced by "
                "snapshots/tags/changelogs. Roll the table back to a snapshot before it, or let these expire, first."
            )


def _needed(store: FileStore) -> Iterator[int]:
    """Yield the schemas of all versions of the table, and of the files that they name."""
    tags = tagged(store)
    for error in tags.unjudged.values():
        raise error
    changelogs = ChangelogManager(store.file_io, store.paths).all()
    reader, known = ManifestReader(store.file_io, store.paths), set[str]()
    for version in (*store.snapshots.all(), *tags.snapshots, *changelogs):
        yield version.schema_id
        yield from _of_files(reader, version, known)


def _of_files(reader: ManifestReader, version: Snapshot, known: set[str]) -> Iterator[int]:
    # A writer that was opened under a later schema may have committed before the snapshots that are left.
    for manifest in (*reader.data(version), *reader.changelog(version)):
        if manifest.file_name not in known:
            known.add(manifest.file_name)
            yield from {entry.file.schema_id for entry in reader.manifest(manifest)}
