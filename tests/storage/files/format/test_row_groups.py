"""Row groups are skipped by their statistics only where no row of theirs can match."""

import datetime as dt
import io
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.predicate.expr import Comparison, In, Not, NotIn, Op, Predicate, bind
from interbed.storage.base.predicate.grammar import parse_filter
from interbed.storage.base.predicate.operands import InnerReference
from interbed.storage.base.types.arrow import data_type
from interbed.storage.base.types.data_type import DataField, parse_atomic
from interbed.storage.files.format.pages.footer import RowGroups
from tests.storage.base.predicate.model import nested_tables, tables, truth
from tests.storage.base.predicate.test_evaluate import NestedTable, Table, batch_of
from tests.support.examples import examples


def written(table: pa.Table, rows: int, **options: Any) -> pq.ParquetFile:
    """A file with the given number of rows in each row group."""
    content = io.BytesIO()
    pq.write_table(table, content, row_group_size=rows, **options)
    return pq.ParquetFile(content)


@settings(deadline=None, max_examples=examples(150))
@given(tables(), st.integers(1, 3), st.booleans())
def test_no_row_group_with_a_matching_row_is_skipped(case: Table, size: int, legacy: bool) -> None:
    fields, rows, predicate = case
    if not rows or not fields:
        return
    # Decimals are stored as integers, as Java does, and as bytes.
    file = written(pa.Table.from_batches([batch_of(fields, rows)]), size, store_decimal_as_integer=legacy)
    chosen = RowGroups(file.metadata, file.schema_arrow).matching(bind(predicate, fields))
    assert {i // size for i, row in enumerate(rows) if truth(predicate, row)} <= set(chosen)


@settings(deadline=None, max_examples=examples(150))
@given(nested_tables(), st.integers(1, 3))
def test_no_row_group_with_a_matching_nested_value_is_skipped(case: NestedTable, size: int) -> None:
    fields, rows, predicate, said = case
    if not rows or not fields:
        return
    file = written(pa.Table.from_batches([batch_of(fields, rows)]), size)
    chosen = RowGroups(file.metadata, file.schema_arrow).matching(bind(predicate, fields))
    assert {i // size for i, value in enumerate(said) if value} <= set(chosen)


PLACES = [
    DataField(0, "s", data_type("ROW<a INT, b ROW<c STRING>>")),
    DataField(1, "m", data_type("MAP<STRING NOT NULL, INT>")),
    DataField(2, "l", data_type("ARRAY<INT>")),
    DataField(3, "n", data_type("MAP<INT NOT NULL, ROW<x DATE, y INT>>")),
]


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("s.a = 2", [1]),
        ("s['b'].c in ('z')", [2]),
        ("s.b.c is null", [3]),
        ("s.a is not null", [0, 1, 2]),
        # The statistics include the values of other keys, too, but a group has no rows without the key.
        ("m['k'] = 5", [0, 1]),
        ("m['z'] = 5", [1]),
        ("m['z'] is not null", [1]),
        ("m['z'] is null", [0, 1, 2, 3]),
        ("not (m['k'] > 4)", [1]),
        ("n[7].y = 70", [2]),
        ("n[8].y = 70", []),
        ("n[7].x >= DATE '2026-02-01'", [2]),
    ],
)
def test_row_groups_without_a_matching_nested_value_are_skipped(condition: str, kept: list[int]) -> None:
    day = dt.date(2026, 2, 1)
    rows: list[dict[str, Any]] = [
        {"s": {"a": 1, "b": {"c": "x"}}, "m": [("k", 5)], "l": [1], "n": [(6, {"x": day, "y": 60})]},
        {"s": {"a": 2, "b": {"c": "y"}}, "m": [("k", 3), ("z", 5)], "l": [2], "n": None},
        {"s": {"a": 3, "b": {"c": "z"}}, "m": [("j", 9)], "l": None, "n": [(7, {"x": day, "y": 70})]},
        {"s": None, "m": None, "l": [2], "n": [(6, {"x": None, "y": None})]},
    ]
    file = written(pa.Table.from_batches([batch_of(PLACES, rows)]), 1)
    assert RowGroups(file.metadata, file.schema_arrow).matching(parse_filter(condition, PLACES)) == kept


@pytest.mark.parametrize(
    ("kind", "values", "condition"),
    [
        ("INT", [1, 2, 3, 4], "v = 3"),
        ("SMALLINT", [1, 2, 3, 4], "v > 2 and v < 4"),
        ("FLOAT", [1.0, 2.0, 3.0, 4.0], "v = 3"),
        ("DOUBLE", [1.0, 2.0, 3.0, 4.0], "v between 2.5 and 3.5"),
        ("BOOLEAN", [False, False, True, False], "v = true"),
        ("STRING", ["a", "b", "c", "d"], "v like 'c%'"),
        ("BYTES", [b"a", b"b", b"c", b"d"], "v = X'63'"),
        ("DATE", [dt.date(2026, 1, d) for d in (1, 2, 3, 4)], "v = DATE '2026-01-03'"),
        ("DECIMAL(30, 2)", [Decimal(n) for n in (-1, 2, 3, 4)], "v = 3"),
        ("DECIMAL(38, 1)", [Decimal(10**30 + n) for n in (0, 1, 2, 3)], f"v = {10**30 + 2}"),
        ("DECIMAL(38, 0)", [Decimal(10**38 - n) for n in (4, 3, 2, 1)], f"v = {10**38 - 2}"),
        ("INT", [1, 2, None, 4], "v is null"),
    ],
)
@pytest.mark.parametrize("legacy", [False, True])
def test_row_groups_that_cannot_match_are_skipped(kind: str, values: list[Any], condition: str, legacy: bool) -> None:
    field = DataField(id=0, name="v", type=parse_atomic(kind))
    table = pa.Table.from_batches([batch_of([field], [{"v": v} for v in values])])
    file = written(table, 1, store_decimal_as_integer=legacy)
    assert RowGroups(file.metadata, file.schema_arrow).matching(parse_filter(condition, [field])) == [2]


def test_statistics_do_not_include_nan() -> None:
    field = DataField(id=0, name="x", type=parse_atomic("DOUBLE"))
    file = written(pa.table({"x": [1.0, math.nan, 1.0, 1.0]}), 2)
    one = Comparison(Op.EQ, "x", 1.0)
    cases: list[Predicate] = [
        Comparison(Op.NE, "x", 1.0),
        Not(one),
        NotIn("x", (1.0,)),
        Not(Comparison(Op.LE, "x", 1.0)),
    ]
    for predicate in cases:
        assert 0 in RowGroups(file.metadata, file.schema_arrow).matching(bind(predicate, [field]))


def test_columns_without_statistics_skip_no_row_group() -> None:
    plain = pa.table({"x": pa.array([1, 2], pa.int32())})
    file = written(plain, 1, write_statistics=False)
    assert RowGroups(file.metadata, file.schema_arrow).matching(In("x", (7,))) == [0, 1]


def test_a_column_named_like_the_path_of_a_nested_field_is_distinct() -> None:
    both = pa.table({"a": [{"b": 3}, {"b": 4}], "a.b": pa.array([2, 7], pa.int32())})
    groups = RowGroups(written(both, 1).metadata, both.schema)
    assert groups.matching(In("a.b", (7,))) == [1]
    assert groups.matching(In("a.b", (4,))) == []
    assert groups.matching(In(InnerReference("a", ("b",)), (3,))) == [0]
