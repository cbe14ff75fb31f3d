"""A plan without pruning: every live file of a snapshot, in one split for each bucket."""

from interbed.storage.base.bucket_id import by_bucket
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import FileIdentifier, FileKind, ManifestEntry
from interbed.storage.meta.manifest.manifest_file import read_manifest, read_manifest_list
from interbed.storage.scan.split import Split


def bare_splits(store: FileStore, snapshot_id: int | None = None, *, raw: bool = False) -> list[Split]:
    """The splits of a snapshot (by default the newest) by partition and bucket; all to be merged, or all raw."""
    snapshot = store.snapshots.latest() if snapshot_id is None else store.snapshots.snapshot(snapshot_id)
    assert snapshot is not None
    live: dict[FileIdentifier, ManifestEntry] = {}
    for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
        path = store.paths.manifest(name)
        for manifest in read_manifest_list(store.file_io.read_bytes(path), source=path):
            path = store.paths.manifest(manifest.file_name)
            for entry in read_manifest(store.file_io.read_bytes(path), source=path):
                if entry.kind is FileKind.ADD:
                    live[entry.identifier] = entry
                else:
                    del live[entry.identifier]
    return [
        Split(
            snapshot_id=snapshot.id,
            partition=bucket_id.partition,
            bucket=bucket_id.bucket,
            total_buckets=entries[0].total_buckets,
            bucket_path=store.paths.bucket_directory(bucket_id),
            files=tuple(e.file for e in entries),
            raw_convertible=raw,
        )
        for bucket_id, entries in sorted(by_bucket(live.values()).items())
    ]
