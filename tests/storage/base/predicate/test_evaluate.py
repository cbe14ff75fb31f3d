"""Predicates over rows: Arrow masks and Arrow expressions agree with the row-by-row model."""

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.errors import FilterError
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import (
    And,
    Comparison,
    In,
    NotIn,
    Op,
    Predicate,
    bind,
    columns_of,
    push_not,
    restrict_to,
)
from interbed.storage.base.predicate.json import from_json, to_json
from interbed.storage.base.types.arrow import fields_to_schema, type_to_arrow
from interbed.storage.base.types.data_type import DataField
from tests.storage.base.predicate.model import nested_tables, tables, truth
from tests.support.examples import examples

Table = tuple[list[DataField], list[dict[str, Any]], Predicate]
NestedTable = tuple[list[DataField], list[dict[str, Any]], Predicate, list[bool | None]]


def batch_of(fields: list[DataField], rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """The rows as a batch."""
    columns = [pa.array([row[f.name] for row in rows], type_to_arrow(f.type)) for f in fields]
    return pa.record_batch(columns, schema=fields_to_schema(fields))


@settings(deadline=None, max_examples=examples(100))
@given(tables())
def test_a_mask_equals_the_truth_of_the_predicate_for_each_row(case: Table) -> None:
    fields, rows, predicate = case
    bound = bind(predicate, fields)
    assert bind(bound, fields) == bound or any(isinstance(v, float) for row in rows for v in row.values())
    assert mask(bound, batch_of(fields, rows)).to_pylist() == [truth(predicate, row) is True for row in rows]
    assert mask(bound, pa.Table.from_batches([batch_of(fields, rows)])).to_pylist() == [
        truth(predicate, row) is True for row in rows
    ]


@settings(deadline=None, max_examples=examples(150))
@given(nested_tables(), st.integers(0, 2))
def test_a_mask_equals_the_truth_of_the_predicate_on_nested_values(case: NestedTable, skipped: int) -> None:
    fields, rows, predicate, said = case
    bound = bind(predicate, fields)
    batch = batch_of(fields, rows).slice(min(skipped, len(rows)))
    assert mask(bound, batch).to_pylist() == [value is True for value in said[skipped:]]
    assert repr(from_json(to_json(predicate))) == repr(predicate)


@settings(deadline=None, max_examples=examples(100))
@given(tables())
def test_pushing_negations_down_keeps_the_truth_value(case: Table) -> None:
    _, rows, predicate = case
    for row in rows:
        assert truth(push_not(predicate), row) == truth(predicate, row)
        inner = truth(predicate, row)
        assert truth(push_not(predicate, negate=True), row) == (None if inner is None else not inner)


@settings(deadline=None, max_examples=examples(100))
@given(tables())
def test_a_predicate_restricted_to_some_columns_keeps_every_row_of_the_full_one(case: Table) -> None:
    fields, rows, predicate = case
    for field in fields:
        restricted = restrict_to(predicate, [field.name])
        assert columns_of(restricted) <= {field.name}
        assert all(truth(restricted, row) for row in rows if truth(predicate, row))


def test_zeros_of_both_signs_are_equal_and_nan_equals_itself() -> None:
    batch = pa.record_batch({"x": [0.0, -0.0, math.nan, None]})
    assert mask(In("x", (0.0, math.nan)), batch).to_pylist() == [True, True, True, False]
    assert mask(NotIn("x", (0.0, math.nan)), batch).to_pylist() == [False, False, False, False]


def test_the_error_names_a_column_that_is_missing() -> None:
    batch = pa.record_batch({"x": [1]})
    predicate = And((Comparison(Op.EQ, "y", 1),))
    with pytest.raises(FilterError, match="'y'; the columns are x"):
        mask(predicate, batch)
