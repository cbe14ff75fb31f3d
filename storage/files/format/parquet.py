"""Reader of Parquet data files.

Columns are matched by name, as in Paimon. Memory: a page of each column, plus the batch. Local files are mapped; others
are read through a buffer per column, or by small row groups. The input gets the list of column chunks or pages that are
needed, so that a file in an object store prefetches them by few requests.

The pages of a mapped file count as memory of the process from the first access on, although the system could reclaim
them at any time. They are released after they were read, so that a merge of many large files does not appear to need as
much memory as the files have bytes.

INT96 columns of other writers are read once more, as bytes, to find timestamps that Arrow reads as other ones
(hybrid_calendar.py). Files of interbed hold no such values.
"""

import ctypes
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, cast

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Positions
from interbed.storage.base.checksums import opened
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate
from interbed.storage.base.prefetch import read_ahead
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.format.api import CHECKSUMS, DecodeTally, ReadChecks, data_file_errors
from interbed.storage.files.format.hybrid_calendar import check_nanosecond_range
from interbed.storage.files.format.pages.footer import Footer, RowGroups, read_footer
from interbed.storage.files.format.pages.selection import PageRead, PageRequest
from interbed.storage.io.api import FileIO, PrefetchingInput, open_sized, prefetch

RELEASE_BYTES = 4 << 20
"""Decoded bytes between releases of pages: few enough to bound memory, enough to make the cost negligible."""
_DONT_NEED = 4


def _madvise() -> Callable[[int, int, int], int] | None:
    # On other systems the advice has another number, or drops written data.
    if not sys.platform.startswith("linux"):
        return None
    function: Any = ctypes.CDLL(None).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    found: Callable[[int, int, int], int] = function
    return found


_ADVISE = _madvise()


class MappedPages:
    """Mapped pages of one open file; does nothing for files that are not mapped."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._pending = 0
        self._source = source if isinstance(source, pa.MemoryMappedFile) else None
        self._buffer: pa.Buffer | None = None

    def read(self, size: int) -> None:
        """Count decoded bytes, and release the pages of the file from the process's memory now and then.

        Pages that are still needed are mapped again at the next access, from the system's cache.
        """
        self._pending += size
        if self._source is None or self._pending < RELEASE_BYTES or _ADVISE is None:
            return
        self._pending = 0
        if self._buffer is None:
            # Requested late: the request announces the whole file to the system, which is wasted for small reads.
            before = self._source.tell()
            self._source.seek(0)
            self._buffer = self._source.read_buffer(self._source.size())
            self._source.seek(before)
        # A refusal is harmless: it is advice.
        _ADVISE(self._buffer.address, self._buffer.size, _DONT_NEED)


COLUMN_BUFFER_BYTES = 1 << 20
"""Read buffer of a column where files can't be mapped: few requests to an object store, little memory."""
_UNBUFFERED_BYTES = 4 << 20
"""Columns of at most this size in a row group are decoded from the prefetched bytes, without a buffer."""
_GROUPS_AHEAD = 4
"""Row groups whose pages are selected and prefetched while an earlier group is decoded."""

_Found = Iterator[tuple[int, pa.RecordBatch]]
"""Batches, each with the number of its first row."""


class ParquetReader:
    """FormatReader of Parquet files, without state.

    It skips row groups that their statistics exclude by the predicate, and in the others pages that the index excludes.
    """

    def positioned(
        self,
        path: str,
        fields: Sequence[DataField],
        *,
        file_io: FileIO,
        batch_rows: int,
        predicate: Predicate | None = None,
        wanted: Positions | None = None,
        use_threads: bool = False,
        checks: ReadChecks = CHECKSUMS,
        tally: DecodeTally | None = None,
    ) -> _Found:
        """Open the file, request the needed ranges, and return the rows as for FormatReader.positioned."""
        read = self._read(path, fields, file_io, batch_rows, predicate, wanted, use_threads, checks, tally)
        next(read)
        return cast("_Found", read)

    def _read(
        self,
        path: str,
        fields: Sequence[DataField],
        file_io: FileIO,
        batch_rows: int,
        predicate: Predicate | None,
        wanted: Positions | None,
        use_threads: bool,
        checks: ReadChecks,
        tally: DecodeTally | None,
    ) -> Iterator[tuple[int, pa.RecordBatch] | None]:
        """Yield None once the file is open and the needed ranges are requested, then the rows."""
        with data_file_errors(path), open_sized(file_io, path, checks.size) as source:
            pages = MappedPages(source)
            footer = read_footer(source, path, verify=checks.checksums)
            checks.expect_rows(footer.metadata.num_rows)
            present = set(footer.schema.names)
            names = [f.name for f in fields if f.name in present]

            coded = [name for name in names if name in footer.dictionaries]
            far = [name for name in names if name in footer.far_timestamps]

            def whole(groups: list[int] | None, buffer_size: int | None = None) -> _Found:
                with opened(
                    source,
                    footer.metadata,
                    verify=checks.checksums,
                    buffer_size=_announced(source, footer, names, groups) if buffer_size is None else buffer_size,
                    as_dictionaries=coded,
                ) as file:
                    for position, end, stretch in _stretches(footer.groups.starts, groups):
                        batches = file.iter_batches(
                            batch_rows, columns=names, row_groups=stretch, use_threads=use_threads
                        )
                        for batch in near(batches, stretch) if far else batches:
                            if coded:
                                batch = _decoded(batch)
                            pages.read(batch.nbytes)
                            if tally is not None:
                                tally.add_whole(batch)
                            # A name with a dot also selects columns that begin with the part before the dot.
                            yield position, batch if batch.num_columns == len(names) else batch.select(names)
                            position += batch.num_rows
                        if position != end:
                            raise ValueError(f"its pages end at row {position} instead of {end}")

            def near(batches: Iterable[pa.RecordBatch], groups: list[int] | None) -> Iterator[pa.RecordBatch]:
                with opened(source, footer.with_bytes, verify=False) as file:
                    raw = AlignedRows(file.iter_batches(batch_rows, columns=far, row_groups=groups))
                    for batch in batches:
                        check_nanosecond_range(batch, raw.take(batch.num_rows), path)
                        yield batch

            groups = _row_groups(footer.groups, predicate, wanted)
            if groups == [] or far or footer.has_dotted_names or (predicate is None and wanted is None):
                buffer_size = _announced(source, footer, names, groups)
                yield None
                yield from whole(groups, buffer_size)
                return
            request = PageRequest(
                names=tuple(names),
                types={n: footer.schema.field(n).type for n in names},
                fields={f.name: f for f in fields},
                predicate=predicate,
                batch_rows=batch_rows,
                verify=checks.checksums,
                use_threads=use_threads,
                tally=tally,
            )
            yield from _by_pages(source, footer, groups, request, wanted, whole)


def _announced(source: pa.NativeFile, footer: Footer, names: Sequence[str], groups: list[int] | None) -> int:
    """Start the prefetch of the columns of a remote file, and return the buffer size for the read of each column."""
    if isinstance(source, PrefetchingInput):
        steps = list(footer.chunks.of(names, groups))
        prefetch(source, lambda: steps)
        most = max((sum(end - start for start, end in step) for step in steps), default=0)
        return 0 if most <= _UNBUFFERED_BYTES else COLUMN_BUFFER_BYTES
    # A mapped file is decoded in place; a buffer would only copy it.
    return 0 if isinstance(source, pa.MemoryMappedFile) else COLUMN_BUFFER_BYTES


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with texts instead of dictionary codes; looking them up together is faster in Arrow."""
    arrays: list[Any] = []
    fields: list[Any] = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        found: Any = column
        if pa.types.is_dictionary(column.type):
            codes = np.frombuffer(found.indices.buffers()[1], np.uint32, len(found), 4 * found.offset)
            # A code beyond the dictionary would read memory outside of it; the code of a null is arbitrary.
            if len(codes) and codes.max() >= len(found.dictionary):
                found.validate(full=True)
            found = found.dictionary_decode()
        arrays.append(found)
        fields.append(field.with_type(found.type))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _by_pages(
    source: pa.NativeFile,
    footer: Footer,
    groups: Sequence[int] | None,
    request: PageRequest,
    wanted: Positions | None,
    whole: Callable[[list[int]], _Found],
) -> Iterator[tuple[int, pa.RecordBatch] | None]:
    """Yield None, then of each group the needed pages, or the whole group where most of it is needed."""
    reader = PageRead(source, footer.pages(source), request)
    starts = footer.groups.starts
    together: list[int] = []

    def open_group(number: int) -> tuple[int, _Found | None]:
        start, end = starts[number : number + 2]
        inside = None if wanted is None else wanted[slice(*np.searchsorted(wanted, (start, end)))] - start
        return number, reader.group(number, inside)

    numbers = range(len(starts) - 1) if groups is None else groups
    prefetched = read_ahead(map(open_group, numbers), _GROUPS_AHEAD if isinstance(source, PrefetchingInput) else 0)
    first = list(islice(prefetched, 1))
    yield None
    for number, found in chain(first, prefetched):
        if found is None:
            together.append(number)
            continue
        if together:
            yield from whole(together)
            together = []
        for row, batch in found:
            for offset in range(0, batch.num_rows, request.batch_rows):
                yield starts[number] + row + offset, batch.slice(offset, request.batch_rows)
    if together:
        yield from whole(together)


def _stretches(starts: Sequence[int], groups: Sequence[int] | None) -> Iterator[tuple[int, int, list[int] | None]]:
    """Yield runs of consecutive row groups with the first and end row of each; None means all groups of the file."""
    if groups is None:
        yield 0, starts[-1], None
        return
    stretch: list[int] = []
    for group in groups:
        if stretch and group != stretch[-1] + 1:
            yield starts[stretch[0]], starts[stretch[-1] + 1], stretch
            stretch = []
        stretch.append(group)
    if stretch:
        yield starts[stretch[0]], starts[stretch[-1] + 1], stretch


def _row_groups(groups: RowGroups, predicate: Predicate | None, wanted: Positions | None) -> list[int] | None:
    """Return the row groups that may have rows of the predicate at positions wanted; None for all."""
    starts = groups.starts
    chosen: list[int] | None = None
    # The statistics in the manifest selected a file of one group already, and its pages are selected later.
    if predicate is not None and not isinstance(predicate, AlwaysTrue) and len(starts) > 2:
        chosen = groups.matching(predicate)
    if wanted is None:
        return chosen
    ends = np.searchsorted(wanted, starts)
    return [g for g in (range(len(starts) - 1) if chosen is None else chosen) if ends[g] < ends[g + 1]]


class AlignedRows:
    """Rows of batches, returned in the numbers that are requested."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._left: pa.RecordBatch | None = None

    def take(self, count: int) -> pa.RecordBatch:
        """Return the next rows. Raises ValueError when there are fewer."""
        parts: list[pa.RecordBatch] = []
        while count:
            left = self._left if self._left is not None and self._left.num_rows else next(self._batches, None)
            if left is None:
                raise ValueError("its columns have different numbers of rows")
            parts.append(left.slice(0, count))
            self._left = left.slice(count)
            count -= parts[-1].num_rows
        if len(parts) == 1:
            return parts[0]
        joined: pa.RecordBatch = pa.concat_batches(parts)  # type: ignore[attr-defined]  # The stubs lack it.
        return joined
