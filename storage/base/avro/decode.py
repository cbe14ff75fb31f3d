"""Flat Avro rows to Arrow columns, many blocks of a file in step.

Where a value begins is known only when the values before it in its block are read; but the blocks of a file are
independent of each other. So the first row of all blocks is walked through at once, column by column, then the second
row of all, and so on, which notes where each value lies. Values are then decoded a column at a time, only those asked
for. Rows with arrays, maps or records are none of this module's business. Source: Avro specification 1.11, binary
encoding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.avro.varints import PADDING, Places, varint_sizes, varints, words_of

Block = tuple[int, bytes]
"""The number of a block's rows, and its plain bytes."""

_WIDTHS = {"boolean": 1, "float": 4, "double": 8}
_VARINTS = ("int", "long")
_TEXTS = ("string", "bytes")


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    kind: str
    null_branch: int | None
    """The first byte of a null, as a zigzag number; None where there are none."""


@dataclass(frozen=True, slots=True)
class Values:
    """A column's values as they lie in `data`: where they begin, how long they are (texts only), which are there."""

    data: npt.NDArray[np.uint8]
    starts: Places
    lengths: Places | None
    present: Mask | None

    def integers(self) -> npt.NDArray[np.int64]:
        """Values of int and long, 0 for nulls."""
        return varints(self.data, words_of(self.data), self._of_present())[0]

    def fixed(self, kind: str) -> "npt.NDArray[Any]":
        """Values of boolean, float and double, of the numpy type `kind`."""
        width = np.dtype(kind).itemsize
        taken: npt.NDArray[Any] = self.data[self._of_present()[:, None] + np.arange(width)].reshape(-1).view(kind)
        return taken

    def texts(self, arrow: pa.DataType) -> "pa.Array[Any]":
        """Values of string and bytes."""
        assert self.lengths is not None
        lengths = self.lengths if self.present is None else np.where(self.present, self.lengths, 0)
        ends = np.cumsum(lengths)
        offsets = np.concatenate((np.zeros(1, np.int32), ends.astype(np.int32)))
        places = np.repeat(self.starts - (ends - lengths), lengths) + np.arange(int(ends[-1]) if len(ends) else 0)
        content = pa.py_buffer(self.data[places].tobytes())
        made = pa.Array.from_buffers(arrow, len(lengths), [self.validity(), pa.py_buffer(offsets.tobytes()), content])
        # Nobody else would notice what is no UTF-8.
        made.validate(full=True)
        return made

    def validity(self) -> pa.Buffer | None:
        """Which values are there, as Arrow has it."""
        if self.present is None:
            return None
        return pa.py_buffer(np.packbits(self.present, bitorder="little").tobytes())

    def _of_present(self) -> Places:
        # The last bytes of the data are zeros, a value as good as any for nulls.
        return self.starts if self.present is None else np.where(self.present, self.starts, len(self.data) - PADDING)


class FlatDecoder:
    """Decodes blocks of rows whose columns are all of simple types."""

    def __init__(self, columns: Sequence[_Column]) -> None:
        self._columns = tuple(columns)

    @staticmethod
    def of(field_types: Mapping[str, Any]) -> "FlatDecoder | None":
        """The decoder for rows of these fields, None when they are not flat."""
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
        """The wanted columns of all rows, in order; raises ValueError or IndexError for bytes that are no such rows."""
        data = np.frombuffer(b"".join([*(content for _, content in blocks), bytes(PADDING)]), np.uint8)
        words = words_of(data)
        sizes = np.array([len(content) for _, content in blocks], np.int64)
        rows = np.array([count for count, _ in blocks], np.int64)
        ends = np.cumsum(sizes)
        place = ends - sizes
        most, lanes = int(rows.max(initial=0)), len(blocks)
        found = {c.name: _Found.make(c, most, lanes) for c in self._columns if c.name in wanted}
        every = np.arange(lanes)
        # A step for each row of the longest block: a step takes a row of every block.
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
class _Found:
    """Where the values of a column lie, by row and block."""

    starts: Places
    lengths: Places | None
    present: Mask | None

    @staticmethod
    def make(column: _Column, rows: int, lanes: int) -> "_Found":
        shape = (rows, lanes)
        return _Found(
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
    found: _Found | None,
    row: int,
    lane: "npt.NDArray[np.int64]",
    at: Places,
    data: npt.NDArray[np.uint8],
    words: "npt.NDArray[np.uint64]",
) -> Places:
    """Behind the column's values, which begin at `at`, one in each block; notes where they are."""
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
