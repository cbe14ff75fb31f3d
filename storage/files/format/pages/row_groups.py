"""Which row groups of a Parquet file may hold rows of a predicate, by the statistics in its footer.

A nested column is stored as its leaves, in the order in which its type names them: those of a ROW's fields one after
the other, and of a MAP the keys before the values. Source: parquet-format, LogicalTypes.md and README.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import array_of, from_numpy, nulls_of
from interbed.storage.base.predicate.expr import Comparison, Op, Predicate, references_of
from interbed.storage.base.predicate.operands import Inner, Reference, column_of
from interbed.storage.base.predicate.stats_filter import select
from interbed.storage.base.row.values import exact_decimal
from interbed.storage.files.format.pages.index import of_integers


@dataclass(frozen=True, slots=True)
class KeyLeaf:
    """The leaf with the keys of a MAP, by its place among the column's leaves, and the key that is asked for."""

    place: int
    type: pa.DataType
    key: object


@dataclass(frozen=True, slots=True)
class Leaf:
    """The leaf with the values, by its place among the column's leaves.

    Of values inside of MAPs `keys` tells the way; then the leaf has the values of other keys, too, and other numbers of
    values and nulls than there are rows.
    """

    place: int
    type: pa.DataType
    keys: tuple[KeyLeaf, ...] = ()


def leaf_of(reference: Reference, column: pa.DataType) -> Leaf | None:
    """The leaf of a bound reference in a column of that type; None for what is not one leaf."""
    steps: Sequence[object] = reference.steps if isinstance(reference, Inner) else ()
    place, current = 0, column
    keys: list[KeyLeaf] = []
    for step in steps:
        nested: Any = current
        if pa.types.is_map(current):
            if pa.types.is_nested(nested.key_type):
                return None
            keys.append(KeyLeaf(place, nested.key_type, step))
            place, current = place + 1, nested.item_type
        elif pa.types.is_struct(current) and (index := nested.get_field_index(step)) >= 0:
            place += sum(leaf_count(nested.field(i).type) for i in range(index))
            current = nested.field(index).type
        else:
            return None
    return None if pa.types.is_nested(current) else Leaf(place, current, tuple(keys))


def leaf_count(arrow: pa.DataType) -> int:
    """How many leaves a column of the type has."""
    nested: Any = arrow
    if pa.types.is_map(arrow):
        return leaf_count(nested.key_type) + leaf_count(nested.item_type)
    if pa.types.is_struct(arrow):
        return sum(leaf_count(field.type) for field in nested)
    if pa.types.is_nested(arrow):
        return leaf_count(nested.value_type)
    return 1


if TYPE_CHECKING:
    import pyarrow.parquet as pq

_KEY = "key"
_INTEGERS, _FLOATS = ("INT32", "INT64"), ("FLOAT", "DOUBLE")


@dataclass(frozen=True, slots=True)
class _Known:
    """The statistics of one column, with an entry for each group; the bounds None for a type that is not known."""

    least: "pa.Array[Any] | None"
    greatest: "pa.Array[Any] | None"
    nulls: "pa.Array[Any]"
    is_empty: Mask
    """Where there is no value that is not null."""


class RowGroups:
    """The row groups of a file; `schema` is the file's. Statistics are decoded when a predicate asks for them."""

    def __init__(self, metadata: "pq.FileMetaData", schema: pa.Schema) -> None:
        self._metadata = metadata
        self._schema = schema
        self._known: dict[Reference, _Known | None] = {}

    @cached_property
    def starts(self) -> list[int]:
        """The first row of each group, and the number of rows of the file."""
        groups = range(self._metadata.num_row_groups)
        return list(accumulate((self._metadata.row_group(g).num_rows for g in groups), initial=0))

    def matching(self, predicate: Predicate) -> list[int]:
        """The numbers of the groups that may hold a row for which the predicate is true.

        What has no statistics rules no group out.
        """
        known = {asked: found for asked in references_of(predicate) if (found := self._column(asked)) is not None}
        return [int(g) for g in np.flatnonzero(self._select(predicate, known))]

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
    def _first_leaves(self) -> list[int]:
        """The number of each column's first leaf in the file, and of the leaves."""
        return list(accumulate((leaf_count(field.type) for field in self._schema), initial=0))

    def _select(self, predicate: Predicate, known: Mapping[Reference, _Known]) -> Mask:
        return select(
            predicate,
            {asked: column.least for asked, column in known.items() if column.least is not None},
            {asked: column.greatest for asked, column in known.items() if column.greatest is not None},
            {asked: column.nulls for asked, column in known.items()},
            self._rows,
        )

    def _column(self, asked: Reference) -> _Known | None:
        if asked not in self._known:
            self._known[asked] = self._decoded(asked)
        return self._known[asked]

    def _decoded(self, asked: Reference) -> _Known | None:
        index = self._schema.get_field_index(column_of(asked))
        leaf = None if index < 0 else leaf_of(asked, self._schema.field(index).type)
        if leaf is None or self._first_leaves[-1] != self._metadata.num_columns:
            return None
        first = self._first_leaves[index]
        values = self._leaf(first + leaf.place, leaf.type)
        if not leaf.keys:
            return values
        absent = np.zeros(len(self._rows), np.bool_)
        for key in leaf.keys:
            keys = self._leaf(first + key.place, key.type)
            absent |= keys.is_empty
            absent |= ~self._select(Comparison(Op.EQ, _KEY, key.key), {_KEY: replace(keys, nulls=self._unknown)})
        import pyarrow.compute as pc

        rows: Any = pc.if_else(from_numpy(absent), self._rows, self._unknown)
        return replace(values, nulls=rows)

    @cached_property
    def _unknown(self) -> "pa.Array[Any]":
        return nulls_of(len(self._rows), pa.int64())

    def _leaf(self, number: int, arrow: pa.DataType) -> _Known:
        chunks = [self._metadata.row_group(g).column(number) for g in range(self._metadata.num_row_groups)]
        found = [chunk.statistics if chunk.is_stats_set else None for chunk in chunks]
        physical = self._metadata.schema.column(number).physical_type
        nulls = [None if s is None else s.null_count for s in found]
        return _Known(
            _bounds([_end(s, "min_raw") for s in found], physical, arrow),
            _bounds([_end(s, "max_raw") for s in found], physical, arrow),
            array_of(nulls, pa.int64()),
            np.array([n == chunk.num_values for n, chunk in zip(nulls, chunks, strict=True)], np.bool_),
        )


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
        return array_of([None if v is None else exact_decimal(v, arrow.scale) for v in unscaled], arrow)
    return None
