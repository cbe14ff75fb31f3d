"""Page index of a Parquet file: the position, the rows and the bounds of each page.

Writers store it after the data: an offset index for each column chunk, with position, size and first row of its pages,
and a column index, with their least and greatest values and their nulls. Source: parquet-format,
PageIndex.md and parquet.thrift.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Ints
from interbed.storage.base.arrow_values import array_of, from_numpy
from interbed.storage.base.row.values import exact_decimal
from interbed.storage.files.format.pages.compact import LIST, STRUCT, CompactReader, CompactWriter, Struct

_SCHEMA, _GROUPS = 2, 4
"""Fields of FileMetaData."""
_REPETITION, _CHILDREN = 3, 5
"""Fields of SchemaElement."""
_REQUIRED, _OPTIONAL = 0, 1
"""Repetition types of flat columns."""
_COLUMNS, _GROUP_ROWS = 1, 3
"""Fields of RowGroup."""
_FILE_OFFSET, _META, _OFFSET_INDEX, _OFFSET_LENGTH, _COLUMN_INDEX, _COLUMN_LENGTH, _CRYPTO = 2, 3, 4, 5, 6, 7, 8
"""Fields of ColumnChunk."""
_TYPE, _ENCODINGS, _PATH, _CODEC, _NUM_VALUES, _TOTAL_SIZE, _COMPRESSED_SIZE = range(1, 8)
_DATA_PAGE, _DICTIONARY_PAGE, _STATISTICS = 9, 11, 12
"""Fields of ColumnMetaData."""
_NULL_COUNT = 3
"""Field of Statistics."""
_STOP = b"\0"
"""The end of a struct."""
_FIRST_BYTE = 4
"""The first position of data, after the magic number."""
_KEPT = (_TYPE, _ENCODINGS, _PATH, _CODEC)
_DECODED = (_TYPE, _PATH, _CODEC, _TOTAL_SIZE, _DATA_PAGE, _DICTIONARY_PAGE, _STATISTICS)
_INT32, _INT64, _BYTE_ARRAY = 1, 2, 6
"""Physical types whose bounds are supported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageBounds:
    """Least and greatest value of each page, null where unknown; `nulls` is -1 where unknown."""

    least: "pa.Array[Any]"
    greatest: "pa.Array[Any]"
    all_null: "np.ndarray[Any, np.dtype[np.bool_]]"
    nulls: Ints


@dataclass(frozen=True, kw_only=True)
class ColumnPages:
    """Data pages of one leaf column in one row group, which has `group_rows` rows.

    `path` has the names from the table's column down to the leaf. The dictionary before the pages, if there is one,
    begins at `begin`. `kept` are encoded fields of the chunk's metadata, by number and type. The indexes are encoded,
    too, and are decoded at their first use. `may_be_null` is None for a leaf of a nested column, and `nulls` where the
    number is unknown.
    """

    path: tuple[str, ...]
    physical: int
    codec: int
    may_be_null: bool | None
    nulls: int | None
    group_rows: int
    begin: int
    has_dictionary: bool
    uncompressed: int
    kept: tuple[tuple[int, int, bytes], ...]
    offset_index: bytes
    column_index: bytes
    _bounds: dict[pa.DataType, PageBounds | None] = field(default_factory=dict, compare=False, repr=False)
    _left_to_arrow: list[bool] = field(default_factory=list, compare=False, repr=False)

    @property
    def is_simple(self) -> bool:
        """Whether each page may have exactly one value for each row, without a dictionary and nulls."""
        without_nulls = self.may_be_null is False or (self.may_be_null is True and self.nulls == 0)
        return without_nulls and self.begin == self.starts[0] and not self._left_to_arrow

    def leave_to_arrow(self) -> None:
        """Record that the pages are not simple, so that later reads leave them to Arrow at once."""
        self._left_to_arrow.append(True)

    @cached_property
    def _places(self) -> "np.ndarray[Any, np.dtype[np.int64]]":
        locations = CompactReader(self.offset_index).struct()[1]
        places = np.array([(p[1], p[2], p.get(3, 0)) for p in locations], np.int64).reshape(-1, 3)
        rows = [*places[:, 2].tolist(), self.group_rows]
        if (len(locations) and rows[0] != 0) or any(low >= high for low, high in pairwise(rows)):
            raise ValueError(f"the pages of its column {'.'.join(self.path)} are not in order")
        return places

    @property
    def starts(self) -> Ints:
        """The position of each page in the file."""
        return self._places[:, 0]

    @property
    def sizes(self) -> Ints:
        """The size of each page in bytes, with its header."""
        return self._places[:, 1]

    @cached_property
    def rows(self) -> Ints:
        """The first row of each page in the group, then the group's number of rows."""
        return np.append(self._places[:, 2], self.group_rows)

    def holding(self, start: int, end: int) -> tuple[int, int]:
        """Return the first and the end page of the rows from `start` to before `end`."""
        low = int(np.searchsorted(self.rows, start, side="right")) - 1
        return low, int(np.searchsorted(self.rows, end, side="left"))

    def bounds(self, arrow: pa.DataType) -> PageBounds | None:
        """Return the bounds of the values in the leaf's Arrow type; None if all are unknown."""
        if arrow not in self._bounds:
            self._bounds[arrow] = self._decode_bounds(arrow)
        return self._bounds[arrow]

    def chunk(self, position: int, *, dictionary: int = 0, pages: int, values: int) -> bytes:
        """Return the struct ColumnChunk of a file with these bytes of dictionary and pages at a position."""
        writer = CompactWriter(after=self.kept[-1][0])
        writer.integer(_NUM_VALUES, values)
        writer.integer(_TOTAL_SIZE, self.uncompressed)
        writer.integer(_COMPRESSED_SIZE, dictionary + pages)
        # Where the metadata has no dictionary, as from old writers, the data begin with it.
        named = self.has_dictionary and dictionary > 0
        writer.integer(_DATA_PAGE, position + (dictionary if named else 0))
        if named:
            writer.integer(_DICTIONARY_PAGE, position)
        writer.end()
        return b"".join((self._head, writer.to_bytes(), _STOP))

    @cached_property
    def _head(self) -> bytes:
        """The first fields of the struct, before the ones kept from the file."""
        writer = CompactWriter()
        writer.integer(_FILE_OFFSET, 0)
        writer.field(_META, STRUCT)
        writer.begin()
        for number, kind, content in self.kept:
            writer.raw(number, kind, content)
        return writer.to_bytes()

    @cached_property
    def unread(self) -> bytes:
        """The struct ColumnChunk of a file without values of this column."""
        writer = CompactWriter(after=self.kept[-1][0])
        for number, value in ((_NUM_VALUES, 0), (_TOTAL_SIZE, self.uncompressed), (_COMPRESSED_SIZE, 0)):
            writer.integer(number, value)
        writer.integer(_DATA_PAGE, _FIRST_BYTE)
        writer.end()
        return b"".join((self._head, writer.to_bytes(), _STOP))

    def _decode_bounds(self, arrow: pa.DataType) -> PageBounds | None:
        if not self.column_index:
            return None
        index: Struct = CompactReader(self.column_index).struct()
        all_null, least, greatest = index[1], index[2], index[3]
        nulls = index.get(5) or [-1] * len(all_null)
        if {len(all_null), len(least), len(greatest), len(nulls)} != {len(self.starts)}:
            raise ValueError(
                f"the index of its column {'.'.join(self.path)} has another number of pages than the column"
            )
        low = _values(least, all_null, self.physical, arrow)
        high = _values(greatest, all_null, self.physical, arrow)
        if low is None or high is None:
            return None
        return PageBounds(least=low, greatest=high, all_null=np.array(all_null, np.bool_), nulls=np.array(nulls))


@dataclass(frozen=True, kw_only=True)
class GroupPages:
    """Pages of one row group, by leaf column in the file's order."""

    rows: int
    leaves: tuple[ColumnPages, ...]

    @cached_property
    def by_name(self) -> Mapping[str, tuple[ColumnPages, ...]]:
        """The leaf columns of each column of the table."""
        found: dict[str, list[ColumnPages]] = {}
        for leaf in self.leaves:
            found.setdefault(leaf.path[0], []).append(leaf)
        return {name: tuple(leaves) for name, leaves in found.items()}

    def is_even(self, names: Sequence[str]) -> bool:
        """Return whether the pages of all leaves of each of the columns begin at the same rows."""
        return all(
            np.array_equal(leaf.rows, leaves[0].rows)
            for leaves in (self.by_name[n] for n in names)
            for leaf in leaves[1:]
        )


class PageIndex:
    """Page index of a file, whose encoded FileMetaData is `footer`. Safe to share between threads.

    `schema` is Arrow's schema of the file. Raises ValueError and LookupError for a damaged footer or index.
    """

    def __init__(self, footer: bytes, schema: pa.Schema) -> None:
        self.schema = schema
        self._footer = footer
        self._groups: list[int] = []
        self._known: dict[int, GroupPages | None] = {}
        self.members: dict[int, tuple[int, bytes]] = {}
        """The other fields of the footer, encoded: type and value by number."""
        reader = CompactReader(footer)
        for number, kind in reader.fields():
            start = reader.position
            if number == _GROUPS and kind == LIST:
                self._groups = list(_starts(reader))
            else:
                reader.skip(kind)
                self.members[number] = (kind, footer[start : reader.position])

    def group(self, number: int, source: Any) -> GroupPages | None:
        """Return the pages of a row group; None when the file has no page index.

        `source` is the open file: it has `read_at(length, offset)`.
        """
        if number not in self._known:
            # Two threads may decode it, which is harmless.
            self._known[number] = self._decode(number, source)
        return self._known[number]

    def _decode(self, group: int, source: Any) -> GroupPages | None:
        reader = CompactReader(self._footer, self._groups[group])
        chunks: list[tuple[Struct, list[tuple[int, int, bytes]]]] = []
        rows = 0
        for number, kind in reader.fields():
            if number == _COLUMNS and kind == LIST:
                size, _ = reader.list_head()
                chunks = [self._chunk(reader) for _ in range(size)]
            elif number == _GROUP_ROWS:
                rows = reader.integer()
            else:
                reader.skip(kind)
        if not chunks or any(_OFFSET_INDEX not in c or _CRYPTO in c or _META not in c for c, _ in chunks):
            return None
        offsets = _indexes(source, [(c[_OFFSET_INDEX], c[_OFFSET_LENGTH]) for c, _ in chunks])
        columns = _indexes(source, [(c.get(_COLUMN_INDEX, 0), c.get(_COLUMN_LENGTH, 0)) for c, _ in chunks])
        leaves = []
        for (chunk, kept), may_be_null, offset_index, column_index in zip(
            chunks, self._may_be_null, offsets, columns, strict=True
        ):
            meta = chunk[_META]
            leaves.append(
                ColumnPages(
                    path=tuple(name.decode() for name in meta[_PATH]),
                    physical=meta[_TYPE],
                    codec=meta[_CODEC],
                    may_be_null=may_be_null,
                    nulls=meta.get(_STATISTICS, {}).get(_NULL_COUNT),
                    group_rows=rows,
                    begin=min(meta[_DATA_PAGE], meta.get(_DICTIONARY_PAGE) or meta[_DATA_PAGE]),
                    has_dictionary=bool(meta.get(_DICTIONARY_PAGE)),
                    uncompressed=meta[_TOTAL_SIZE],
                    kept=tuple(kept),
                    offset_index=offset_index,
                    column_index=column_index,
                )
            )
        return GroupPages(rows=rows, leaves=tuple(leaves))

    @cached_property
    def _may_be_null(self) -> list[bool | None]:
        """Whether the values of each leaf may be null; None for leaves of nested columns."""
        found: list[bool | None] = []
        kind, content = self.members[_SCHEMA]
        elements: list[Struct] = CompactReader(content).value(kind)
        # Each element is followed by its children; this is the number of children still to come.
        inside = 0
        for element in elements[1:]:
            children = element.get(_CHILDREN, 0)
            is_flat = not inside and not children and element[_REPETITION] in (_REQUIRED, _OPTIONAL)
            inside += children - (1 if inside else 0)
            if not children:
                found.append(element[_REPETITION] == _OPTIONAL if is_flat else None)
        return found

    def _chunk(self, reader: CompactReader) -> tuple[Struct, list[tuple[int, int, bytes]]]:
        found: Struct = {}
        kept: list[tuple[int, int, bytes]] = []
        for number, kind in reader.fields():
            if number == _META and kind == STRUCT:
                found[_META] = self._meta(reader, kept)
            else:
                found[number] = reader.value(kind)
        return found, kept

    def _meta(self, reader: CompactReader, kept: list[tuple[int, int, bytes]]) -> Struct:
        found: Struct = {}
        for number, kind in reader.fields():
            start = reader.position
            if number in _DECODED:
                found[number] = reader.value(kind)
            else:
                reader.skip(kind)
            if number in _KEPT:
                kept.append((number, kind, self._footer[start : reader.position]))
        return found


def _indexes(source: Any, places: Sequence[tuple[int, int]]) -> list[bytes]:
    """Return the bytes at positions that are mostly consecutive."""
    there = [(start, length) for start, length in places if length]
    if not there:
        return [b""] * len(places)
    begin, end = min(s for s, _ in there), max(s + n for s, n in there)
    content = bytes(source.read_at(end - begin, begin))
    return [content[s - begin : s - begin + n] if n else b"" for s, n in places]


def _starts(reader: CompactReader) -> Iterator[int]:
    size, kind = reader.list_head()
    for _ in range(size):
        yield reader.position
        reader.skip(kind)


def _values(
    encoded: Sequence[bytes], missing: Sequence[bool], physical: int, arrow: pa.DataType
) -> "pa.Array[Any] | None":
    """Return encoded bounds as an array of the type, null where `missing`; None for unsupported types.

    Floating-point numbers are not supported: writers differ in their treatment of NaN and zeros.
    """
    absent = np.array(missing, np.bool_)
    if physical in (_INT32, _INT64):
        width = 4 if physical == _INT32 else 8
        joined = b"".join(bytes(width) if gone else value for value, gone in zip(encoded, missing, strict=True))
        numbers = np.frombuffer(joined, f"<i{width}")
        return of_integers(numbers, absent, arrow)
    if physical == _BYTE_ARRAY and (pa.types.is_string(arrow) or pa.types.is_binary(arrow)):
        values = [None if gone else value for value, gone in zip(encoded, missing, strict=True)]
        try:
            return array_of(values, pa.binary()).cast(arrow)
        except pa.ArrowInvalid:
            # A bound may be cut in the middle of a character.
            return None
    return None


def of_integers(
    numbers: "np.ndarray[Any, Any]", absent: "np.ndarray[Any, np.dtype[np.bool_]]", arrow: pa.DataType
) -> "pa.Array[Any] | None":
    """Return stored integers as values of the column's type; None for unsupported types."""
    plain: Any = from_numpy(numbers, absent)
    if pa.types.is_signed_integer(arrow):
        found: pa.Array[Any] = plain if plain.type == arrow else plain.cast(arrow)
        return found
    if pa.types.is_date32(arrow) or (pa.types.is_time32(arrow) and numbers.itemsize == 4):
        viewed: pa.Array[Any] = plain.view(arrow)
        return viewed
    if isinstance(arrow, pa.TimestampType) and numbers.itemsize == 8 and str(arrow.unit) != "ns":
        moments: pa.Array[Any] = plain.view(arrow)
        return moments
    if pa.types.is_decimal(arrow):
        scale: int = arrow.scale
        return array_of([None if v is None else exact_decimal(v, scale) for v in plain.to_pylist()], arrow)
    return None
