"""Pruning of partitions, buckets and files that a filter rules out.

Buckets are ruled out by the values of the bucket key that the filter lists (`key_values`). Files are ruled out by their
statistics and by the indexes that the manifest holds. As in Paimon, index files of data files are read when the data
file is read: planning opens none of them.
"""

from collections.abc import Mapping, Sequence, Set
from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import array_of, cast_exactly, from_numpy
from interbed.storage.base.errors import InterbedError
from interbed.storage.base.predicate.expr import (
    AlwaysFalse,
    AlwaysTrue,
    Comparison,
    In,
    Op,
    Or,
    Predicate,
    and_,
    columns_of,
    conjuncts,
)
from interbed.storage.base.predicate.stats_filter import select
from interbed.storage.base.row.binary_row import decode_rows
from interbed.storage.base.row.words import Array
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.bucket_function import assign_buckets, bucket_function
from interbed.storage.meta.manifest.entry import ROW_ID, DataFileMeta, SimpleStats
from interbed.storage.meta.schema.evolution import is_widening, map_fields
from interbed.storage.meta.schema.manager import SchemaManager
from interbed.storage.meta.schema.system_fields import ROW_ID_FIELD, TRACKING_NAMES, readable_by_name
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, TableSchema

Key: TypeAlias = tuple[object, ...]
"""One value for each column."""


def key_values(columns: Sequence[str], parts: Sequence[Predicate], *, most: int) -> list[Key] | None:
    """Return all combinations of the columns' values that equalities and lists allow, possibly with duplicates.

    `parts` are bound and all true of a row. None when some column is free, when there are more than `most`, and for
    zero and NaN of floating-point numbers: they have several forms that are equal, but their hashes are not.
    """
    if not columns:
        return None
    allowed = _products(columns, parts, most)
    if allowed is None:
        # A query for keys of several columns has the form `a = 1 and b = 2 or a = 3 and b = 4`.
        either = (_of_any(columns, p, most) for p in parts if isinstance(p, Or))
        allowed = next((keys for keys in either if keys is not None), None)
    return allowed


def _of_any(columns: Sequence[str], either: Or, most: int) -> list[Key] | None:
    """Return the values that any part allows; None when one of the parts leaves a column free."""
    found: dict[Key, None] = {}
    for child in either.children:
        keys = key_values(columns, conjuncts(child), most=most)
        if keys is None or len(found) + len(keys) > most:
            return None
        found.update(dict.fromkeys(keys))
    return list(found)


def _products(columns: Sequence[str], parts: Sequence[Predicate], most: int) -> list[Key] | None:
    allowed: list[list[object]] = []
    for name in columns:
        lists: list[list[object]] = []
        for part in parts:
            match part:
                case Comparison(op=Op.EQ, column=column, value=value) if column == name and value is not None:
                    lists.append([value])
                case In(column=column, values=values) if column == name:
                    lists.append([v for v in values if v is not None])
                case _:
                    pass
        if not lists:
            return None
        fewest = min(lists, key=len)
        if any(isinstance(v, float) and (v == 0 or v != v) for v in fewest):
            return None
        allowed.append(fewest)
    return list(product(*allowed)) if prod(map(len, allowed)) <= most else None


_MAX_BUCKET_KEYS = 20_000
"""Greatest number of keys whose buckets are computed: for more keys this would take as long as reading."""


class BucketSelector:
    """Buckets that may hold rows that a filter selects; they depend on a partition's bucket count. Thread-safe."""

    def __init__(self, schema: TableSchema, predicate: Predicate | None) -> None:
        self._schema = schema
        self._parts: Sequence[Predicate] = () if predicate is None else conjuncts(predicate)
        self._keys = key_values(schema.bucket_keys, self._parts, most=_MAX_BUCKET_KEYS)
        self._known: dict[int, Mapping[int, Sequence[Key]] | None] = {}

    @property
    def is_free(self) -> bool:
        """Whether the rows can be in any bucket."""
        return self._keys is None

    def buckets(self, total_buckets: int) -> Set[int] | None:
        """Return the buckets; None when the rows can be in any of them."""
        found = self._keys_by_bucket(total_buckets)
        return None if found is None else found.keys()

    def narrowed(self, predicate: Predicate, bucket: int, total_buckets: int) -> Predicate:
        """Return a predicate that selects the same rows of the bucket, with only those list values that can be in it.

        `predicate` is the one that the buckets are selected by.
        """
        keys = self._keys_by_bucket(total_buckets)
        if keys is None or not any(isinstance(part, In) for part in self._parts):
            return predicate
        inside = keys.get(bucket, ())
        found = {key: {row[i] for row in inside} for i, key in enumerate(self._schema.bucket_keys)}
        return and_(*(_within(part, found) for part in self._parts))

    def _keys_by_bucket(self, total_buckets: int) -> Mapping[int, Sequence[Key]] | None:
        if self._keys is None or total_buckets < 1:
            return None
        if total_buckets not in self._known:
            self._known[total_buckets] = self._assign(self._keys, total_buckets)
        return self._known[total_buckets]

    def _assign(self, keys: Sequence[Key], total_buckets: int) -> Mapping[int, Sequence[Key]] | None:
        types = [self._schema.by_name[n].type for n in self._schema.bucket_keys]
        try:
            columns = [
                array_of([row[i] for row in keys], type_to_arrow(data_type)) for i, data_type in enumerate(types)
            ]
            buckets = assign_buckets(columns, types, total_buckets, bucket_function(self._schema.core))
        except (InterbedError, pa.ArrowException, TypeError, OverflowError):
            # A literal outside of the column's type can't be assigned a bucket: then every bucket is read.
            return None
        found: dict[int, list[Key]] = {}
        for bucket, key in zip(buckets.tolist(), keys, strict=True):
            found.setdefault(bucket, []).append(key)
        return found


def _within(part: Predicate, found: Mapping[str, Set[object]]) -> Predicate:
    """Return the part with only those list values that were found for its column."""
    if not isinstance(part, In) or not isinstance(part.column, str) or part.column not in found:
        return part
    values = tuple(v for v in part.values if v in found[part.column])
    return In(part.column, values) if values else AlwaysFalse()


def select_by_key_stats(files: Sequence[DataFileMeta], predicate: Predicate, key_fields: Sequence[DataField]) -> Mask:
    """Return the mask of files that may hold a key for which the predicate over key columns is true."""
    return _select(files, [f.key_stats for f in files], key_fields, key_fields, predicate)


def select_by_value_stats(
    files: Sequence[DataFileMeta], predicate: Predicate, schema: TableSchema, schemas: SchemaManager
) -> Mask:
    """Return the mask of files that may hold a row for which the predicate is true, by their statistics.

    The predicate is over the table's columns, which are found by id, so files of older schemas are checked as well. A
    column that a file's schema does not have is null in all of its rows, or its default: then nothing is known of it.
    """
    named = columns_of(predicate)
    tracked = schema.core.row_tracking_enabled
    # A null stands for the greatest sequence number of the file, so the bounds of that column are not those of rows.
    wanted = [f for f in (*schema.fields, *((ROW_ID_FIELD,) if tracked else ())) if f.name in named]
    result = np.ones(len(files), np.bool_)
    if tracked and named & TRACKING_NAMES:
        result = select_by_row_ids(files, predicate)
    groups: dict[tuple[int, tuple[str, ...] | None, tuple[str, ...] | None], list[int]] = {}
    for i, file in enumerate(files):
        groups.setdefault((file.schema_id, file.value_stats_cols, file.write_cols), []).append(i)
    for (schema_id, _, _), indexes in groups.items():
        file_schema = schema if schema_id == schema.id else schemas.schema(schema_id)
        names = files[indexes[0]].stats_names(file_schema.names)
        stored = readable_by_name(file_schema)
        fields = [stored[n] for n in names if n in stored]
        if len(fields) != len(names):
            continue
        chosen = [files[i] for i in indexes]
        # Rows of statistics leave out the columns without statistics.
        result[indexes] &= _select(chosen, [f.value_stats for f in chosen], fields, wanted, predicate)
    return result


def select_by_row_ids(files: Sequence[DataFileMeta], predicate: Predicate) -> Mask:
    """Return the mask of files that may hold a row whose id and sequence number the predicate selects.

    A file that stores these columns is selected: the values are not in its manifest.
    """
    result = np.ones(len(files), np.bool_)
    known = [i for i, f in enumerate(files) if f.first_row_id is not None and not f.stores_row_ids]
    if not known:
        return result
    chosen = [files[i] for i in known]
    rows = array_of([f.row_count for f in chosen], pa.int64())
    sequences = array_of([f.max_sequence_number for f in chosen], pa.int64())
    first = np.array([f.first_row_id for f in chosen], np.int64)
    least = {ROW_ID: from_numpy(first), SEQUENCE_NUMBER: sequences}
    greatest = {
        ROW_ID: from_numpy(first + np.array([f.row_count - 1 for f in chosen], np.int64)),
        SEQUENCE_NUMBER: sequences,
    }
    nulls = dict.fromkeys(TRACKING_NAMES, array_of([0] * len(chosen), pa.int64()))
    result[known] = select(predicate, least, greatest, nulls, rows)
    return result


def _select(
    files: Sequence[DataFileMeta],
    stats: Sequence[SimpleStats],
    fields: Sequence[DataField],
    wanted: Sequence[DataField],
    predicate: Predicate,
) -> Mask:
    known = [i for i, s in enumerate(stats) if len(s.null_counts) == len(fields) and fields]
    result = np.ones(len(files), np.bool_)
    if not known:
        return result
    types = [f.type for f in fields]
    mins = decode_rows([stats[i].min_values for i in known], types)
    maxs = decode_rows([stats[i].max_values for i in known], types)
    position = {f.id: n for n, f in enumerate(fields)}
    rows = array_of([files[i].row_count for i in known], pa.int64())
    least: dict[str, Array] = {}
    greatest: dict[str, Array] = {}
    nulls: dict[str, Array] = {}
    for field in wanted:
        n = position.get(field.id)
        # A column without statistics stays out of the maps: nothing is known of it.
        if n is None:
            continue
        # Other casts change the order of values, make nulls, or fail: their results have no known bounds.
        if not is_widening(fields[n].type, field.type):
            continue
        target = type_to_arrow(field.type)
        low, high = _widened(mins[n], target), _widened(maxs[n], target)
        if low is not None and high is not None:
            least[field.name], greatest[field.name] = low, high
        nulls[field.name] = array_of([stats[i].null_counts[n] for i in known], pa.int64())
    result[known] = select(predicate, least, greatest, nulls, rows)
    return result


def _widened(column: Array, target: pa.DataType) -> "Array | None":
    """Return the statistics of a file's column as the table's current type.

    None where they can't be compared with it.
    """
    if column.type == target:
        return column
    try:
        return cast_exactly(column, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def select_by_file_index(
    files: Sequence[DataFileMeta], chosen: Mask, predicate: Predicate, schema: TableSchema, schemas: SchemaManager
) -> Mask:
    """Return the mask of chosen files that may hold a row for which the predicate over the table's columns is true.

    Raises CorruptFileError and UnsupportedVersionError naming the data file.
    """
    from interbed.storage.files.file_index.evaluate import select_rows

    result = chosen.copy()
    wanted = [f for f in schema.fields if f.name in columns_of(predicate)]
    # Columns by name and the predicate over them, by the file's schema.
    known: dict[int, tuple[dict[str, DataField], Predicate | None]] = {}
    for i, file in enumerate(files):
        if not chosen[i] or file.embedded_file_index is None:
            continue
        if file.schema_id not in known:
            written = schema if file.schema_id == schema.id else schemas.schema(file.schema_id)
            inside = map_fields(wanted, written.fields).file_predicate(predicate)
            known[file.schema_id] = ({f.name: f for f in written.fields}, inside)
        fields, inside = known[file.schema_id]
        if inside is not None and not isinstance(inside, AlwaysTrue):
            result[i] = not select_rows(file, file.file_name, fields, inside, None).is_empty
    return result
