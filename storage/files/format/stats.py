"""Statistics of a data file's columns, collected batch by batch while the file is written.

The modes are those of `metadata.stats-mode`: none, counts (null counts only), full, and truncate(n), which cuts strings
to n characters: the least value is a prefix, the greatest is rounded up. Floats compare as in Java: -0.0 is less than
0.0, and NaN is greatest. An unknown bound is null: bounds of binaries and nested types are always unknown. Further
statistics are unknown because Paimon does not find them in files of the format:

- Parquet: all statistics of nested types, bounds of timestamps of more than 6 fractional digits, which are INT96;
- ORC: none;
- Avro: none, because Paimon collects statistics of Avro files from their rows. But in Avro files key and system columns
  count like other columns for modes.

Source: specification page `spec/manifest`; Paimon's StatsCollectorFactories and the extractors of the formats.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import array_of, to_numpy
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.row.binary_row import encode_rows
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import (
    BINARIES,
    STRINGS,
    TIMESTAMPS,
    AtomicType,
    DataField,
    DataType,
    is_atomic,
)
from interbed.storage.meta.manifest.entry import EMPTY_STATS, SimpleStats
from interbed.storage.meta.options.core import CoreOptions

KEY_TRUNCATE = 128
"""Paimon truncates the statistics of key columns at this length, in every mode."""
_TRUNCATE = re.compile(r"^truncate\((\d+)\)$")
_MICROS_DIGITS = 6


@dataclass(frozen=True, slots=True)
class StatsMode:
    """Statistics that are collected of a column; `length` truncates strings, None keeps them whole."""

    counts: bool
    bounds: bool
    length: int | None = None

    @staticmethod
    def parse(key: str, value: str) -> "StatsMode":
        """Return the mode that an option names. Raises InvalidOptionError naming the option's key."""
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
    fields: Sequence[DataField],
    options: CoreOptions,
    default: StatsMode,
    *,
    file_format: str = "parquet",
    keys: Sequence[DataField] = (),
) -> tuple[StatsMode, ...]:
    """Return the mode of each column of a table: its own option `fields.<column>.stats-mode`, or `default`.

    With `metadata.stats-keep-first-n-columns` only that many columns get the default. `keys` are the columns of the
    primary key; in thin mode they are truncated like the key columns that they replace.
    """
    kept = options.integer("metadata.stats-keep-first-n-columns", -1)
    key_names = {f.name for f in keys}
    modes: list[StatsMode] = []
    counted = _system_columns(options, keys) if file_format == "avro" else 0
    for f in fields:
        own = _own_mode(f.name, options)
        if own is None and options.thin_mode and f.name in key_names and file_format != "avro":
            modes.append(KEY_MODE)
            continue
        if own is not None:
            modes.append(own)
        else:
            modes.append(StatsMode(False, False) if 0 <= kept <= counted else default)
        counted += 1
    return tuple(modes)


def key_modes(
    keys: Sequence[DataField], options: CoreOptions, default: StatsMode, *, file_format: str = "parquet"
) -> tuple[StatsMode, ...]:
    """Return the mode of each key column: truncated at KEY_TRUNCATE in every mode of the table, except for Avro."""
    if file_format != "avro":
        return (KEY_MODE,) * len(keys)
    if options.thin_mode:
        # In thin mode these are the statistics of the table's columns, and the limit of columns does not apply.
        return tuple(_own_mode(f.name, options) or default for f in keys)
    kept = options.integer("metadata.stats-keep-first-n-columns", -1)
    none = StatsMode(False, False)
    return tuple(none if 0 <= kept <= place else default for place in range(len(keys)))


def _system_columns(options: CoreOptions, keys: Sequence[DataField]) -> int:
    """Return the number of columns before the table's own columns in its files."""
    return 0 if not keys else (0 if options.thin_mode else len(keys)) + 2


def _own_mode(column: str, options: CoreOptions) -> StatsMode | None:
    key = f"fields.{column}.stats-mode"
    own = options.raw.get(key)
    return None if own is None else StatsMode.parse(key, own)


class StatsCollector:
    """Collector of the statistics of the columns `fields` of one file of the format."""

    def __init__(self, fields: Sequence[DataField], modes: Sequence[StatsMode], file_format: str = "parquet") -> None:
        self._columns = [_Column(f, mode, file_format) for f, mode in zip(fields, modes, strict=True)]

    def update(self, columns: Mapping[str, "pa.Array[Any]"]) -> None:
        """Add the rows of a batch; the mapping has at least the collected columns."""
        for column in self._columns:
            column.update(columns[column.field.name])

    def dense(self) -> tuple[tuple[str, ...] | None, SimpleStats]:
        """Return the columns that have statistics, None when all have, and their statistics."""
        known = [c for c in self._columns if c.is_known]
        names = None if len(known) == len(self._columns) else tuple(c.field.name for c in known)
        return names, _to_stats(known)

    def all(self) -> SimpleStats:
        """Return the statistics of all columns, null where there are none."""
        return _to_stats(self._columns)


class _Column:
    def __init__(self, field: DataField, mode: StatsMode, file_format: str) -> None:
        self.field = field
        self.arrow = type_to_arrow(field.type)
        self.is_known = mode.counts and (file_format != "parquet" or isinstance(field.type, AtomicType))
        self._bounded = self.is_known and mode.bounds and _has_bounds(field.type, file_format)
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
            bounds = float_bounds(values)
        else:
            found = pc.min_max(values)
            bounds = (found["min"], found["max"]) if found["min"].is_valid else None
        if bounds is not None:
            self._lows.append(bounds[0])
            self._highs.append(bounds[1])

    def bounds(self) -> "pa.Array[Any]":
        """Return the least and the greatest value, truncated by the mode; both null when they are unknown."""
        if not self._lows:
            return self._unknown()
        lows, highs = array_of(self._lows, self.arrow), array_of(self._highs, self.arrow)
        if pa.types.is_floating(self.arrow):
            least, greatest = float_bounds(lows), float_bounds(highs)
            assert least is not None
            assert greatest is not None
            return array_of([least[0], greatest[1]], self.arrow)
        low, high = pc.min(lows), pc.max(highs)
        if self._length is None:
            return array_of([low, high], self.arrow)
        upper = truncate_up(high.as_py(), self._length)
        if upper is None:
            # No value of that length is great enough, so neither bound is kept, as in Paimon.
            return self._unknown()
        return array_of([low.as_py()[: self._length], upper], self.arrow)

    def _unknown(self) -> "pa.Array[Any]":
        return array_of([None, None], self.arrow)


def truncate_up(value: str, length: int) -> str | None:
    """Return the value, or if it is longer than `length` a greater value of that length; None if there is none."""
    if len(value) <= length:
        return value
    head = value[:length].rstrip("\U0010ffff")
    if not head:
        return None
    following = ord(head[-1]) + 1
    # Surrogates are no characters; UTF-8 has none of them.
    return head[:-1] + chr(0xE000 if 0xD800 <= following <= 0xDFFF else following)


def float_bounds(values: "pa.Array[Any]") -> tuple[float, float] | None:
    """Return the least and the greatest value in Java's order; None when all are null."""
    numbers = to_numpy(values.drop_null())
    if not len(numbers):
        return None
    low, high = float(np.fmin.reduce(numbers)), float(np.fmax.reduce(numbers))
    # Only zeros need another check, because numpy treats 0.0 and -0.0 as equal.
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


def _has_bounds(data_type: DataType, file_format: str) -> bool:
    if not isinstance(data_type, AtomicType) or data_type.root in BINARIES:
        return False
    fine = data_type.root in TIMESTAMPS and (data_type.precision or 0) > _MICROS_DIGITS
    return not (fine and file_format == "parquet")
