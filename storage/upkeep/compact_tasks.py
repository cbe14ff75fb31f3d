"""Compaction as tasks for other processes: the driver plans and commits, tasks and results travel as bytes.

A task covers one bucket of a table with a primary key, a group of small files of an append table, the postponed rows of
a partition, or one range of rows to be sorted. Its result is commit messages.

`balanced_tasks` bundles tasks, because handing out a bucket of a few kilobytes costs more than compacting it. There are
a few bundles of about equal size for each worker, the longest first: the more there are, the less a slow worker delays
the others at the end.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.prefetch import longest_first, spread
from interbed.storage.lsm.compact.rewriter import CompactIncrement
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, FileKind, ManifestEntry
from interbed.storage.meta.manifest.index_manifest import DELETION_VECTORS, IndexFileMeta, IndexManifestEntry
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.scan.live_files import RestoredBuckets
from interbed.storage.scan.partition_filter import PartitionChoice
from interbed.storage.scan.split import pack_in_order, sharing_sections
from interbed.storage.scan.support import check_writable
from interbed.storage.upkeep.append_compact import (
    PostponedPartition,
    sort_range,
    sort_ranges,
    sort_unit,
    sort_units,
    take_up,
)
from interbed.storage.upkeep.compact_table import (
    compact_buckets,
    concatenated_groups,
    due_bytes,
    restored_buckets,
    total_buckets,
    waiting_partitions,
)
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.sort.external import SortRanges, SortUnit
from interbed.storage.write.sort.key import OrderStrategy, SortOrder

_FILES_OF_RANGE = 4
"""Number of files of the target size in a range of a large sort: each range reads all rows of its partition."""
_MOST_RANGES = 8


class TaskKind(StrEnum):
    """Kind of work on the files of a task."""

    MERGE = "merge"
    """Compaction of a bucket, in full or by the universal strategy."""
    CONCATENATE = "concatenate"
    TAKE_UP = "take up"
    """Move postponed rows to their buckets, of which there are `total_buckets`."""
    SORT = "sort"
    """Sort all rows, or those of a range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTask:
    """One task; the files are those of a bucket or some of them. `partition` is a serialised BinaryRow.

    A sort has an order. A sort in ranges has the wanted number of ranges, and `range_number` of `ranges` once these are
    known. `bytes_read` is given where not all of the files are read.
    """

    kind: TaskKind
    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    index_files: tuple[IndexFileMeta, ...] = ()
    full: bool = True
    order: SortOrder | None = None
    range_count: int = 1
    ranges: str | None = None
    range_number: int = 0
    bytes_read: int | None = None

    @property
    def cost(self) -> int:
        """Bytes to be read, of data files and index files."""
        data = sum(f.file_size for f in self.files) if self.bytes_read is None else self.bytes_read
        return data + sum(f.file_size for f in self.index_files)

    @property
    def bucket_id(self) -> BucketId:
        """Bucket of the task, with its partition."""
        return BucketId(self.partition, self.bucket)

    @property
    def needs_ranges(self) -> bool:
        """Whether the caller must call `ranges_of` first."""
        return self.range_count > 1 and self.ranges is None

    def in_ranges(self, ranges: str) -> "list[CompactionTask]":
        """Return a task for each of the ranges that `ranges_of` has found."""
        count = SortRanges.from_text(ranges).count
        return [replace(self, ranges=ranges, range_number=number) for number in range(count)]

    def to_bytes(self) -> bytes:
        """Return the task as bytes, for another process."""
        # Commit messages have an encoding of files already.
        compaction = CompactIncrement(before=self.files, deleted_index_files=self.index_files)
        files = CommitMessage.of_compaction(self.bucket_id, self.total_buckets, compaction)
        return json.dumps(
            {
                "kind": self.kind.value,
                "files": b64encode(files.to_bytes()).decode(),
                "full": self.full,
                "order": None if self.order is None else [self.order.strategy.value, *self.order.columns],
                "rangeCount": self.range_count,
                "ranges": self.ranges,
                "rangeNumber": self.range_number,
                "bytesRead": self.bytes_read,
            }
        ).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "CompactionTask":
        """Read a task from bytes made by to_bytes."""
        value = json.loads(content)
        files = CommitMessage.from_bytes(b64decode(value["files"]))
        order = value["order"]
        return CompactionTask(
            kind=TaskKind(value["kind"]),
            partition=files.partition,
            bucket=files.bucket,
            total_buckets=files.total_buckets,
            files=files.compaction.before,
            index_files=files.compaction.deleted_index_files,
            full=value["full"],
            order=order and SortOrder(strategy=OrderStrategy(order[0]), columns=tuple(order[1:])),
            range_count=value["rangeCount"],
            ranges=value["ranges"],
            range_number=value["rangeNumber"],
            bytes_read=value["bytesRead"],
        )

    def unit(self) -> SortUnit:
        """Return the files to sort as a unit."""
        return SortUnit(
            partition=self.partition,
            bucket=self.bucket,
            total_buckets=self.total_buckets,
            files=self.files,
            index_files=self.index_files,
        )


def plan_tasks(
    store: FileStore,
    *,
    full: bool = True,
    partition: PartitionChoice = None,
    buckets: Collection[int] | None = None,
    partition_idle_time: timedelta | None = None,
) -> list[CompactionTask]:
    """Return the tasks of a compaction of the table; errors as those of compact_table."""
    check_writable(store)
    restored = restored_buckets(store, partition, buckets, partition_idle_time)
    waiting = waiting_partitions(store, restored, partition, whole=buckets is None)
    tasks = [_take_up(p, full=full) for p in waiting]
    others = restored.without({p.partition for p in waiting}) if waiting else restored
    for bucket_id in others.buckets():
        if not store.schema.has_primary_key:
            tasks += _concatenations(store, others, bucket_id, full=full)
        elif (due := due_bytes(store, others, bucket_id, full=full)) is not None:
            whole = _of_bucket(
                store,
                others,
                bucket_id,
                kind=TaskKind.MERGE,
                files=tuple(others.files(bucket_id)),
                index_files=others.index_files(bucket_id),
            )
            tasks.append(replace(whole, full=full, bytes_read=due))
    return tasks


def plan_sort_tasks(
    store: FileStore, order: SortOrder, *, partition: PartitionChoice = None, parallelism: int | None = None
) -> list[CompactionTask]:
    """Return a task for each partition to sort; large partitions are to be sorted in ranges.

    `parallelism` is the number of ranges of each; errors as those of sort_compact_table.
    """
    target = store.options.target_file_size_for(primary_key=False)
    tasks = []
    for unit in sort_units(store, partition):
        size = sum(f.file_size for f in unit.files)
        wanted = min(_MOST_RANGES, size // (_FILES_OF_RANGE * target)) if parallelism is None else parallelism
        tasks.append(
            CompactionTask(
                kind=TaskKind.SORT,
                partition=unit.partition,
                bucket=unit.bucket,
                total_buckets=unit.total_buckets,
                files=unit.files,
                index_files=unit.index_files,
                order=order,
                range_count=max(1, wanted),
            )
        )
    return tasks


def ranges_of(store: FileStore, task: CompactionTask) -> str:
    """Return the ranges of a sort, as text for `in_ranges`; reads the columns to sort by."""
    assert task.order is not None
    return sort_ranges(store, task.unit(), task.order, task.range_count).to_text()


def run_task(store: FileStore, task: CompactionTask, commit_user: str) -> list[CommitMessage]:
    """Run a task and return the messages to commit. On an error all written files are deleted."""
    if task.kind is TaskKind.TAKE_UP:
        waiting = PostponedPartition(partition=task.partition, files=task.files, buckets=task.total_buckets)
        return take_up(store, [waiting], commit_user, full=task.full)
    if task.kind is TaskKind.SORT:
        if task.ranges is not None:
            return [sort_range(store, task.unit(), SortRanges.from_text(task.ranges), task.range_number)]
        assert task.order is not None
        return [sort_unit(store, task.unit(), task.order)]
    entries = [
        ManifestEntry(
            kind=FileKind.ADD,
            partition=task.partition,
            bucket=task.bucket,
            total_buckets=task.total_buckets,
            file=file,
        )
        for file in task.files
    ]
    indexes = [
        IndexManifestEntry(kind=FileKind.ADD, partition=task.partition, bucket=task.bucket, file=file)
        for file in task.index_files
    ]
    return compact_buckets(store, RestoredBuckets(None, entries, indexes), full=task.full)


def _of_bucket(
    store: FileStore,
    restored: RestoredBuckets,
    bucket_id: BucketId,
    *,
    kind: TaskKind,
    files: tuple[DataFileMeta, ...],
    index_files: Iterable[IndexFileMeta],
) -> CompactionTask:
    return CompactionTask(
        kind=kind,
        partition=bucket_id.partition,
        bucket=bucket_id.bucket,
        total_buckets=total_buckets(store, restored, bucket_id.partition),
        files=files,
        index_files=tuple(index_files),
    )


def _take_up(waiting: PostponedPartition, *, full: bool) -> CompactionTask:
    return CompactionTask(
        kind=TaskKind.TAKE_UP,
        partition=waiting.partition,
        bucket=POSTPONE_BUCKET,
        total_buckets=waiting.buckets,
        files=waiting.files,
        full=full,
    )


def _concatenations(
    store: FileStore, restored: RestoredBuckets, bucket_id: BucketId, *, full: bool
) -> Iterator[CompactionTask]:
    # A task concatenates all its files, as in a full compaction: the decision is made here.
    groups = concatenated_groups(store, restored, bucket_id, full=full)
    if not groups:
        return
    # Use two files of the target size, so that only the last pack can be a single file.
    most = 2 * store.options.target_file_size_for(primary_key=False)
    vectors = [f for f in restored.index_files(bucket_id) if f.index_type == DELETION_VECTORS]
    if vectors and store.options.bucket > 0:
        # The deletion vectors of a bucket change together. The task determines again which neighbours are small.
        files = tuple(restored.files(bucket_id))
        whole = _of_bucket(store, restored, bucket_id, kind=TaskKind.CONCATENATE, files=files, index_files=vectors)
        yield replace(whole, bytes_read=sum(f.file_size for group in groups for f in group))
        return
    index_of = {v.data_file_name: file for file in vectors for v in file.deletion_vectors or ()}
    for group in groups:
        # Files whose vectors lie in one index file go to one task, which reads and rewrites it once.
        shares = sharing_sections(group, lambda f: index_of[f.file_name].file_name if f.file_name in index_of else None)
        if store.options.data_evolution_enabled:
            # Without one of the files with columns of its rows a task would write obsolete values.
            shares = [group]
        for pack in pack_in_order(shares, lambda share: sum(f.file_size for f in share), most):
            files = tuple(f for share in pack for f in share)
            indexes = {i.file_name: i for f in files if (i := index_of.get(f.file_name)) is not None}
            if len(files) > 1 or indexes:
                yield _of_bucket(
                    store,
                    restored,
                    bucket_id,
                    kind=TaskKind.CONCATENATE,
                    files=files,
                    index_files=tuple(indexes.values()),
                )


BUNDLES_OF_A_WORKER = 4

_Unit = list[CompactionTask]


def balanced_tasks(
    tasks: Sequence[CompactionTask], *, workers: int, most_bytes: int | None = None
) -> list[tuple[CompactionTask, ...]]:
    """Return the tasks in at most BUNDLES_OF_A_WORKER bundles for each worker, of about equal cost, greatest first.

    With `most_bytes` there are as many bundles as needed that no bundle of several tasks costs more. Tasks that share
    index files are in one bundle, except ranges of one sort, which were made to run at the same time.
    """
    units = _units(tasks)
    costs = [_cost(unit) for unit in units]
    number = max(1, workers) * BUNDLES_OF_A_WORKER
    distribution = spread(costs, number)
    if most_bytes is not None:
        while any(len(each) > 1 and sum(costs[i] for i in each) > most_bytes for each in distribution):
            # The loop ends with as many bundles as there are units.
            number += max(1, number // 8)
            distribution = spread(costs, number)
    bundles = [tuple(task for i in each for task in units[i]) for each in distribution]
    return [bundles[i] for i in longest_first([_cost(bundle) for bundle in bundles])]


def _units(tasks: Sequence[CompactionTask]) -> list[_Unit]:
    """Return the tasks grouped by what has to stay together, in the order of the first of each."""
    units: list[_Unit] = []
    of_index: dict[tuple[BucketId, str], _Unit] = {}
    for task in tasks:
        names = [] if task.range_count > 1 else [(task.bucket_id, f.file_name) for f in task.index_files]
        shared = {id(unit): unit for name in names if (unit := of_index.get(name)) is not None}
        first, *others = shared.values() or [[]]
        for unit in others:
            # The task shares index files with both units, so merge them.
            first += unit
            unit.clear()
            of_index.update({name: first for name, known in of_index.items() if known is unit})
        if not first:
            units.append(first)
        first.append(task)
        of_index.update(dict.fromkeys(names, first))
    return [unit for unit in units if unit]


def _cost(tasks: Sequence[CompactionTask]) -> int:
    return sum(task.cost for task in tasks)
