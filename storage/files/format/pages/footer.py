"""The footer of a Parquet file: its column chunks, its row groups by their statistics, its columns of INT96.

A footer is decoded once for all reads of the file. A nested column is stored as its leaves, in the order in which its
type names them: the leaves of a ROW's fields one after the other, and of a MAP the keys before the values. The values
of an INT96 column are read as 12 bytes each by a footer with the other type; the pages of both types are alike.
Source: parquet-format, parquet.thrift, LogicalTypes.md, README.md and Encodings (PLAIN).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import array_of, from_numpy, nulls_of
from interbed.storage.base.checksums import check_footer, check_index, footer_of, has_checksum, metadata_of
from interbed.storage.base.memory_cache import MemoryCache
from interbed.storage.base.predicate.expr import Comparison, Op, Predicate, references_of
from interbed.storage.base.predicate.operands import InnerReference, Reference, column_of
from interbed.storage.base.predicate.stats_filter import select
from interbed.storage.base.row.values import exact_decimal
from interbed.storage.files.format.pages.compact import I32, CompactReader, CompactWriter
from interbed.storage.files.format.pages.index import PageIndex, of_integers

if TYPE_CHECKING:
    import pyarrow.parquet as pq


Range = tuple[int, int]
"""A range of bytes: the first byte and the end."""


class ColumnChunks:
    """Positions of the column chunks of a file."""

    def __init__(self, metadata: "pq.FileMetaData") -> None:
        self._metadata = metadata

    def of(self, names: Sequence[str], groups: Sequence[int] | None) -> Iterator[list[Range]]:
        """Yield for each of the row groups (all when None) the byte ranges of the named columns, leaf by leaf."""
        wanted = frozenset(names)
        schema = self._metadata.schema
        # A name with a dot may be a whole path; other names are the first part of the paths to leaves.
        leaves = [
            place
            for place in range(self._metadata.num_columns)
            if schema.column(place).path in wanted or schema.column(place).path.partition(".")[0] in wanted
        ]
        for number in range(self._metadata.num_row_groups) if groups is None else groups:
            group = self._metadata.row_group(number)
            ranges: list[Range] = []
            for place in leaves:
                chunk = group.column(place)
                begins = [chunk.data_page_offset]
                if chunk.dictionary_page_offset:
                    begins.append(chunk.dictionary_page_offset)
                ranges.append((min(begins), min(begins) + chunk.total_compressed_size))
            yield ranges


_CACHE_BYTES = 32 << 20
"""Size of the cache of footers in bytes, for all tables of the process."""
_DECODED = 16
"""Estimated ratio of a decoded footer's memory, with the indexes of pages, to its encoded size; on the safe side."""
_CACHE = MemoryCache()

_DICTIONARY, _PLAIN = "PLAIN_DICTIONARY", "PLAIN"
"""Encodings by the names of pages of version 1, which a dictionary and its indices share; the names
of version 2 do not show whether a chunk also has values without the dictionary."""


class Footer:
    """Decoded footer of a file. Safe to share between threads, which may decode a part twice."""

    def __init__(self, content: bytes, *, verify: bool) -> None:
        if verify:
            check_footer(content)
        self._content = content
        self._verify = verify
        self._index: PageIndex | None = None
        self.metadata = metadata_of(content)
        self.schema: pa.Schema = self.metadata.schema.to_arrow_schema()
        self.groups = RowGroups(self.metadata, self.schema)
        self.chunks = ColumnChunks(self.metadata)

    @property
    def nbytes(self) -> int:
        """The estimated size in memory, in bytes."""
        return _DECODED * len(self._content)

    @cached_property
    def has_dotted_names(self) -> bool:
        """Whether a column's name has a dot, which for Arrow is also the path of a field in another column."""
        return any("." in name for name in self.schema.names)

    @cached_property
    def dictionaries(self) -> frozenset[str]:
        """Top-level columns of texts or bytes whose pages are all known to use dictionaries."""
        kinds = {f.name for f in self.schema if pa.types.is_string(f.type) or pa.types.is_binary(f.type)}
        if not kinds or self.has_dotted_names:
            return frozenset()
        groups = [self.metadata.row_group(number) for number in range(self.metadata.num_row_groups)]
        places = {self.metadata.schema.column(place).path: place for place in range(self.metadata.num_columns)}
        found = kinds & places.keys()
        return frozenset(name for name in found if all(_is_dictionary(group.column(places[name])) for group in groups))

    @cached_property
    def far_timestamps(self) -> frozenset[str]:
        """Columns with timestamps of another writer that may be out of the range of nanoseconds."""
        return frozenset() if has_checksum(self._content) else int96_columns(self.metadata, self.schema)

    @cached_property
    def with_bytes(self) -> "pq.FileMetaData":
        """The metadata with the columns of `far_timestamps` as bytes."""
        return metadata_of(footer_with_bytes(self._content))

    def pages(self, source: Any) -> PageIndex:
        """Return the page index of the open file. Raises ValueError for a damaged index."""
        if self._index is None:
            if self._verify:
                check_index(source, self._content)
            self._index = PageIndex(self._content, self.schema)
        return self._index


def _is_dictionary(chunk: Any) -> bool:
    return _DICTIONARY in chunk.encodings and _PLAIN not in chunk.encodings


def read_footer(source: pa.NativeFile, path: str, *, verify: bool) -> Footer:
    """Return the footer of an open file, verified with `verify`.

    Raises ValueError and Arrow's errors for bytes that are no such file.
    """
    content = footer_of(source)
    # The bytes are a part of the key, because the file may have been replaced since it was read.
    return _CACHE.get((path, content, verify), lambda: Footer(content, verify=verify), limit=_CACHE_BYTES)


# -- columns of INT96 --------------------------------------------------------------------------------------------------

INT96_BYTES = 12

_INT96, _FIXED_BYTES = 3, 7
"""Numbers of physical types."""
_SCHEMA, _ROW_GROUPS = 2, 4
_COLUMNS, _CHUNK_METADATA, _TYPE, _TYPE_LENGTH = 1, 3, 1, 2
"""Fields of FileMetaData, RowGroup, ColumnChunk, and of ColumnMetaData and SchemaElement."""


def int96_columns(metadata: Any, schema: pa.Schema) -> frozenset[str]:
    """Return the top-level columns with values of INT96."""
    leaves_of_file = [metadata.schema.column(place) for place in range(metadata.num_columns)]
    paths = [leaf.path for leaf in leaves_of_file if leaf.physical_type == "INT96"]
    return frozenset(f.name for f in schema if any(p == f.name or p.startswith(f"{f.name}.") for p in paths))


def footer_with_bytes(footer: bytes) -> bytes:
    """Return the FileMetaData with 12 bytes for each INT96. Raises ValueError and IndexError for damaged bytes."""
    reader = CompactReader(footer)
    parts: list[bytes] = []
    done = 0
    for start, end, instead in _edits(reader):
        parts += [footer[done:start], instead]
        done = end
    return b"".join((*parts, footer[done:]))


def _edits(reader: CompactReader) -> Iterator[tuple[int, int, bytes]]:
    for number, kind in reader.fields():
        if number == _SCHEMA:
            for _ in range(reader.list_head()[0]):
                yield from _of_element(reader)
        elif number == _ROW_GROUPS:
            for _ in range(reader.list_head()[0]):
                yield from _of_row_group(reader)
        else:
            reader.skip(kind)


def _of_element(reader: CompactReader) -> Iterator[tuple[int, int, bytes]]:
    """Yield the edit of a SchemaElement: its type, followed by the length of its values."""
    is_int96 = False
    start = reader.position
    for number, kind in reader.fields():
        if is_int96:
            # The number of the next field is relative to that of the length.
            writer = CompactWriter()
            writer.integer(_TYPE, _FIXED_BYTES, I32)
            writer.integer(_TYPE_LENGTH, INT96_BYTES, I32)
            writer.field(number, kind)
            yield start, reader.position, writer.to_bytes()
            is_int96 = False
        if number == _TYPE:
            is_int96 = reader.integer() == _INT96
        else:
            reader.skip(kind)


def _of_row_group(reader: CompactReader) -> Iterator[tuple[int, int, bytes]]:
    for number, kind in reader.fields():
        if number != _COLUMNS:
            reader.skip(kind)
            continue
        for _ in range(reader.list_head()[0]):
            for of_chunk, kind_of_chunk in reader.fields():
                if of_chunk == _CHUNK_METADATA:
                    yield from _of_chunk(reader)
                else:
                    reader.skip(kind_of_chunk)


def _of_chunk(reader: CompactReader) -> Iterator[tuple[int, int, bytes]]:
    start = reader.position
    for number, kind in reader.fields():
        if number == _TYPE:
            if reader.integer() == _INT96:
                writer = CompactWriter()
                writer.integer(_TYPE, _FIXED_BYTES, I32)
                yield start, reader.position, writer.to_bytes()
        else:
            reader.skip(kind)


# -- row groups --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyLeaf:
    """Leaf with the keys of a MAP, by its position among the column's leaves, and the requested key."""

    place: int
    type: pa.DataType
    key: object


@dataclass(frozen=True, slots=True)
class Leaf:
    """Leaf with values, by its position among the column's leaves.

    For values inside of MAPs `keys` has the path. Such a leaf also has the values of other keys, so its numbers of
    values and nulls are not those of rows.
    """

    place: int
    type: pa.DataType
    keys: tuple[KeyLeaf, ...] = ()


def leaf_of(reference: Reference, column: pa.DataType) -> Leaf | None:
    """Return the leaf of a bound reference in a column of that type; None for a reference without a single leaf."""
    steps: Sequence[object] = reference.steps if isinstance(reference, InnerReference) else ()
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
    """Return the number of leaves of a column of the type."""
    nested: Any = arrow
    if pa.types.is_map(arrow):
        return leaf_count(nested.key_type) + leaf_count(nested.item_type)
    if pa.types.is_struct(arrow):
        return sum(leaf_count(field.type) for field in nested)
    if pa.types.is_nested(arrow):
        return leaf_count(nested.value_type)
    return 1


_KEY = "key"
_INTEGERS, _FLOATS = ("INT32", "INT64"), ("FLOAT", "DOUBLE")


@dataclass(frozen=True, slots=True)
class _GroupStatistics:
    """Statistics of one column, with an entry for each group; the bounds are None for an unsupported type."""

    least: "pa.Array[Any] | None"
    greatest: "pa.Array[Any] | None"
    nulls: "pa.Array[Any]"
    is_empty: Mask
    """True for groups in which all values are null."""


class RowGroups:
    """Row groups of a file; `schema` is the file's. Statistics are decoded when a predicate needs them."""

    def __init__(self, metadata: "pq.FileMetaData", schema: pa.Schema) -> None:
        self._metadata = metadata
        self._schema = schema
        self._known: dict[Reference, _GroupStatistics | None] = {}

    @cached_property
    def starts(self) -> list[int]:
        """The first row of each group, then the number of rows of the file."""
        groups = range(self._metadata.num_row_groups)
        return list(accumulate((self._metadata.row_group(g).num_rows for g in groups), initial=0))

    def matching(self, predicate: Predicate) -> list[int]:
        """Return the numbers of the groups that may have a row for which the predicate is true.

        Columns without statistics exclude no group.
        """
        known = {asked: found for asked in references_of(predicate) if (found := self._column(asked)) is not None}
        return [int(g) for g in np.flatnonzero(self._select(predicate, known))]

    def bounds(self, name: str) -> "tuple[pa.Array[Any], pa.Array[Any]] | None":
        """Return the least and greatest value of a column in each group, null where unknown; None if all are."""
        known = self._column(name)
        if known is None or known.least is None or known.greatest is None:
            return None
        return known.least, known.greatest

    @cached_property
    def _rows(self) -> "pa.Array[Any]":
        return from_numpy(np.diff(np.array(self.starts, np.int64)))

    @cached_property
    def _first_leaves(self) -> list[int]:
        """The number of each column's first leaf in the file, then the number of leaves."""
        return list(accumulate((leaf_count(field.type) for field in self._schema), initial=0))

    def _select(self, predicate: Predicate, known: Mapping[Reference, _GroupStatistics]) -> Mask:
        return select(
            predicate,
            {asked: column.least for asked, column in known.items() if column.least is not None},
            {asked: column.greatest for asked, column in known.items() if column.greatest is not None},
            {asked: column.nulls for asked, column in known.items()},
            self._rows,
        )

    def _column(self, asked: Reference) -> _GroupStatistics | None:
        if asked not in self._known:
            self._known[asked] = self._decoded(asked)
        return self._known[asked]

    def _decoded(self, asked: Reference) -> _GroupStatistics | None:
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

    def _leaf(self, number: int, arrow: pa.DataType) -> _GroupStatistics:
        chunks = [self._metadata.row_group(g).column(number) for g in range(self._metadata.num_row_groups)]
        found = [chunk.statistics if chunk.is_stats_set else None for chunk in chunks]
        physical = self._metadata.schema.column(number).physical_type
        nulls = [None if s is None else s.null_count for s in found]
        return _GroupStatistics(
            _bounds([_end(s, "min_raw") for s in found], physical, arrow),
            _bounds([_end(s, "max_raw") for s in found], physical, arrow),
            array_of(nulls, pa.int64()),
            np.array([n == chunk.num_values for n, chunk in zip(nulls, chunks, strict=True)], np.bool_),
        )


def _end(statistics: Any, name: str) -> Any:
    return None if statistics is None or not statistics.has_min_max else getattr(statistics, name)


def _bounds(raw: Sequence[Any], physical: str, arrow: pa.DataType) -> "pa.Array[Any] | None":
    """Return bounds as values of the column's type, null where there are none; None for unsupported types."""
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
