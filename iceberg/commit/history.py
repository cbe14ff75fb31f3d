"""Removal of snapshots that keeps the history of a table true.

Where pyiceberg makes the metadata (tables of directories, of metastores, and of its catalogs without a server), its own
removal leaves gaps in the log of current snapshots: a read as of a time in a gap would show the snapshot before the
gap. It also makes snapshots forget a removed parent, from which incremental readers continue. Source: Iceberg's table
specification, `snapshot-log` ("all items before an expired snapshot are removed").
"""

from collections.abc import Collection, Iterable
from typing import Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import SnapshotLogEntry
from pyiceberg.table.update import RemoveSnapshotsUpdate, _apply_table_update


class RemoveSnapshotsFromHistory(RemoveSnapshotsUpdate):
    """Update that removes snapshots and cuts the log at the newest of them; servers see pyiceberg's own update."""


@_apply_table_update.register(RemoveSnapshotsFromHistory)
def _removed(update: RemoveSnapshotsFromHistory, base_metadata: TableMetadata, context: Any) -> TableMetadata:
    made: TableMetadata = _apply_table_update(
        RemoveSnapshotsUpdate.model_validate({"snapshot-ids": update.snapshot_ids}), base_metadata, context
    )
    parents = {each.snapshot_id: each.parent_snapshot_id for each in base_metadata.snapshots}
    snapshots = [each.model_copy(update={"parent_snapshot_id": parents[each.snapshot_id]}) for each in made.snapshots]
    log = cut_log(base_metadata.snapshot_log, update.snapshot_ids)
    return made.model_copy(update={"snapshots": snapshots, "snapshot_log": log})


def cut_log(log: Iterable[SnapshotLogEntry], removed: Collection[int]) -> list[SnapshotLogEntry]:
    """Return the entries of a log after the last one of a removed snapshot."""
    kept: list[SnapshotLogEntry] = []
    for entry in log:
        if entry.snapshot_id in removed:
            kept.clear()
        else:
            kept.append(entry)
    return kept
