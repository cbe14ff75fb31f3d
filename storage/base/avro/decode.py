"""Decoder of flat Avro rows to Arrow columns, many blocks of a file in step.

The offset of a value is known only after the values before it in its block are read, but the blocks of a file are
independent of each other. So the first rows of all blocks are read at once, column by column, then the second rows, and
so on, which records the offset of each value. Values are then decoded a column at a time, only the requested ones. Rows
with arrays, maps or records are not decoded here.

Integers are zigzag numbers of seven bits a byte, the lowest first, at most ten bytes; many are decoded at once. Source:
Avro specification 1.11, binary encoding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask

Places = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

PADDING = 16
"""Spare bytes after the data, so that a whole word can be read at the position of each value."""

_HIGH_BITS = np.uint64(0x8080808080808080)
_ONE = np.uint64(1)
_GROUPS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
"""Groups of bits that are shifted next to each other: 7 bits of each byte, 14 of each two, 28 of each four."""


def words_of(data: Bytes) -> Words:
    """Return the eight bytes at each position of the data as one number."""
    return np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))


def varint_sizes(word: Words, data: Bytes, at: Places) -> Places:
    """Return the sizes in bytes of the numbers whose first eight bytes are given."""
    last = ~word & _HIGH_BITS
    # All bits below the lowest set bit, which is in the number's last byte.
    sizes: Places = (np.bitwise_count((last & -last) - _ONE).astype(np.int64) + 1) >> 3
    long = np.flatnonzero(last == 0)
    if len(long):
        sizes[long] = 9 + (data[at[long] + 8] >= 0x80)
    return sizes


def varints(data: Bytes, words: Words, at: Places) -> tuple[Places, Places]:
    """Return the numbers at those positions, and their sizes in bytes."""
    word = words[at]
    sizes = varint_sizes(word, data, at)
    value = word & (np.uint64(0xFFFFFFFFFFFFFFFF) >> (64 - 8 * np.minimum(sizes, 8)).astype(np.uint64))
    for low, high, shift in _GROUPS:
        value = (value & low) | ((value & high) >> shift)
    long = np.flatnonzero(sizes > 8)
    if len(long):
        ninth = data[at[long] + 8].astype(np.uint64)
        tenth = np.where(ninth >= 0x80, data[at[long] + 9], 0).astype(np.uint64)
        value[long] |= (ninth & np.uint64(0x7F)) << np.uint64(56) | tenth << np.uint64(63)
    return (value >> _ONE).view(np.int64) ^ -(value & _ONE).view(np.int64), sizes


Block = tuple[int, bytes]
"""The number of rows of a block, and its plain bytes."""

_WIDTHS = {"boolean": 1, "float": 4, "double": 8}
_VARINTS = ("int", "long")
_TEXTS = ("string", "bytes")


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    kind: str
    null_branch: int | None
    """The first byte of a null, as a zigzag number; None for a type without nulls."""


@dataclass(frozen=True, slots=True)
class Values:
    """Values of a column in `data`: their positions, their lengths (texts only), and which are not null."""

    data: npt.NDArray[np.uint8]
    starts: Places
    lengths: Places | None
    present: Mask | None

    def integers(self) -> npt.NDArray[np.int64]:
        """Return values of int and long, 0 for nulls."""
        return varints(self.data, words_of(self.data), self._of_present())[0]

    def fixed(self, kind: str) -> "npt.NDArray[Any]":
        """Return values of boolean, float and double, of the numpy type `kind`."""
        width = np.dtype(kind).itemsize
        taken: npt.NDArray[Any] = self.data[self._of_present()[:, None] + np.arange(width)].reshape(-1).view(kind)
        return taken

    def texts(self, arrow: pa.DataType) -> "pa.Array[Any]":
        """Return values of string and bytes in the type `arrow`. Raises Arrow's errors for invalid UTF-8."""
        assert self.lengths is not None
        lengths = self.lengths if self.present is None else np.where(self.present, self.lengths, 0)
        ends = np.cumsum(lengths)
        offsets = np.concatenate((np.zeros(1, np.int32), ends.astype(np.int32)))
        places = np.repeat(self.starts - (ends - lengths), lengths) + np.arange(int(ends[-1]) if len(ends) else 0)
        content = pa.py_buffer(self.data[places].tobytes())
        made = pa.Array.from_buffers(arrow, len(lengths), [self.validity(), pa.py_buffer(offsets.tobytes()), content])
        # No later step checks that the text is UTF-8.
        made.validate(full=True)
        return made

    def validity(self) -> pa.Buffer | None:
        """Return Arrow's validity bitmap; None when no value is null."""
        if self.present is None:
            return None
        return pa.py_buffer(np.packbits(self.present, bitorder="little").tobytes())

    def _of_present(self) -> Places:
        # Nulls point to the zeros at the end of the data.
        return self.starts if self.present is None else np.where(self.present, self.starts, len(self.data) - PADDING)


class FlatDecoder:
    """Decoder of blocks of rows whose columns are all of simple types."""

    def __init__(self, columns: Sequence[_Column]) -> None:
        self._columns = tuple(columns)

    @staticmethod
    def of(field_types: Mapping[str, Any]) -> "FlatDecoder | None":
        """Return the decoder for rows of these fields, None when they are not flat."""
        columns: list[_Column] = []
        for name, schema in field_types.items():
            branches = list(schema) if isinstance(schema, list) else [schema]
            null_branch = 2 * branches.index("null") if "null" in branches else None
            (*others,) = (b for b in branches if b != "null")
            kind = others[0]["type"] if len(others) == 1 and isinstance(others[0], Mapping) else (others or [""])[0]
            if len(others) != 1 or kind not in (*_WIDTHS, *_VARINTS, *_TEXTS):
                return None
            columns.append(_Column(name, kind, null_branch))
        return FlatDecoder(columns)

    def decode(self, blocks: Sequence[Block], wanted: Sequence[str]) -> dict[str, Values]:
        """Return the wanted columns of all rows, in order. Raises ValueError or IndexError for damaged bytes."""
        data = np.frombuffer(b"".join([*(content for _, content in blocks), bytes(PADDING)]), np.uint8)
        words = words_of(data)
        sizes = np.array([len(content) for _, content in blocks], np.int64)
        rows = np.array([count for count, _ in blocks], np.int64)
        ends = np.cumsum(sizes)
        place = ends - sizes
        most, lanes = int(rows.max(initial=0)), len(blocks)
        found = {c.name: _ValuePositions.make(c, most, lanes) for c in self._columns if c.name in wanted}
        every = np.arange(lanes)
        # A loop over the rows of the longest block: each step decodes a row of every block.
        for row in range(most):
            lane = every if row < int(rows.min(initial=most)) else np.flatnonzero(rows > row)
            at = place[lane]
            for column in self._columns:
                at = _step(column, found.get(column.name), row, lane, at, data, words)
            place[lane] = at
        if (place != ends).any():
            raise ValueError("a block does not end with its last row")
        filled = (np.arange(most)[:, None] < rows).T
        return {name: f.values(data, filled) for name, f in found.items()}


@dataclass(frozen=True, slots=True)
class _ValuePositions:
    """Positions of the values of a column, by row and block."""

    starts: Places
    lengths: Places | None
    present: Mask | None

    @staticmethod
    def make(column: _Column, rows: int, lanes: int) -> "_ValuePositions":
        shape = (rows, lanes)
        return _ValuePositions(
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int64) if column.kind in _TEXTS else None,
            None if column.null_branch is None else np.ones(shape, np.bool_),
        )

    def values(self, data: npt.NDArray[np.uint8], filled: Mask) -> Values:
        lengths = None if self.lengths is None else self.lengths.T[filled]
        present = None if self.present is None else self.present.T[filled]
        return Values(data, self.starts.T[filled], lengths, None if present is None or present.all() else present)


def _step(
    column: _Column,
    found: _ValuePositions | None,
    row: int,
    lane: "npt.NDArray[np.int64]",
    at: Places,
    data: npt.NDArray[np.uint8],
    words: "npt.NDArray[np.uint64]",
) -> Places:
    """Record the positions of a column's values, one in each block, which begin at `at`; return their ends."""
    null: Mask | None = None
    if column.null_branch is not None:
        branch = data[at]
        if int(branch.max()) > 2:
            raise ValueError(f"the column {column.name!r} has a branch that its type has not")
        null = branch == column.null_branch
        at = at + 1
    lengths: Places | None = None
    start = at
    if column.kind in _WIDTHS:
        after = at + _WIDTHS[column.kind]
    elif column.kind in _VARINTS:
        after = at + varint_sizes(words[at], data, at)
    else:
        lengths, sizes = varints(data, words, at)
        start = at + sizes
        after = start + lengths
        if int(np.min(lengths if null is None else np.where(null, 0, lengths))) < 0:
            raise ValueError(f"the column {column.name!r} has a text of a negative length")
    if null is not None and null.any():
        after = np.where(null, at, after)
        if found is not None and found.present is not None:
            found.present[row, lane] = ~null
    if found is not None:
        found.starts[row, lane] = start
        if found.lengths is not None and lengths is not None:
            found.lengths[row, lane] = lengths
    return after
