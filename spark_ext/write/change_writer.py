"""A task's writer of changed rows, of an UPDATE, a DELETE or a MERGE INTO.

A MERGE that does not look at its target fails when the rows of a task repeat a primary key.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.spark_ext.handle.row_changes import KIND
from interbed.spark_ext.values.spark_types import batch_from_spark
from interbed.storage.base.arrays import Positions, Words
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CommitConflictError, NotSupportedError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.files.deletion_vectors import DeletionVector, decode
from interbed.storage.lsm.file_read import ROW_INDEX, FileRead, ReadOptions, block_rows
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.read.positions import FILE_PATH, DeletionReader
from interbed.storage.scan.split import Split
from interbed.storage.table.table import Table
from interbed.storage.write.bucket.key_locations import KeyHashes
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.deletion_vectors import vector_messages
from interbed.storage.write.row_statements import delete_refusal
from interbed.storage.write.table_write import TableWrite

REPEATED = b"repeated:"
"""Said to the driver in place of a commit message by a task in which a key came twice."""


class DistinctKeys:
    """Takes rows and reports in the end whether a key came again; eight bytes of memory a row.

    A key is known by 64 bits of its hash. Two keys that share them look like one that came twice, which costs time but
    nothing else: the statement is run again with a look at its target.
    """

    def __init__(self, schema: TableSchema) -> None:
        self._names = schema.primary_keys
        self._types = [schema.by_name[name].type for name in schema.primary_keys]
        self._hashes: list[Words] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows of the table's columns."""
        if rows.num_rows:
            self._hashes.append(KeyHashes.of([rows.column(name) for name in self._names], self._types).first)

    def repeated(self) -> bool:
        """Whether a key came again; asked once, after all rows."""
        if not self._hashes:
            return False
        hashes = np.concatenate(self._hashes)
        self._hashes.clear()
        hashes.sort()
        return bool((hashes[1:] == hashes[:-1]).any())


MARKS = b"marked:"


class ChangeWriter(Protocol):
    """Takes batches of changed rows, then says what there is beside the files of the table's writer."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch of rows with their kinds, in the columns that the JVM sends."""
        ...

    def finish(self) -> list[CommitMessage]:
        """Write what has to be written now that all changes are known; messages beside those of the writer."""
        ...

    def marked(self) -> Mapping[str, DeletionVector]:
        """Rows to be marked as deleted when the job is committed, by the path of their file."""
        ...


class KeyedChanges:
    """Changes of a primary-key table: its writer takes rows with their kinds."""

    def __init__(self, write: TableWrite, table: Table) -> None:
        self._write = write
        self._arrow = table.arrow_schema
        self._location = table.location
        self._refusal = delete_refusal(table.schema, table.options)

    def write(self, batch: pa.RecordBatch) -> None:
        """See ChangeWriter; raises NotSupportedError for deletions that the table can't take."""
        kinds = batch.column(KIND)
        if self._refusal is not None and pc.any(_deletions(batch)).as_py():
            raise NotSupportedError(f"Rows of the table {self._location} can't be deleted: {self._refusal}")
        self._write.write_arrow(batch_from_spark(batch.drop_columns([KIND]), self._arrow), kinds)

    def finish(self) -> list[CommitMessage]:
        """See ChangeWriter."""
        return []

    def marked(self) -> Mapping[str, DeletionVector]:
        """See ChangeWriter."""
        return {}


class LocatedChanges:
    """Changes of an append table, whose rows go by file and position.

    With deletion vectors the driver marks them. Otherwise the files are written anew without them, each by the one task
    that has all of its rows that go.
    """

    def __init__(self, write: TableWrite, table: Table, snapshot_id: int | None) -> None:
        self._write = write
        self._table = table
        self._snapshot_id = snapshot_id
        self._arrow = table.arrow_schema
        self._gone: dict[str, list[Positions]] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """See ChangeWriter."""
        gone = _deletions(batch)
        came = batch.filter(pc.invert(gone)).select(self._table.field_names)
        if came.num_rows:
            self._write.write_arrow(batch_from_spark(came, self._arrow))
        located = batch.select([FILE_PATH, ROW_INDEX]).filter(gone)
        paths = located.column(FILE_PATH).dictionary_encode()
        codes = paths.indices.to_numpy()
        positions = located.column(ROW_INDEX).to_numpy()
        # A loop over the files, of which a task has few, since rows are clustered by them.
        for code, path in enumerate(str(p) for p in paths.dictionary.to_pylist()):
            self._gone.setdefault(path, []).append(positions[codes == code])

    def finish(self) -> list[CommitMessage]:
        """See ChangeWriter; raises CommitConflictError when a file is not the table's any more."""
        if not self._gone or self._table.options.deletion_vectors_enabled:
            return []
        gone = dict(self.marked())
        store = self._table.store
        read = FileRead(store, self._table.schema.fields)
        deletions = DeletionReader(store.file_io)
        messages = []
        for split in self._table.new_scan(snapshot_id=self._snapshot_id).plan().splits:
            deleted_of = deletions.of(split.deletion_files)
            replaced = [f for f in split.files if split.path_of(f) in gone]
            for file in replaced:
                old, more = deleted_of(file), gone.pop(split.path_of(file))
                without = more if old is None else old.union(more.positions)
                path = split.path_of(file)
                for batch in read.batches(file, path, ReadOptions(batch_rows=block_rows(replaced), deleted=without)):
                    self._write.write_arrow(batch)
            if replaced:
                messages.append(_without(split, tuple(replaced)))
        if gone:
            raise CommitConflictError(
                f"The file {min(gone)} is not in snapshot {self._snapshot_id} of {store.location}, whose rows were to "
                "be changed. Nothing was changed; run the statement again."
            )
        return messages

    def marked(self) -> Mapping[str, DeletionVector]:
        """See ChangeWriter."""
        return {path: DeletionVector.of(np.concatenate(found)) for path, found in self._gone.items()}


def encode_marks(marked: Mapping[str, DeletionVector]) -> bytes:
    """Marked rows as bytes for the driver, which can be distinguished from a commit message."""
    return MARKS + json.dumps({p: b64encode(v.encode(bitmap64=True)).decode() for p, v in marked.items()}).encode()


def decode_marks(content: bytes) -> dict[str, DeletionVector]:
    """The rows of bytes made by encode_marks."""
    found: dict[str, str] = json.loads(content.removeprefix(MARKS))
    return {path: decode(b64decode(vector), source=path) for path, vector in found.items()}


def mark_messages(
    table: Table, messages: Sequence[CommitMessage], marks: Iterable[Mapping[str, DeletionVector]]
) -> list[CommitMessage]:
    """What has to be committed beside the messages of all tasks, so that rows that go are gone.

    Raises CommitConflictError when a file of such a row is not the table's any more.
    """
    gone: dict[str, DeletionVector] = {}
    for marked in marks:
        for path, vector in marked.items():
            gone[path] = vector if path not in gone else gone[path].union(vector.positions)
    if not gone and not any(m.data.deleted_files for m in messages):
        return []
    restored = table.access.restore_buckets()
    by_place: dict[BucketId, dict[str, Positions]] = {}
    for bucket_id in restored.buckets() if gone else ():
        directory = table.access.directory_of(bucket_id)
        for file in restored.files(bucket_id):
            path = file.path_in(directory)
            if path in gone:
                vector = gone.pop(path)
                by_place.setdefault(bucket_id, {})[file.file_name] = vector.positions
    if gone:
        raise CommitConflictError(
            f"The file {min(gone)} is not in the table any more: another writer compacted or overwrote it. Nothing was "
            "changed; run the statement again."
        )
    return vector_messages(table.store, restored, by_place, messages)


def _deletions(batch: pa.RecordBatch) -> "pa.BooleanArray":
    return pc.equal(batch.column(KIND), pa.scalar(int(RowKind.DELETE), pa.int8()))


def _without(split: Split, files: tuple[DataFileMeta, ...]) -> CommitMessage:
    return CommitMessage.deletion(split.bucket_id, split.total_buckets, files)
