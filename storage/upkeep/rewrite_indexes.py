"""Indexes of existing files: written, changed or removed by the table's current options, without rewriting the files.

Each file's entry is replaced by one with other indexes, in a COMPACT snapshot. An index file gets a new name, because
older snapshots still refer to the old one. Source: paimon-core `index.FileIndexProcessor`.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from interbed.storage.base.errors import CommitStateUnknownError, NotSupportedError
from interbed.storage.base.types.data_type import DataField
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.files.file_index.api import INDEX_SUFFIX, FileIndexes
from interbed.storage.files.file_index.spec import FileIndexSpec, IndexedColumn, TableFileIndexWriter
from interbed.storage.files.format.layout import DataFileLayout
from interbed.storage.lsm.compact.rewriter import CompactIncrement
from interbed.storage.lsm.file_read import FileRead, ReadOptions
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.scan.partition_filter import PartitionChoice
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.support import check_rows_in_files, check_writable
from interbed.storage.write.commit_message import CommitMessage

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRewrite:
    """Number of partitions and files with changed indexes, and the snapshot; None where nothing changed."""

    partitions: int
    files: int
    snapshot_id: int | None


def rewrite_file_indexes(store: FileStore, partition: PartitionChoice = None) -> IndexRewrite:
    """Give the files of the partitions, or all, the indexes that new files get.

    Each file's indexed columns are read once, in bounded memory. Raises NotSupportedError for indexes that select rows
    of a table with a primary key, CommitConflictError when another writer replaced a file meanwhile, and as a commit
    does; after an error nothing is left.
    """
    chosen = files_to_index(store, partition)
    messages = index_files(store, chosen)
    try:
        ids = FileStoreCommit(store, str(uuid.uuid4()), new_user=True).commit(messages) if messages else []
    except CommitStateUnknownError:
        raise
    except BaseException:
        delete_indexes(store, messages)
        raise
    return IndexRewrite(
        partitions=len({m.partition for m in messages}), files=len(messages), snapshot_id=ids[-1] if ids else None
    )


def files_to_index(store: FileStore, partition: PartitionChoice = None) -> list[CommitMessage]:
    """Return the files of the partitions, or all, as messages that only remove them, for index_files.

    Raises NotSupportedError for indexes that select rows of a table with a primary key.
    """
    check_writable(store)
    check_rows_in_files(store, "A rewrite of the file indexes")
    layout = DataFileLayout.of(store.schema, store.options)
    if store.schema.has_primary_key and layout.file_indexes.picks_rows:
        # Java Paimon 1.4.2 reads wrong values from delta pages when an index selects single rows of them.
        raise NotSupportedError(
            "Files of a table with a primary key get indexes other than bloom filters when they are written; compact "
            "the table in full, which rewrites them."
        )
    return [
        CommitMessage.of_compaction(entry.bucket_id, entry.total_buckets, CompactIncrement(before=(entry.file,)))
        for entry in TableScan(store, partition_filter=partition).entries()
    ]


def index_files(store: FileStore, chosen: Sequence[CommitMessage], *, prefix: str = "") -> list[CommitMessage]:
    """Write the indexes of files that files_to_index chose. Return the messages to commit, for files with changes.

    `prefix` begins the names of the files that are written; without one they are named after the data files. After an
    error nothing is left.
    """
    rewriter = _IndexRewriter(store, DataFileLayout.of(store.schema, store.options), prefix)
    try:
        done = [_with_file(m, rewriter.with_indexes(m, m.compaction.before[0])) for m in chosen]
    except BaseException:
        store.file_io.delete_quietly(rewriter.written)
        raise
    return [m for m in done if m.compaction.after != m.compaction.before]


def delete_indexes(store: FileStore, messages: Sequence[CommitMessage]) -> None:
    """Delete the files of index_files, which an abort leaves alone because they belong to existing data files."""
    paths: list[str] = []
    for message in messages:
        (before,), (after,) = message.compaction.before, message.compaction.after
        folder = _path(store, message, before).rpartition("/")[0]
        paths += (f"{folder}/{name}" for name in after.extra_files if name not in before.extra_files)
    store.file_io.delete_quietly(paths)


def _with_file(message: CommitMessage, file: DataFileMeta) -> CommitMessage:
    return replace(message, compaction=replace(message.compaction, after=(file,)))


def _path(store: FileStore, message: CommitMessage, file: DataFileMeta) -> str:
    return file.path_in(store.paths.bucket_directory(message.bucket_id))


class _IndexRewriter:
    """Writer of the indexes of one file after the other."""

    def __init__(self, store: FileStore, layout: DataFileLayout, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self._spec = layout.file_indexes
        self._by_schema: dict[int, tuple[FileIndexSpec, FileRead]] = {}
        self.written: list[str] = []

    def with_indexes(self, place: CommitMessage, file: DataFileMeta) -> DataFileMeta:
        """Return the file with its current indexes; the file itself if they are the same."""
        path = _path(self._store, place, file)
        folder = path.rpartition("/")[0]
        found = self._build(file, path)
        before = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
        others = tuple(name for name in file.extra_files if name not in before)
        if found.file is None:
            return replace(file, extra_files=others, embedded_file_index=found.embedded)
        if len(before) == 1 and self._store.file_io.read_bytes(f"{folder}/{before[0]}") == found.file:
            return file
        name = self._name(file, is_first=not before)
        self.written.append(f"{folder}/{name}")
        with self._store.file_io.open_output(f"{folder}/{name}") as output:
            output.write(found.file)
        return replace(file, extra_files=(*others, name), embedded_file_index=None)

    def _name(self, file: DataFileMeta, *, is_first: bool) -> str:
        if is_first and not self._prefix:
            return f"{file.file_name}{INDEX_SUFFIX}"
        return f"{self._prefix or f'{file.file_name}-'}{uuid.uuid4().hex}{INDEX_SUFFIX}"

    def _build(self, file: DataFileMeta, path: str) -> FileIndexes:
        if file.schema_id not in self._by_schema:
            self._by_schema[file.schema_id] = self._of_schema(file.schema_id)
        spec, read = self._by_schema[file.schema_id]
        if not spec.columns:
            return FileIndexes()
        writer = TableFileIndexWriter(spec)
        # Read all rows, also those that a deletion vector marks, because positions in the indexes count them.
        for batch in read.batches(file, path, ReadOptions(batch_rows=_BATCH_ROWS)):
            writer.add(batch)
        return writer.finish() or FileIndexes()

    def _of_schema(self, schema_id: int) -> tuple[FileIndexSpec, FileRead]:
        """Return the indexes for files of a schema, with the names of that schema, by which readers look them up.

        Columns that these files lack, or hold with another type, get none.
        """
        schema = self._store.schema
        written = {f.id: f for f in self._store.schema_of(schema_id).fields}
        columns: list[IndexedColumn] = []
        fields: dict[str, DataField] = {}
        for column in self._spec.columns:
            current = schema.by_name[column.column]
            field = written.get(current.id)
            if field is not None and field.type.with_nullable(True) == current.type.with_nullable(True):
                columns.append(replace(column, column=field.name))
                fields[field.name] = field
        return replace(self._spec, columns=tuple(columns)), FileRead(self._store, list(fields.values()))
