"""The hint of the earliest snapshot, set right where snapshots below it are missing (paimon-core, SnapshotManager)."""

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.meta.store import TableStore


def repair_earliest(store: TableStore, snapshot_id: int) -> int:
    """Note that snapshot as the earliest one; the one before is returned.

    Raises InvalidInputError unless it follows a gap, or is the earliest already, and none is missing since.
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
