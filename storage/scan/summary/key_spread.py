"""Distribution of the records of files over the values of the key's first column, by the files' bounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrow_values import array_of, to_numpy
from interbed.storage.base.predicate.expr import Comparison, In, Op, Predicate, conjuncts
from interbed.storage.base.row.binary_row import decode_rows
from interbed.storage.base.row.words import Array
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.manifest.entry import DataFileMeta

_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class KeySpread:
    """Distribution of integers, dates and timestamps, taken as uniform between the least and the greatest of a file.

    The arrays have an entry for each file. The estimates serve the choice of a way to read; no result may depend on
    them.
    """

    column: str
    type: pa.DataType
    rows: _Numbers
    least: _Numbers
    greatest: _Numbers

    @staticmethod
    def of(files: Sequence[DataFileMeta], key_fields: Sequence[DataField]) -> "KeySpread | None":
        """Return the distribution in the files.

        None for keys of other types, and for files without bounds of their keys. `key_fields` are the columns of the
        key as files have it.
        """
        if not files or not key_fields or any(len(f.key_stats.null_counts) != len(key_fields) for f in files):
            return None
        arrow = type_to_arrow(key_fields[0].type)
        if not (pa.types.is_integer(arrow) or pa.types.is_date32(arrow) or pa.types.is_timestamp(arrow)):
            return None
        types = [f.type for f in key_fields]
        return KeySpread(
            key_fields[0].name,
            arrow,
            np.array([f.row_count for f in files], np.float64),
            _numbers(decode_rows([f.key_stats.min_values for f in files], types)[0]),
            _numbers(decode_rows([f.key_stats.max_values for f in files], types)[0]),
        )

    def selected(self, predicate: Predicate) -> float:
        """Return the estimated number of records that the predicate selects, by its parts on the column."""
        parts = [p for p in conjuncts(predicate) if isinstance(p, Comparison | In) and p.column == self.column]
        try:
            left_out = sum((1 - self._share(part) for part in parts), np.zeros(len(self.rows)))
        except (pa.ArrowException, TypeError, OverflowError):
            # The literal is outside of the column's type.
            return float(self.rows.sum())
        # A lower and an upper bound exclude disjoint shares.
        return float((self.rows * np.maximum(1 - left_out, 0)).sum())

    def end_of(self, rows: float, *, descending: bool = False) -> int | None:
        """Return the value up to which (descending: down to which) there are that many records.

        None when there are fewer.
        """
        if rows >= self.rows.sum():
            return None
        first, last = float(self.least.min()), float(self.greatest.max())
        # Halving the range of 64 bits ends at a single value.
        for _ in range(64):
            middle = (first + last) / 2
            share = self._from(middle) if descending else self._up_to(middle)
            enough = (self.rows * share).sum() >= rows
            if enough != descending:
                last = middle
            else:
                first = middle
        return int(np.floor(first)) if descending else int(np.ceil(last))

    def _share(self, part: Comparison | In) -> _Numbers:
        """Return the share of each file's range of values that the part selects."""
        given = part.values if isinstance(part, In) else (part.value,)
        values = np.sort(_numbers(array_of([v for v in given if v is not None], self.type)))
        if isinstance(part, In) or part.op is Op.EQ:
            before, through = np.searchsorted(values, self.least), np.searchsorted(values, self.greatest, side="right")
            return np.clip((through - before) / self._width, 0, 1)
        if not len(values):
            return np.zeros(len(self.rows))
        if part.op in (Op.GE, Op.GT):
            return self._from(values[0] + (part.op is Op.GT))
        if part.op in (Op.LE, Op.LT):
            return self._up_to(values[0] - (part.op is Op.LT))
        return np.ones(len(self.rows))

    @property
    def _width(self) -> _Numbers:
        return self.greatest - self.least + 1

    def _up_to(self, value: float) -> _Numbers:
        return np.clip((value - self.least + 1) / self._width, 0, 1)

    def _from(self, value: float) -> _Numbers:
        return np.clip((self.greatest - value + 1) / self._width, 0, 1)


def _numbers(column: Array) -> _Numbers:
    plain: Any = column
    if not pa.types.is_integer(column.type):
        plain = plain.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    found: _Numbers = to_numpy(plain).astype(np.float64)
    return found
