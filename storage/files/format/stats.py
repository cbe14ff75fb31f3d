"""Statistics of a data file's columns, collected batch by batch while it is written.

The modes are those of `metadata.stats-mode`: none, counts (null counts only), full, and truncate(n), which cuts
strings to n characters: the least value is a prefix, the greatest is rounded up. Floats compare as in Java: -0.0 is
less than 0.0, and NaN is greatest. Null stands for an unknown bound: of binaries and nested types always. What else is
unknown is so because Paimon does not find it in files of the format:

- Parquet: anything of nested types, bounds of timestamps of more than 6 fractional digits, which it keeps as INT96;
- ORC: nothing else;
- Avro: nothing else, because Paimon collects statistics from the rows there, as in the footers of ORC and Parquet.
  But of Avro files key and system columns count like any others for modes.

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
    fields: Sequence[DataField],
    options: CoreOptions,
    default: StatsMode,
    *,
    file_format: str = "parquet",
    keys: Sequence[DataField] = (),
) -> tuple[StatsMode, ...]:
    """The mode of each column of a table: its own option `fields.<column>.stats-mode`, else `default`.

    With `metadata.stats-keep-first-n-columns` only that many columns get the default. `keys` are the columns of the
    primary key; in thin mode they are cut like the key columns for which they stand.
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
    """The mode of each key column: cut at KEY_TRUNCATE whatever the table's mode, but for Avro."""
    if file_format != "avro":
        return (KEY_MODE,) * len(keys)
    if options.thin_mode:
        # The statistics of the key are those of the table's columns; counting is not worth more than that.
        return tuple(_own_mode(f.name, options) or default for f in keys)
    kept = options.integer("metadata.stats-keep-first-n-columns", -1)
    none = StatsMode(False, False)
    return tuple(none if 0 <= kept <= place else default for place in range(len(keys)))


def _system_columns(options: CoreOptions, keys: Sequence[DataField]) -> int:
    """How many columns stand before the table's own in its files."""
    return 0 if not keys else (0 if options.thin_mode else len(keys)) + 2


def _own_mode(column: str, options: CoreOptions) -> StatsMode | None:
    key = f"fields.{column}.stats-mode"
    own = options.raw.get(key)
    return None if own is None else StatsMode.parse(key, own)


class StatsCollector:
    """Collects the statistics of the columns `fields` of one file of the format."""

    def __init__(self, fields: Sequence[DataField], modes: Sequence[StatsMode], file_format: str = "parquet") -> None:
        self._columns = [_Column(f, mode, file_format) for f, mode in zip(fields, modes, strict=True)]

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
        """The least and the greatest value, cut as the mode says; both null when they are unknown."""
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
            # No value of that length is great enough, so that neither bound is kept, as in Paimon.
            return self._unknown()
        return array_of([low.as_py()[: self._length], upper], self.arrow)

    def _unknown(self) -> "pa.Array[Any]":
        return array_of([None, None], self.arrow)


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


def float_bounds(values: "pa.Array[Any]") -> tuple[float, float] | None:
    """The least and the greatest value in Java's order; None when all are null."""
    numbers = to_numpy(values.drop_null())
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


def _has_bounds(data_type: DataType, file_format: str) -> bool:
    if not isinstance(data_type, AtomicType) or data_type.root in BINARIES:
        return False
    fine = data_type.root in TIMESTAMPS and (data_type.precision or 0) > _MICROS_DIGITS
    return not (fine and file_format == "parquet")
