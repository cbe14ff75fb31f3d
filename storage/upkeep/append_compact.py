"""Compaction of files without levels: those of append tables are concatenated or their rows sorted, and the rows of
postponed buckets go to real buckets, where readers see them.

In a table with `data-evolution.enabled` the files with columns of the same rows become one file, together with those of
adjacent row ids. Rows keep their ids because the file begins with the first of them. Files whose rows are marked by a
deletion vector are left alone: the vector belongs to one of them. Source: Paimon's DataEvolutionCompactCoordinator.

A sort compaction is one COMPACT snapshot. All files of the chosen partitions are replaced by others of the target size,
whose ranges of the order only share their bounds. Source: documentation page `maintenance/dedicated-compaction`, sort
compact. Paimon's jobs overwrite the partitions, and so lose rows that are appended meanwhile; here only a change of the
same files conflicts.

A partition keeps the bucket count with which its postponed rows were first taken up, at first
`postpone.default-bucket-num`. The rows are replayed, in the order in which their files were created, into writers of
those buckets. The result is one COMPACT snapshot, with the changelog of the table's producer. Source: Paimon's postpone
compaction jobs.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.files.deletion_vectors import BucketDeletions
from interbed.storage.files.format.layout import DataFileLayout, DataFileNames
from interbed.storage.files.format.writer import RollingFileWriter
from interbed.storage.lsm.column_groups import ColumnGroupRead, GroupOptions, first_row_id, row_range_groups
from interbed.storage.lsm.compact.rewriter import CompactIncrement
from interbed.storage.lsm.file_read import FileRead, ReadOptions, block_rows
from interbed.storage.lsm.write_buffer import SpillFiles
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, FileSource
from interbed.storage.meta.manifest.index_manifest import IndexFileMeta
from interbed.storage.meta.paths import POSTPONE_BUCKET, DataFilePlace
from interbed.storage.meta.schema.table_schema import VALUE_KIND
from interbed.storage.scan.live_files import RestoredBuckets, restore_buckets
from interbed.storage.scan.partition_filter import PartitionChoice
from interbed.storage.scan.support import check_rows_in_files, check_writable
from interbed.storage.write.commit_message import (
    CommitMessage,
    CompactionResult,
    PlannedCompaction,
    Progress,
    as_compaction,
    result_of,
)
from interbed.storage.write.sort.external import ExternalSort, PartitionRows, Rows, RowsOfRange, SortRanges, SortUnit
from interbed.storage.write.sort.key import Sample, SortKey, SortOrder, is_curve
from interbed.storage.write.table_write import TableWrite

FileGroup = tuple[DataFileMeta, ...]
_UNLIMITED = 1 << 62


def plan_append_compaction(
    files: Sequence[DataFileMeta],
    *,
    small_file_bytes: int,
    keep_order: bool,
    thinned: Collection[str] = (),
    least_files: int = 2,
    enough_bytes: int | None = None,
) -> tuple[FileGroup, ...]:
    """Return groups of files, each to be concatenated in its order. Pure.

    Small files take part, and files in `thinned`, from which rows were deleted. With `keep_order` (tables with buckets,
    whose files are ordered by their sequence numbers) only adjacent files form a group; otherwise all files of the
    bucket that take part form one. A group has a thinned file, or at least `least_files` files, or several of together
    `enough_bytes`.
    """

    def is_worth_it(group: Sequence[DataFileMeta]) -> bool:
        enough = enough_bytes is not None and sum(f.file_size for f in group) >= enough_bytes
        return any(f.file_name in thinned for f in group) or len(group) >= (2 if enough else least_files)

    ordered = sorted(files, key=lambda f: (f.min_sequence_number, f.creation_time_millis, f.file_name))
    groups: list[list[DataFileMeta]] = [[]]
    for file in ordered:
        if file.file_size < small_file_bytes or file.file_name in thinned:
            groups[-1].append(file)
        elif keep_order and groups[-1]:
            groups.append([])
    return tuple(tuple(group) for group in groups if is_worth_it(group))


def plan_column_compaction(
    files: Sequence[DataFileMeta], *, target_bytes: int, marked: Collection[str] = (), least_files: int = 2
) -> tuple[FileGroup, ...]:
    """Return groups of files with columns of adjacent rows, each to become one file. Pure.

    A group has at least two files, and `least_files` unless they have columns of the same rows and are as large as
    `target_bytes` together. Files of the same rows as a file in `marked` are left out. Raises CorruptFileError as
    row_range_groups.
    """
    found: list[tuple[int, list[DataFileMeta]]] = []
    size = 0
    for group in row_range_groups(files):
        byte_size = sum(f.file_size for f in group.files)
        if any(f.file_name in marked for f in group.files):
            continue
        if not found or found[-1][0] != group.first_row_id or size + byte_size > target_bytes:
            found.append((group.first_row_id, []))
            size = 0
        size += byte_size
        found[-1] = (group.first_row_id + group.row_count, [*found[-1][1], *group.files])
    return tuple(
        tuple(joined)
        for _, joined in found
        if len(joined) >= max(2, least_files) or (len(joined) > 1 and sum(f.file_size for f in joined) >= target_bytes)
    )


def written_as_one(
    store: FileStore,
    place: DataFilePlace,
    names: DataFileNames,
    layout: DataFileLayout,
    batches: Iterable[pa.RecordBatch],
) -> DataFileMeta:
    """Write the rows of a range of row ids to one file, whatever its size. On an error nothing is left of it."""
    # A writer for a compaction has no limit of rows.
    whole = replace(layout, target_size=_UNLIMITED)
    with RollingFileWriter(store.file_io, place, names, whole, level=0, source=FileSource.COMPACT) as writer:
        for batch in batches:
            writer.write(pa.RecordBatch.from_arrays(batch.columns, schema=layout.arrow))
        (file,) = writer.close()
    return file


class FileConcatenator:
    """Concatenation of files of one table. Threads may share it, each with a bucket of its own."""

    def __init__(self, store: FileStore) -> None:
        store = store.with_stored_row_ids()
        self._store = store
        self._layout = DataFileLayout.of(store.schema, store.options)
        self._names = DataFileNames(store.options.data_file_prefix)
        self._read = FileRead(store, store.schema.fields)
        self._columns = ColumnGroupRead(store, store.schema.fields)

    def run(
        self,
        groups: Sequence[FileGroup],
        bucket_id: BucketId,
        *,
        total_buckets: int,
        index_files: Sequence[IndexFileMeta] = (),
    ) -> CommitMessage:
        """Rewrite each group, without the rows that deletion vectors in the bucket's index files mark.

        On an error all files written are deleted.
        """
        place = self._store.new_files(bucket_id)
        deletions = BucketDeletions.restore(self._store, bucket_id, index_files)
        after: list[DataFileMeta] = []
        try:
            for group in groups:
                after.extend(self._concatenate(group, place, deletions))
            new_index_files, deleted_index_files = deletions.finish()
        except BaseException:
            self._store.file_io.delete_quietly([path for f in after for path in f.paths_in(place.directory)])
            raise
        compaction = CompactIncrement(
            before=tuple(f for group in groups for f in group),
            after=tuple(after),
            new_index_files=new_index_files,
            deleted_index_files=deleted_index_files,
        )
        return CommitMessage.of_compaction(bucket_id, total_buckets, compaction)

    def _joined(self, group: FileGroup, place: DataFilePlace) -> DataFileMeta:
        """Write the rows of adjacent row ids, whose columns are in several files, to one file."""
        batches = self._columns.of_files(group, lambda file: file.path_in(place.directory), GroupOptions())
        file = written_as_one(self._store, place, self._names, self._layout, batches)
        return replace(
            file,
            first_row_id=min(first_row_id(f) for f in group),
            min_sequence_number=min(f.min_sequence_number for f in group),
            max_sequence_number=max(f.max_sequence_number for f in group),
        )

    def _concatenate(self, group: FileGroup, place: DataFilePlace, deletions: BucketDeletions) -> list[DataFileMeta]:
        if self._store.options.data_evolution_enabled:
            return [self._joined(group, place)]
        with RollingFileWriter(
            self._store.file_io,
            place,
            self._names,
            self._layout,
            level=0,
            source=FileSource.COMPACT,
            first_sequence=group[0].min_sequence_number,
        ) as writer:
            rows = block_rows(group)
            for file in group:
                path = file.path_in(place.directory)
                deleted = deletions.of(file.file_name)
                for batch in self._read.batches(file, path, ReadOptions(batch_rows=rows, deleted=deleted)):
                    writer.write(pa.RecordBatch.from_arrays(batch.columns, schema=self._layout.arrow))
                deletions.remove(file.file_name)
            return writer.close()


_LEAST_MEMORY = 1 << 20
_LEAST_MAGNIFICATION = 20


def sort_compact_table(
    store: FileStore,
    commit_user: str,
    order: SortOrder,
    *,
    partition: PartitionChoice = None,
    progress: Progress | None = None,
) -> CompactionResult:
    """Sort the rows of each chosen partition, one after the other, and commit it.

    Raises NotSupportedError for a table with buckets, CommitConflictError when another writer replaced the same files
    meanwhile, or deleted rows of them. After an error nothing is left of the compaction.
    """
    units = sort_units(store, partition)
    messages: list[CommitMessage] = []
    try:
        for unit in units:
            messages.append(sort_unit(store, unit, order))
            if progress is not None:
                progress(len(messages), len(units))
    except BaseException:
        FileStoreCommit(store, commit_user).abort(messages)
        raise
    if not messages:
        return result_of(None, [])
    ids = FileStoreCommit(store, commit_user, new_user=True).commit(messages)
    return result_of(ids[-1] if ids else None, messages)


def plan_sort_compaction(
    store: FileStore, order: SortOrder, *, partition: PartitionChoice = None
) -> list[PlannedCompaction]:
    """Return the plans of sort_compact_table, partition by partition, without carrying them out."""
    return [
        PlannedCompaction(
            partition=store.paths.partition_spec(unit.partition),
            bucket=unit.bucket,
            reason="sorting",
            detail=str(order),
            output_level=0,
            files_rewritten=len(unit.files),
            bytes_rewritten=sum(f.file_size for f in unit.files),
            rows_rewritten=sum(f.row_count for f in unit.files),
            files_moved=0,
            runs_before=len(unit.files),
            runs_after=1,
        )
        for unit in sort_units(store, partition)
    ]


def sort_units(store: FileStore, partition: PartitionChoice = None) -> list[SortUnit]:
    """Return the units to sort in the newest snapshot; raises NotSupportedError for a table with buckets."""
    check_writable(store)
    check_rows_in_files(store, "A sort compaction")
    mode = bucket_mode(store.schema, store.options)
    if mode is not BucketMode.NONE:
        what = "has a primary key, which its files are sorted by" if store.schema.has_primary_key else "has buckets"
        raise NotSupportedError(
            f"The table at {store.location} {what}; a sort compaction takes append tables with 'bucket' = '-1'."
        )
    magnification = store.options.sort_sample_magnification
    if magnification < _LEAST_MAGNIFICATION:
        raise InvalidOptionError(
            f"Option 'sort-compaction.local-sample.magnification' is {magnification}; a sort needs at least "
            f"{_LEAST_MAGNIFICATION} rows for each range."
        )
    restored = restore_buckets(store, partition_filter=partition)
    if restored.snapshot_id is None:
        store.check_not_gone()
    return [
        SortUnit(
            partition=bucket_id.partition,
            bucket=bucket_id.bucket,
            total_buckets=restored.total_buckets(bucket_id.partition) or store.options.bucket,
            files=tuple(restored.files(bucket_id)),
            index_files=tuple(restored.index_files(bucket_id)),
        )
        for bucket_id in restored.buckets()
    ]


def sort_unit(store: FileStore, unit: SortUnit, order: SortOrder) -> CommitMessage:
    """Rewrite a unit's rows, sorted; on an error the new files are deleted."""
    store = store.for_files_of(f.schema_id for f in unit.files).with_stored_row_ids()
    rows = PartitionRows(store, unit, order.columns)
    # A curve needs a sample for its ranges; another order needs one only if it is too large for memory.
    sample = rows.sample() if is_curve(order) else None
    key = SortKey(order) if sample is None else SortKey.of(order, sample)
    return sorted_message(unit, _write_sorted(store, unit, key, rows, sample))


def sort_ranges(store: FileStore, unit: SortUnit, order: SortOrder, ranges: int) -> SortRanges:
    """Return ranges in which the unit's rows can be sorted independently."""
    store = store.for_files_of(f.schema_id for f in unit.files).with_stored_row_ids()
    sample = PartitionRows(store, unit, order.columns).sample()
    return SortRanges.of(SortKey.of(order, sample), sample, ranges)


def sort_range(store: FileStore, unit: SortUnit, ranges: SortRanges, number: int) -> CommitMessage:
    """Rewrite one range of a unit's rows, sorted; the message of the first range replaces the unit's files.

    On an error the new files are deleted.
    """
    store = store.for_files_of(f.schema_id for f in unit.files).with_stored_row_ids()
    rows = RowsOfRange(PartitionRows(store, unit, ranges.key.order.columns), ranges, number)
    message = sorted_message(unit, _write_sorted(store, unit, ranges.key, rows, None))
    if number == 0:
        return message
    return replace(message, compaction=replace(message.compaction, before=(), deleted_index_files=()))


def _write_sorted(
    store: FileStore, unit: SortUnit, key: SortKey, rows: Rows, sample: Sample | None
) -> list[DataFileMeta]:
    layout = DataFileLayout.of(store.schema, store.options)
    memory = max(store.options.write_buffer_size, _LEAST_MEMORY)
    with (
        ExternalSort(key, SpillFiles.of_sort(store.options), memory=memory) as sorting,
        new_files(store, unit, layout) as writer,
    ):
        for batch in sorting.sorted(rows, sample):
            writer.write(pa.RecordBatch.from_arrays(batch.columns, schema=layout.arrow))
        return writer.close()


def new_files(store: FileStore, unit: SortUnit, layout: DataFileLayout) -> RollingFileWriter:
    """Return the writer of the files that replace those of the unit."""
    return RollingFileWriter(
        store.file_io,
        store.new_files(unit.bucket_id),
        DataFileNames(store.options.data_file_prefix),
        layout,
        level=0,
        source=FileSource.COMPACT,
        first_sequence=min(f.min_sequence_number for f in unit.files),
    )


def sorted_message(unit: SortUnit, after: Sequence[DataFileMeta]) -> CommitMessage:
    """Return the message that replaces the unit's files by others with the same rows and without index files."""
    compaction = CompactIncrement(before=unit.files, after=tuple(after), deleted_index_files=unit.index_files)
    return CommitMessage.of_compaction(unit.bucket_id, unit.total_buckets, compaction)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponedPartition:
    """Files of a partition's postponed rows, in the order in which they are to be replayed."""

    partition: bytes
    files: tuple[DataFileMeta, ...]
    buckets: int


def postponed_partitions(
    store: FileStore, restored: RestoredBuckets, partition: PartitionChoice = None
) -> list[PostponedPartition]:
    """Return the partitions with postponed rows, all or those chosen; `restored` has the real buckets.

    Raises InvalidOptionError for an impossible `postpone.default-bucket-num`.
    """
    default = store.options.postpone_default_bucket_num
    if default < 1:
        raise InvalidOptionError(f"Option 'postpone.default-bucket-num' takes a positive number, not {default}.")
    waiting = restore_buckets(store, partition_filter=partition, buckets=[POSTPONE_BUCKET])
    return [
        PostponedPartition(
            partition=bucket_id.partition,
            # Within a millisecond keep the order of the manifests, which is that of the writer.
            files=tuple(sorted(waiting.files(bucket_id), key=lambda f: f.creation_time_millis)),
            buckets=restored.total_buckets(bucket_id.partition) or default,
        )
        for bucket_id in waiting.buckets()
    ]


def take_up(
    store: FileStore, partitions: list[PostponedPartition], commit_user: str, *, full: bool
) -> list[CommitMessage]:
    """Write the postponed rows to real buckets and compact those, fully or as is due. Return messages of compaction.

    On an error all written files are deleted.
    """
    messages: list[CommitMessage] = []
    store = store.for_files_of(f.schema_id for p in partitions for f in p.files)
    try:
        # A writer has one bucket count; mostly all partitions have the same.
        for buckets in sorted({p.buckets for p in partitions}):
            chosen = [p for p in partitions if p.buckets == buckets]
            messages += _take_up_rows(
                store.with_buckets(buckets, {"write-only": "false"}), chosen, commit_user, full=full
            )
    except BaseException:
        FileStoreCommit(store, commit_user).abort(messages)
        raise
    messages += [
        CommitMessage.of_compaction(
            BucketId(p.partition, POSTPONE_BUCKET), POSTPONE_BUCKET, CompactIncrement(before=p.files)
        )
        for p in partitions
    ]
    return messages


def _take_up_rows(
    store: FileStore, partitions: list[PostponedPartition], commit_user: str, *, full: bool
) -> list[CommitMessage]:
    reader = FileRead(store, store.schema.fields)
    with TableWrite(store, commit_user, rewrites=True) as write:
        for waiting in partitions:
            directory = store.paths.bucket_directory(BucketId(waiting.partition, POSTPONE_BUCKET))
            for file in waiting.files:
                path = file.path_in(directory)
                for batch in reader.batches(file, path, ReadOptions(batch_rows=block_rows([file]), with_kind=True)):
                    kinds = batch.column(VALUE_KIND).cast(pa.int8())
                    write.write_arrow(batch.select(list(store.schema.names)), kinds)
        if full:
            write.compact_all({p.partition for p in partitions})
        return as_compaction(store, write.prepare_commit())
