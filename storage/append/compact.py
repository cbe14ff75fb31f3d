"""Compaction of append tables: small files of a bucket are written anew as larger ones, row for row."""

from collections.abc import Sequence

import pyarrow as pa

from interbed.storage.format.layout import DataFileLayout, DataFileNames
from interbed.storage.format.writer import RollingFileWriter
from interbed.storage.manifest.data_file import DataFileMeta, FileSource
from interbed.storage.read.file_read import FileRead, block_rows
from interbed.storage.store import TableStore
from interbed.storage.write.commit_message import CommitMessage

FileGroup = tuple[DataFileMeta, ...]


def plan_append_compaction(
    files: Sequence[DataFileMeta], *, small_file_bytes: int, keep_order: bool
) -> tuple[FileGroup, ...]:
    """Groups of at least two files, each to be concatenated in its order. Pure.

    With `keep_order` (tables with buckets, whose files are ordered by their sequence numbers) only neighbours form a
    group; otherwise all small files of the bucket form one.
    """
    ordered = sorted(files, key=lambda f: (f.min_sequence_number, f.creation_time_millis, f.file_name))
    groups: list[list[DataFileMeta]] = [[]]
    for file in ordered:
        if file.file_size < small_file_bytes:
            groups[-1].append(file)
        elif keep_order and groups[-1]:
            groups.append([])
    return tuple(tuple(group) for group in groups if len(group) > 1)


class FileConcatenator:
    """Concatenates files of one table; safe to share by threads, each with a bucket of its own."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._layout = DataFileLayout.of(store.schema, store.options)
        self._names = DataFileNames(store.options.data_file_prefix)
        self._read = FileRead(store, store.schema.fields)

    def run(self, groups: Sequence[FileGroup], *, partition: bytes, bucket: int, total_buckets: int) -> CommitMessage:
        """Write each group anew; on an error all files written are deleted."""
        directory = self._store.paths.bucket_directory(partition, bucket)
        after: list[DataFileMeta] = []
        try:
            for group in groups:
                after.extend(self._concatenate(group, directory))
        except BaseException:
            self._store.file_io.delete_quietly([f"{directory}/{name}" for f in after for name in f.names])
            raise
        return CommitMessage(
            partition=partition,
            bucket=bucket,
            total_buckets=total_buckets,
            compact_before=tuple(f for group in groups for f in group),
            compact_after=tuple(after),
        )

    def _concatenate(self, group: FileGroup, directory: str) -> list[DataFileMeta]:
        with RollingFileWriter(
            self._store.file_io,
            directory,
            self._names,
            self._layout,
            level=0,
            source=FileSource.COMPACT,
            first_sequence=group[0].min_sequence_number,
        ) as writer:
            rows = block_rows(group)
            for file in group:
                path = file.external_path or f"{directory}/{file.file_name}"
                for batch in self._read.batches(file, path, batch_rows=rows):
                    writer.write(pa.RecordBatch.from_arrays(batch.columns, schema=self._layout.arrow))
            return writer.close()
