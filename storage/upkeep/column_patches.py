"""Files with new values of columns, for a statement that changes rows of a table with `data-evolution.enabled`.

UPDATE and MERGE find rows by the oldest file of their row range group and their position in it. The new values are
merged with the old ones of the group in bounded memory; the file has the changed columns of all rows of the group, as
those of `column_update`. Partition columns are not written: a row that would change its partition is refused.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Positions
from interbed.storage.base.arrow_values import from_numpy, one_array, to_numpy
from interbed.storage.base.errors import CommitConflictError, InvalidInputError
from interbed.storage.base.row.python_values import python_value
from interbed.storage.files.format.layout import DataFileLayout, DataFileNames
from interbed.storage.lsm.column_groups import ColumnGroupRead, GroupOptions, RowRangeGroup, row_range_groups
from interbed.storage.lsm.file_read import ROW_INDEX
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import FileSource
from interbed.storage.read.columns import FILE_PATH
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Split
from interbed.storage.upkeep.append_compact import written_as_one
from interbed.storage.upkeep.column_update import converter_of_values, with_new_values
from interbed.storage.write.commit_message import CommitMessage, DataIncrement
from interbed.storage.write.kept_rows import KeptRows


class ColumnPatches:
    """Writer of the files of one statement, or of one task of it, from the rows of one snapshot.

    `columns` get new values, in files whose names begin with `prefix` (None: the table's). Rows of one group are added
    one after the other, in ascending order of their positions.
    """

    def __init__(
        self, store: FileStore, columns: Sequence[str], snapshot_id: int | None, *, prefix: str | None = None
    ) -> None:
        self._store = store
        self._snapshot_id = snapshot_id
        fields = tuple(f for f in store.schema.fields if f.name in columns)
        placing = store.schema.partition_keys
        self._given = tuple(f.name for f in fields)
        self._names = tuple(name for name in self._given if name not in placing)
        self._fixed = tuple(name for name in self._given if name in placing)
        self._layout = DataFileLayout.of(store.schema, store.options).of_columns(self._names)
        self._files = DataFileNames(prefix or store.options.data_file_prefix)
        self._converter = converter_of_values(store, fields)
        self._read = ColumnGroupRead(store, fields)
        self._groups: dict[str, tuple[RowRangeGroup, Split]] | None = None
        self._path: str | None = None
        self._last = -1
        self._rows = KeptRows()
        self._messages: list[CommitMessage] = []

    def __enter__(self) -> "ColumnPatches":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rows.close()
        if error is not None:
            self.abort()

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows with FILE_PATH, ROW_INDEX and the new values; other columns are ignored.

        Raises SchemaMismatchError for values that do not fit, InvalidInputError for a second change of a row and for
        another partition, CommitConflictError if the rows are not in the snapshot.
        """
        if not rows.num_rows or not self._given:
            return
        paths = rows.column(FILE_PATH).dictionary_encode()
        codes = to_numpy(paths.indices)
        starts = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
        # Loop over the groups of a batch.
        for start, end in zip(starts, [*starts[1:], rows.num_rows], strict=True):
            self._add_to(str(paths.dictionary[int(codes[start])].as_py()), rows.slice(start, end - start))

    def _add_to(self, path: str, rows: pa.RecordBatch) -> None:
        if path != self._path:
            self._write()
            self._path = path
        positions = to_numpy(rows.column(ROW_INDEX))
        if (np.diff(positions, prepend=self._last) <= 0).any():
            raise InvalidInputError(
                f"The statement would change a row of the file {path} twice, so that its new values are ambiguous. "
                "Nothing was changed; let the source have one row for each."
            )
        self._last = int(positions[-1])
        table = pa.Table.from_batches(self._converter.batches(rows.select(list(self._given)), keeps_nulls=True))
        columns = [one_array(column) for column in table.columns]
        new = pa.RecordBatch.from_arrays(columns, schema=table.schema)
        self._converter.check_lengths(new, None, 0)
        self._rows.add(new.append_column(ROW_INDEX, rows.column(ROW_INDEX)))

    def finish(self) -> list[CommitMessage]:
        """Write the file of the last group, and return the messages of all files; to be called once."""
        self._write()
        self._rows.close()
        return self._messages

    def abort(self) -> None:
        """Delete the files, also after `finish` if they will not be committed."""
        self._rows.close()
        for message in self._messages:
            place = self._store.new_files(message.bucket_id)
            self._store.file_io.delete_quietly([p for f in message.data.new_files for p in f.paths_in(place.directory)])
        self._messages = []

    def _write(self) -> None:
        """Write the file of the group whose rows were added last, if any."""
        if self._path is None:
            return
        group, split = self._group(self._path)
        if self._names:
            place = self._store.new_files(split.bucket_id)
            file = written_as_one(self._store, place, self._files, self._layout, self._patched(group, split))
            new = replace(file, first_row_id=group.first_row_id, file_source=FileSource.APPEND)
            self._messages.append(
                CommitMessage(
                    bucket_id=split.bucket_id, total_buckets=split.total_buckets, data=DataIncrement(new_files=(new,))
                )
            )
        else:
            # Only the partition columns are given.
            for _ in self._patched(group, split):
                pass
        self._rows.close()
        self._rows, self._path, self._last = KeptRows(), None, -1

    def _group(self, path: str) -> tuple[RowRangeGroup, Split]:
        if self._groups is None:
            splits = TableScan(self._store, snapshot_id=self._snapshot_id).plan().splits
            self._groups = {
                split.path_of(group.oldest): (group, split)
                for split in splits
                for group in row_range_groups(split.files)
            }
        if path not in self._groups:
            raise CommitConflictError(
                f"The file {path} is not in the snapshot of {self._store.location} whose rows were to be changed, or "
                "its rows were given in several parts. Nothing was changed; run the statement again."
            )
        return self._groups.pop(path)

    def _patched(self, group: RowRangeGroup, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the written columns of all rows of a group, with the new values."""
        names, new = list(self._names), _SortedRows(self._rows.batches())
        if self._rows.count == group.row_count and not self._fixed:
            for batch in new.all():
                yield batch.select(names)
            return
        for old in self._read.batches(group, split.path_of, GroupOptions(use_threads=True, with_position=True)):
            first = int(old.column(ROW_INDEX)[0].as_py())
            merged = old
            for part in new.before(first + old.num_rows):
                places = to_numpy(part.column(ROW_INDEX)) - first
                self._check_partition(old, part, places)
                merged = with_new_values(merged.select(names), part.select(names), places)
            yield merged.select(names)

    def _check_partition(self, old: pa.RecordBatch, new: pa.RecordBatch, places: Positions) -> None:
        for name in self._fixed:
            was: Any = old.column(name).take(from_numpy(places))
            now: Any = new.column(name).cast(was.type)
            if not now.equals(was):
                row = next(n for n in range(len(now)) if now[n] != was[n])
                raise InvalidInputError(
                    f"The column {name!r} of the table at {self._store.location} says in which partition a row is, so "
                    f"that it can't be updated (from {python_value(was[row])!r} to {python_value(now[row])!r}). "
                    "Nothing was changed. Insert the rows into the other partition, and overwrite this one."
                )


class _SortedRows:
    """Rows in the order of their positions, in parts that end at given positions."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._head: pa.RecordBatch | None = None

    def all(self) -> Iterator[pa.RecordBatch]:
        """Return an iterator of all rows."""
        return self._batches

    def before(self, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the next rows whose positions are less than `end`."""
        while True:
            head = next(self._batches, None) if self._head is None else self._head
            if head is None:
                return
            count = int(np.searchsorted(to_numpy(head.column(ROW_INDEX)), end))
            self._head = head.slice(count) if count < head.num_rows else None
            if count:
                yield head.slice(0, count)
            if self._head is not None:
                return
