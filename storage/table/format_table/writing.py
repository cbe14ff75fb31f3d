"""Writes to a format table: files under hidden names, which a commit renames, and deletions of the files they replace.

A file is written as `<table>/_temporary/.tmp.<uuid>`, where no reader looks, and synced. `commit` renames all
files to their names, and only then deletes the files that an overwrite replaces, which were listed before the first
row was written. After a kill before the first rename the table is unchanged; during the renames, and before the last
deletion, it has new rows in addition to all old ones, or to those that are not deleted yet. At no time are rows missing
that the table had before and has after. Repeating an overwrite completes it. The hidden files of a killed write stay.
Java Paimon names hidden files in the same way, and deletes old files first.

Files that killed writes left are removed on request. A file is known by its directory, its name and its age: a writer
keeps it while its rows come, and Java Paimon's writers name theirs in the same way. Everything else in the directory is
of other programs, and stays.
"""

import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrow_values import rows_taken
from interbed.storage.base.errors import InvalidInputError, NotSupportedError, StorageAccessError
from interbed.storage.base.row.binary_row import encode_rows
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.format.layout import DataFileNames, file_schema
from interbed.storage.files.format.writer import open_writer
from interbed.storage.files.text.codec import TextFileWriter, text_codec
from interbed.storage.io.api import FileIO, FileStatus, abort_output, write_errors
from interbed.storage.io.parallel import delete_all_files, is_link
from interbed.storage.table.format_table.definition import FormatDefinition
from interbed.storage.table.format_table.directories import FormatDirectories, FormatPartition
from interbed.storage.version.orphans import OrphansResult, age_limit

STAGED_PREFIX = ".tmp."

_BUFFERED_BYTES = 128 << 20
"""Bytes of rows of all partitions in memory, after which they are written to the files that are open."""
_GROUP_ROWS = 128 << 10

RowNumbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A complete file under its hidden name, and the name that it will have."""

    staged: str
    path: str
    partition: FormatPartition
    rows: int
    size: int


class RowFile(Protocol):
    """Writer of the rows of one file."""

    def write(self, batches: Sequence[pa.RecordBatch], numbers: Sequence[RowNumbers]) -> None:
        """Append rows, with their numbers in the data of the caller."""
        ...

    def position(self) -> int:
        """Return the number of bytes written so far."""
        ...

    def finish(self) -> int:
        """Write the end of the file, and return its size."""
        ...


class ColumnarFile:
    """RowFile of a columnar format."""

    def __init__(self, definition: FormatDefinition, sink: Any) -> None:
        layout = definition.layout
        self._schema = file_schema(definition.data_fields)
        self._file = open_writer(layout.kinds.at(0), layout, sink)

    def write(self, batches: Sequence[pa.RecordBatch], numbers: Sequence[RowNumbers]) -> None:
        """Append rows as one row group."""
        self._file.write([pa.RecordBatch.from_arrays(batch.columns, schema=self._schema) for batch in batches])

    def position(self) -> int:
        """Return the number of bytes written so far."""
        return self._file.position()

    def finish(self) -> int:
        """Write the footer, and return the size of the file."""
        return self._file.finish()


class PartitionWriter:
    """Writer of the rows of one partition, to files that roll at the target size."""

    def __init__(
        self,
        definition: FormatDefinition,
        directories: FormatDirectories,
        partition: FormatPartition,
        names: DataFileNames,
    ) -> None:
        self._definition = definition
        self._file_io = directories.file_io
        self._staging = directories.staging(partition)
        self._partition = partition
        self._names = names
        self._target = definition.options.target_file_size_for(primary_key=False)
        self._target_rows = definition.options.target_file_rows
        self._pending: list[tuple[pa.RecordBatch, RowNumbers]] = []
        self._pending_rows = 0
        self._output: Any = None
        self._file: RowFile | None = None
        self._staged = ""
        self._rows = 0
        self.buffered = 0
        self.done: list[StagedFile] = []

    def write(self, batch: pa.RecordBatch, numbers: RowNumbers) -> None:
        """Append rows of the partition."""
        start = 0
        while start < batch.num_rows:
            room = _GROUP_ROWS - self._pending_rows
            if self._target_rows is not None:
                room = min(room, self._target_rows - self._rows - self._pending_rows)
            part = batch.slice(start, room)
            self._pending.append((part, numbers[start : start + room]))
            self._pending_rows += part.num_rows
            self.buffered += part.nbytes
            start += part.num_rows
            full = self._target_rows is not None and self._rows + self._pending_rows >= self._target_rows
            if full or self._pending_rows >= _GROUP_ROWS:
                self.flush()

    def flush(self) -> None:
        """Write the buffered rows to the file."""
        if not self._pending:
            return
        if self._file is None:
            self._staged = f"{self._staging}/{STAGED_PREFIX}{uuid.uuid4()}"
            with write_errors(self._staged):
                self._output = self._file_io.open_output(self._staged)
                self._file = self._opened()
        with write_errors(self._staged):
            self._file.write([batch for batch, _ in self._pending], [numbers for _, numbers in self._pending])
        self._rows += self._pending_rows
        self._pending, self._pending_rows, self.buffered = [], 0, 0
        full = self._target_rows is not None and self._rows >= self._target_rows
        if full or self._file.position() >= self._target:
            self.close()

    def _opened(self) -> RowFile:
        definition = self._definition
        if definition.syntax is None:
            return ColumnarFile(definition, self._output)
        return TextFileWriter(
            self._output, text_codec(definition.data_fields, definition.syntax), definition.compression
        )

    def close(self) -> None:
        """Finish the file, if one is open."""
        self.flush()
        if self._file is None:
            return
        with write_errors(self._staged):
            size = self._file.finish()
            self._output.close()
        name = self._names.take(self._definition.extension)
        self.done.append(
            StagedFile(
                staged=self._staged,
                path=f"{self._partition.location}/{name}",
                partition=self._partition,
                rows=self._rows,
                size=size,
            )
        )
        self._file, self._output, self._rows = None, None, 0

    def abort(self) -> None:
        """Delete all files of the writer. Never raises."""
        if self._output is not None:
            # The destructor of an unfinished encoder would finish the file, on a closed output.
            with suppress(OSError, ValueError, pa.ArrowException):
                if self._file is not None:
                    self._file.finish()
            with suppress(OSError):
                abort_output(self._output)
            self._file_io.delete_quietly([self._staged])
        self._file_io.delete_quietly([file.staged for file in self.done])
        self._pending, self._file, self._output, self.done = [], None, None, []


class FormatTableWrite:
    """Writer of rows to all partitions of a table; use as a context manager to delete its files after an error."""

    def __init__(self, definition: FormatDefinition, directories: FormatDirectories) -> None:
        self._definition = definition
        self._directories = directories
        self._names = DataFileNames(definition.options.data_file_prefix)
        self._writers: dict[bytes, PartitionWriter] = {}
        self._known: dict[bytes, FormatPartition] | None = None
        self.row_count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.abort()

    @property
    def partitions(self) -> list[bytes]:
        """The rows of the partitions that were written to."""
        return list(self._writers)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows with all columns of the table. Raises InvalidInputError naming the column and the row."""
        keys = self._definition.schema.partition_fields
        data = [f.name for f in self._definition.data_fields]
        for row, places in _by_partition(batch, keys):
            writer = self._writers.get(row)
            if writer is None:
                writer = self._writers[row] = PartitionWriter(
                    self._definition, self._directories, self._partition(row), self._names
                )
            part = batch if places is None else rows_taken(batch, places)
            numbers = np.arange(batch.num_rows) if places is None else places
            writer.write(part.select(data), numbers + self.row_count)
        self.row_count += batch.num_rows
        if sum(writer.buffered for writer in self._writers.values()) >= _BUFFERED_BYTES:
            for writer in self._writers.values():
                writer.flush()

    def _partition(self, row: bytes) -> FormatPartition:
        if not self._definition.schema.partition_keys:
            return self._directories.partitions()[0]
        if self._known is None:
            # A registered partition may be in any directory.
            self._known = self._directories.to_write()
        found = self._known.get(row)
        if found is not None and found.definition is not None:
            shown = ", ".join(f"{name}={value}" for name, value in found.spec.items())
            raise NotSupportedError(
                f"The partition {shown} at {found.location} has {found.definition.file_format} files of another format "
                "than the table, and is only read; write it by Hive, or drop it first."
            )
        if found is not None:
            self._directories.check_owned([found])
        return found or self._directories.new_partition(row)

    def finish(self) -> list[StagedFile]:
        """Finish all files, make them durable, and return them."""
        for writer in self._writers.values():
            writer.close()
        found = [file for writer in self._writers.values() for file in writer.done]
        self._directories.file_io.sync([file.staged for file in found])
        return found

    def abort(self) -> None:
        """Delete all files of the writer. Never raises."""
        for writer in self._writers.values():
            writer.abort()


def _by_partition(
    batch: pa.RecordBatch, keys: Sequence[DataField]
) -> "list[tuple[bytes, npt.NDArray[np.int64] | None]]":
    """Return the partitions of rows, and the places of the rows of each; None for all rows."""
    if not batch.num_rows:
        return []
    if not keys:
        return [(b"", None)]
    rows = encode_rows([batch.column(f.name) for f in keys], [f.type for f in keys])
    numbers: dict[bytes, int] = {}
    # A loop over the rows' keys, which are bytes: numpy sorts them much slower.
    places = np.array([numbers.setdefault(row, len(numbers)) for row in rows], np.int64)
    if len(numbers) == 1:
        return [(rows[0], None)]
    return [(row, np.flatnonzero(places == number)) for row, number in numbers.items()]


def commit(
    directories: FormatDirectories,
    files: Sequence[StagedFile],
    *,
    replaced: Iterable[str] = (),
) -> None:
    """Rename files to their names, register their partitions, then delete the `replaced` files.

    Raises StorageAccessError; if no file was renamed by then, nothing has changed.
    """
    file_io = directories.file_io
    renamed = 0
    for location in dict.fromkeys(file.partition.location for file in files):
        file_io.make_directories(location)
    try:
        for file in files:
            if not file_io.rename(file.staged, file.path):
                raise StorageAccessError(
                    f"Can't rename {file.staged} to {file.path}: one is missing, or the other exists."
                )
            renamed += 1
    except BaseException:
        if not renamed:
            file_io.delete_quietly([file.staged for file in files])
        raise
    if directories.register is not None and files:
        partitions = {file.partition.row: file.partition for file in files if file.partition.spec}
        directories.register.add(list(partitions.values()))
    delete_files(file_io, replaced)


def delete_files(file_io: FileIO, paths: Iterable[str]) -> int:
    """Delete data files, and return how many existed. Raises StorageAccessError; the rest is left then."""
    return sum(file_io.delete(path) for path in paths)


def check_in_choice(directories: FormatDirectories, chosen: object, write: FormatTableWrite, table: str) -> None:
    """Raise InvalidInputError for rows of a partition that an overwrite does not replace."""
    check_rows_in_choice(directories, chosen, write.partitions, table)


def check_rows_in_choice(directories: FormatDirectories, chosen: object, rows: Sequence[bytes], table: str) -> None:
    """Raise InvalidInputError if one of the rows of partitions is not in those that an overwrite replaces."""
    outside = set(rows) - directories.in_choice(chosen, rows)  # type: ignore[arg-type]
    if outside:
        spec = directories.new_partition(sorted(outside)[0]).spec
        shown = ", ".join(f"{name}={value}" for name, value in spec.items())
        raise InvalidInputError(f"Rows for '{table}' are in the partition {shown}, which is not overwritten.")


_STAGED = re.compile(re.escape(STAGED_PREFIX) + r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def remove_leftovers(
    directories: FormatDirectories,
    *,
    older_than_millis: int | None = None,
    dry_run: bool = False,
    clock: Callable[[], float] = time.time,
) -> OrphansResult:
    """Delete the files of killed writes that were written before a time.

    The time is in milliseconds since the epoch, by default a day ago. Raises InvalidInputError for a time in the
    future, StorageAccessError when some files could not be deleted.
    """
    limit = age_limit(
        older_than_millis,
        clock,
        "files of killed writes were written must be in the past: the files of a write that is running look the same",
    )
    places = sorted({directories.staging(partition) for partition in directories.partitions()} | {directories.staged})
    found = [file for place in places for file in _files(directories.file_io, place) if _is_left(file, limit)]
    if not dry_run:
        delete_all_files(directories.file_io, [file.path for file in found])
    return OrphansResult(
        files=tuple(file.path for file in found), bytes=sum(file.size for file in found), dry_run=dry_run
    )


def _files(file_io: FileIO, place: str) -> Iterator[FileStatus]:
    """Yield the entries of a directory, none if it is missing or a link to another one."""
    if not is_link(file_io, place):
        yield from file_io.list(place)


def _is_left(file: FileStatus, limit: int) -> bool:
    return (
        _STAGED.fullmatch(file.name) is not None
        and not file.is_directory
        and not file.is_link
        and file.modified_millis is not None
        and file.modified_millis < limit
    )
