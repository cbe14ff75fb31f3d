"""Compaction of append tables: small files of a bucket are concatenated to larger ones."""

from collections.abc import Collection, Sequence

import pyarrow as pa

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.files.deletion_vectors import BucketDeletions
from interbed.storage.files.format.layout import DataFileLayout, DataFileNames
from interbed.storage.files.format.writer import RollingFileWriter
from interbed.storage.lsm.compact.rewriter import CompactIncrement
from interbed.storage.lsm.file_read import FileRead, ReadOptions, block_rows
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, FileSource
from interbed.storage.meta.manifest.index_manifest import IndexFileMeta
from interbed.storage.meta.paths import DataFilePlace
from interbed.storage.write.commit_message import CommitMessage

FileGroup = tuple[DataFileMeta, ...]


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


class FileConcatenator:
    """Concatenation of files of one table. Threads may share it, each with a bucket of its own."""

    def __init__(self, store: FileStore) -> None:
        store = store.with_stored_row_ids()
        self._store = store
        self._layout = DataFileLayout.of(store.schema, store.options)
        self._names = DataFileNames(store.options.data_file_prefix)
        self._read = FileRead(store, store.schema.fields)

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

    def _concatenate(self, group: FileGroup, place: DataFilePlace, deletions: BucketDeletions) -> list[DataFileMeta]:
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
