"""Which row groups of a Parquet file may hold rows of a predicate, by the statistics in its footer."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import array_of, from_numpy
from interbed.storage.base.predicate.expr import Predicate, columns_of
from interbed.storage.base.predicate.stats_filter import select
from interbed.storage.files.format.pages.index import of_integers

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_INTEGERS, _FLOATS = ("INT32", "INT64"), ("FLOAT", "DOUBLE")


@dataclass(frozen=True, slots=True)
class _Known:
    """The statistics of one column, with an entry for each group; the bounds None for a type that is not known."""

    least: "pa.Array[Any] | None"
    greatest: "pa.Array[Any] | None"
    nulls: "pa.Array[Any]"


class RowGroups:
    """The row groups of a file; `schema` is the file's. Statistics are decoded when a predicate asks for them."""

    def __init__(self, metadata: "pq.FileMetaData", schema: pa.Schema) -> None:
        self._metadata = metadata
        self._schema = schema
        self._known: dict[str, _Known | None] = {}

    @cached_property
    def starts(self) -> list[int]:
        """The first row of each group, and the number of rows of the file."""
        groups = range(self._metadata.num_row_groups)
        return list(accumulate((self._metadata.row_group(g).num_rows for g in groups), initial=0))

    def matching(self, predicate: Predicate) -> list[int]:
        """The numbers of the groups that may hold a row for which the predicate is true.

        Columns without statistics, and nested ones, rule no group out.
        """
        known = {name: found for name in columns_of(predicate) if (found := self._column(name)) is not None}
        chosen = select(
            predicate,
            {name: column.least for name, column in known.items() if column.least is not None},
            {name: column.greatest for name, column in known.items() if column.greatest is not None},
            {name: column.nulls for name, column in known.items()},
            self._rows,
        )
        return [int(g) for g in np.flatnonzero(chosen)]

    def bounds(self, name: str) -> "tuple[pa.Array[Any], pa.Array[Any]] | None":
        """The least and greatest value of a column in each group, null where they are not known; None for nothing."""
        known = self._column(name)
        if known is None or known.least is None or known.greatest is None:
            return None
        return known.least, known.greatest

    @cached_property
    def _rows(self) -> "pa.Array[Any]":
        return from_numpy(np.diff(np.array(self.starts, np.int64)))

    @cached_property
    def _leaves(self) -> dict[str, int]:
        schema = self._metadata.schema
        return {schema.column(leaf).path: leaf for leaf in range(self._metadata.num_columns)}

    def _column(self, name: str) -> _Known | None:
        if name not in self._known:
            self._known[name] = self._decoded(name)
        return self._known[name]

    def _decoded(self, name: str) -> _Known | None:
        leaf, arrow = self._leaves.get(name), _type_of(self._schema, name)
        # A path with a dot may be that of a nested column as well.
        if leaf is None or arrow is None or "." in name:
            return None
        chunks = [self._metadata.row_group(g).column(leaf) for g in range(self._metadata.num_row_groups)]
        found = [chunk.statistics if chunk.is_stats_set else None for chunk in chunks]
        physical = self._metadata.schema.column(leaf).physical_type
        return _Known(
            _bounds([_end(s, "min_raw") for s in found], physical, arrow),
            _bounds([_end(s, "max_raw") for s in found], physical, arrow),
            array_of([None if s is None else s.null_count for s in found], pa.int64()),
        )


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
