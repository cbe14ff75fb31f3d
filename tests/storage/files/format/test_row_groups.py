"""Row groups are left out by their statistics only where no row of theirs can match."""

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
from interbed.storage.base.types.data_type import DataField
from interbed.storage.base.types.json import parse_atomic
from interbed.storage.files.format.pages.row_groups import RowGroups
from tests.storage.base.predicate.model import tables, truth
from tests.storage.base.predicate.test_evaluate import Table, batch_of


def written(table: pa.Table, rows: int, **options: Any) -> pq.ParquetFile:
    """A file with so many rows in each group."""
    content = io.BytesIO()
    pq.write_table(table, content, row_group_size=rows, **options)
    return pq.ParquetFile(content)


@settings(deadline=None, max_examples=150)
@given(tables(), st.integers(1, 3), st.booleans())
def test_no_group_with_a_row_that_matches_is_left_out(case: Table, size: int, legacy: bool) -> None:
    fields, rows, predicate = case
    if not rows or not fields:
        return
    # Decimals as integers, as Java writes them, and as bytes.
    file = written(pa.Table.from_batches([batch_of(fields, rows)]), size, store_decimal_as_integer=legacy)
    chosen = RowGroups(file.metadata, file.schema_arrow).matching(bind(predicate, fields))
    assert {i // size for i, row in enumerate(rows) if truth(predicate, row)} <= set(chosen)


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
        ("INT", [1, 2, None, 4], "v is null"),
    ],
)
@pytest.mark.parametrize("legacy", [False, True])
def test_groups_that_cannot_match_are_left_out(kind: str, values: list[Any], condition: str, legacy: bool) -> None:
    field = DataField(id=0, name="v", type=parse_atomic(kind))
    table = pa.Table.from_batches([batch_of([field], [{"v": v} for v in values])])
    file = written(table, 1, store_decimal_as_integer=legacy)
    assert RowGroups(file.metadata, file.schema_arrow).matching(parse_filter(condition, [field])) == [2]


def test_nan_lies_outside_of_statistics() -> None:
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


def test_what_has_no_statistics_and_what_is_nested_rules_nothing_out() -> None:
    plain = pa.table({"x": pa.array([1, 2], pa.int32())})
    file = written(plain, 1, write_statistics=False)
    assert RowGroups(file.metadata, file.schema_arrow).matching(In("x", (7,))) == [0, 1]
    # The leaf of the structure has the path that the column's name is.
    both = pa.table({"a": [{"b": 1}, {"b": 1}], "a.b": pa.array([2, 7], pa.int32())})
    file = written(both, 1)
    assert RowGroups(file.metadata, file.schema_arrow).matching(In("a.b", (7,))) == [0, 1]
