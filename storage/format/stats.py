"""Statistics of a data file's columns, collected batch by batch while it is written.

The modes are those of `metadata.stats-mode`: none, counts (null counts only), full, and truncate(n), which cuts
strings to n characters: the least value is a prefix, the greatest is rounded up. Floats compare as in Java: -0.0 is
less than 0.0, and NaN is greatest. Null stands for an unknown bound: of binaries and nested types always, as Paimon
1.4 has none for them either, and of timestamps of more than 6 fractional digits, which Parquet keeps as INT96.
Source: specification page `spec/manifest`; Paimon's SimpleColStatsCollector and its implementations.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.errors import InvalidOptionError
from interbed.storage.manifest.stats import EMPTY_STATS, SimpleStats
from interbed.storage.options import CoreOptions
from interbed.storage.row.binary_row import encode_rows
from interbed.storage.types.arrow import type_to_arrow
from interbed.storage.types.data_type import BINARIES, STRINGS, TIMESTAMPS, AtomicType, DataField, DataType, is_atomic

KEY_TRUNCATE = 128
"""Paimon cuts the statistics of key columns at this length, whatever the mode."""
_TRUNCATE = re.compile(r"^truncate\((\d+)\)$")
_MICROS_DIGITS = 6


@dataclass(frozen=True, slots=True)
class StatsMode:
    """What is collected of a column; `length` cuts strings, None leaves them whole."""

    counts: bool
    bounds: bool
    length: int | None = None

    @staticmethod
    def parse(key: str, value: str) -> "StatsMode":
        """The mode that an option names; raises InvalidOptionError naming the option's key."""
        text = value.strip().lower()
        if text == "none":
            return StatsMode(False, False)
        if text == "counts":
            return StatsMode(True, False)
        if text == "full":
            return StatsMode(True, True)
        match = _TRUNCATE.match(text)
        if match is None or int(match[1]) < 1:
            raise InvalidOptionError(f"Option '{key}' takes none, counts, truncate(n) or full, not '{value}'.")
        return StatsMode(True, True, int(match[1]))


KEY_MODE = StatsMode(True, True, KEY_TRUNCATE)


def stats_modes(
    fields: Sequence[DataField], options: CoreOptions, *, primary_keys: Sequence[str] = ()
) -> list[StatsMode]:
    """The mode of each column: its own option `fields.<column>.stats-mode`, else the table's.

    With `metadata.stats-keep-first-n-columns` only that many columns get the table's mode. In thin mode the columns of
    `primary_keys` are cut like the key columns for which they stand.
    """
    default = StatsMode.parse("metadata.stats-mode", options.stats_mode)
    kept = options.integer("metadata.stats-keep-first-n-columns", -1)
    modes: list[StatsMode] = []
    counted = 0
    for f in fields:
        key = f"fields.{f.name}.stats-mode"
        own = options.raw.get(key)
        if own is None and options.thin_mode and f.name in primary_keys:
            modes.append(KEY_MODE)
            continue
        if own is not None:
            modes.append(StatsMode.parse(key, own))
        else:
            modes.append(StatsMode(False, False) if 0 <= kept <= counted else default)
        counted += 1
    return modes


class StatsCollector:
    """Collects the statistics of the columns `fields` of one file."""

    def __init__(self, fields: Sequence[DataField], modes: Sequence[StatsMode]) -> None:
        self._columns = [_Column(f, mode) for f, mode in zip(fields, modes, strict=True)]

    def update(self, columns: Mapping[str, "pa.Array[Any]"]) -> None:
        """Take the rows of a batch into account; the mapping holds at least the columns collected."""
        for column in self._columns:
            column.update(columns[column.field.name])

    def dense(self) -> tuple[tuple[str, ...] | None, SimpleStats]:
        """The columns that have statistics, None when all have, and their statistics."""
        known = [c for c in self._columns if c.is_known]
        names = None if len(known) == len(self._columns) else tuple(c.field.name for c in known)
        return names, _to_stats(known)

    def all(self) -> SimpleStats:
        """The statistics of all columns, null where there are none."""
        return _to_stats(self._columns)


class _Column:
    def __init__(self, field: DataField, mode: StatsMode) -> None:
        self.field = field
        self.arrow = type_to_arrow(field.type)
        # Paimon takes its statistics from Parquet's, which has none for a column of a nested type.
        self.is_known = mode.counts and isinstance(field.type, AtomicType)
        self._bounded = self.is_known and mode.bounds and _has_bounds(field.type)
        self._length = mode.length if is_atomic(field.type, *STRINGS) else None
        self._nulls = 0
        self._lows: list[Any] = []
        self._highs: list[Any] = []

    @property
    def nulls(self) -> int | None:
        return self._nulls if self.is_known else None

    def update(self, values: "pa.Array[Any]") -> None:
        if not self.is_known:
            return
        self._nulls += values.null_count
        if not self._bounded:
            return
        bounds: tuple[Any, Any] | None
        if pa.types.is_floating(values.type):
            bounds = _float_bounds(values)
        else:
            found = pc.min_max(values)
            bounds = (found["min"], found["max"]) if found["min"].is_valid else None
        if bounds is not None:
            self._lows.append(bounds[0])
            self._highs.append(bounds[1])

    def bounds(self) -> "pa.Array[Any]":
        """The least and the greatest value, cut as the mode says; both null when they are unknown."""
        if not self._lows:
            return self._unknown()
        lows, highs = pa.array(self._lows, self.arrow), pa.array(self._highs, self.arrow)
        if pa.types.is_floating(self.arrow):
            least, greatest = _float_bounds(lows), _float_bounds(highs)
            assert least is not None
            assert greatest is not None
            return pa.array([least[0], greatest[1]], self.arrow)
        low, high = pc.min(lows), pc.max(highs)
        if self._length is None:
            return pa.array([low, high], self.arrow)
        upper = truncate_up(high.as_py(), self._length)
        if upper is None:
            # No value of that length is great enough, so that neither bound is kept, as in Paimon.
            return self._unknown()
        return pa.array([low.as_py()[: self._length], upper], self.arrow)

    def _unknown(self) -> "pa.Array[Any]":
        return pa.array([None, None], self.arrow)


def truncate_up(value: str, length: int) -> str | None:
    """The value if it is no longer than `length`, else a short one that is greater; None when there is none."""
    if len(value) <= length:
        return value
    head = value[:length].rstrip("\U0010ffff")
    if not head:
        return None
    following = ord(head[-1]) + 1
    # Surrogates are no characters; UTF-8 has none of them.
    return head[:-1] + chr(0xE000 if 0xD800 <= following <= 0xDFFF else following)


def _float_bounds(values: "pa.Array[Any]") -> tuple[float, float] | None:
    """The least and the greatest value in Java's order; None when all are null."""
    numbers = values.drop_null().to_numpy(zero_copy_only=False)
    if not len(numbers):
        return None
    low, high = float(np.fmin.reduce(numbers)), float(np.fmax.reduce(numbers))
    # Only zeros need a second look, because numpy takes them for equal.
    if low == 0 and np.signbit(numbers[numbers == 0]).any():
        low = -0.0
    if high == 0:
        high = -0.0 if np.signbit(numbers[numbers == 0]).all() else 0.0
    return low, float("nan") if np.isnan(numbers).any() else high


def _to_stats(columns: Sequence[_Column]) -> SimpleStats:
    if not columns:
        return EMPTY_STATS
    types = [c.field.type.with_nullable(True) for c in columns]
    low, high = encode_rows([c.bounds() for c in columns], types)
    return SimpleStats(min_values=low, max_values=high, null_counts=tuple(c.nulls for c in columns))


def _has_bounds(data_type: DataType) -> bool:
    if not isinstance(data_type, AtomicType) or data_type.root in BINARIES:
        return False
    return not (data_type.root in TIMESTAMPS and (data_type.precision or 0) > _MICROS_DIGITS)
