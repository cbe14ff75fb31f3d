"""Writing the indexes of one data file while its rows are written."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.row.words import Array
from interbed.storage.files.file_index.api import FileIndexes
from interbed.storage.files.file_index.container import encode_container
from interbed.storage.files.file_index.kinds import KINDS
from interbed.storage.files.file_index.spec import FileIndexSpec, IndexedColumn


class TableFileIndexWriter:
    """FileIndexWriter of the indexes that a table's options ask for. Batches hold the columns by name."""

    def __init__(self, spec: FileIndexSpec) -> None:
        self._threshold = spec.in_manifest_threshold
        self._writers = [(c, KINDS[c.kind].writer(c.form, c.options)) for c in spec.columns]

    def add(self, batch: pa.RecordBatch) -> None:
        """See FileIndexWriter."""
        for column, writer in self._writers:
            writer.add(_values(batch, column))

    def finish(self) -> FileIndexes | None:
        """See FileIndexWriter."""
        columns: dict[str, dict[str, bytes | None]] = {}
        for column, writer in self._writers:
            content = writer.finish()
            if content is not None:
                columns.setdefault(column.name, {})[column.kind] = content
        if not columns:
            return None
        container = encode_container(columns)
        if len(container) > self._threshold:
            # What is in a manifest is protected by the manifest's checksums.
            return FileIndexes(file=encode_container(columns, seal=True))
        return FileIndexes(embedded=container)


def _values(batch: pa.RecordBatch, column: IndexedColumn) -> Array:
    values: Any = batch.column(column.column)
    if column.key is not None:
        values = pc.map_lookup(values, pa.scalar(column.key), "first")
    found: Array = values
    return found
