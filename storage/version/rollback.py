"""Rollback of a table to a snapshot or a tag: later commits are withdrawn.

A rollback is one change of the history (meta.snapshot.history_journal): after a process was killed in between, the
next process that opens the table finishes it, and readers see the rows of before or of after. Data files of withdrawn
snapshots stay until orphan files are removed. Source: paimon-core's RollbackHelper.

`repair_earliest` moves the other end: the hint of the earliest snapshot, past a gap that lost files have left.
"""

from contextlib import suppress

from interbed.storage.base.errors import InvalidInputError, SnapshotNotFoundError
from interbed.storage.meta.file_store import FileStore
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
from interbed.storage.scan.starting_point import has_changelog, snapshot_or_tagged
from interbed.storage.version.expire import SnapshotExpiry


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
