"""Pruning of files and partitions by a predicate: selects files whose statistics admit a matching row.

Statistics are bounds: no value is below the minimum or above the maximum, though neither has to occur (texts are
truncated). Writers may leave NaN out of their statistics, so the maximum of floats is that of the other numbers: a
condition that NaN satisfies (it is the greatest value) excludes no file. Unknown statistics exclude no file, either.

Predicates must be bound to the columns (interbed.storage.base.predicate.expr.bind).
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import FALSE, TRUE, array_of, to_numpy
from interbed.storage.base.predicate.expr import (
    AlwaysFalse,
    And,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Like,
    NotIn,
    Op,
    Or,
    Predicate,
    StartsWith,
    conjuncts,
    push_not,
)
from interbed.storage.base.predicate.operands import Reference, literal
from interbed.storage.base.row.binary_row import decode_rows
from interbed.storage.base.row.words import Array
from interbed.storage.base.types.data_type import DataField

_SINGLE_VALUES = 100
"""Up to this number the values of an IN list are checked one by one; of more, only the least and the greatest."""
_MOST = 1 << 63


@dataclass(frozen=True, slots=True)
class _Column:
    """Statistics of one column: an entry for each file; None when they are unknown in all files."""

    low: "Array | None"
    high: "Array | None"
    nulls: npt.NDArray[np.float64]
    """Number of nulls of each file; NaN where it is not known."""


class _Files:
    def __init__(
        self,
        mins: Mapping[Any, Array],
        maxs: Mapping[Any, Array],
        null_counts: Mapping[Any, Array],
        row_counts: Array,
    ) -> None:
        self.rows = to_numpy(row_counts).astype(np.float64)
        self._mins, self._maxs, self._nulls = mins, maxs, null_counts
        self._columns: dict[Reference, _Column] = {}

    def column(self, name: Reference) -> _Column:
        """Return the statistics of a column."""
        if name not in self._columns:
            nulls = self._nulls.get(name)
            number = np.full(len(self.rows), np.nan) if nulls is None else to_numpy(nulls).astype(np.float64)
            self._columns[name] = _Column(self._mins.get(name), self._maxs.get(name), number)
        return self._columns[name]

    def all(self, value: bool) -> Mask:
        """Return a mask with the same value for every file."""
        return np.full(len(self.rows), value)


def select(
    predicate: Predicate,
    mins: Mapping[Any, Array],
    maxs: Mapping[Any, Array],
    null_counts: Mapping[Any, Array],
    row_counts: Array,
) -> Mask:
    """Return for each file whether it may have a row for which the predicate is true.

    The maps lead from columns, or values inside of them, to arrays with an entry for each file: least and greatest
    values in their Arrow types and numbers of nulls, null where unknown. A missing column is unknown in every file.
    """
    files = _Files(mins, maxs, null_counts, row_counts)
    chosen: Mask = _may_match(push_not(predicate), files) & np.not_equal(files.rows, 0)
    return chosen


def partition_select(predicate: Predicate, partitions: Sequence[bytes], fields: Sequence[DataField]) -> Mask:
    """Return for each partition, a serialised BinaryRow of the fields, whether the predicate is true for it. Exact."""
    from interbed.storage.base.predicate.evaluate import mask

    columns = decode_rows(partitions, [f.type for f in fields])
    if not columns:
        # A batch without columns has no rows, so the one row of an unpartitioned table gets a dummy column.
        batch = pa.record_batch([pa.nulls(len(partitions), pa.bool_())], names=[""])
    else:
        batch = pa.record_batch(columns, names=[f.name for f in fields])
    flags: Mask = to_numpy(mask(predicate, batch))
    return flags


@dataclass(frozen=True, slots=True)
class _OfNumbers(Comparison):
    """Comparison of a column without NaN, which another condition excludes; bounds decide about it alone."""


def _excludes_nan(part: Comparison) -> bool:
    return part.op in (Op.LT, Op.LE) and isinstance(part.value, float) and part.value == part.value


def _numbered(part: Predicate, without_nan: Set[Reference]) -> Predicate:
    if (
        isinstance(part, Comparison)
        and part.column in without_nan
        and part.value is not None
        and part.value == part.value
    ):
        return _OfNumbers(part.op, part.column, part.value)
    return part


def _may_match(predicate: Predicate, files: _Files) -> Mask:
    match predicate:
        case And():
            parts = conjuncts(predicate)
            without_nan = {p.column for p in parts if isinstance(p, Comparison) and _excludes_nan(p)}
            return _all([files.all(True), *(_may_match(_numbered(p, without_nan), files) for p in parts)])
        case Or(children):
            return _any([files.all(False), *(_may_match(c, files) for c in children)])
        case AlwaysFalse():
            return files.all(False)
        case IsNull(column):
            return np.not_equal(files.column(column).nulls, 0)
        case IsNotNull(column):
            return _has_value(files, files.column(column))
        case _OfNumbers(op, column, value):
            stats = files.column(column)
            return _has_value(files, stats) & _within(files, stats, op, value)
        case Comparison(op, column, value):
            stats = files.column(column)
            return _has_value(files, stats) & _compare(files, stats, op, value)
        case In(column, values):
            stats = files.column(column)
            return _has_value(files, stats) & _any_within(files, stats, [v for v in values if v is not None])
        case NotIn(column, values):
            stats = files.column(column)
            return _has_value(files, stats) & _none_of(files, stats, values)
        case StartsWith(column, pattern):
            stats = files.column(column)
            return _has_value(files, stats) & _starts_with(files, stats, pattern)
        case Like(column, pattern):
            stats = files.column(column)
            return _has_value(files, stats) & _starts_with(files, stats, _literal_prefix(pattern))
        case _:
            return files.all(True)


def _has_value(files: _Files, stats: _Column) -> Mask:
    # An unknown number is NaN, and numpy's comparisons with NaN are false.
    flags: Mask = ~np.greater_equal(stats.nulls, files.rows)
    return flags


def _integers(bound: "Array | None") -> npt.NDArray[Any] | None:
    """Return the bounds of a column of integers for numpy, which is faster for few files; None if one is unknown."""
    if bound is None or bound.null_count or not pa.types.is_integer(bound.type):
        return None
    return to_numpy(bound)


def _holds(files: _Files, kernel: str, bound: "Array | None", value: object) -> Mask:
    """Return in which files the bound is known and the kernel's comparison with the value is true."""
    if bound is None:
        return files.all(False)
    integers = _integers(bound)
    if integers is not None and type(value) is int:
        compared: Mask = getattr(np, kernel)(integers, value)
        return compared
    import pyarrow.compute as pc

    right = value if isinstance(value, pa.Scalar) else literal(value, bound.type)
    found: Any = pc.call_function(kernel, [bound, right])
    flags: Mask = to_numpy(found.fill_null(FALSE))
    return flags


def _compare(files: _Files, stats: _Column, op: Op, value: object) -> Mask:
    if value is None:
        return files.all(False)
    if isinstance(value, float) and _holds_for_nan(op, value):
        return files.all(True)
    if value != value:
        # NaN is the greatest value, and bounds do not show whether a file has other values.
        return files.all(op is not Op.GT)
    return _within(files, stats, op, value)


def _within(files: _Files, stats: _Column, op: Op, value: object) -> Mask:
    """Return which files may have, within their bounds, a value for which the comparison is true."""
    match op:
        case Op.EQ:
            outside = _holds(files, "greater", stats.low, value) | _holds(files, "less", stats.high, value)
        case Op.NE:
            outside = _is_constant(files, stats, value)
        case Op.LT:
            outside = _holds(files, "greater_equal", stats.low, value)
        case Op.LE:
            outside = _holds(files, "greater", stats.low, value)
        case Op.GT:
            outside = _holds(files, "less_equal", stats.high, value)
        case Op.GE:
            outside = _holds(files, "less", stats.high, value)
    return ~outside


def _holds_for_nan(op: Op, value: float) -> bool:
    """Return whether the comparison is true for NaN, which may be in any file."""
    if value != value:
        return op in (Op.EQ, Op.LE, Op.GE)
    return op in (Op.NE, Op.GT, Op.GE)


def _is_constant(files: _Files, stats: _Column, value: object) -> Mask:
    """Return in which files no other value occurs."""
    if isinstance(value, float):
        # NaN may occur, too.
        return files.all(False)
    return _holds(files, "equal", stats.low, value) & _holds(files, "equal", stats.high, value)


def _any_within(files: _Files, stats: _Column, values: Sequence[object]) -> Mask:
    if any(v != v for v in values):
        return files.all(True)
    low, high = _integers(stats.low), _integers(stats.high)
    if low is not None and high is not None and all(type(v) is int and abs(v) < _MOST for v in values):
        sought = np.sort(np.array(values, np.int64))
        return np.searchsorted(sought, low, side="left") < np.searchsorted(sought, high, side="right")
    if len(values) <= _SINGLE_VALUES:
        each = [_compare(files, stats, Op.EQ, v) for v in values]
        return _any([files.all(False), *each])
    arrow = stats.low.type if stats.low is not None else stats.high.type if stats.high is not None else None
    if arrow is None:
        return files.all(True)
    import pyarrow.compute as pc

    ends: Any = pc.min_max(array_of([literal(v, arrow) for v in values], arrow))
    return ~(_holds(files, "less", stats.high, ends["min"]) | _holds(files, "greater", stats.low, ends["max"]))


def _none_of(files: _Files, stats: _Column, values: Sequence[object]) -> Mask:
    if any(v is None for v in values):
        return files.all(False)
    if len(values) > _SINGLE_VALUES:
        return files.all(True)
    return ~_any([files.all(False), *(_is_constant(files, stats, v) for v in values)])


def _starts_with(files: _Files, stats: _Column, prefix: str) -> Mask:
    if not prefix:
        return files.all(True)
    above = _holds(files, "less", stats.high, prefix)
    if stats.low is None:
        return ~above
    import pyarrow.compute as pc

    # Texts with the prefix are not below it. A minimum above it excludes the file unless the minimum has the prefix.
    low: Any = stats.low.cast(pa.binary())
    begun: Any = pc.call_function("starts_with", [low], pc.MatchSubstringOptions(prefix))
    continued: Mask = to_numpy(begun.fill_null(TRUE))
    later = _holds(files, "greater", stats.low, prefix) & ~continued
    return ~(above | later)


def _all(flags: Sequence[Mask]) -> Mask:
    joined: Mask = np.logical_and.reduce(flags)
    return joined


def _any(flags: Sequence[Mask]) -> Mask:
    joined: Mask = np.logical_or.reduce(flags)
    return joined


def _literal_prefix(pattern: str) -> str:
    """Return the common prefix of all texts that a LIKE pattern matches."""
    prefix = ""
    characters = iter(pattern)
    for character in characters:
        if character in "%_":
            break
        if character == "\\":
            character = next(characters, "\\")
        prefix += character
    return prefix
