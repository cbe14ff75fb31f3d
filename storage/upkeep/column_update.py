"""Updates of some columns of a table with `data-evolution.enabled`: other columns are neither read nor written.

The new values of a column are written for all rows of a row range group, in a file with the changed columns alone that
begins at the first row id of the group. Rows that do not change keep their values in it. Groups without a changed row
get no file. The commit is a conflict if another writer has changed columns that were read or written of the same rows,
or has joined or removed the rows; then the update is computed again. Source: documentation page
`append-table/data-evolution`, pypaimon's TableUpdate.

`ColumnValues` are values and functions for the rows that a filter selects. `RowValues` are given rows, which are
matched with those of the table by row id or by other columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Mask, Positions
from interbed.storage.base.arrow_values import from_numpy, one_array, scalar_of, to_numpy
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.incoming import IncomingRows, arrow_rows
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import Comparison, In, Op, Predicate, and_, columns_of
from interbed.storage.base.row.binary_row import encode_rows
from interbed.storage.base.row.python_values import python_value
from interbed.storage.base.types.data_type import DataField
from interbed.storage.commit.basis import RowsRead, SnapshotRead
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.files.deletion_vectors import DeletionVector
from interbed.storage.files.format.layout import DataFileLayout, DataFileNames
from interbed.storage.lsm.column_groups import ColumnGroupRead, GroupOptions, RowRangeGroup, row_range_groups
from interbed.storage.lsm.file_read import ROW_INDEX
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, FileSource
from interbed.storage.meta.schema.system_fields import readable_by_name
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.read.columns import DeletionReader
from interbed.storage.scan.partition_filter import AllPartitions
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Split
from interbed.storage.upkeep.append_compact import written_as_one
from interbed.storage.write.commit_message import CommitMessage, DataIncrement
from interbed.storage.write.row_converter import RowConverter

Values: TypeAlias = Mapping[str, object]
"""By column, a value for all rows, or a function that returns an array of them from a batch of the selected rows."""
_LISTED = 1_000
"""Up to this number of rows, their ids or keys are listed in the filter that prunes files."""


@dataclass(frozen=True, slots=True)
class _FoundRows:
    """Positions in a group of the rows to change, ascending, and for each the number of its row in the given rows."""

    positions: Positions
    sources: Positions


class ColumnChange(Protocol):
    """Change of columns by an update.

    `columns` are written; `searched` are read to find rows, and `read` to compute their values.
    """

    columns: tuple[str, ...]
    searched: tuple[str, ...]
    read: tuple[str, ...]
    given: int
    """The number of given rows."""

    def predicate(self) -> Predicate | None:
        """Return a condition that the rows to change meet; None for no restriction."""
        ...

    def sources(self, rows: pa.RecordBatch) -> Positions:
        """Return for each of the rows the number of the given row for it, -1 for a row that does not change."""
        ...

    def values(self, rows: pa.RecordBatch, sources: Positions) -> pa.RecordBatch:
        """Return the new values of `columns` for rows with the columns of `read`."""
        ...

    def check_complete(self, found: Mask) -> None:
        """Raise InvalidInputError unless all given rows were found."""
        ...


class ColumnValues:
    """Values for the rows that a filter selects, all without one; functions see the columns of `read`."""

    def __init__(self, schema: TableSchema, values: Values, chosen: Predicate | None, read: Sequence[str]) -> None:
        self._given = values
        self._chosen = chosen
        self.columns = tuple(values)
        self.searched = () if chosen is None else tuple(sorted(columns_of(chosen)))
        self.read = tuple(read)
        self.given = 0
        constants = {name: value for name, value in values.items() if not callable(value)}
        types = pa.schema([schema.arrow.field(name) for name in constants])
        found = arrow_rows([constants], types, what="an update")
        assert isinstance(found, pa.Table)
        # One row, which is the source of all rows that change.
        self._constants = found

    def predicate(self) -> Predicate | None:
        return self._chosen

    def sources(self, rows: pa.RecordBatch) -> Positions:
        if self._chosen is None:
            return np.zeros(rows.num_rows, np.int64)
        return np.where(to_numpy(mask(self._chosen, rows)).astype(np.bool_), 0, -1)

    def values(self, rows: pa.RecordBatch, sources: Positions) -> pa.RecordBatch:
        columns: list[pa.Array[Any]] = []
        for name in self.columns:
            value = self._given[name]
            if not callable(value):
                columns.append(one_array(self._constants.column(name)).take(from_numpy(sources)))
                continue
            made: Any = value(rows)
            array = one_array(made) if isinstance(made, pa.Array | pa.ChunkedArray) else pa.array(made)
            if len(array) != rows.num_rows:
                raise InvalidInputError(
                    f"The function for the column {name!r} returned {len(array)} values for {rows.num_rows} rows."
                )
            columns.append(array)
        return pa.RecordBatch.from_arrays(columns, names=list(self.columns))

    def check_complete(self, found: Mask) -> None:
        pass


class RowValues:
    """Given rows with new values of columns for the rows of the table that have the same values in `by`."""

    def __init__(self, schema: TableSchema, rows: pa.RecordBatch, by: Sequence[str]) -> None:
        """Raises SchemaMismatchError for values that do not fit, InvalidInputError for two rows with equal keys."""
        self._by = tuple(by)
        known = readable_by_name(schema)
        self._fields = [known[name] for name in self._by]
        self.columns = tuple(name for name in rows.schema.names if name not in self._by)
        self.searched = self._by
        self.read: tuple[str, ...] = ()
        self.given = rows.num_rows
        keys = replace(schema, fields=tuple(replace(f, default_value=None) for f in self._fields))
        (self._keys,) = RowConverter(keys, "the rows of an update").batches(rows.select(list(self._by))) or [
            rows.select(list(self._by))
        ]
        self._rows = rows.select(list(self.columns))
        self._encoded = self._key_of(self._keys)
        twice = self._encoded.value_counts().field("counts")
        if rows.num_rows and pc.max(twice).as_py() > 1:
            place = int(np.argmax(to_numpy(pc.not_equal(pc.index_in(self._encoded, self._encoded), _numbers(rows)))))
            raise InvalidInputError(f"Two rows of the update have {self._shown(place)}; give one of them.")

    def predicate(self) -> Predicate | None:
        conditions: list[Predicate] = []
        for name in self._by:
            column: Any = self._keys.column(name)
            if column.null_count or pa.types.is_floating(column.type) or pa.types.is_nested(column.type):
                continue
            values = [python_value(each) for each in column.unique()] if len(column) <= _LISTED else []
            if values:
                conditions.append(In(name, tuple(values)))
            elif not pa.types.is_binary(column.type):
                ends = pc.min_max(column)
                conditions.append(Comparison(Op.GE, name, python_value(ends["min"])))
                conditions.append(Comparison(Op.LE, name, python_value(ends["max"])))
        return and_(*conditions) if conditions else None

    def sources(self, rows: pa.RecordBatch) -> Positions:
        places = pc.fill_null(pc.index_in(self._key_of(rows), self._encoded), scalar_of(-1, pa.int32()))
        return to_numpy(cast("pa.Array[Any]", places)).astype(np.int64)

    def values(self, rows: pa.RecordBatch, sources: Positions) -> pa.RecordBatch:
        return self._rows.take(from_numpy(sources))

    def check_complete(self, found: Mask) -> None:
        if not found.all():
            place = int(np.argmin(found))
            raise InvalidInputError(
                f"{int((~found).sum())} of {len(found)} rows of the update are not in the table, the first with "
                f"{self._shown(place)}. Nothing was changed; leave them out, or append them."
            )

    def _key_of(self, rows: pa.RecordBatch) -> Any:
        if len(self._by) == 1 and not pa.types.is_nested(rows.schema.field(self._by[0]).type):
            return rows.column(self._by[0])
        columns = [rows.column(name) for name in self._by]
        return pa.array(encode_rows(columns, [f.type for f in self._fields]), pa.binary())

    def _shown(self, place: int) -> str:
        return ", ".join(f"{name} = {python_value(self._keys.column(name)[place])!r}" for name in self._by)


def _numbers(rows: pa.RecordBatch) -> Any:
    return pa.array(np.arange(rows.num_rows, dtype=np.int32))


def check_updatable(store: FileStore, name: str) -> None:
    """Raise NotSupportedError for a table that does not keep columns in files of their own."""
    if not store.options.data_evolution_enabled:
        way = "upsert with columns='present'" if store.schema.has_primary_key else "UPDATE of `interbed sql` or Spark"
        raise NotSupportedError(
            f"The table '{name}' can't be updated by column: that takes a table that was made with "
            f"'data-evolution.enabled' = 'true'. Use {way}."
        )


def _check_columns(schema: TableSchema, name: str, columns: Sequence[str]) -> None:
    """Raise InvalidInputError for columns that the table lacks or that place rows."""
    if not columns:
        raise InvalidInputError(f"The update of the table '{name}' names no column to change.")
    for column in columns:
        if column not in schema.by_name:
            raise InvalidInputError(
                f"The table '{name}' has no column {column!r} to update; it has {', '.join(schema.names)}."
            )
        if column in schema.partition_keys:
            raise InvalidInputError(
                f"The column {column!r} of the table '{name}' says in which partition a row is, so that it can't be "
                "updated. Append the rows to the other partition, and overwrite this one."
            )


def column_change(
    store: FileStore,
    name: str,
    values: Values | IncomingRows,
    chosen: str | Predicate | None,
    *,
    by: str | Sequence[str] | None,
    reads: Sequence[str] | None,
) -> ColumnChange:
    """Return the change of Table.update; see there. Raises what Table.update raises for its arguments."""
    known = readable_by_name(store.schema)
    check_updatable(store, name)
    if by is None:
        if not isinstance(values, Mapping):
            raise InvalidInputError(
                f"The update of the table '{name}' takes a value for each column, or rows with `by`, the columns by "
                f"which they are found; not {type(values).__name__} alone."
            )
        _check_columns(store.schema, name, tuple(values))
        asked = tuple(store.schema.names) if reads is None else tuple(reads)
        for each in asked:
            if each not in known:
                raise InvalidInputError(f"The table '{name}' has no column {each!r} to be read by an update.")
        computed = asked if any(callable(value) for value in values.values()) else ()
        predicate = None if chosen is None else bound_filter(chosen, tuple(known.values()))
        return ColumnValues(store.schema, values, predicate, computed)
    if chosen is not None or reads is not None or isinstance(values, Mapping):
        raise InvalidInputError("An update with `by` takes rows, and neither `filter` nor `reads`.")
    keys = (by,) if isinstance(by, str) else tuple(by)
    rows = arrow_rows(values, None, what=f"the table '{name}'", more=None)
    table = rows.read_all() if isinstance(rows, pa.RecordBatchReader) else rows
    names = list(table.schema.names)
    for key in keys:
        if key not in known or key not in names:
            where = "the table" if key not in known else "the rows of the update"
            raise InvalidInputError(f"There is no column {key!r}, by which rows are to be found, in {where}.")
    _check_columns(store.schema, name, [each for each in names if each not in keys])
    batch = table if isinstance(table, pa.RecordBatch) else _one_batch(table)
    return RowValues(store.schema, batch, keys)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    columns = [one_array(column) for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def update_columns(store: FileStore, change: ColumnChange, commit_user: str) -> int | None:
    """Write new values of columns of the newest snapshot; return the snapshot's id, None if no row matched.

    Raises CommitConflictError when another writer has changed the same columns of the same rows meanwhile, and
    SchemaMismatchError for values that do not fit. Then nothing is changed.
    """
    snapshot = SnapshotRead.of(store.newest_snapshot())
    writer = _ColumnWriter(store, change)
    messages: list[CommitMessage] = []
    found = np.zeros(change.given, np.bool_)
    try:
        if snapshot.id:
            for split in TableScan(store, predicate=change.predicate(), snapshot_id=snapshot.id).plan().splits:
                messages += writer.changed(split, found)
        change.check_complete(found)
    except BaseException:
        FileStoreCommit(store, commit_user).abort(messages)
        raise
    if not messages:
        return None
    by_name = readable_by_name(store.schema)
    depends = {*change.columns, *change.searched, *change.read}
    read = RowsRead(
        snapshot=snapshot, partitions=AllPartitions(), columns=frozenset(by_name[name].id for name in depends)
    )
    ids = FileStoreCommit(store, commit_user, new_user=True).commit(messages, follows_from=read)
    return ids[-1] if ids else None


class _ColumnWriter:
    """Writer of the files of one update."""

    def __init__(self, store: FileStore, change: ColumnChange) -> None:
        self._store = store
        self._change = change
        known = readable_by_name(store.schema)
        fields = tuple(f for f in store.schema.fields if f.name in change.columns)
        self._names = tuple(f.name for f in fields)
        self._layout = DataFileLayout.of(store.schema, store.options).of_columns(self._names)
        self._files = DataFileNames(store.options.data_file_prefix)
        self._converter = converter_of_values(store, fields)
        self._search = ColumnGroupRead(store, [known[name] for name in change.searched])
        self._values = ColumnGroupRead(store, [known[n] for n in dict.fromkeys((*self._names, *change.read))])
        self._computed = ColumnGroupRead(store, [known[name] for name in change.read])
        self._deletions = DeletionReader(store.file_io)

    def changed(self, split: Split, found: Mask) -> list[CommitMessage]:
        """Write the changed columns of a split's rows; note in `found` which given rows are in the table."""
        deleted_of = self._deletions.of(split.deletion_files)
        place = self._store.new_files(split.bucket_id)
        new: list[DataFileMeta] = []
        try:
            for group in row_range_groups(split.files):
                rows = self._rows_of(group, split, deleted_of(group.oldest))
                if not len(rows.positions):
                    continue
                if len(found):
                    found[rows.sources] = True
                file = written_as_one(self._store, place, self._files, self._layout, self._batches(group, split, rows))
                new.append(replace(file, first_row_id=group.first_row_id, file_source=FileSource.APPEND))
        except BaseException:
            self._store.file_io.delete_quietly([path for f in new for path in f.paths_in(place.directory)])
            raise
        if not new:
            return []
        return [
            CommitMessage(
                bucket_id=split.bucket_id,
                total_buckets=split.total_buckets,
                data=DataIncrement(new_files=tuple(new)),
            )
        ]

    def _rows_of(self, group: RowRangeGroup, split: Split, deleted: DeletionVector | None) -> _FoundRows:
        """Return the rows of a group to change, in its order; deleted ones do not change."""
        positions, sources = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        options = GroupOptions(
            predicate=self._change.predicate(), deleted=deleted, use_threads=True, with_position=True
        )
        for batch in self._search.batches(group, split.path_of, options):
            numbers = self._change.sources(batch)
            chosen = numbers >= 0
            positions.append(to_numpy(batch.column(ROW_INDEX))[chosen])
            sources.append(numbers[chosen])
        return _FoundRows(np.concatenate(positions), np.concatenate(sources))

    def _batches(self, group: RowRangeGroup, split: Split, rows: _FoundRows) -> Iterator[pa.RecordBatch]:
        """Yield the changed columns of all rows of a group."""
        everything = len(rows.positions) == group.row_count
        read = self._computed if everything else self._values
        options = GroupOptions(use_threads=True, with_position=True)
        for batch in read.batches(group, split.path_of, options):
            where = to_numpy(batch.column(ROW_INDEX))
            low, high = np.searchsorted(rows.positions, (where[0], where[-1] + 1))
            places = rows.positions[low:high] - where[0]
            if not len(places):
                yield batch.select(list(self._names))
                continue
            chosen = batch if everything else batch.take(from_numpy(places))
            made = self._change.values(chosen.select(list(self._change.read)), rows.sources[low:high])
            new = self._converted(made, len(places))
            yield new if everything else with_new_values(batch.select(list(self._names)), new, places)

    def _converted(self, made: pa.RecordBatch, rows: int) -> pa.RecordBatch:
        batches = self._converter.batches(made, keeps_nulls=True)
        table = pa.Table.from_batches(batches, schema=self._layout.arrow).combine_chunks()
        (batch,) = table.to_batches(max_chunksize=max(rows, 1))
        self._converter.check_lengths(batch, None, 0)
        return batch


def converter_of_values(store: FileStore, fields: Sequence[DataField]) -> RowConverter:
    """Return the conversion of new values of some columns, in which null stays null."""
    columns = tuple(replace(f, default_value=None) for f in fields)
    return RowConverter(replace(store.schema, fields=columns, partition_keys=()), f"the table at {store.location}")


def with_new_values(old: pa.RecordBatch, new: pa.RecordBatch, places: Positions) -> pa.RecordBatch:
    """Return the old rows with new ones at some places."""
    taken = np.arange(old.num_rows)
    taken[places] = old.num_rows + np.arange(new.num_rows)
    indices = from_numpy(taken)
    columns = [
        pa.concat_arrays([was, now.cast(was.type)]).take(indices)
        for was, now in zip(old.columns, new.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=old.schema)
