"""Aggregates from metadata: correct where they are available, and available for the common cases."""

import tempfile
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed import load_catalog
from interbed.storage.scan.summary.aggregates import Aggregate, AggregateFunction, aggregated
from interbed.storage.table.table import Table
from tests.support.examples import examples

SCHEMA = pa.schema(
    (
        pa.field("id", pa.int32(), nullable=False),
        pa.field("p", pa.string()),
        pa.field("n", pa.int64()),
        pa.field("d", pa.decimal128(25, 3)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us")),
        pa.field("flag", pa.bool_()),
        pa.field("x", pa.float64()),
        pa.field("s", pa.string()),
    )
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 30),
            "p": st.sampled_from(["a", "b", "é", None]),
            "n": st.none() | st.integers(-(2**63), 2**63 - 1),
            "d": st.none() | st.decimals(-(10**20), 10**20, places=3),
            "day": st.none() | st.dates(date(1, 1, 1)),
            "at": st.none() | st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)),
            "flag": st.none() | st.booleans(),
            "x": st.none() | st.floats(),
            "s": st.none() | st.text(max_size=30),
        }
    ),
    max_size=12,
)
ALL = [
    Aggregate(function=AggregateFunction.COUNT_ROWS),
    *(
        Aggregate(function=function, column=name)
        for name in ("id", "p", "n", "d", "day", "at", "flag", "s", "x")
        for function in (AggregateFunction.COUNT, AggregateFunction.MIN, AggregateFunction.MAX)
    ),
]
INEXACT = {("s", AggregateFunction.MIN), ("s", AggregateFunction.MAX), ("x", AggregateFunction.MIN)}
INEXACT |= {("x", AggregateFunction.MAX)}


@pytest.fixture
def table(tmp_path: Any) -> Table:
    """An append table with one set of columns, without partitions."""
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    return catalog.create_table("db.t", SCHEMA)


def _asked(table: Table, aggregates: list[Aggregate], group_by: tuple[str, ...] = ()) -> Any:
    return aggregated(table.store, table.new_scan().plan().splits, aggregates, group_by)


def _expected(rows: list[dict[str, Any]], aggregate: Aggregate) -> object:
    if aggregate.column is None:
        return len(rows)
    values = [row[aggregate.column] for row in rows if row[aggregate.column] is not None]
    if aggregate.function is AggregateFunction.COUNT:
        return len(values)
    return (min if aggregate.function is AggregateFunction.MIN else max)(values, default=None)


@settings(max_examples=examples(12))
@given(batches=st.lists(ROWS, max_size=3), keyed=st.booleans(), compacted=st.booleans(), deleted=st.booleans())
def test_aggregates_from_metadata_equal_those_of_the_rows(
    batches: list[list[dict[str, Any]]], keyed: bool, compacted: bool, deleted: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        catalog = load_catalog(warehouse=directory)
        catalog.create_database("db")
        keys = {"primary_keys": ["p", "id"], "options": {"bucket": "1"}} if keyed else {}
        made = catalog.create_table("db.t", SCHEMA, partition_keys=["p"], **keys)  # type: ignore[arg-type]
        for batch in batches:
            rows = [row for row in batch if row["p"] is not None] if keyed else batch
            made.upsert(pa.Table.from_pylist(rows, SCHEMA)) if keyed else made.append(
                pa.Table.from_pylist(rows, SCHEMA)
            )
        if deleted:
            made.delete("id < 10")
        if compacted:
            made.compact(full=True)
        everything = made.scan().to_arrow().to_pylist()

        for aggregate in ALL:
            found = _asked(made, [aggregate])
            if found is not None:
                assert found == [(_expected(everything, aggregate),)], aggregate
            by_partition = _asked(made, [aggregate], ("p",))
            if by_partition is not None:
                groups = {row["p"] for row in everything}
                assert dict(by_partition) == {
                    group: _expected([row for row in everything if row["p"] == group], aggregate) for group in groups
                }, aggregate


def test_all_exact_aggregates_of_an_append_table_are_available(table: Table) -> None:
    table.append(
        pa.table(
            {
                "id": [1, 2],
                "p": ["a", None],
                "n": [5, None],
                "d": [Decimal("1.500"), Decimal("-2.000")],
                "day": [date(2024, 1, 1), None],
                "at": [datetime(2024, 1, 1), datetime(2023, 1, 1)],
                "flag": [True, False],
                "x": [1.0, float("nan")],
                "s": ["a", "b"],
            },
            schema=SCHEMA,
        )
    )

    for aggregate in ALL:
        known = _asked(table, [aggregate]) is not None
        inexact = (aggregate.column, aggregate.function) in INEXACT
        # The column p is no partition column here, so its text is as inexact as that of s.
        of_text = aggregate.column == "p" and aggregate.function is not AggregateFunction.COUNT
        assert known == (not inexact and not of_text), aggregate


def test_rows_that_must_be_merged_are_not_counted_from_metadata(tmp_path: Any) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    made = catalog.create_table("db.t", SCHEMA, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    row = dict.fromkeys(SCHEMA.names) | {"id": 1}
    made.upsert(pa.Table.from_pylist([row], SCHEMA))
    made.upsert(pa.Table.from_pylist([row | {"n": 1}], SCHEMA))
    count = [Aggregate(function=AggregateFunction.COUNT_ROWS)]
    assert _asked(made, count) is None

    made.compact(full=True)

    assert _asked(made, count) == [(1,)]
    assert _asked(made, [Aggregate(function=AggregateFunction.MIN, column="n")]) == [(1,)]


def test_only_partition_columns_can_be_grouped_by(table: Table) -> None:
    assert _asked(table, [Aggregate(function=AggregateFunction.COUNT_ROWS)], ("id",)) is None
    assert _asked(table, [Aggregate(function=AggregateFunction.COUNT_ROWS)]) == [(0,)]
