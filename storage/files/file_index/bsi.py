"""The index `bsi`: numbers as bitmaps of their binary digits, for ranges. Its types are integers, DECIMAL and times.

On disk, all numbers big-endian: version 1 (1 byte), number of rows (4), then for the rows of numbers from zero up and
for the rows of negative numbers whether there are any (1) and if so: version 1 (1 byte), the least (0 in written files)
and the greatest absolute number (8 each), the bitmap of the rows, the number of digits (4), and the bitmap of each
digit of the absolute number minus the least. Specification page: `concepts/spec/fileindex`; deprecated there for
`range-bitmap`.
"""

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import to_numpy
from interbed.storage.base.errors import UnsupportedVersionError
from interbed.storage.base.predicate.expr import Comparison, In, IsNotNull, IsNull, Leaf, NotIn, Op
from interbed.storage.base.row.words import Array
from interbed.storage.base.types.data_type import INTEGERS, TIMESTAMPS, TypeRoot
from interbed.storage.files.file_index.api import EVERYTHING, Selection
from interbed.storage.files.file_index.bitmap import BitSlices, roaring_bytes, slice_bytes
from interbed.storage.files.file_index.values import ValueForm
from interbed.storage.meta.options.reader import OptionReader

KIND = "bsi"
ROOTS = INTEGERS | TIMESTAMPS | {TypeRoot.DATE, TypeRoot.TIME, TypeRoot.DECIMAL}
VERSION = 1

_HEAD = struct.Struct(">bi")
_BOUNDS = struct.Struct(">bqq")
_INT = struct.Struct(">i")
_LEAST = np.iinfo(np.int64).min
_MIRRORED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}


class BsiWriter:
    """IndexWriter of one column; it keeps 8 bytes for each row in memory."""

    def __init__(self, form: ValueForm, options: OptionReader) -> None:
        self._form = form
        self._parts: list[Any] = []

    def add(self, values: Array) -> None:
        """Add values as for IndexWriter.add."""
        self._parts.append(self._form.convert(values).cast(pa.int64()))

    def finish(self) -> bytes | None:
        """Return the index as for IndexWriter.finish."""
        column: Any = pa.chunked_array(self._parts, pa.int64())
        present = to_numpy(column.is_valid())
        numbers = to_numpy(column.fill_null(0))
        if (numbers == _LEAST).any():
            # The least 64-bit number has no absolute value in 64 bits.
            return None
        head = _HEAD.pack(VERSION, len(numbers))
        return head + _half(present & (numbers >= 0), numbers) + _half(present & (numbers < 0), -numbers)


def _half(chosen: Mask, sizes: npt.NDArray[np.int64]) -> bytes:
    rows = np.flatnonzero(chosen).astype(np.uint32)
    if not len(rows):
        return b"\0"
    numbers = sizes[rows]
    most = int(numbers.max())
    slices = most.bit_length()
    digits = slice_bytes(rows, numbers.view(np.uint64), slices)
    return b"".join([b"\1", _BOUNDS.pack(VERSION, 0, most), roaring_bytes(rows), _INT.pack(slices), *digits])


class BsiReader:
    """IndexReader that selects rows for all comparisons, IN, NOT IN, IS NULL and IS NOT NULL."""

    def __init__(self, form: ValueForm, content: bytes) -> None:
        self._form = form
        version, self.row_count = _HEAD.unpack_from(content)
        if version != VERSION:
            raise UnsupportedVersionError(f"A bsi index has version {version}; this version of interbed reads 1.")
        self._positive, offset = _read_half(content, _HEAD.size)
        self._negative, _ = _read_half(content, offset)

    def rows(self, leaf: Leaf) -> Selection:
        """Return the rows as for IndexReader.rows."""
        match leaf:
            case Comparison(op, _, value) if value is not None:
                if not self._form.is_exact:
                    # The digits that are cut off may differ between equal numbers.
                    op = {Op.LT: Op.LE, Op.GT: Op.GE}.get(op, op)
                    if op is Op.NE:
                        return EVERYTHING
                return Selection(self._compare(op, self._number(value)))
            case In(_, values):
                return Selection(self._any_of([v for v in values if v is not None]))
            case NotIn(_, values) if None not in values and self._form.is_exact:
                return Selection(self._present() - self._any_of(list(values)))
            case IsNull():
                return Selection(BitMap(range(self.row_count)) - self._present())
            case IsNotNull():
                return Selection(self._present())
            case _:
                return EVERYTHING

    def _present(self) -> BitMap:
        return self._positive.present | self._negative.present

    def _any_of(self, values: list[object]) -> BitMap:
        found = BitMap()
        for value in values:
            found |= self._compare(Op.EQ, self._number(value))
        return found

    def _number(self, value: object) -> int:
        number = self._form.keys(value)[0]
        assert isinstance(number, int)
        return number

    def _compare(self, op: Op, number: int) -> BitMap:
        if number >= 0:
            found = self._positive.compare(op, number)
            return found | self._negative.present if op in (Op.NE, Op.LT, Op.LE) else found
        found = self._negative.compare(_MIRRORED.get(op, op), -number)
        return found | self._positive.present if op in (Op.NE, Op.GT, Op.GE) else found


class _SignedRows:
    """Rows of one sign, with the absolute values of their numbers."""

    def __init__(self, least: int, slices: BitSlices) -> None:
        self.present = slices.present
        self._least = least
        self._slices = slices

    def compare(self, op: Op, number: int) -> BitMap:
        """Return the rows for whose absolute value the comparison with `number` is true."""
        if number < self._least:
            return self.present.copy() if op in (Op.NE, Op.GT, Op.GE) else BitMap()
        return self._slices.compare(op, number - self._least)


def _read_half(content: bytes, offset: int) -> tuple[_SignedRows, int]:
    there = content[offset]
    offset += 1
    if not there:
        return _SignedRows(0, BitSlices(BitMap(), ())), offset
    version, least, _ = _BOUNDS.unpack_from(content, offset)
    if version != VERSION:
        raise UnsupportedVersionError(f"A bsi index has version {version}; this version of interbed reads 1.")
    present, offset = _read_bitmap(content, offset + _BOUNDS.size)
    count = _INT.unpack_from(content, offset)[0]
    offset += _INT.size
    slices: list[BitMap] = []
    for _ in range(count):
        digit, offset = _read_bitmap(content, offset)
        slices.append(digit)
    return _SignedRows(least, BitSlices(present, slices)), offset


def _read_bitmap(content: bytes, offset: int) -> tuple[BitMap, int]:
    bitmap = BitMap.deserialize(content[offset:])
    # A bitmap keeps the form in which it was written, so its serialised size is the number of bytes read.
    return bitmap, offset + len(bitmap.serialize())
