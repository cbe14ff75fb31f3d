"""Statistics of columns: the figures of each mode, and bounds that hold for every value."""

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.row.binary_row import decode_row
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import ArrayType, AtomicType, DataField, DataType, TypeRoot
from interbed.storage.files.format.stats import StatsCollector, StatsMode, stats_modes, truncate_up
from interbed.storage.meta.manifest.entry import EMPTY_STATS
from interbed.storage.meta.options.core import CoreOptions

STRING = AtomicType(TypeRoot.VARCHAR, length=2**31 - 1)
DOUBLE = AtomicType(TypeRoot.DOUBLE)


def collect(of: DataType, mode: str, *batches: list[Any]) -> tuple[Any, Any, int | None]:
    collector = StatsCollector([DataField(id=0, name="c", type=of)], [StatsMode.parse("metadata.stats-mode", mode)])
    for batch in batches:
        collector.update({"c": pa.array(batch, type_to_arrow(of))})
    stats = collector.all()
    (low,), (high,) = decode_row(stats.min_values, [of]), decode_row(stats.max_values, [of])
    return low, high, stats.null_counts[0]


def test_each_mode_keeps_its_figures() -> None:
    batches: list[list[str | None]] = [["b" * 20, None], ["a" * 20]]
    assert collect(STRING, "none", *batches) == (None, None, None)
    assert collect(STRING, "counts", *batches) == (None, None, 1)
    assert collect(STRING, "full", *batches) == ("a" * 20, "b" * 20, 1)
    assert collect(STRING, "truncate(3)", *batches) == ("aaa", "bbc", 1)


@given(value=st.text(max_size=6), length=st.integers(1, 4))
def test_a_truncated_bound_is_short_and_still_a_bound(value: str, length: int) -> None:
    bound = truncate_up(value, length)
    if bound is None:
        assert set(value[:length]) == {"\U0010ffff"}
    else:
        assert len(bound) <= length
        assert bound.encode() >= value.encode()


def test_no_upper_bound_is_kept_where_no_short_one_exists() -> None:
    assert collect(STRING, "truncate(2)", ["\U0010ffff" * 3, "a"]) == (None, None, 0)


@given(batches=st.lists(st.lists(st.none() | st.floats(width=64), max_size=5), max_size=3))
def test_bounds_of_floats_follow_javas_order(batches: list[list[float | None]]) -> None:
    def java(value: float) -> tuple[bool, float, float]:
        return math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value)

    values = [v for batch in batches for v in batch if v is not None]
    low, high, nulls = collect(DOUBLE, "full", *batches)
    assert nulls == sum(v is None for batch in batches for v in batch)
    assert repr(low) == repr(min(values, key=java, default=None))
    assert repr(high) == repr(max(values, key=java, default=None))


@pytest.mark.parametrize(
    ("of", "values"),
    [
        (AtomicType(TypeRoot.VARBINARY, length=9), [b"x"]),
        (AtomicType(TypeRoot.TIMESTAMP, precision=9), [1]),
    ],
)
def test_some_types_have_null_counts_only(of: AtomicType, values: list[Any]) -> None:
    assert collect(of, "full", [*values, None]) == (None, None, 1)


def test_dense_statistics_leave_out_nested_columns() -> None:
    fields = [DataField(id=0, name="l", type=ArrayType(STRING))]
    collector = StatsCollector(fields, [StatsMode.parse("", "full")])
    collector.update({"l": pa.array([["x"]])})
    assert collector.dense() == ((), EMPTY_STATS)


def test_a_column_may_have_a_mode_of_its_own_and_only_the_first_may_have_any() -> None:
    fields = [DataField(id=i, name=n, type=STRING) for i, n in enumerate("abc")]
    options = CoreOptions({"metadata.stats-keep-first-n-columns": "1", "fields.c.stats-mode": "counts"})
    none, counts = StatsMode(False, False), StatsMode(True, False)
    default = StatsMode(True, True, 16)
    assert stats_modes(fields, options, default) == (default, none, counts)
    with pytest.raises(InvalidOptionError, match=r"fields\.c\.stats-mode"):
        stats_modes(fields, CoreOptions({"fields.c.stats-mode": "truncate(0)"}), default)
