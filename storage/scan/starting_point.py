"""Which snapshot a scan reads."""

from dataclasses import replace

from interbed.storage.errors import InvalidOptionError, NotSupportedError
from interbed.storage.snapshot.snapshot import Snapshot
from interbed.storage.store import TableStore, open_store

_SNAPSHOT_ID = "scan.snapshot-id"
_TIMESTAMP_MILLIS = "scan.timestamp-millis"
_UNSUPPORTED = ("scan.tag-name", "scan.timestamp", "scan.watermark", "scan.version", "incremental-between")


def starting_snapshot(store: TableStore, snapshot_id: int | None = None) -> Snapshot | None:
    """The snapshot of that id; without one what the scan options say, and else the newest (None when there is none).

    Raises SnapshotNotFoundError naming the snapshots that exist, InvalidOptionError and NotSupportedError.
    """
    if snapshot_id is not None:
        return store.snapshots.read(snapshot_id)
    raw = store.options.raw
    for key in _UNSUPPORTED:
        if key in raw:
            raise NotSupportedError(
                f"Option '{key}' is not supported yet; use '{_SNAPSHOT_ID}' or '{_TIMESTAMP_MILLIS}'."
            )
    if _SNAPSHOT_ID in raw and _TIMESTAMP_MILLIS in raw:
        raise InvalidOptionError(f"Give only one of the options '{_SNAPSHOT_ID}' and '{_TIMESTAMP_MILLIS}'.")
    if _SNAPSHOT_ID in raw:
        return store.snapshots.read(store.options.integer(_SNAPSHOT_ID, 0))
    if _TIMESTAMP_MILLIS in raw:
        return store.snapshots.by_time_millis(store.options.integer(_TIMESTAMP_MILLIS, 0))
    return store.snapshots.latest()


def at_snapshot(store: TableStore, snapshot_id: int | None = None) -> TableStore:
    """The table as the snapshot knew it, for reads of the past: its columns, under the options of today.

    Which snapshot, and errors, as in starting_snapshot; without anything that names one the table stays as it is.
    """
    if snapshot_id is None and not any(key in store.options.raw for key in (_SNAPSHOT_ID, _TIMESTAMP_MILLIS)):
        return store
    snapshot = starting_snapshot(store, snapshot_id)
    if snapshot is None or snapshot.schema_id == store.schema.id:
        return store
    then = replace(store.schemas.schema(snapshot.schema_id), options=store.schema.options)
    return open_store(
        store.location,
        store.file_io,
        schema=then,
        dynamic_options=store.dynamic_options,
        environment=store.environment,
    )
