"""Reading Parquet data files.

Columns are found by name, as Paimon does. Memory: a page of each column, plus the batch; local files are mapped, others
read through a buffer per column, never ahead of need.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from interbed.storage.base.arrays import Positions
from interbed.storage.base.columnar.parquet_checks import check_index, footer_of, open_parquet
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.mapped import MappedPages
from interbed.storage.base.memory_cache import MemoryCache
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.format.api import CHECKSUMS, ReadChecks, data_file_errors
from interbed.storage.files.format.pages.index import PageIndex
from interbed.storage.files.format.pages.row_groups import groups_of
from interbed.storage.files.format.pages.selection import PageRead, PageRequest

COLUMN_BUFFER_BYTES = 1 << 20
"""What is read of a column at once where files can't be mapped: few requests to an object store, little memory."""
_INDEX_BYTES = 32 << 20
"""Of indexes of pages so many bytes are kept in memory, for all tables of the process."""
_INDEXES = MemoryCache()


class ParquetReader:
    """FormatReader of Parquet files; holds no state.

    Row groups whose statistics exclude the predicate are skipped, and in the others pages that their index excludes.
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
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """See FormatReader."""
        with data_file_errors(path), file_io.open_input(path) as source:
            # A mapped file is decoded in place; a buffer would only copy it.
            buffer_size = 0 if isinstance(source, pa.MemoryMappedFile) else COLUMN_BUFFER_BYTES
            pages = MappedPages(source)
            with open_parquet(source, verify=checks.checksums, buffer_size=buffer_size) as file:
                checks.expect_rows(file.metadata.num_rows)
                schema = file.schema_arrow
                present = set(schema.names)
                names = [f.name for f in fields if f.name in present]

                def whole(groups: list[int] | None) -> Iterator[tuple[int, pa.RecordBatch]]:
                    for position, end, stretch in _stretches(file.metadata, groups):
                        for batch in file.iter_batches(
                            batch_rows, columns=names, row_groups=stretch, use_threads=use_threads
                        ):
                            pages.read(batch.nbytes)
                            # A name with a dot brings along columns that begin with what stands before it.
                            yield position, batch if batch.num_columns == len(names) else batch.select(names)
                            position += batch.num_rows
                        if position != end:
                            raise ValueError(f"its pages end at row {position} instead of {end}")

                groups = _row_groups(file, fields, predicate, wanted)
                if groups == [] or (predicate is None and wanted is None):
                    yield from whole(groups)
                    return
                request = PageRequest(
                    names=tuple(names),
                    types={n: schema.field(n).type for n in names},
                    fields={f.name: f for f in fields},
                    predicate=predicate,
                    batch_rows=batch_rows,
                    verify=checks.checksums,
                    use_threads=use_threads,
                )
                yield from _by_pages(source, path, file, groups, request, wanted, whole)


def _page_index(source: pa.NativeFile, path: str, *, verify: bool) -> PageIndex:
    footer = footer_of(source)

    def make() -> PageIndex:
        if verify:
            check_index(source, footer)
        return PageIndex(footer)

    return _INDEXES.get((path, footer, verify), make, limit=_INDEX_BYTES)


def _by_pages(
    source: pa.NativeFile,
    path: str,
    file: pq.ParquetFile,
    groups: Sequence[int] | None,
    request: PageRequest,
    wanted: Positions | None,
    whole: Callable[[list[int]], Iterator[tuple[int, pa.RecordBatch]]],
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Of each group the pages that are needed, or where that is most of it, the whole group."""
    reader = PageRead(source, _page_index(source, path, verify=request.verify), request)
    starts = np.cumsum([0, *(file.metadata.row_group(g).num_rows for g in range(file.num_row_groups))]).tolist()
    together: list[int] = []
    for number in range(file.num_row_groups) if groups is None else groups:
        start, end = starts[number : number + 2]
        inside = None if wanted is None else wanted[slice(*np.searchsorted(wanted, (start, end)))] - start
        found = reader.group(number, inside)
        if found is None:
            together.append(number)
            continue
        if together:
            yield from whole(together)
            together = []
        for row, batch in found:
            for offset in range(0, batch.num_rows, request.batch_rows):
                yield start + row + offset, batch.slice(offset, request.batch_rows)
    if together:
        yield from whole(together)


def _stretches(metadata: pq.FileMetaData, groups: Sequence[int] | None) -> Iterator[tuple[int, int, list[int] | None]]:
    """Row groups that follow each other, and where their rows begin and end; None stands for all groups of the file."""
    if groups is None:
        yield 0, metadata.num_rows, None
        return
    position, stretch, start = 0, list[int](), 0
    for group in range(metadata.num_row_groups):
        if group in groups:
            start = start if stretch else position
            stretch.append(group)
        elif stretch:
            yield start, position, stretch
            stretch = []
        position += metadata.row_group(group).num_rows
    if stretch:
        yield start, position, stretch


def _row_groups(
    file: pq.ParquetFile, fields: Sequence[DataField], predicate: Predicate | None, wanted: Positions | None
) -> list[int] | None:
    """The row groups that may hold rows of the predicate at positions wanted; None for all."""
    chosen = _matching_groups(file, fields, predicate)
    if wanted is None:
        return chosen
    sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
    ends = np.searchsorted(wanted, np.cumsum([0, *sizes]))
    groups = range(file.num_row_groups) if chosen is None else chosen
    return [g for g in groups if ends[g] < ends[g + 1]]


def _matching_groups(
    file: pq.ParquetFile, fields: Sequence[DataField], predicate: Predicate | None
) -> list[int] | None:
    if predicate is None or isinstance(predicate, AlwaysTrue) or file.num_row_groups < 2:
        # A file of one group was chosen by its statistics in the manifest, and its pages will be.
        return None
    return groups_of(file.metadata, file.schema_arrow, fields, predicate)
