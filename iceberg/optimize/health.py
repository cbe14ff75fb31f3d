"""How well an Iceberg table serves its readers, told from its metadata alone, in the figures of interbed's own tables.

The files of a partition are a bucket. Its small files are what a minor compaction takes away: small data files, delete
files by keys, and data files whose positions are in several files.
"""

import json
from collections import defaultdict

from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table as Metadata

from interbed.iceberg.commit.replace import manifest_target
from interbed.iceberg.meta.manifests import manifests_of
from interbed.iceberg.optimize.expire import SnapshotRetention, expired, next_expiry
from interbed.iceberg.optimize.job import OptimizeSettings
from interbed.iceberg.optimize.planner import deleted_shares
from interbed.iceberg.plan.plan import plan_read
from interbed.iceberg.plan.task import DataTask
from interbed.iceberg.read.files import TableFiles
from interbed.storage.upkeep.bucket_health import BucketHealth
from interbed.storage.upkeep.health import TableHealth

_MANIFESTS_LEFT = 100
"""So many small manifests the commits of others leave (`commit.manifest.min-count-to-merge`)."""


def iceberg_health(table: Metadata, now_millis: int) -> TableHealth:
    """The health of the table as it was loaded. Raises what reading metadata raises, InvalidOptionError."""
    metadata = table.metadata
    snapshot = metadata.current_snapshot()
    if snapshot is None:
        return TableHealth()
    settings = OptimizeSettings.of(metadata.properties)
    files = TableFiles.of(metadata, table.io.properties)
    plan = plan_read(metadata, files.io, snapshot, metadata.schema(), None)
    partitions: dict[tuple[int, tuple[object, ...]], list[DataTask]] = defaultdict(list)
    for task in plan.tasks:
        for file in task.files:
            partitions[file.file.spec_id, file.file.partition].append(file)
    manifests = manifests_of(files.io, snapshot)
    return TableHealth(
        snapshot_id=snapshot.snapshot_id,
        newest_millis=snapshot.timestamp_ms,
        by_bucket=tuple(
            _of_partition(spec_id, partition, files, settings) for (spec_id, partition), files in partitions.items()
        ),
        manifests=len(manifests),
        manifests_due=_manifests_due(manifests, manifest_target(metadata)),
        snapshots=len(metadata.snapshots),
        snapshots_due=len(expired(metadata, SnapshotRetention(), now_millis).snapshots),
        next_expiry_millis=next_expiry(metadata, now_millis),
    )


def _of_partition(
    spec_id: int, partition: tuple[object, ...], files: list[DataTask], settings: OptimizeSettings
) -> BucketHealth:
    name = "/".join(map(str, partition))
    small = sum(task.file.size < settings.small for task in files)
    keys = {file.place for task in files for file in task.deletes.equality}
    scattered = sum(len(task.deletes.positions) > 1 for task in files)
    deletes = {file.place: file for task in files for file in task.deletes.files}
    rows = sum(task.file.records for task in files)
    shares = deleted_shares(files)
    return BucketHealth(
        partition=json.dumps([spec_id, *map(str, partition)]).encode(),
        partition_name=name,
        files=len(files),
        bytes=sum(task.file.size for task in files),
        rows=rows,
        # One small file alone has none to be put together with.
        small_files=(small if small > 1 else 0) + len(keys) + scattered,
        spare_files=max(small - 1, 0),
        vector_files=len(deletes),
        delete_rows=round(sum(shares[task.file.path] * task.file.records for task in files)),
        pending_bytes=sum(task.file.size for task in files if task.deletes.files or task.file.size < settings.small),
    )


def _manifests_due(manifests: list[ManifestFile], target: int) -> int:
    small = sum(manifest.manifest_length < target for manifest in manifests)
    return max(small - 2 * _MANIFESTS_LEFT, 0)
