"""Look rows up by primary key: partition and bucket, key ranges of files, bloom filters, groups, pages, merge.

Keys are given as dicts, tuples or single values, or as Arrow data. The plan of a snapshot is cached, and so is what was
decoded of files: a lookup of a key in decoded pages reads only the file of the snapshot. `keyed_read` finds the keys
that the filter of a query names, so that they are looked up and no file is scanned.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Ints, distinct
from interbed.storage.base.arrow_values import array_of, from_numpy, one_nan, rows_taken, taken
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.memory_cache import LruCache
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.predicate.expr import In, Predicate, and_, conjuncts
from interbed.storage.base.prefetch import map_in_threads
from interbed.storage.base.row.binary_row import decode_rows, encode_rows
from interbed.storage.base.row.python_values import python_values
from interbed.storage.base.row.values import coerce
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.base.types.column_names import check_asked_once
from interbed.storage.base.types.data_type import INTEGERS, STRINGS, DataField, TypeRoot, is_atomic
from interbed.storage.files.deletion_vectors import DeletionVector
from interbed.storage.files.format.readers import begin_loading
from interbed.storage.lsm.file_read import FileRead, ReadOptions
from interbed.storage.lsm.key_words import SortedKeys, row_ranks
from interbed.storage.lsm.levels import SortedRun
from interbed.storage.lsm.merge_read import MergeRead, merge_function_for
from interbed.storage.meta.bucket_function import assign_buckets, bucket_function
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.options.stream import OF_ONE_SNAPSHOT
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.read.columns import ReadColumns, deletions_in
from interbed.storage.read.file_lookup import FileLookup
from interbed.storage.scan.live_files import check_not_replaced
from interbed.storage.scan.pruning import key_values
from interbed.storage.scan.scan import TableScan, fallback_of, plan_rows
from interbed.storage.scan.starting_point import PINNED, sees_whole_snapshot, starting_snapshot
from interbed.storage.scan.support import check_readable

Key = Mapping[str, object] | Sequence[object] | object
"""A dict by column, a tuple or list in the order of the primary key, or the value of the only column."""
Keys = "pa.Table | pa.RecordBatch | pa.Array[Any] | pa.ChunkedArray[Any] | Sequence[Key]"
KeyColumns = Sequence["pa.Array[Any]"]

_PLANS: "LruCache[_Buckets]" = LruCache(16)

_BUCKETS_AT_ONCE = 4
_FILES_AT_ONCE = 16
"""The number of remote buckets, and of files of each, in which keys are looked up concurrently."""

MOST_KEYS = 16
"""More keys are found by a scan, which decodes nothing twice and caches nothing."""
_ROOTS = (*INTEGERS, *STRINGS, TypeRoot.DATE)
"""The types of keys whose pages are chosen by their bounds."""


@dataclass(slots=True)
class _Bucket:
    """The visible files of one bucket. `least` and `greatest` are their smallest and largest keys, by key column."""

    directory: str
    total_buckets: int
    files: list[DataFileMeta]
    least: KeyColumns
    greatest: KeyColumns
    deleted_of: Callable[[DataFileMeta], DeletionVector | None]

    def path_of(self, file: DataFileMeta) -> str:
        """Return the path of a file."""
        return file.path_in(self.directory)


_Buckets = dict[bytes, dict[int, _Bucket]]


class PointLookup:
    """Looks keys up in one snapshot of a table, for rows of some columns (all when None)."""

    def __init__(self, store: FileStore, columns: Sequence[str] | None = None) -> None:
        schema = store.schema
        names = schema.names if columns is None else tuple(columns)
        check_asked_once(names)
        for name in names:
            if name not in schema.by_name:
                raise InvalidInputError(f"The table has no column {name!r}; it has {', '.join(schema.names)}.")
        self._store = store
        self._names = names
        self._keys = schema.trimmed_primary_keys
        self._output = schema.fields_named(dict.fromkeys((*names, *self._keys)))
        self._schema = fields_to_schema(schema.fields_named(names))

    def rows(self, keys: Any) -> pa.Table:
        """Return the rows of the keys in their order, without missing ones; see `key_batch` and Table.get.

        Raises InvalidInputError and NotSupportedError for invalid keys, and what TableRead raises.
        """
        begin_loading(self._store.file_io, self._store.options.file_format)
        asked = key_batch(keys, self._store.schema)
        if not sees_whole_snapshot(self._store):
            raise NotSupportedError(
                f"Keys are looked up in a whole snapshot, and the scan options of {self._store.location} choose "
                "changes or files of some time; use scan with a filter on the key, or a copy without these options."
            )
        if asked.num_rows and fallback_of(self._store) is not None:
            return self._rows_with_branch(asked)
        snapshot = starting_snapshot(self._store)
        return pa.Table.from_batches([], self._schema) if snapshot is None else self.rows_at(snapshot, asked)

    def rows_at(self, snapshot: Snapshot, asked: pa.RecordBatch) -> pa.Table:
        """Return the rows of a snapshot; `asked` has the columns of the primary key, in their order and types."""
        check_readable(self._store)
        check_not_replaced(self._store, snapshot)
        if not asked.num_rows:
            return pa.Table.from_batches([], self._schema)
        plan = self._plan(snapshot)
        parts: list[pa.RecordBatch] = []
        places: list[Ints] = []
        routed = list(self._routed(plan, asked))
        keys_of = [[_taken(asked.column(k), numbers) for k in self._keys] for _, numbers in routed]
        for (_, numbers), columns, rows in zip(routed, keys_of, self._looked_up(routed, keys_of), strict=True):
            if rows is None:
                continue
            found = SortedKeys([rows.column(k) for k in self._keys]).find(columns)
            hit = found >= 0
            parts.append(_rows_at(rows.select(list(self._names)), found[hit]))
            places.append(numbers[hit])
        if not parts:
            return pa.Table.from_batches([], self._schema)
        table = _shaped(pa.Table.from_batches(parts), self._schema)
        order = np.concatenate(places)
        if (order[1:] < order[:-1]).any():
            sorting: Any = from_numpy(np.argsort(order, kind="stable"))
            table = table.take(sorting)
        return table

    def _rows_with_branch(self, asked: pa.RecordBatch) -> pa.Table:
        """Return the rows of the keys as scans see them: partitions that the table lacks are those of the branch."""
        # Imported here, because other lookups need no read of whole splits.
        from interbed.storage.read.table_read import TableRead

        schema = self._store.schema
        fields = schema.fields_named(schema.primary_keys)
        named = and_(*(In(f.name, tuple(python_values(asked.column(f.name)))) for f in fields))
        predicate = bound_filter(named, schema.fields)
        read = TableRead(self._store, list(dict.fromkeys((*self._names, *schema.primary_keys))), predicate)
        found = read.to_reader(plan_rows(self._store, predicate=predicate).splits).read_all().combine_chunks()
        types = [f.type for f in fields]
        places: dict[bytes, int] = {}
        # Keys are compared as bytes, so that a dictionary is the index. There is one batch, or none.
        for rows in found.to_batches():
            for place, key in enumerate(encode_rows([rows.column(f.name) for f in fields], types)):
                places.setdefault(key, place)
        keys = encode_rows([asked.column(f.name) for f in fields], types)
        order: Any = from_numpy(np.array([places[key] for key in keys if key in places], np.int64))
        return _shaped(found.take(order).select(list(self._names)), self._schema)

    # -- buckets ----------------------------------------------------------------------------------------------------

    def _plan(self, snapshot: Snapshot) -> _Buckets:
        store = self._store
        # With the name of the manifest list, because a table may have been recreated under its name.
        name = (store.location, snapshot.id, snapshot.base_manifest_list, store.schema.id)
        options = tuple(sorted(store.options.raw.items()))
        return _PLANS.get((name, options), lambda: self._new_plan(snapshot))

    def _new_plan(self, snapshot: Snapshot) -> _Buckets:
        store = self._store
        scan = TableScan(store, snapshot_id=snapshot.id)
        deletions = scan.deletions_of(snapshot)
        plan: _Buckets = {}
        for entry in scan.visible_entries(snapshot):
            buckets = plan.setdefault(entry.partition, {})
            bucket = buckets.get(entry.bucket)
            if bucket is None:
                bucket = buckets[entry.bucket] = _Bucket(
                    directory=store.paths.bucket_directory(entry.bucket_id),
                    total_buckets=entry.total_buckets,
                    files=[],
                    least=(),
                    greatest=(),
                    deleted_of=deletions_in(self._store.file_io, deletions.get(entry.bucket_id, {})),
                )
            bucket.files.append(entry.file)
        types = store.schema.key_types
        for bucket in (b for buckets in plan.values() for b in buckets.values()):
            bucket.least = decode_rows([f.min_key for f in bucket.files], types)
            bucket.greatest = decode_rows([f.max_key for f in bucket.files], types)
        return plan

    def _routed(self, plan: _Buckets, asked: pa.RecordBatch) -> Iterator[tuple[_Bucket, Ints]]:
        """Yield the buckets that may have some of the keys, with the numbers of these keys."""
        for partition, numbers in self._partitions(plan, asked):
            buckets = plan.get(partition, {})
            total = next((b.total_buckets for b in buckets.values()), 0)
            if total < 1:
                # The hash does not determine the bucket; key ranges and filters exclude most buckets as well.
                yield from ((bucket, numbers) for bucket in buckets.values())
                continue
            schema = self._store.schema
            fields = schema.fields_named(schema.bucket_keys)
            columns = [_taken(asked.column(f.name), numbers) for f in fields]
            assigned = assign_buckets(columns, [f.type for f in fields], total, bucket_function(schema.core))
            for number in distinct(assigned).tolist():
                if number in buckets:
                    yield buckets[number], numbers[assigned == number]

    def _partitions(self, plan: _Buckets, asked: pa.RecordBatch) -> Iterator[tuple[bytes, Ints]]:
        schema = self._store.schema
        everything = np.arange(asked.num_rows)
        if not set(schema.partition_keys) <= set(schema.primary_keys):
            # The key does not determine the partition.
            yield from ((partition, everything) for partition in plan)
            return
        if not schema.partition_keys:
            yield from ((partition, everything) for partition in list(plan)[:1])
            return
        rows = encode_rows([asked.column(f.name) for f in schema.partition_fields], schema.partition_types)
        places: dict[bytes, list[int]] = {}
        # Partitions are bytes, so that a dictionary is the index.
        for number, partition in enumerate(rows):
            places.setdefault(partition, []).append(number)
        yield from ((partition, np.array(numbers)) for partition, numbers in places.items())

    # -- rows -------------------------------------------------------------------------------------------------------

    def _looked_up(
        self, routed: Sequence[tuple[_Bucket, Ints]], keys_of: Sequence[KeyColumns]
    ) -> Iterator[pa.RecordBatch | None]:
        """Yield the result of _look_up for each bucket; remote buckets concurrently, with each file opened once."""
        places = range(len(routed))
        if not self._store.file_io.capabilities.slow_requests:
            yield from (self._look_up(self._store, routed[i][0], keys_of[i]) for i in places)
            return
        from interbed.storage.io.prefetch.inputs import SharedInputs

        with SharedInputs(self._store.file_io) as held:
            store = replace(self._store, file_io=held)
            yield from map_in_threads(
                lambda i: self._look_up(store, routed[i][0], keys_of[i]), places, most=_BUCKETS_AT_ONCE
            )

    def _look_up(self, store: FileStore, bucket: _Bucket, keys: KeyColumns) -> pa.RecordBatch | None:
        """Return the merged rows of the keys in one bucket, in key order; None without any."""
        merge = MergeRead(store, self._output, merge_function_for(store, drop_deletes=True))
        columns = merge.fields
        files = FileLookup(store, FileRead(store, columns), columns)

        def find(asked: tuple[DataFileMeta, Ints]) -> pa.RecordBatch | None:
            file, chosen = asked
            hits = files.find(file, bucket.path_of(file), [_taken(k, chosen) for k in keys])
            rows = None if hits is None else hits.rows
            vector = bucket.deleted_of(file)
            if hits is not None and rows is not None and vector is not None:
                kept: Any = from_numpy(~vector.contains(hits.positions))
                rows = rows.filter(kept)
            return rows

        found: dict[str, pa.RecordBatch] = {}
        runs: list[SortedRun] = []
        asked_of = list(_in_range(bucket, keys))
        rows_of = map_in_threads(find, asked_of, most=_FILES_AT_ONCE if store.file_io.capabilities.slow_requests else 1)
        for (file, _), rows in zip(asked_of, rows_of, strict=True):
            if rows is not None and rows.num_rows:
                found[file.file_name] = rows
                runs.append(SortedRun(files=(file,)))
        if not runs:
            return None
        merged = list(merge.section(runs, bucket.path_of, source=_FoundRows(found)))
        if not merged:
            return None
        joined: Any = merged[0] if len(merged) == 1 else pa.concat_batches(merged)  # type: ignore[attr-defined]
        rows_of_keys: pa.RecordBatch = joined
        return rows_of_keys


class _FoundRows:
    """A RowSource of the rows that were found in each file."""

    def __init__(self, rows: Mapping[str, pa.RecordBatch]) -> None:
        self._rows = rows

    def batches(self, file: DataFileMeta, path: str, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        yield self._rows[file.file_name]


def _in_range(bucket: _Bucket, keys: KeyColumns) -> Iterator[tuple[DataFileMeta, Ints]]:
    """Yield the files whose key range contains some of the keys, with the numbers of these keys, each key once."""
    files, count = len(bucket.files), len(keys[0])
    joined: list[Any] = [
        pa.concat_arrays([low, high, key if key.type == low.type else key.cast(low.type)])
        for low, high, key in zip(bucket.least, bucket.greatest, keys, strict=True)
    ]
    ranks = row_ranks(joined).values
    asked = ranks[2 * files :]
    once = np.unique(asked, return_index=True)[1] if count > 1 else np.zeros(1, np.int64)
    asked = asked[once]
    for i, file in enumerate(bucket.files):
        inside = (asked >= ranks[i]) & (asked <= ranks[files + i])
        if inside.any():
            yield file, once[inside]


def _shaped(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table cast to the schema; without a cast, and its imports, if the types are equal."""
    fits = table.schema.names == schema.names and all(
        column.type == field.type and (field.nullable or not column.null_count)
        for column, field in zip(table.columns, schema, strict=True)
    )
    return pa.Table.from_arrays(table.columns, schema=schema) if fits else table.cast(schema)


def _rows_at(rows: pa.RecordBatch, places: Ints) -> pa.RecordBatch:
    return rows_taken(rows, places)


def _taken(column: "pa.Array[Any]", numbers: Ints) -> "pa.Array[Any]":
    if len(numbers) == len(column) and len(numbers) == 1:
        return column
    return taken(column, numbers)


class KeyedRead:
    """The rows of a snapshot that have one of some keys and match a predicate."""

    def __init__(self, store: FileStore, columns: ReadColumns, keys: pa.RecordBatch, snapshot: Snapshot) -> None:
        self._store = store
        self._columns = columns
        self._keys = keys
        self.snapshot = snapshot

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows with the requested columns, read on first use. Raises what TableRead raises."""
        return pa.RecordBatchReader.from_batches(self._columns.schema, self._batches())

    def count(self) -> int:
        """Return the number of rows."""
        return sum(batch.num_rows for batch in self._rows)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._rows:
            yield batch.select(list(self._columns.names))

    @cached_property
    def _rows(self) -> Sequence[pa.RecordBatch]:
        lookup = PointLookup(self._store, [f.name for f in self._columns.fields])
        kept = (self._columns.kept(batch) for batch in lookup.rows_at(self.snapshot, self._keys).to_batches())
        return [batch for batch in kept if batch.num_rows]


def keyed_read(
    store: FileStore, columns: Sequence[str] | None, predicate: Predicate, snapshot_id: int | None
) -> KeyedRead | None:
    """Return the lookup of the rows of a scan; None if its filter does not name a few primary keys.

    Arguments and errors are those of Scan.
    """
    schema, options = store.schema, store.options
    if not schema.has_primary_key or options.fallback_branch is not None or options.file_format != "parquet":
        return None
    if snapshot_id is None and options.startup_mode not in (*OF_ONE_SNAPSHOT, *PINNED):
        return None
    fields = schema.fields_named(schema.primary_keys)
    if not all(is_atomic(f.type, *_ROOTS) for f in fields):
        return None
    read = ReadColumns.of(schema, columns, predicate)
    if read.predicate is None:
        return None
    found = key_values(schema.primary_keys, conjuncts(read.predicate), most=MOST_KEYS)
    if found is None:
        return None
    begin_loading(store.file_io, options.file_format)
    snapshot = starting_snapshot(store, snapshot_id)
    if snapshot is None:
        return None
    arrow = fields_to_schema(fields)
    rows = list(dict.fromkeys(found))
    keys = [array_of([row[i] for row in rows], field.type) for i, field in enumerate(arrow)]
    return KeyedRead(store, read, pa.RecordBatch.from_arrays(keys, schema=arrow), snapshot)


def key_batch(given: Any, schema: TableSchema) -> pa.RecordBatch:
    """Return keys as a batch of the primary-key columns in their order and types.

    `given` is Arrow data with these columns in any order (or an array of a single column), or a sequence of keys.
    Raises InvalidInputError naming a missing, unknown or null column or one of another type, NotSupportedError for a
    table without a primary key.
    """
    if not schema.has_primary_key:
        raise NotSupportedError(
            "Rows are looked up by primary key, and the table has none; use scan with a filter on its columns."
        )
    fields = schema.fields_named(schema.primary_keys)
    found = _keys_given(given, fields)
    for place, field in enumerate(found.schema):
        if pa.types.is_floating(field.type):
            # As it was written.
            found = found.set_column(place, field, one_nan(found.column(place)))
    return found


def _keys_given(given: Any, fields: Sequence[DataField]) -> pa.RecordBatch:
    if isinstance(given, pa.Array | pa.ChunkedArray):
        if len(fields) != 1:
            raise InvalidInputError(
                f"The primary key has {len(fields)} columns ({_names(fields)}); give a table of them, not an array."
            )
        column: Any = given
        given = pa.table([column], names=[fields[0].name])
    if isinstance(given, pa.Table | pa.RecordBatch):
        return _from_arrow(given, fields)
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise InvalidInputError(f"Keys are Arrow data or a sequence of keys, not {type(given).__name__}.")
    # Keys as Python values are few; many keys are given as Arrow data.
    rows = [_row(key, fields) for key in given]
    columns = [[row[i] for row in rows] for i in range(len(fields))]
    arrow = fields_to_schema(fields)
    return pa.RecordBatch.from_arrays([array_of(c, f.type) for c, f in zip(columns, arrow, strict=True)], schema=arrow)


def _from_arrow(given: pa.Table | pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    names = given.schema.names
    missing = [f.name for f in fields if f.name not in names]
    unknown = [n for n in names if n not in {f.name for f in fields}]
    if missing or unknown:
        raise InvalidInputError(_mismatch(missing, unknown, fields))
    arrow = fields_to_schema(fields)
    columns: list[pa.Array[Any]] = []
    for field in arrow:
        found: Any = given.column(field.name)
        column: Any = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else array_of([], column.type)
        if column.null_count:
            raise InvalidInputError(f"The keys have a null in {field.name!r}; no key column is ever null.")
        columns.append(column if column.type == field.type else _cast(column, field))
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def _cast(column: Any, field: "pa.Field[Any]") -> Any:
    """Cast keys exactly, as rows are when they are written, so that no other row is found."""
    # Imported here, because it imports Arrow's functions, which keys of the column's own type do not need.
    from interbed.storage.base.types.exact_cast import exact_cast

    chunked: Any = pa.chunked_array([column])
    return exact_cast(chunked, field.type, name=field.name, what="the keys").combine_chunks()


def _row(key: Any, fields: Sequence[DataField]) -> list[object]:
    if isinstance(key, Mapping):
        missing = [f.name for f in fields if f.name not in key]
        unknown = [str(n) for n in key if n not in {f.name for f in fields}]
        if missing or unknown:
            raise InvalidInputError(_mismatch(missing, unknown, fields))
        values = [key[f.name] for f in fields]
    elif isinstance(key, tuple | list):
        values = list(key)
    else:
        values = [key]
    if len(values) != len(fields):
        raise InvalidInputError(f"A key has {len(fields)} values ({_names(fields)}), not {len(values)}: {key!r}.")
    return [_value(value, field) for value, field in zip(values, fields, strict=True)]


def _value(value: object, field: DataField) -> object:
    if value is None:
        raise InvalidInputError(f"The key column {field.name!r} can't be null.")
    try:
        return coerce(value, field.type)
    except InvalidInputError as error:
        raise InvalidInputError(f"The key column {field.name!r} can't take {value!r}: {error}.") from None


def _mismatch(missing: Sequence[str], unknown: Sequence[str], fields: Sequence[DataField]) -> str:
    wrong = [f"lacks {n!r}" for n in missing] + [f"has {n!r}, which is none of its columns" for n in unknown]
    return f"The primary key is {_names(fields)}; a key given {' and '.join(wrong)}."


def _names(fields: Sequence[DataField]) -> str:
    return ", ".join(f.name for f in fields)
