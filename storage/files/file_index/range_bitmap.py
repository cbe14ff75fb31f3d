"""The index `range-bitmap`: the numbers of values in a sorted dictionary as bitmaps of their binary digits.

Its types are BOOLEAN, integers, floats, DECIMAL up to 18 digits, times (timestamps up to 6 digits) and texts. It
supports all comparisons. On disk, all numbers big-endian; each part begins with the length of its header (4 bytes) and
version 1 (1):

- index: number of rows (4) and of values that are not null (4), the least and the greatest of them, length of the
  dictionary (4); the dictionary, the bit slices;
- dictionary: number of chunks (4), length of their offsets and of their headers (4 each); the offsets (4 each), the
  headers, the keys. A chunk has no header length, but its version, its first value, the number of that value (4), the
  offset of its keys (4), the number of keys after the first (4), then for texts the length of their offsets (4) and the
  length of the keys (4), for other types the length of a key (4);
- bit slices: number of digits (1), length of the bitmap of rows that are not null (4) and of the offsets (4), offset
and
  length of each digit's bitmap (4 each); the bitmaps.

Option: `chunk-size`, the bytes of keys in a chunk (16kb; none for BOOLEAN, TINYINT and SMALLINT). Specification page:
`concepts/spec/fileindex`.
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap

from interbed.storage.base.errors import UnsupportedVersionError
from interbed.storage.base.predicate.expr import Comparison, In, IsNotNull, IsNull, Leaf, NotIn, Op
from interbed.storage.base.row.words import Array
from interbed.storage.base.types.data_type import TypeRoot
from interbed.storage.files.file_index.api import EVERYTHING, Selection
from interbed.storage.files.file_index.bitmap import BitSlices, roaring_bytes, slice_bytes
from interbed.storage.files.file_index.values import (
    ATOMS,
    CodeCollector,
    Key,
    ValueForm,
    join_keys,
    key_rank,
    keys_of,
    read_key,
)
from interbed.storage.meta.options.reader import OptionReader

KIND = "range-bitmap"
ROOTS = ATOMS | {TypeRoot.BOOLEAN, TypeRoot.DECIMAL}
VERSION = 1
DEFAULT_CHUNK_BYTES = 16 << 10

_SMALL = frozenset({TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT})
_INT = struct.Struct(">i")
_COUNTS = struct.Struct(">bii")
_DICTIONARY = struct.Struct(">ibiii")
_CHUNK = struct.Struct(">iiiii")
_SLICES = struct.Struct(">bbii")
_PLACE = struct.Struct(">ii")


class RangeBitmapWriter:
    """IndexWriter of one column; it keeps a number for each row and the distinct values in memory."""

    def __init__(self, form: ValueForm, options: OptionReader) -> None:
        self._form = form
        self._codes = CodeCollector(form)
        default = 0 if form.type.root in _SMALL else DEFAULT_CHUNK_BYTES
        self._chunk_bytes = options.memory("chunk-size", default)

    def add(self, values: Array) -> None:
        """Add values as for IndexWriter.add."""
        self._codes.add(values)

    def finish(self) -> bytes:
        """Return the index as for IndexWriter.finish."""
        coded = self._codes.finish()
        keys = join_keys(keys_of(coded.values), self._form.width)
        dictionary = self._dictionary(keys)
        rows = np.flatnonzero(coded.codes >= 0).astype(np.uint32)
        ends = [keys[0], keys[-1]] if keys else []
        head = [_COUNTS.pack(VERSION, len(coded.codes), len(keys)), *ends, _INT.pack(len(dictionary))]
        # At least one digit; for a column of nulls Java has 64, the digits of -1.
        digits = max((len(keys) - 1).bit_length(), 1) if keys else 64
        slices = slice_bytes(rows, coded.codes[rows].astype(np.uint64), digits)
        return _with_length(b"".join(head)) + dictionary + _encoded_slices(roaring_bytes(rows), slices)

    def _dictionary(self, keys: Sequence[bytes]) -> bytes:
        places: list[bytes] = []
        headers: list[bytes] = []
        parts: list[bytes] = []
        header_end = key_end = 0
        first = 0
        while first < len(keys):
            end, size = first + 1, 0
            # The offsets of texts, 4 bytes each, must not exceed the chunk's size either.
            most = len(keys) if self._form.width else first + 1 + self._chunk_bytes // _INT.size
            while end < min(len(keys), most) and size + len(keys[end]) <= self._chunk_bytes:
                size += len(keys[end])
                end += 1
            following = keys[first + 1 : end]
            starts = b""
            if not self._form.width:
                ends = np.cumsum([0, *map(len, following)])
                starts = ends[:-1].astype(">i4").tobytes()
            lengths = (len(b"".join(following)), self._form.width) if self._form.width else (len(starts), size)
            header = bytes([VERSION]) + keys[first] + _CHUNK.pack(first, key_end, len(following), *lengths)
            places.append(_INT.pack(header_end))
            headers.append(header)
            parts += [starts, *following]
            header_end += len(header)
            key_end += len(starts) + size
            first = end
        lengths_of = (len(places), len(places) * _INT.size, header_end)
        head = _DICTIONARY.pack(_DICTIONARY.size - _INT.size, VERSION, *lengths_of)
        return b"".join([head, *places, *headers, *parts])


def _encoded_slices(present: bytes, slices: Sequence[bytes]) -> bytes:
    places = bytearray()
    start = 0
    for content in slices:
        places += _PLACE.pack(start, len(content))
        start += len(content)
    head = _SLICES.pack(VERSION, len(slices), len(present), len(places)) + bytes(places)
    return b"".join([_with_length(head), present, *slices])


def _with_length(head: bytes) -> bytes:
    return _INT.pack(len(head)) + head


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Chunk of the dictionary: its first value, the number of that value, and the offset of the `count` others."""

    rank: Key
    number: int
    start: int
    count: int


class RangeBitmapReader:
    """IndexReader that selects rows for all comparisons, IN, NOT IN, IS NULL and IS NOT NULL."""

    def __init__(self, form: ValueForm, content: bytes) -> None:
        self._form = form
        version, self.row_count, self._count = _COUNTS.unpack_from(content, _INT.size)
        _check(version)
        body = _INT.size + _INT.unpack_from(content)[0]
        dictionary = _INT.unpack_from(content, body - _INT.size)[0]
        self._slices = _read_slices(content, body + dictionary) if self._count else BitSlices(BitMap(), ())
        self._content = content[body : body + dictionary]
        self._chunks: list[_Chunk] | None = None

    def rows(self, leaf: Leaf) -> Selection:
        """Return the rows as for IndexReader.rows."""
        present = self._slices.present
        match leaf:
            case IsNull():
                return Selection(BitMap(range(self.row_count)) - present)
            case IsNotNull():
                return Selection(present.copy())
            case _ if not self._form.is_exact:
                return EVERYTHING
            case Comparison(op, _, value) if value is not None:
                return self._compare(op, value)
            case In(_, values):
                return Selection(self._any_of([v for v in values if v is not None]))
            case NotIn(_, values) if None not in values:
                return Selection(present - self._any_of(list(values)))
            case _:
                return EVERYTHING

    def _any_of(self, values: Sequence[object]) -> BitMap:
        found = BitMap()
        for value in values:
            for key in self._form.keys(value):
                number, exact = self._number(key)
                if exact:
                    found |= self._slices.compare(Op.EQ, number)
        return found

    def _compare(self, op: Op, value: object) -> Selection:
        if op in (Op.EQ, Op.NE):
            found = self._any_of([value])
            return Selection(found if op is Op.EQ else self._slices.present - found)
        # Zero has two keys: `>` and `<=` compare with the greater one, `<` and `>=` with the smaller one.
        upward = op in (Op.GT, Op.LE)
        ranked = sorted(self._form.keys(value), key=lambda k: key_rank(k, self._form))
        number, exact = self._number(ranked[-1] if upward else ranked[0])
        if exact and op in (Op.GT, Op.LE):
            number += 1
        # Numbers from `number` on belong to greater values (or greater or equal ones, by the operator).
        return Selection(self._slices.compare(Op.GE if op in (Op.GT, Op.GE) else Op.LT, number))

    def _number(self, key: Key) -> tuple[int, bool]:
        """Return the number of the first value that is not less than the key, and whether it equals the key."""
        if self._chunks is None:
            self._chunks = list(self._read_chunks())
        rank = key_rank(key, self._form)
        place = bisect_right(self._chunks, rank, key=lambda c: c.rank) - 1
        if place < 0:
            return 0, False
        chunk = self._chunks[place]
        if chunk.rank == rank:
            return chunk.number, True
        ranks = [key_rank(k, self._form) for k in self._keys_of(chunk)]
        following = bisect_left(ranks, rank)
        return chunk.number + 1 + following, following < len(ranks) and ranks[following] == rank

    def _read_chunks(self) -> Iterator[_Chunk]:
        content = self._content
        length, version, chunks, places, headers = _DICTIONARY.unpack_from(content)
        _check(version)
        place = _INT.size + length
        keys_start = place + places + headers
        for chunk in range(chunks):
            offset = place + places + _INT.unpack_from(content, place + chunk * _INT.size)[0]
            _check(content[offset])
            first, offset = read_key(content, offset + 1, self._form.width)
            number, start, count, starts, _ = _CHUNK.unpack_from(content, offset)
            # Texts come after their offsets, which a sequential read does not need.
            start += keys_start + (0 if self._form.width else starts)
            yield _Chunk(key_rank(first, self._form), number, start, count)

    def _keys_of(self, chunk: _Chunk) -> Iterator[Key]:
        """Yield the values of a chunk after its first."""
        offset = chunk.start
        for _ in range(chunk.count):
            key, offset = read_key(self._content, offset, self._form.width)
            yield key


def _read_slices(content: bytes, offset: int) -> BitSlices:
    head = _INT.unpack_from(content, offset)[0]
    version, count, present_length, _ = _SLICES.unpack_from(content, offset + _INT.size)
    _check(version)
    places = offset + _INT.size + _SLICES.size
    body = offset + _INT.size + head
    slices: list[BitMap] = []
    for i in range(count):
        start, length = _PLACE.unpack_from(content, places + i * _PLACE.size)
        begin = body + present_length + start
        slices.append(BitMap.deserialize(content[begin : begin + length]))
    return BitSlices(BitMap.deserialize(content[body : body + present_length]), slices)


def _check(version: int) -> None:
    if version != VERSION:
        raise UnsupportedVersionError(
            f"A range-bitmap index has version {version}; this version of interbed reads version 1."
        )
