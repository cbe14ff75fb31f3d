"""How many records of files a filter on the key may select, as the bounds of their keys let one expect."""

from collections.abc import Sequence
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
from interbed.storage.meta.manifest.data_file import DataFileMeta

_Numbers = npt.NDArray[np.float64]


def expected_rows(files: Sequence[DataFileMeta], predicate: Predicate, key_fields: Sequence[DataField]) -> float:
    """Records of the files that the predicate may select: all of them, if nothing better is known.

    What its parts say of the key's first column counts, for integers, dates and timestamps; their values are taken to
    lie evenly between the bounds of a file. `key_fields` are the columns of the key as files have it.
    """
    rows = np.array([f.row_count for f in files], np.float64)
    total = float(rows.sum())
    if not files or not key_fields or any(len(f.key_stats.null_counts) != len(key_fields) for f in files):
        return total
    first = key_fields[0]
    parts = [p for p in conjuncts(predicate) if isinstance(p, Comparison | In) and p.column == first.name]
    arrow = type_to_arrow(first.type)
    if not parts or not (pa.types.is_integer(arrow) or pa.types.is_date32(arrow) or pa.types.is_timestamp(arrow)):
        return total
    types = [f.type for f in key_fields]
    least = _numbers(decode_rows([f.key_stats.min_values for f in files], types)[0])
    greatest = _numbers(decode_rows([f.key_stats.max_values for f in files], types)[0])
    try:
        shares = [_share(part, least, greatest, arrow) for part in parts]
    except (pa.ArrowException, TypeError, OverflowError):
        # A literal outside of the column's type.
        return total
    # A lower and an upper bound leave what both of them leave, of a range that is one.
    left = np.maximum(1 - sum(1 - share for share in shares), 0)
    return float((rows * left).sum())


def _share(part: Comparison | In, least: _Numbers, greatest: _Numbers, arrow: pa.DataType) -> _Numbers:
    """The share of each file's range of values that the part leaves."""
    width = greatest - least + 1
    given = part.values if isinstance(part, In) else (part.value,)
    values = np.sort(_numbers(array_of([v for v in given if v is not None], arrow)))
    share = np.ones(len(least))
    if isinstance(part, In) or part.op is Op.EQ:
        inside = np.searchsorted(values, greatest, side="right") - np.searchsorted(values, least, side="left")
        share = inside / width
    elif not len(values):
        share = np.zeros(len(least))
    elif part.op in (Op.GE, Op.GT):
        share = (greatest - values[0] + (part.op is Op.GE)) / width
    elif part.op in (Op.LE, Op.LT):
        share = (values[0] - least + (part.op is Op.LE)) / width
    return np.clip(share, 0, 1)


def _numbers(column: Array) -> _Numbers:
    plain: Any = column
    if not pa.types.is_integer(column.type):
        plain = plain.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    found: _Numbers = to_numpy(plain).astype(np.float64)
    return found
