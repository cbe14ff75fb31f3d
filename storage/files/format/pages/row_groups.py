"""Which row groups of a Parquet file may hold rows of a predicate, by the statistics in its footer."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from interbed.storage.base.arrow_values import array_of
from interbed.storage.base.predicate.expr import Predicate, columns_of
from interbed.storage.base.predicate.stats_filter import select
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.format.pages.index import of_integers

_INTEGERS, _FLOATS = ("INT32", "INT64"), ("FLOAT", "DOUBLE")


def groups_of(
    metadata: pq.FileMetaData, schema: pa.Schema, fields: Sequence[DataField], predicate: Predicate
) -> list[int]:
    """The numbers of the row groups that may hold a row for which the predicate is true.

    `schema` is that of the file. Columns without statistics, and nested ones, rule no group out.
    """
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    counts = array_of([g.num_rows for g in groups], pa.int64())
    least: dict[str, pa.Array[Any]] = {}
    greatest: dict[str, pa.Array[Any]] = {}
    nulls: dict[str, pa.Array[Any]] = {}
    wanted = columns_of(predicate)
    for leaf in range(metadata.num_columns):
        column = metadata.schema.column(leaf)
        name, arrow = column.path, _type_of(schema, column.path)
        # A path with a dot may be that of a nested column as well.
        if name not in wanted or "." in name or arrow is None:
            continue
        found = [g.column(leaf).statistics if g.column(leaf).is_stats_set else None for g in groups]
        low, high = (
            _bounds([_end(s, "min_raw") for s in found], column.physical_type, arrow),
            _bounds([_end(s, "max_raw") for s in found], column.physical_type, arrow),
        )
        if low is not None and high is not None:
            least[name], greatest[name] = low, high
        nulls[name] = array_of([None if s is None else s.null_count for s in found], pa.int64())
    chosen = select(predicate, [f for f in fields if f.name in wanted], least, greatest, nulls, counts)
    return [int(g) for g in np.flatnonzero(chosen)]


def _type_of(schema: pa.Schema, name: str) -> pa.DataType | None:
    index = schema.get_field_index(name)
    return None if index < 0 or pa.types.is_nested(schema.field(index).type) else schema.field(index).type


def _end(statistics: Any, name: str) -> Any:
    return None if statistics is None or not statistics.has_min_max else getattr(statistics, name)


def _bounds(raw: Sequence[Any], physical: str, arrow: pa.DataType) -> "pa.Array[Any] | None":
    """The bounds as values of the column's type, null where there are none; None for types that are not known."""
    if physical in _INTEGERS:
        absent = np.array([v is None for v in raw], np.bool_)
        width = np.int32 if physical == "INT32" else np.int64
        return of_integers(np.array([0 if v is None else v for v in raw], width), absent, arrow)
    if physical in _FLOATS and pa.types.is_floating(arrow):
        return array_of(raw, pa.float64()).cast(arrow)
    if physical == "BOOLEAN" and pa.types.is_boolean(arrow):
        return array_of(raw, arrow)
    if physical == "BYTE_ARRAY" and (pa.types.is_string(arrow) or pa.types.is_binary(arrow)):
        try:
            return array_of(raw, pa.binary()).cast(arrow)
        except pa.ArrowInvalid:
            # A bound may be cut in the middle of a character.
            return None
    if physical == "FIXED_LEN_BYTE_ARRAY" and pa.types.is_decimal(arrow):
        unscaled = [None if v is None else int.from_bytes(v, "big", signed=True) for v in raw]
        return array_of([None if v is None else Decimal(v).scaleb(-arrow.scale) for v in unscaled], arrow)
    return None
