"""Writer of a task of an UPDATE, a DELETE or a MERGE INTO.

A MERGE fails when its rows repeat a primary key, of which the table would keep the last row. All rows of a key are in
one task.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.spark_ext.handle.row_changes import KIND
from interbed.spark_ext.values.spark_types import batch_from_spark
from interbed.storage.base.arrays import Positions
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CommitConflictError, InvalidInputError, NotSupportedError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.row.python_values import python_value
from interbed.storage.files.deletion_vectors import DeletionVector, decode
from interbed.storage.lsm.file_read import ROW_INDEX
from interbed.storage.meta.manifest.entry import ROW_ID
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.read.columns import FILE_PATH
from interbed.storage.table.table import Table
from interbed.storage.write.bucket.key_locations import KeyHashes
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.deleted_rows import replace_files, vector_messages
from interbed.storage.write.kept_rows import KeptRows
from interbed.storage.write.row_statements import delete_refusal
from interbed.storage.write.table_write import TableWrite

REPEATED = b"repeated:"
"""Message to the driver, instead of a commit message, of a task with a repeated key."""


class DistinctKeys:
    """Detects repeated keys among rows, with sixteen bytes of memory a row.

    Keys are compared by hashes of 128 bits, as in KeyLocations.
    """

    def __init__(self, schema: TableSchema) -> None:
        self._names = schema.primary_keys
        self._types = [schema.by_name[name].type for name in schema.primary_keys]
        self._hashes: list[KeyHashes] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows with the table's columns, or those of its key."""
        if rows.num_rows:
            self._hashes.append(self._hashes_of(rows))

    def repeated(self, batches: Iterable[pa.RecordBatch]) -> str | None:
        """Return a key that was added several times, in words; None if all are distinct.

        `batches` has the rows among which the key is found; to be called once, after all rows.
        """
        if not self._hashes:
            return None
        added = KeyHashes(
            np.concatenate([each.first for each in self._hashes]),
            np.concatenate([each.second for each in self._hashes]),
        )
        self._hashes.clear()
        order, starts = added.grouped()
        if starts.all():
            return None
        twice = added.take(order[~starts])
        for batch in batches:
            hashes = self._hashes_of(batch)
            found = np.isin(hashes.first, twice.first) & np.isin(hashes.second, twice.second)
            if found.any():
                row = int(np.argmax(found))
                return ", ".join(f"{name} = {python_value(batch.column(name)[row])}" for name in self._names)
        raise AssertionError("a repeated key is not among the rows")

    def _hashes_of(self, rows: pa.RecordBatch) -> KeyHashes:
        return KeyHashes.of([rows.column(name) for name in self._names], self._types)


MARKS = b"marked:"


class ChangeWriter(Protocol):
    """Writer of batches of changed rows, with results beside the files of the table's writer."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch of rows with their kinds, in the columns that the JVM sends."""
        ...

    def finish(self) -> list[CommitMessage]:
        """Write the rows that depend on all changes, and return messages beside those of the table's writer."""
        ...

    def marked(self) -> Mapping[str, DeletionVector]:
        """Return the rows to be marked as deleted when the job is committed, by the path of their file."""
        ...

    def abort(self) -> None:
        """Delete files of its own, also after `finish`."""
        ...


class KeyedChanges:
    """Changes of a primary-key table, whose writer takes rows with their kinds.

    A MERGE may delete a row and insert another one of its key, in any order. Of two rows of one key the writer keeps
    the later one, so that inserted rows are written last. With `distinct` an inserted row is refused if another one,
    inserted or updated, has its key.
    """

    def __init__(self, write: TableWrite, table: Table, *, distinct: bool) -> None:
        self._write = write
        self._arrow = table.arrow_schema
        self._location = table.location
        self._refusal = delete_refusal(table.schema, table.options)
        self._inserted = KeptRows()
        self._distinct = DistinctKeys(table.schema) if distinct else None

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch of rows. Raises NotSupportedError for deletions that the table does not support."""
        kinds = batch.column(KIND)
        if self._refusal is not None and pc.any(_deletions(batch)).as_py():
            raise NotSupportedError(f"Rows of the table {self._location} can't be deleted: {self._refusal}")
        rows = batch_from_spark(batch.drop_columns([KIND]), self._arrow)
        if self._distinct is not None:
            self._distinct.add(rows.filter(pc.invert(_deletions(batch))))
        is_new: Any = pc.equal(kinds, pa.scalar(int(RowKind.INSERT), pa.int8()))
        new = rows.filter(is_new)
        if new.num_rows:
            self._inserted.add(new)
        rest = pc.invert(is_new)
        rows, kinds = rows.filter(rest), kinds.filter(rest)
        if rows.num_rows:
            self._write.write_arrow(rows, kinds, keeps_nulls=dict.fromkeys(self._arrow.names, _updates(kinds)))

    def finish(self) -> list[CommitMessage]:
        """Write the inserted rows after all deletions. Raises InvalidInputError for a repeated key."""
        try:
            key = None if self._distinct is None else self._distinct.repeated(self._inserted.batches())
            if key is not None:
                raise InvalidInputError(
                    f"The MERGE would write several rows with the primary key {key} into {self._location}, one of them "
                    "inserted, and the table would keep only that one. Nothing was changed. Let the source have one "
                    "row of each key, and ON compare the whole key."
                )
            for rows in self._inserted.batches():
                self._write.write_arrow(rows)
        finally:
            self._inserted.close()
        return []

    def marked(self) -> Mapping[str, DeletionVector]:
        return {}

    def abort(self) -> None:
        self._inserted.close()


class LocatedChanges:
    """Changes of an append table, whose rows are deleted by file and position.

    With deletion vectors the driver marks them. Otherwise the files are rewritten without them, each by the one task
    that has all of its deleted rows. `moved` writes updated rows and those of rewritten files: in a table that tracks
    rows with their ids.
    """

    def __init__(self, write: TableWrite, moved: TableWrite, table: Table, snapshot_id: int | None) -> None:
        self._write = write
        self._moved = moved
        self._table = table
        self._snapshot_id = snapshot_id
        self._arrow = table.arrow_schema
        self._deleted: dict[str, list[Positions]] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        deleted = _deletions(batch)
        came = batch.filter(pc.invert(deleted))
        if self._table.options.row_tracking_enabled and ROW_ID in came.schema.names:
            has_id = pc.is_valid(came.column(ROW_ID))
            updated = came.filter(has_id)
            if updated.num_rows:
                arrow = pa.schema([*self._arrow, pa.field(ROW_ID, pa.int64(), nullable=False)])
                self._moved.write_arrow(batch_from_spark(updated.select(arrow.names), arrow), keeps_nulls=True)
            came = came.filter(pc.invert(has_id))
        if came.num_rows:
            kept = dict.fromkeys(self._arrow.names, _updates(came.column(KIND)))
            self._write.write_arrow(batch_from_spark(came.select(self._arrow.names), self._arrow), keeps_nulls=kept)
        located = batch.select([FILE_PATH, ROW_INDEX]).filter(deleted)
        paths = located.column(FILE_PATH).dictionary_encode()
        codes = paths.indices.to_numpy()
        positions = located.column(ROW_INDEX).to_numpy()
        # The loop stays: a task has few files, since rows are clustered by them.
        for code, path in enumerate(str(p) for p in paths.dictionary.to_pylist()):
            self._deleted.setdefault(path, []).append(positions[codes == code])

    def finish(self) -> list[CommitMessage]:
        """Rewrite files without their deleted rows. Raises CommitConflictError when a file is not in the snapshot."""
        if not self._deleted or self._table.options.deletion_vectors_enabled:
            return []
        splits = self._table.new_scan(snapshot_id=self._snapshot_id).plan().splits
        return replace_files(self._table.store.with_stored_row_ids(), self._moved, splits, self._vectors())

    def marked(self) -> Mapping[str, DeletionVector]:
        if not self._table.options.deletion_vectors_enabled:
            return {}
        return self._vectors()

    def abort(self) -> None:
        pass

    def _vectors(self) -> dict[str, DeletionVector]:
        return {path: DeletionVector.of(np.concatenate(found)) for path, found in self._deleted.items()}


def encode_marks(marked: Mapping[str, DeletionVector]) -> bytes:
    """Encode marked rows for the driver, with a prefix that distinguishes them from a commit message."""
    return MARKS + json.dumps({p: b64encode(v.encode(bitmap64=True)).decode() for p, v in marked.items()}).encode()


def decode_marks(content: bytes) -> dict[str, DeletionVector]:
    """Decode the rows of encode_marks."""
    found: dict[str, str] = json.loads(content.removeprefix(MARKS))
    return {path: decode(b64decode(vector), source=path) for path, vector in found.items()}


def mark_messages(
    table: Table, messages: Sequence[CommitMessage], marks: Iterable[Mapping[str, DeletionVector]]
) -> list[CommitMessage]:
    """Return the messages that delete the marked rows, to be committed with the messages of all tasks.

    Raises CommitConflictError when the file of a marked row is not the table's any more.
    """
    deleted: dict[str, DeletionVector] = {}
    for marked in marks:
        for path, vector in marked.items():
            deleted[path] = vector if path not in deleted else deleted[path].union(vector.positions)
    if not deleted and not any(m.data.deleted_files for m in messages):
        return []
    restored = table.access.restore_buckets()
    by_place: dict[BucketId, dict[str, Positions]] = {}
    for bucket_id in restored.buckets() if deleted else ():
        directory = table.access.directory_of(bucket_id)
        for file in restored.files(bucket_id):
            path = file.path_in(directory)
            if path in deleted:
                vector = deleted.pop(path)
                by_place.setdefault(bucket_id, {})[file.file_name] = vector.positions
    if deleted:
        raise CommitConflictError(
            f"The file {min(deleted)} is not in the table any more: another writer compacted or overwrote it. Nothing "
            "was changed; run the statement again."
        )
    return vector_messages(table.store, restored, by_place, messages)


def _deletions(batch: pa.RecordBatch) -> "pa.BooleanArray":
    return pc.equal(batch.column(KIND), pa.scalar(int(RowKind.DELETE), pa.int8()))


def _updates(kinds: "pa.Array[Any]") -> "pa.BooleanArray":
    return pc.equal(kinds, pa.scalar(int(RowKind.UPDATE_AFTER), pa.int8()))
