"""Rows of a table with `data-evolution.enabled`, put together from files that have some of their columns each.

A row range group is the files whose rows have the same ids: each begins at the same first row id and has the same
number of rows. A file has the columns of `write_cols`, or all of its schema. The newest file that has a column, by its
greatest sequence number, has the column's values for all rows of the group; values in older files are obsolete. A
column that no file has is null. The sequence number of a row is that of the newest file of its group. A deletion vector
belongs to the oldest file and marks rows of the whole group.

A read opens the files with the values of the columns that it needs, and no other; none for row ids and counts. The
conditions of a filter are evaluated file by file first, so that of the other files only the matching rows are read.
Source: documentation page `append-table/data-evolution`, Paimon's DataEvolutionSplitRead.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask, Positions
from interbed.storage.base.arrow_values import array_of, from_numpy, to_numpy
from interbed.storage.base.errors import CorruptFileError, NotSupportedError
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, columns_of, restrict_to
from interbed.storage.base.predicate.stats_filter import select
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.deletion_vectors import DeletionVector
from interbed.storage.files.format.api import DecodeTally
from interbed.storage.lsm.file_read import ROW_INDEX, FileRead, ReadOptions, block_rows, kept_rows, positions_in
from interbed.storage.lsm.sort_merge import BLOCK_ROWS
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import ROW_ID, DataFileMeta
from interbed.storage.meta.schema.system_fields import TRACKING_NAMES
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, TableSchema

_DEDICATED = (".blob", ".vector.")
"""Parts of the names of files with the values of single BLOB and VECTOR columns."""


@dataclass(frozen=True, slots=True)
class RowRangeGroup:
    """Files with columns of the same rows, the newest first."""

    files: tuple[DataFileMeta, ...]

    @property
    def first_row_id(self) -> int:
        """The id of the first row."""
        return first_row_id(self.files[0])

    @property
    def row_count(self) -> int:
        """The number of rows, with deleted ones."""
        return self.files[0].row_count

    @property
    def oldest(self) -> DataFileMeta:
        """The file to which the deletion vector of the group belongs."""
        return min(self.files, key=lambda f: (f.max_sequence_number, f.file_name))

    def providers(
        self, fields: Sequence[DataField], schema_of: Callable[[int], TableSchema]
    ) -> list[tuple[DataFileMeta, list[DataField]]]:
        """Return the files with the values of the given columns, each with its columns; those of no file are absent."""
        found: list[tuple[DataFileMeta, list[DataField]]] = []
        left = {f.id: f for f in fields if f.name not in TRACKING_NAMES}
        for file in self.files:
            own = [left.pop(number) for number in sorted(written_ids(file, schema_of(file.schema_id)) & left.keys())]
            if own:
                found.append((file, own))
        return found


def first_row_id(file: DataFileMeta) -> int:
    """Return the id of the first row of a file; raise CorruptFileError for a file without ids."""
    if file.first_row_id is None:
        raise CorruptFileError(
            f"The data file {file.file_name} has no first row id in its manifest, so that its rows can't be put "
            "together with those of other files. Run fsck on the table."
        )
    return file.first_row_id


def written_ids(file: DataFileMeta, schema: TableSchema) -> frozenset[int]:
    """Return the field ids of the table's columns in a file; `schema` is that of the file."""
    names = file.write_cols
    return frozenset(f.id for f in schema.fields if names is None or f.name in names)


def row_range_groups(files: Sequence[DataFileMeta]) -> list[RowRangeGroup]:
    """Return the files of one bucket by the ids of their rows, in ascending order.

    Raises CorruptFileError for files whose ids overlap in part, NotSupportedError for files of BLOB or VECTOR columns.
    """
    groups: list[list[DataFileMeta]] = []
    for file in sorted(files, key=lambda f: (first_row_id(f), -f.max_sequence_number, f.file_name)):
        if any(part in file.file_name for part in _DEDICATED):
            raise NotSupportedError(
                f"The data file {file.file_name} has the values of a BLOB or VECTOR column, which this version does "
                "not read."
            )
        last = groups[-1][0] if groups else None
        if last is None or first_row_id(file) >= first_row_id(last) + last.row_count:
            groups.append([file])
        elif (file.first_row_id, file.row_count) == (last.first_row_id, last.row_count):
            groups[-1].append(file)
        else:
            raise CorruptFileError(
                f"The data files {last.file_name} and {file.file_name} share some of their row ids, not all of them: "
                f"{last.row_count} from {last.first_row_id} on, and {file.row_count} from {file.first_row_id} on. Run "
                "fsck on the table."
            )
    return [RowRangeGroup(tuple(group)) for group in groups]


def select_groups(
    groups: Sequence[RowRangeGroup],
    predicate: Predicate,
    store: FileStore,
    select_files: Callable[[Sequence[DataFileMeta], Predicate], Mask],
) -> Mask:
    """Return the mask of groups that may hold a row for which the predicate over the table's columns is true.

    The conditions on a column are checked with `select_files` for the files that have its values.
    """
    result = np.ones(len(groups), np.bool_)
    named = columns_of(predicate)
    wanted = [f for f in store.schema.fields if f.name in named]
    alike: dict[Hashable, list[int]] = {}
    for number, group in enumerate(groups):
        alike.setdefault(tuple((f.schema_id, f.write_cols) for f in group.files), []).append(number)
    # Loop over the shapes of groups, which are few.
    for numbers in alike.values():
        found = [groups[number] for number in numbers]
        missing = set(named)
        for file, fields in found[0].providers(wanted, store.schema_of):
            names = {f.name for f in fields}
            missing -= names
            own = restrict_to(predicate, sorted(names))
            if not isinstance(own, AlwaysTrue):
                place = found[0].files.index(file)
                result[numbers] &= select_files([group.files[place] for group in found], own)
        hidden = restrict_to(predicate, sorted(TRACKING_NAMES))
        if not isinstance(hidden, AlwaysTrue):
            result[numbers] &= select_files([group.files[0] for group in found], hidden)
        # A column that no file has is null in all rows.
        absent = sorted(missing - TRACKING_NAMES)
        null = restrict_to(predicate, absent)
        if not isinstance(null, AlwaysTrue):
            rows: Any = array_of([group.row_count for group in found], pa.int64())
            counts: dict[Any, Any] = dict.fromkeys(absent, rows)
            result[numbers] &= select(null, {}, {}, counts, rows)
    return result


def matching_positions(batches: Iterable[pa.RecordBatch], predicate: Predicate) -> Positions:
    """Return the positions, as the column ROW_INDEX has them, of the rows that a predicate selects."""
    found = [to_numpy(batch.column(ROW_INDEX).filter(mask(predicate, batch))) for batch in batches]
    return np.concatenate([np.empty(0, np.int64), *found])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """Options of reading one group: `deleted` rows and rows outside of `wanted` are left out.

    `predicate` may leave out rows that do not match; rows are not filtered otherwise. `readers` groups are read at
    once. Batches have at most `most_rows` rows, as far as memory allows. With `with_position` they have ROW_INDEX, the
    position in the group, as the last column.
    """

    predicate: Predicate | None = None
    deleted: DeletionVector | None = None
    wanted: Positions | None = None
    readers: int = 1
    most_rows: int = BLOCK_ROWS
    use_threads: bool = False
    with_position: bool = False


class ColumnGroupRead:
    """Reads groups as batches of the given columns, which may be hidden ones. Safe for several threads."""

    def __init__(self, store: FileStore, fields: Sequence[DataField], tally: DecodeTally | None = None) -> None:
        self._store = store
        self._fields = tuple(fields)
        self._schema = fields_to_schema(self._fields)
        self._tally = tally
        # By the columns of one file.
        self._reads: dict[tuple[str, ...], FileRead] = {}

    def of_files(
        self,
        files: Sequence[DataFileMeta],
        path_of: Callable[[DataFileMeta], str],
        options: GroupOptions,
        *,
        deleted_of: Callable[[DataFileMeta], DeletionVector | None] = lambda _: None,
        row_ranges: Mapping[str, tuple[int, int]] = MappingProxyType({}),
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all groups of the files, without deleted ones.

        `row_ranges` limits files that are alone in their group to some positions. Raises what `batches` raises.
        """
        for group in row_range_groups(files):
            limits = row_ranges.get(group.files[0].file_name)
            wanted = None if limits is None else np.arange(*limits)
            yield from self.batches(group, path_of, replace(options, deleted=deleted_of(group.oldest), wanted=wanted))

    def batches(
        self, group: RowRangeGroup, path_of: Callable[[DataFileMeta], str], options: GroupOptions
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group in the order of their ids, in blocks of bounded size.

        Raises what FileRead raises, and CorruptFileError for files of different length.
        """
        providers = group.providers(self._fields, self._store.schema_of)
        self._check_nulls(group, providers)
        wanted, pushed = options.wanted, None
        if options.predicate is not None:
            wanted = positions_in(group.files[0], options.predicate, wanted)
            for file, fields in providers:
                own = self._own(options.predicate, fields)
                if own is None:
                    continue
                wanted = self._selected(file, path_of(file), fields, own, wanted)
                if len(providers) == 1:
                    pushed = own
                elif wanted is None or len(wanted):
                    wanted = self._matching(file, path_of(file), fields, own, options, wanted)
            if wanted is not None and not len(wanted):
                return
        rows = block_rows([file for file, _ in providers], readers=options.readers * max(1, len(providers)))
        rows = min(rows, options.most_rows)
        with_position = options.with_position or not providers or ROW_ID in self._schema.names
        streams = [
            self._read(fields).opened(
                file,
                path_of(file),
                ReadOptions(
                    batch_rows=rows,
                    predicate=pushed,
                    with_position=with_position and place == 0,
                    use_threads=options.use_threads,
                    deleted=options.deleted,
                    wanted=wanted,
                ),
            )
            for place, (file, fields) in enumerate(providers)
        ]
        if not streams:
            streams = [_positions(group.row_count, rows, options.deleted, wanted)]
        for parts in _side_by_side(streams, group):
            yield self._assembled(group, parts, with_position=options.with_position)

    def _assembled(
        self, group: RowRangeGroup, parts: Sequence[pa.RecordBatch], *, with_position: bool
    ) -> pa.RecordBatch:
        known: dict[str, Any] = {
            name: part.column(place) for part in parts for place, name in enumerate(part.schema.names)
        }
        count = parts[0].num_rows
        if ROW_ID in self._schema.names:
            known[ROW_ID] = from_numpy(to_numpy(known[ROW_INDEX]) + group.first_row_id)
        if SEQUENCE_NUMBER in self._schema.names:
            known[SEQUENCE_NUMBER] = from_numpy(np.full(count, group.files[0].max_sequence_number, np.int64))
        columns = [known[field.name] if field.name in known else pa.nulls(count, field.type) for field in self._schema]
        schema = self._schema
        if with_position:
            schema = schema.append(pa.field(ROW_INDEX, pa.int64()))
            columns.append(known[ROW_INDEX])
        if not columns:
            # A batch without columns keeps its number of rows this way only.
            return parts[0].select([])
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _check_nulls(self, group: RowRangeGroup, providers: Sequence[tuple[DataFileMeta, Sequence[DataField]]]) -> None:
        found = {f.name for _, fields in providers for f in fields} | TRACKING_NAMES
        for field in self._fields:
            if field.name not in found and not field.type.nullable:
                raise CorruptFileError(
                    f"No file has the column {field.name!r} of the {group.row_count} rows from row id "
                    f"{group.first_row_id} on, and the column admits no nulls."
                )

    def _own(self, predicate: Predicate, fields: Sequence[DataField]) -> Predicate | None:
        """Return the condition on the columns of one file alone; None without any."""
        own = restrict_to(predicate, [f.name for f in fields])
        return None if isinstance(own, AlwaysTrue) else own

    def _selected(
        self, file: DataFileMeta, path: str, fields: Sequence[DataField], own: Predicate, wanted: Positions | None
    ) -> Positions | None:
        """Return those of the wanted positions that may match by the indexes of a file."""
        if not self._store.options.file_index_read_enabled:
            return wanted
        selection = self._read(fields).selected(file, path, own)
        if selection.is_empty:
            return np.empty(0, np.int64)
        positions = selection.positions()
        if positions is None or wanted is None:
            return wanted if positions is None else positions
        return np.intersect1d(wanted, positions, assume_unique=True)

    def _matching(
        self,
        file: DataFileMeta,
        path: str,
        fields: Sequence[DataField],
        own: Predicate,
        options: GroupOptions,
        wanted: Positions | None,
    ) -> Positions | None:
        """Return those of the wanted positions that match a condition on the columns of one file; None for all."""
        asked = columns_of(own)
        batches = self._read([f for f in fields if f.name in asked]).batches(
            file,
            path,
            ReadOptions(
                batch_rows=block_rows([file], readers=options.readers),
                predicate=own,
                with_position=True,
                use_threads=options.use_threads,
                deleted=options.deleted,
                wanted=wanted,
            ),
        )
        positions = matching_positions(batches, own)
        return None if len(positions) == file.row_count else positions

    def _read(self, fields: Sequence[DataField]) -> FileRead:
        names = tuple(f.name for f in fields)
        read = self._reads.get(names)
        if read is None:
            # Threads may make it twice, which is harmless.
            read = self._reads[names] = FileRead(self._store, fields, self._tally)
        return read


def _positions(
    count: int, rows: int, deleted: DeletionVector | None, wanted: Positions | None
) -> Iterator[pa.RecordBatch]:
    """Yield the positions of the rows of a group in blocks, without reading a file."""
    for start in range(0, count, rows):
        length = min(rows, count - start)
        kept = kept_rows(start, length, deleted, wanted)
        positions = np.arange(start, start + length)
        yield pa.record_batch([from_numpy(positions if kept is None else positions[kept])], names=[ROW_INDEX])


def _side_by_side(
    streams: Sequence[Iterator[pa.RecordBatch]], group: RowRangeGroup
) -> Iterator[Sequence[pa.RecordBatch]]:
    """Yield parts of the streams with the same rows; the streams have batches of different lengths."""
    heads: list[pa.RecordBatch | None] = [None] * len(streams)
    while True:
        for place, stream in enumerate(streams):
            while (head := heads[place]) is None or not head.num_rows:
                heads[place] = next(stream, None)
                if heads[place] is None:
                    break
        found = [head for head in heads if head is not None]
        if not found:
            return
        if len(found) < len(heads):
            raise CorruptFileError(
                f"The files of the {group.row_count} rows from row id {group.first_row_id} on have different numbers "
                f"of rows: {', '.join(f.file_name for f in group.files)}."
            )
        rows = min(head.num_rows for head in found)
        yield [head.slice(0, rows) for head in found]
        heads = [head.slice(rows) for head in found]
