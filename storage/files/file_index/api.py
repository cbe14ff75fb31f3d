"""Indexes of one data file: the result of an index for a filter, the protocols of their writers and readers, and the
container of all indexes, a header with the position of each index, then the indexes.

An index is beside its data file (`<data file>.index`) or, when it is small, in the manifest.

On disk, all numbers big-endian: magic number 1493475289347502 (8 bytes), version 1 (4), length of the header including
these fields (4), number of columns (4); for each column its name, the number of its indexes (4) and for each index its
kind and its start and length (4 each, the start counted from the container's first byte, -1 for an index without
content); last the length of the additions of later versions (4), and the additions. Names are in Java's modified UTF-8
after their length (2). Files of interbed have checksums in the place of these additions, which readers skip: that of
the header (`interbed.storage.base.checksums`), then the CRC-32 of each index with content, in eight hexadecimal digits.
Specification page: `concepts/spec/fileindex`.
"""

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from interbed.storage.base.arrays import Positions
from interbed.storage.base.checksums import CHECKSUM_KEY, EMPTY_CHECKSUM, verify_checksum, with_checksum
from interbed.storage.base.errors import CorruptFileError, UnsupportedVersionError
from interbed.storage.base.predicate.expr import Leaf
from interbed.storage.base.row.words import Array

INDEX_SUFFIX = ".index"
"""The suffix that the name of an index file adds to the name of its data file."""

MAGIC = 1493475289347502
VERSION = 1

_START = struct.Struct(">qii")
_INT = struct.Struct(">i")
_PLACE = struct.Struct(">ii")
_NO_CONTENT = -1
_CHECKSUM_PREFIX = CHECKSUM_KEY.encode() + b"="

ColumnIndexes = Mapping[str, bytes | None]
"""The indexes of one column by kind; None for an index without content."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of a file, by position, that may match; no other row does. `rows` is None when no row is excluded."""

    rows: BitMap | None

    @property
    def is_empty(self) -> bool:
        """Whether the file has no matching row."""
        return self.rows is not None and not self.rows

    def __and__(self, other: "Selection") -> "Selection":
        if self.rows is None or other.rows is None:
            return other if self.rows is None else self
        return Selection(self.rows & other.rows)

    def __or__(self, other: "Selection") -> "Selection":
        return EVERYTHING if self.rows is None or other.rows is None else Selection(self.rows | other.rows)

    def positions(self) -> Positions | None:
        """Return the positions in ascending order; None for all rows."""
        return None if self.rows is None else np.frombuffer(self.rows.to_array(), np.uint32).astype(np.int64)


EVERYTHING = Selection(None)
NOTHING = Selection(BitMap())


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIndexes:
    """Indexes of one data file: in the manifest, or as the content of a file beside it, but not both."""

    embedded: bytes | None = None
    file: bytes | None = None


class FileIndexWriter(Protocol):
    """Writer of the indexes of one data file."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the next rows of the file."""
        ...

    def finish(self) -> FileIndexes | None:
        """Return the indexes; None when the file has none."""
        ...


class IndexWriter(Protocol):
    """Writer of one index of one column of one data file."""

    def add(self, values: Array) -> None:
        """Add the next values, in the Arrow form of the column's type."""
        ...

    def finish(self) -> bytes | None:
        """Return the index; None when this kind can't represent the values, and the file has no such index."""
        ...


class IndexReader(Protocol):
    """Reader of one index of one column of one data file."""

    def rows(self, leaf: Leaf) -> Selection:
        """Return the rows for which the leaf, a condition on this index's column, can be true.

        Damaged bytes raise ValueError, IndexError or struct.error; the caller adds the name of the file.
        """
        ...


def name_of_key(column: str, key: str) -> str:
    """Return the name of the values of one key of a MAP, which the container uses like that of a column."""
    return f"{column}[{key}]"


def encode_container(columns: Mapping[str, ColumnIndexes], *, checksums: bool = False) -> bytes:
    """Return the container of the indexes by column; `checksums` for a file that is not protected otherwise."""
    sums = [zlib.crc32(content) for indexes in columns.values() for content in indexes.values() if content is not None]
    extra = (
        b"".join([_CHECKSUM_PREFIX, EMPTY_CHECKSUM.encode(), *(f"{s:08x}".encode() for s in sums)])
        if checksums
        else b""
    )
    names = {column: _name_to_bytes(column) for column in columns}
    head = _START.size + _INT.size
    head += sum(
        len(names[c]) + _INT.size + sum(len(_name_to_bytes(k)) + _PLACE.size for k in columns[c]) for c in columns
    )
    head += _INT.size + len(extra)
    parts = [_START.pack(MAGIC, VERSION, head), _INT.pack(len(columns))]
    body: list[bytes] = []
    position = head
    for column, indexes in columns.items():
        parts += [names[column], _INT.pack(len(indexes))]
        for kind, content in indexes.items():
            start, length = (_NO_CONTENT, 0) if content is None else (position, len(content))
            parts += [_name_to_bytes(kind), _PLACE.pack(start, length)]
            if content is not None:
                body.append(content)
                position += length
    header = b"".join([*parts, _INT.pack(len(extra)), extra])
    return b"".join([with_checksum(header, _CHECKSUM_PREFIX) if checksums else header, *body])


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlace:
    """Index of a column in a container: its kind and its size in bytes; `is_empty` for an index without content."""

    column: str
    kind: str
    length: int
    is_empty: bool


class IndexContainer:
    """Container whose header was read; indexes are read when they are requested.

    `source` is a file of Arrow, open as long as indexes are read; `name` is its name in errors. Raises
    CorruptFileError, and UnsupportedVersionError for an unknown version.
    """

    def __init__(self, source: Any, name: str) -> None:
        self._source = source
        self._size = int(source.size())
        self.name = name
        start = self._read(0, _START.size)
        magic, version, length = _START.unpack(start)
        if magic != MAGIC:
            raise CorruptFileError(f"{name} is not a file index: its magic number is {magic}.")
        if version != VERSION:
            raise UnsupportedVersionError(
                f"{name} is a file index of version {version}; this version of interbed reads version {VERSION}."
            )
        header = self._read(_START.size, max(length - _START.size, 0))
        try:
            verify_checksum(start + header, _CHECKSUM_PREFIX)
            places, end = _header(header)
            self._sums = _sums(header[end:], places)
        except (struct.error, ValueError, IndexError) as error:
            raise CorruptFileError(f"{name} has a header of a file index that can't be decoded: {error}") from error
        self._places = places
        for first, size in (place for kinds in places.values() for place in kinds.values()):
            if first != _NO_CONTENT and not 0 <= first <= first + size <= self._size:
                raise CorruptFileError(f"{name} ends within a file index.")

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The kinds of index that each column has."""
        return {column: tuple(kinds) for column, kinds in self._places.items()}

    @property
    def places(self) -> Sequence[IndexPlace]:
        """All indexes, in the container's order."""
        return [
            IndexPlace(column=column, kind=kind, length=length, is_empty=start == _NO_CONTENT)
            for column, kinds in self._places.items()
            for kind, (start, length) in kinds.items()
        ]

    def content(self, column: str, kind: str) -> bytes | None:
        """Return an index; None for one without content. Raises KeyError when there is no such index."""
        start, length = self._places[column][kind]
        if start == _NO_CONTENT:
            return None
        content = self._read(start, length)
        if self._sums.get((column, kind)) not in (None, zlib.crc32(content)):
            raise CorruptFileError(f"{self.name} has an index of the column {column!r} whose checksum is wrong.")
        return content

    def all(self) -> dict[str, dict[str, bytes | None]]:
        """Return every index by column and kind."""
        return {c: {k: self.content(c, k) for k in kinds} for c, kinds in self.columns.items()}

    def _read(self, start: int, length: int) -> bytes:
        if not 0 <= start <= start + length <= self._size:
            raise CorruptFileError(f"{self.name} ends within a file index.")
        self._source.seek(start)
        content: bytes = self._source.read(length)
        return content


def _header(content: bytes) -> tuple[dict[str, dict[str, tuple[int, int]]], int]:
    """Return the positions of the indexes by column and kind, and the end of their description."""
    columns: dict[str, dict[str, tuple[int, int]]] = {}
    offset = _INT.size
    for _ in range(_INT.unpack_from(content)[0]):
        column, offset = _read_name(content, offset)
        count = _INT.unpack_from(content, offset)[0]
        offset += _INT.size
        places: dict[str, tuple[int, int]] = {}
        for _ in range(count):
            kind, offset = _read_name(content, offset)
            places[kind] = _PLACE.unpack_from(content, offset)
            offset += _PLACE.size
        columns[column] = places
    return columns, offset


def _sums(rest: bytes, places: Mapping[str, Mapping[str, tuple[int, int]]]) -> dict[tuple[str, str], int]:
    """Return the checksums of the indexes by column and kind; an empty dict for a container without checksums."""
    at = rest.rfind(_CHECKSUM_PREFIX)
    if at < 0:
        return {}
    digits = rest[at + len(_CHECKSUM_PREFIX) + len(EMPTY_CHECKSUM) :]
    inside = [(c, k) for c, kinds in places.items() for k, (start, _) in kinds.items() if start != _NO_CONTENT]
    width = len(EMPTY_CHECKSUM)
    return {key: int(digits[i * width : (i + 1) * width], 16) for i, key in enumerate(inside)}


def _name_to_bytes(name: str) -> bytes:
    """Return a name in Java's modified UTF-8: characters beyond 16 bits as two surrogates, NUL as two bytes."""
    pairs = name.encode("utf-16-be", "surrogatepass")
    units = "".join(chr(int.from_bytes(pairs[i : i + 2], "big")) for i in range(0, len(pairs), 2))
    content = units.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    return struct.pack(">H", len(content)) + content


def _read_name(content: bytes, offset: int) -> tuple[str, int]:
    length = struct.unpack_from(">H", content, offset)[0]
    end = offset + 2 + length
    if end > len(content):
        raise IndexError(f"a name of {length} bytes at {offset}")
    units = content[offset + 2 : end].replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass"), end
