"""Rollback: what was committed after a snapshot or a tag is taken back.

The hint goes first, then the newer snapshots, newest first, then the tags on them: a process killed in between leaves
the table at some snapshot between the two. Data files of what was taken back stay until orphan files are removed.
Source: paimon-core's RollbackHelper.
"""

from interbed.storage.base.errors import InvalidInputError, SnapshotNotFoundError
from interbed.storage.meta.snapshot.changelog import ChangelogManager
from interbed.storage.meta.snapshot.lock import NoLock
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.meta.store import TableStore
from interbed.storage.scan.starting_point import snapshot_or_tagged


def roll_back(store: TableStore, version: int | str) -> Snapshot:
    """Make the snapshot of that id, or that of the tag of that name, the newest; it is returned.

    A snapshot that has expired is found by its tag. Raises SnapshotNotFoundError, TagNotFoundError.
    """
    tags = TagManager(store.file_io, store.paths)
    target = tags.get(version).snapshot if isinstance(version, str) else _snapshot(store, version)
    _take_back(store, tags, target)
    return target


def roll_back_to_time(store: TableStore, time_millis: int) -> Snapshot:
    """Make the newest snapshot of that time (milliseconds since the epoch) or before the newest of all."""
    target = store.snapshots.by_time_millis(time_millis)
    _take_back(store, TagManager(store.file_io, store.paths), target)
    return target


def roll_back_to_watermark(store: TableStore, watermark: int) -> Snapshot:
    """Make the newest snapshot whose watermark is that or less the newest of all; raises SnapshotNotFoundError."""
    target = next(
        (s for s in store.snapshots.descending() if s.watermark is not None and s.watermark <= watermark), None
    )
    if target is None:
        raise SnapshotNotFoundError(f"No snapshot of {store.location} has a watermark of {watermark} or less.")
    _take_back(store, TagManager(store.file_io, store.paths), target)
    return target


def _snapshot(store: TableStore, snapshot_id: int) -> Snapshot:
    if snapshot_id < 1:
        raise InvalidInputError(f"A snapshot's id is 1 or more, not {snapshot_id}.")
    return snapshot_or_tagged(store, snapshot_id)


def _take_back(store: TableStore, tags: TagManager, target: Snapshot) -> None:
    lock = store.environment.lock() if store.environment.lock else NoLock()
    with lock.hold():
        expired = not store.snapshots.exists(target.id)
        store.snapshots.note_latest(target.id)
        newer = [number for number in store.snapshots.ids() if number > target.id]
        for number in sorted(newer, reverse=True):
            store.file_io.delete(store.paths.snapshot(number))
        # Changelogs of what is taken back are of versions that never were.
        changelogs = ChangelogManager(store.file_io, store.paths)
        changelogs.delete([number for number in changelogs.ids() if number > target.id])
        if expired:
            # All that was left was newer: the tag's snapshot is the only one from now on.
            store.file_io.create_exclusive(store.paths.snapshot(target.id), target.to_json().encode())
            store.snapshots.note_earliest(target.id)
        for tag in tags.all():
            if tag.snapshot.id > target.id:
                tags.delete(tag.name)
