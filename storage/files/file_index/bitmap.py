"""The index `bitmap`: the rows of each value. Its types are BOOLEAN, integers, floats, times and texts.

On disk, all numbers big-endian: the version (1 byte), number of rows (4), of values that are not null (4), whether
there are nulls (1) and if so the offset of their bitmap (4); then
- version 1: each value with its bitmap's offset (4);
- version 2: the length of the nulls' bitmap (4, if there are nulls), number of blocks (4), each block's first value
  and offset (4), the total length of the blocks (4), and the blocks: number of values (4), each with its bitmap's
  offset and length (4 each), in order;
and last the bitmaps (Roaring, portable form), from whose beginning offsets count. A negative offset encodes the only
row p of a value as -1 - p. Options: `version` (2) and `index-block-size` (16kb). Specification page:
`concepts/spec/fileindex`.

Bit slices are the numbers of rows as bitmaps, one for each binary digit. A comparison with a number is evaluated digit
by digit, by the algorithm of O'Neil and Quass, "Improved query performance with variant indexes". The indexes `bsi` and
`range-bitmap` use them in different encodings.
"""

import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from interbed.storage.base.errors import InvalidOptionError, UnsupportedVersionError
from interbed.storage.base.predicate.expr import Comparison, In, IsNotNull, IsNull, Leaf, NotIn, Op
from interbed.storage.base.row.words import Array
from interbed.storage.base.types.data_type import TypeRoot
from interbed.storage.files.file_index.api import EVERYTHING, Selection
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

KIND = "bitmap"
ROOTS = ATOMS | {TypeRoot.BOOLEAN}
DEFAULT_BLOCK_BYTES = 16 << 10

_COUNTS = struct.Struct(">ii?")
_INT = struct.Struct(">i")
_PLACE = struct.Struct(">ii")
_VERSIONS = (1, 2)
_NO_LENGTH = -1


class BitmapWriter:
    """IndexWriter of one column; it keeps a number for each row and the distinct values in memory."""

    def __init__(self, form: ValueForm, options: OptionReader) -> None:
        self._version = options.integer("version", 2)
        if self._version not in _VERSIONS:
            raise InvalidOptionError(f"A bitmap index has 'version' 1 or 2, not {self._version}.")
        self._block_bytes = options.memory("index-block-size", DEFAULT_BLOCK_BYTES)
        self._form = form
        self._codes = CodeCollector(form)

    def add(self, values: Array) -> None:
        """Add values as for IndexWriter.add."""
        self._codes.add(values)

    def finish(self) -> bytes:
        """Return the index as for IndexWriter.finish."""
        coded = self._codes.finish()
        order, ends = coded.by_value()
        counts = np.diff(ends, prepend=0)
        places = -1 - order[np.minimum(ends - 1, len(order) - 1)] if len(order) else np.zeros(len(ends), np.int64)
        lengths = np.full(len(ends), _NO_LENGTH)
        bitmaps: list[bytes] = []
        end = 0
        # A loop over the values: every value of several rows has a bitmap of its own.
        for value in np.flatnonzero(counts != 1).tolist():
            rows = order[ends[value] - counts[value] : ends[value]]
            content = roaring_bytes(rows.astype(np.uint32)) if len(rows) else b""
            places[value], lengths[value] = end, len(content)
            bitmaps.append(content)
            end += len(content)
        (null_place, null_length), *placed = zip(places.tolist(), lengths.tolist(), strict=True)
        null_rows = int(counts[0])
        head = [bytes([self._version]), _COUNTS.pack(self._codes.row_count, len(placed), null_rows > 0)]
        if null_rows:
            head.append(_INT.pack(null_place))
        keys = join_keys(keys_of(coded.values), self._form.width)
        if self._version == 1:
            head += [k + _INT.pack(place) for k, (place, _) in zip(keys, placed, strict=True)]
        else:
            if null_rows:
                head.append(_INT.pack(null_length))
            head.append(self._blocks(keys, placed))
        return b"".join([*head, *bitmaps])

    def _blocks(self, keys: Sequence[bytes], placed: Sequence[tuple[int, int]]) -> bytes:
        blocks: list[list[bytes]] = []
        firsts: list[bytes] = []
        size = 0
        for key, place in zip(keys, placed, strict=True):
            entry = key + _PLACE.pack(*place)
            # A value that is too long for a block gets a block of its own, which readers accept.
            if not blocks or size + len(entry) > self._block_bytes:
                blocks.append([])
                firsts.append(key)
                size = _INT.size
            blocks[-1].append(entry)
            size += len(entry)
        encoded = [_INT.pack(len(block)) + b"".join(block) for block in blocks]
        starts = np.cumsum([0, *map(len, encoded)]).tolist()
        index = [key + _INT.pack(start) for key, start in zip(firsts, starts, strict=False)]
        return b"".join([_INT.pack(len(blocks)), *index, _INT.pack(starts[-1]), *encoded])


@dataclass(frozen=True, slots=True)
class _BitmapPlace:
    start: int
    length: int


class BitmapReader:
    """IndexReader that selects rows for =, <>, IN, NOT IN, IS NULL and IS NOT NULL."""

    def __init__(self, form: ValueForm, content: bytes) -> None:
        self._form = form
        self._content = content
        self._bitmaps: dict[Key | None, BitMap] = {}
        version = content[0]
        if version not in _VERSIONS:
            raise UnsupportedVersionError(
                f"A bitmap index has version {version}; this version of interbed reads versions 1 and 2."
            )
        self.row_count, count, has_nulls = _COUNTS.unpack_from(content, 1)
        offset = 1 + _COUNTS.size
        self._nulls: _BitmapPlace | None = None
        if has_nulls:
            place = _INT.unpack_from(content, offset)[0]
            offset += _INT.size
            length = _NO_LENGTH
            if version > 1:
                length = _INT.unpack_from(content, offset)[0]
                offset += _INT.size
            self._nulls = _BitmapPlace(place, length)
        self._places: dict[Key, _BitmapPlace] | None = None
        self._blocks: list[tuple[Key, int]] = []
        if version == 1:
            self._read_values(offset, count)
        else:
            self._read_blocks(offset)

    def rows(self, leaf: Leaf) -> Selection:
        """Return the rows as for IndexReader.rows."""
        match leaf:
            case Comparison(Op.EQ, _, value) if value is not None:
                return Selection(self._any_of([value]))
            case Comparison(Op.NE, _, value) if value is not None:
                return self._none_of([value])
            case In(_, values):
                return Selection(self._any_of([v for v in values if v is not None]))
            case NotIn(_, values):
                return Selection(BitMap()) if None in values else self._none_of(values)
            case IsNull():
                return Selection(self._rows_of(None))
            case IsNotNull():
                return Selection(self._present())
            case _:
                return EVERYTHING

    def _present(self) -> BitMap:
        return BitMap(range(self.row_count)) - self._rows_of(None)

    def _any_of(self, values: Sequence[object]) -> BitMap:
        found = BitMap()
        for value in values:
            for key in self._form.keys(value):
                found |= self._rows_of(key)
        return found

    def _none_of(self, values: Sequence[object]) -> Selection:
        # Values that lose digits in the key may differ although their keys are equal.
        if not self._form.is_exact:
            return EVERYTHING
        return Selection(self._present() - self._any_of(values))

    def _rows_of(self, key: Key | None) -> BitMap:
        if key not in self._bitmaps:
            self._bitmaps[key] = self._bitmap(self._nulls if key is None else self._find(key))
        return self._bitmaps[key]

    def _bitmap(self, place: _BitmapPlace | None) -> BitMap:
        if place is None:
            return BitMap()
        if place.start < 0:
            return BitMap([-1 - place.start])
        start = self._body + place.start
        end = len(self._content) if place.length == _NO_LENGTH else start + place.length
        return BitMap.deserialize(self._content[start:end])

    def _find(self, key: Key) -> _BitmapPlace | None:
        if self._places is not None:
            return self._places.get(key)
        block = bisect_right(self._blocks, key_rank(key, self._form), key=lambda b: key_rank(b[0], self._form)) - 1
        if block < 0:
            return None
        offset = self._block_start + self._blocks[block][1]
        count = _INT.unpack_from(self._content, offset)[0]
        offset += _INT.size
        if self._form.width:
            return self._find_number(key, offset, count)
        for _ in range(count):
            found, offset = read_key(self._content, offset, 0)
            if found == key:
                return _BitmapPlace(*_PLACE.unpack_from(self._content, offset))
            offset += _PLACE.size
        return None

    def _find_number(self, key: Key, offset: int, count: int) -> _BitmapPlace | None:
        kind = np.dtype([("key", f">i{self._form.width}"), ("start", ">i4"), ("length", ">i4")])
        entries: npt.NDArray[np.void] = np.frombuffer(self._content, kind, count, offset)
        hits = np.flatnonzero(entries["key"] == key)
        return _BitmapPlace(int(entries["start"][hits[0]]), int(entries["length"][hits[0]])) if len(hits) else None

    def _read_values(self, offset: int, count: int) -> None:
        self._places = {}
        for _ in range(count):
            key, offset = read_key(self._content, offset, self._form.width)
            self._places[key] = _BitmapPlace(_INT.unpack_from(self._content, offset)[0], _NO_LENGTH)
            offset += _INT.size
        self._body = offset

    def _read_blocks(self, offset: int) -> None:
        count = _INT.unpack_from(self._content, offset)[0]
        offset += _INT.size
        for _ in range(count):
            key, offset = read_key(self._content, offset, self._form.width)
            self._blocks.append((key, _INT.unpack_from(self._content, offset)[0]))
            offset += _INT.size
        length = _INT.unpack_from(self._content, offset)[0]
        self._block_start = offset + _INT.size
        self._body = self._block_start + length


def roaring_bytes(positions: npt.NDArray[np.uint32]) -> bytes:
    """Return the bitmap of positions in Roaring's portable form, with runs where they are smaller."""
    bitmap = BitMap(positions)
    bitmap.run_optimize()
    content: bytes = bitmap.serialize()
    return content


Numbers = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.uint32]


def slice_bytes(rows: Positions, numbers: Numbers, slices: int) -> list[bytes]:
    """Return the bitmaps of the lowest `slices` binary digits: the rows whose number has the digit 1."""
    return [roaring_bytes(rows[(numbers >> np.uint64(bit)) & np.uint64(1) == 1]) for bit in range(slices)]


class BitSlices:
    """Bitmaps of the rows that have a number, and of the rows of each binary digit, the lowest first."""

    def __init__(self, present: BitMap, slices: Sequence[BitMap]) -> None:
        self.present = present
        self._slices = slices

    def compare(self, op: Op, number: int) -> BitMap:
        """Return the rows for whose number the comparison with `number`, which is not negative, is true."""
        if number >> len(self._slices):
            return self.present.copy() if op in (Op.NE, Op.LT, Op.LE) else BitMap()
        equal, less, greater = self.present.copy(), BitMap(), BitMap()
        for bit in reversed(range(len(self._slices))):
            digit = self._slices[bit]
            if number >> bit & 1:
                less |= equal - digit
                equal &= digit
            else:
                greater |= equal & digit
                equal -= digit
        match op:
            case Op.EQ:
                return equal
            case Op.NE:
                return less | greater
            case Op.LT:
                return less
            case Op.LE:
                return less | equal
            case Op.GT:
                return greater
            case Op.GE:
                return greater | equal
