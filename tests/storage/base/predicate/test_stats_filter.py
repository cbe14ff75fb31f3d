"""Pruning by statistics: no file with a matching row is pruned, and files whose statistics exclude a match are."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.predicate.expr import (
    AlwaysTrue,
    And,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Like,
    Not,
    NotIn,
    Op,
    Predicate,
    StartsWith,
    bind,
)
from interbed.storage.base.predicate.stats_filter import partition_select, select
from interbed.storage.base.row.binary_row import encode_row
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import DataField, type_from_json
from tests.storage.base.predicate.model import tables, truth
from tests.support.examples import examples

Table = tuple[list[DataField], list[dict[str, Any]], Predicate]


@settings(deadline=None, max_examples=examples(100))
@given(tables(), st.data())
def test_no_file_with_a_matching_row_is_pruned(case: Table, data: st.DataObject) -> None:
    fields, rows, predicate = case
    size = data.draw(st.integers(1, 4))
    files = [rows[i : i + size] for i in range(0, len(rows), size)]
    mins, maxs, nulls = {}, {}, {}
    for field in fields:
        arrow = type_to_arrow(field.type)
        values = [[r[field.name] for r in file if r[field.name] is not None] for file in files]
        # Some writers leave NaN out of their statistics; any statistic may be missing.
        numbers = [[v for v in column if v == v] for column in values]
        known = data.draw(st.lists(st.booleans(), min_size=len(files), max_size=len(files)))
        lows = [min(c) if c and k else None for c, k in zip(numbers, known, strict=True)]
        highs = [max(c) if c and k else None for c, k in zip(numbers, known, strict=True)]
        if data.draw(st.booleans()):
            mins[field.name] = pa.array(lows, arrow)
        if data.draw(st.booleans()):
            maxs[field.name] = pa.array(highs, arrow)
        counts = [len(f) - len(c) if k else None for f, c, k in zip(files, values, known, strict=True)]
        nulls[field.name] = pa.array(counts, pa.int64())
    found = select(bind(predicate, fields), mins, maxs, nulls, pa.array([len(f) for f in files], pa.int64()))
    assert found.dtype == np.bool_
    for file, kept in zip(files, found.tolist(), strict=True):
        assert kept or not any(truth(predicate, row) for row in file)


@settings(deadline=None, max_examples=examples(100))
@given(tables())
def test_partitions_are_selected_exactly(case: Table) -> None:
    fields, rows, predicate = case
    types = [f.type for f in fields]
    partitions = [encode_row([row[f.name] for f in fields], types) for row in rows]
    found = partition_select(bind(predicate, fields), partitions, fields)
    assert found.tolist() == [truth(predicate, row) is True for row in rows]


def test_the_one_partition_of_an_unpartitioned_table_is_selected() -> None:
    assert partition_select(AlwaysTrue(), [encode_row([], [])], []).tolist() == [True]


# Four files: 1 to 5 without nulls, 5 to 9 with one null of ten, only nulls, and one without statistics.
_FIELDS = [DataField(id=0, name="x", type=type_from_json("INT"))]
_LOW = {"x": pa.array([1, 5, None, None], pa.int32())}
_HIGH = {"x": pa.array([5, 9, None, None], pa.int32())}
_NULLS = {"x": pa.array([0, 1, 10, None], pa.int64())}
_ROWS = pa.array([10, 10, 10, 10], pa.int64())


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (Comparison(Op.EQ, "x", 3), [1, 0, 0, 1]),
        (Comparison(Op.EQ, "x", 5), [1, 1, 0, 1]),
        (Comparison(Op.LT, "x", 5), [1, 0, 0, 1]),
        (Comparison(Op.LE, "x", 5), [1, 1, 0, 1]),
        (Comparison(Op.GT, "x", 5), [0, 1, 0, 1]),
        (Comparison(Op.GE, "x", 6), [0, 1, 0, 1]),
        (Not(Comparison(Op.LT, "x", 6)), [0, 1, 0, 1]),
        (Comparison(Op.EQ, "x", None), [0, 0, 0, 0]),
        (In("x", (0, 6)), [0, 1, 0, 1]),
        (In("x", tuple(range(100, 300))), [0, 0, 0, 1]),
        (In("x", ()), [0, 0, 0, 0]),
        (NotIn("x", (1, None)), [0, 0, 0, 0]),
        (IsNull("x"), [0, 1, 1, 1]),
        (IsNotNull("x"), [1, 1, 0, 1]),
    ],
)
def test_files_are_pruned_by_their_bounds_and_null_counts(predicate: Predicate, kept: list[int]) -> None:
    assert select(predicate, _LOW, _HIGH, _NULLS, _ROWS).tolist() == [bool(k) for k in kept]


def test_a_file_of_one_value_is_pruned_by_an_inequality_with_that_value() -> None:
    bounds = {"x": pa.array([4], pa.int32())}
    for predicate in (Comparison(Op.NE, "x", 4), NotIn("x", (3, 4)), Not(In("x", (4,)))):
        found = select(predicate, bounds, bounds, {"x": pa.array([0])}, pa.array([2]))
        assert found.tolist() == [False]


def test_prefix_filters_prune_files_even_with_truncated_bounds() -> None:
    low = {"s": pa.array(["abc", "abd", "b", "a", None])}
    high = {"s": pa.array(["abd", "abz", "c", "abb", "abb"])}
    rows = pa.array([1] * 5)
    for predicate in (StartsWith("s", "abc"), Like("s", "abc%x_"), Like("s", "abc")):
        assert select(predicate, low, high, {}, rows).tolist() == [True, False, False, False, False]
    assert select(Like("s", "%abc"), low, high, {}, rows).tolist() == [True] * 5
    escaped = Like("s", "a\\%b")
    assert select(escaped, {"s": pa.array(["a%a", "ab"])}, {"s": pa.array(["a%c", "b"])}, {}, rows[:2]).tolist() == [
        True,
        False,
    ]


def test_statistics_with_nan_prune_nothing() -> None:
    low, high = {"d": pa.array([math.nan, 1.0])}, {"d": pa.array([math.nan, math.nan])}
    rows = pa.array([2, 2])
    assert select(Comparison(Op.GT, "d", 9.0), low, high, {}, rows).tolist() == [True, True]
    assert select(Comparison(Op.LT, "d", 1.0), low, high, {}, rows).tolist() == [True, False]
    assert select(Comparison(Op.EQ, "d", math.nan), low, high, {}, rows).tolist() == [True, True]
    assert select(Comparison(Op.GT, "d", math.nan), low, high, {}, rows).tolist() == [False, False]
    assert select(Not(Comparison(Op.EQ, "d", 1.0)), low, high, {}, rows).tolist() == [True, True]


def test_a_maximum_does_not_exclude_nan() -> None:
    low, high, rows = {"d": pa.array([1.0])}, {"d": pa.array([2.0])}, pa.array([2])
    for kept in (
        Comparison(Op.GT, "d", 9.0),
        Comparison(Op.GE, "d", 9.0),
        Comparison(Op.NE, "d", 1.0),
        Comparison(Op.EQ, "d", math.nan),
        Comparison(Op.GE, "d", math.nan),
        Comparison(Op.LE, "d", math.nan),
        Not(Comparison(Op.LT, "d", 9.0)),
        In("d", (9.0, math.nan)),
        In("d", (*(float(i) for i in range(100, 300)), math.nan)),
        NotIn("d", (1.0,)),
        And((Comparison(Op.GE, "d", 9.0), Comparison(Op.LE, "d", math.nan))),
        And((Comparison(Op.GE, "d", math.nan), Comparison(Op.GE, "d", 9.0))),
    ):
        assert select(kept, low, high, {}, rows).tolist() == [True]
    for ruled_out in (
        Comparison(Op.LT, "d", 1.0),
        Comparison(Op.LE, "d", 0.0),
        Comparison(Op.EQ, "d", 9.0),
        Not(Comparison(Op.GT, "d", 0.5)),
        And((Comparison(Op.GE, "d", 9.0), Comparison(Op.LE, "d", 10.0))),
        And((And((Comparison(Op.LT, "d", 10.0),)), Comparison(Op.GT, "d", 2.0))),
        In("d", (0.0, 9.0)),
        In("d", tuple(float(i) for i in range(100, 300))),
    ):
        assert select(ruled_out, low, high, {}, rows).tolist() == [False]


def test_an_empty_file_has_no_matching_row() -> None:
    assert select(AlwaysTrue(), {}, {}, {}, pa.array([0, 1])).tolist() == [False, True]


INTEGERS = st.integers(-20, 20)


@given(
    bounds=st.lists(st.tuples(INTEGERS, INTEGERS).map(sorted), min_size=1, max_size=6),
    value=INTEGERS | st.sampled_from([-(2**70), 2**70, 2**63]),
    values=st.lists(INTEGERS | st.just(2**70), max_size=120),
    op=st.sampled_from(Op),
    width=st.sampled_from([np.int8, np.int32, np.int64]),
)
def test_integer_bounds_keep_files_that_may_hold_a_value(
    bounds: list[list[int]], value: int, values: list[int], op: Op, width: type[np.signedinteger]
) -> None:
    low, high = (np.array([b[i] for b in bounds], width) for i in (0, 1))
    statistics = ({"x": from_numpy(low)}, {"x": from_numpy(high)}, {"x": pa.array([0] * len(bounds))})
    rows = pa.array([9] * len(bounds), pa.int64())
    compared = Comparison(op, "x", value)
    expected = [any(truth(compared, {"x": v}) for v in range(b[0], b[1] + 1)) for b in bounds]
    assert select(compared, *statistics, rows).tolist() == expected
    small = [v for v in values if abs(v) < 2**63]
    expected = [any(b[0] <= v <= b[1] for v in small) for b in bounds]
    assert select(In("x", tuple(small)), *statistics, rows).tolist() == expected
