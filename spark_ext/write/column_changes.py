"""Changes of rows by a task, in a table with `data-evolution.enabled`: new values of the assigned columns alone.

Rows come in the order of their files and positions, those of one file in one task. New rows are appended; deleted ones
are marked in deletion vectors.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.spark_ext.handle.row_changes import KIND
from interbed.spark_ext.values.spark_types import batch_from_spark
from interbed.storage.base.arrays import Positions
from interbed.storage.base.errors import CommitFailedError, NotSupportedError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.files.deletion_vectors import DeletionVector
from interbed.storage.lsm.file_read import ROW_INDEX
from interbed.storage.read.columns import FILE_PATH
from interbed.storage.table.table import Table
from interbed.storage.upkeep.column_patches import ColumnPatches
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.row_statements import DELETE, refusals
from interbed.storage.write.table_write import TableWrite


def check_one_file_each(messages: Iterable[CommitMessage]) -> None:
    """Raise CommitFailedError if several tasks have written columns of the same rows: one would hide the others."""
    seen: set[int] = set()
    for file in (file for message in messages for file in message.data.new_files):
        if file.first_row_id in seen:
            raise CommitFailedError(
                f"Several tasks have written columns of the rows from row id {file.first_row_id} on. Nothing was "
                "changed; do not change how Spark distributes the rows of UPDATE and MERGE."
            )
        if file.first_row_id is not None:
            seen.add(file.first_row_id)


class ColumnChanges:
    """Writer of the changes; `assigned` are the columns that get new values in rows of the table.

    `prefix` begins the names of their files; `open_write` opens the writer of new rows.
    """

    def __init__(
        self,
        table: Table,
        user: str,
        open_write: Callable[[], TableWrite],
        prefix: str,
        assigned: Sequence[str],
        snapshot_id: int | None,
    ) -> None:
        self._table = table
        self._user = user
        # Tables of other writers that also have deletion vectors take no new rows.
        self._open_write = open_write
        self._write: TableWrite | None = None
        self._refusal = refusals(table.name, table.schema).get(DELETE)
        self._arrow = table.arrow_schema
        self._patches = ColumnPatches(table.store, assigned, snapshot_id, prefix=prefix)
        fields: list[pa.Field[Any]] = [field for field in self._arrow if field.name in assigned]
        self._changed = pa.schema([*fields, pa.field(FILE_PATH, pa.string()), pa.field(ROW_INDEX, pa.int64())])
        self._deleted: dict[str, list[Positions]] = {}
        self._new: list[CommitMessage] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch of changes. Raises NotSupportedError for deletions that the table does not support."""
        kinds = batch.column(KIND)
        inserted, updated, deleted = (
            batch.filter(pc.equal(kinds, pa.scalar(int(kind), pa.int8())))
            for kind in (RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE)
        )
        if inserted.num_rows:
            if self._write is None:
                self._write = self._open_write()
            self._write.write_arrow(batch_from_spark(inserted.select(self._arrow.names), self._arrow))
        if updated.num_rows:
            self._patches.add(batch_from_spark(updated.select(self._changed.names), self._changed))
        if not deleted.num_rows:
            return
        if self._refusal is not None:
            raise NotSupportedError(self._refusal)
        paths = deleted.column(FILE_PATH).dictionary_encode()
        codes, positions = paths.indices.to_numpy(), deleted.column(ROW_INDEX).to_numpy()
        # Loop over the files of a batch, which are few.
        for code, path in enumerate(str(p) for p in paths.dictionary.to_pylist()):
            self._deleted.setdefault(path, []).append(positions[codes == code])

    def finish(self) -> list[CommitMessage]:
        """Return the messages of all files. Raises CommitConflictError for rows that are missing."""
        messages = self._patches.finish()
        if self._write is not None:
            self._new = self._write.prepare_commit()
            self._write.close()
        return [*self._new, *messages]

    def marked(self) -> Mapping[str, DeletionVector]:
        """Return the rows to be marked as deleted, by the path of the oldest file that has columns of them."""
        return {path: DeletionVector.of(np.concatenate(found)) for path, found in self._deleted.items()}

    def abort(self) -> None:
        """Delete the files, also after `finish`."""
        self._patches.abort()
        if self._write is not None:
            self._write.abort()
        self._table.new_commit(self._user).abort(self._new)
        self._new = []
