"""Reading rows of append tables together with where they are: the file and the position in it.

The columns have the names that Paimon gives them in Spark: `__paimon_file_path` and `__paimon_row_index`.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.files.deletion.vector import DeletionVector
from interbed.storage.files.file_index.api import EVERYTHING
from interbed.storage.lsm.file_read import ROW_INDEX, FileRead, ReadOptions, block_rows
from interbed.storage.meta.manifest.data_file import DataFileMeta
from interbed.storage.meta.store import TableStore
from interbed.storage.read.columns import ReadColumns
from interbed.storage.read.deletions import DeletionReader
from interbed.storage.scan.split import Split

FILE_PATH = "__paimon_file_path"
__all__ = ["FILE_PATH", "ROW_INDEX", "LocatedRead"]


class LocatedRead:
    """Reads splits of an append table as batches of the columns asked for (all when None), then path and position.

    Filtered exactly; may be shared by threads. Raises as TableRead does.
    """

    def __init__(
        self, store: TableStore, columns: Sequence[str] | None = None, predicate: Predicate | None = None
    ) -> None:
        self._store = store
        self._columns = ReadColumns.of(store.schema, columns, predicate)
        self._files = FileRead(store, self._columns.fields)
        self._deletions = DeletionReader(store.file_io)

    def to_batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a split's files, in order; without those that deletion vectors mark."""
        deleted_of = self._deletions.of(split.deletion_files)
        for file in split.files:
            yield from self.file_batches(split, file, deleted_of(file))

    def file_batches(
        self, split: Split, file: DataFileMeta, deleted: DeletionVector | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one file without the deleted ones."""
        path = split.path_of(file)
        predicate = self._columns.predicate
        selection = EVERYTHING
        if predicate is not None and self._store.options.file_index_read_enabled:
            selection = self._files.selected(file, path, predicate)
        if selection.is_empty:
            return
        names = [*self._columns.names, ROW_INDEX]
        for batch in self._files.batches(
            file,
            path,
            ReadOptions(
                batch_rows=block_rows(split.files),
                predicate=predicate,
                deleted=deleted,
                wanted=selection.positions(),
                with_position=True,
            ),
        ):
            rows = self._columns.kept(batch).select(names)
            if rows.num_rows:
                yield rows.append_column(FILE_PATH, pa.repeat(pa.scalar(path), rows.num_rows))
