"""What a read of one snapshot takes: tasks, and what was pruned on the way to them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import VoidTransform

from interbed.iceberg.meta.filters import to_expression
from interbed.iceberg.meta.live_files import live_files
from interbed.iceberg.meta.types import readable_fields
from interbed.iceberg.plan.task import TARGET_BYTES, DataTask, DeleteIndex, FileReadTask, tasks_of
from interbed.storage.base.predicate.expr import Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan:
    """The tasks of a read, and files and manifests by how far pruning came with them."""

    snapshot_id: int | None
    tasks: tuple[FileReadTask, ...]
    manifests_total: int = 0
    manifests_read: int = 0
    files_total: int = 0

    @property
    def files(self) -> int:
        """Data files to read."""
        return sum(len(task.files) for task in self.tasks)

    @property
    def delete_file_reads(self) -> int:
        """How often a delete file is read, of all tasks."""
        return sum(len(task.delete_files) for task in self.tasks)


def plan_read(
    metadata: TableMetadata,
    io: FileIO,
    snapshot: Snapshot | None,
    schema: Schema,
    predicate: Predicate | None,
    target: int = TARGET_BYTES,
) -> FilePlan:
    """The plan for the rows of a snapshot that may fulfil a predicate, which is bound to the schema; nothing to read
    without a snapshot. Raises as live_files does.
    """
    if snapshot is None:
        return FilePlan(snapshot_id=None, tasks=())
    found = live_files(metadata, io, snapshot, schema, to_expression(predicate, readable_fields(schema)))
    index = DeleteIndex(found.deletes, partial(is_unpartitioned, metadata.specs()))
    tasks = tasks_of([DataTask(file=file, deletes=index.of(file)) for file in found.data], target)
    return FilePlan(
        snapshot_id=snapshot.snapshot_id,
        tasks=tasks,
        manifests_total=found.manifests_total,
        manifests_read=found.manifests_read,
        files_total=found.data_total,
    )


def is_unpartitioned(specs: Mapping[int, PartitionSpec], number: int) -> bool:
    """Whether all of its fields, if it has any, were dropped: version 1 leaves them as void."""
    return all(isinstance(field.transform, VoidTransform) for field in specs[number].fields)
