"""Columns compared with literals of every type, as docs/sql.md describes: each API returns the same rows or refuses."""

import operator
from collections.abc import Iterator
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import FilterError
from interbed.storage.base.predicate.conditions import bound_filter, col
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.types.arrow import data_type
from interbed.storage.base.types.data_type import DataField
from interbed.storage.table.table import Table
from tests.storage.base.predicate.literal_table import (
    COLUMNS,
    LITERALS,
    OPERATORS,
    Column,
    RefusedError,
    TypedLiteral,
    arrow_values,
    outcome,
)
from tests.support.shares import LONG
from tests.support.tally import Tally

Case = tuple[Column, TypedLiteral, str]
PYTHON = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FIELDS = [DataField(i, c.name, data_type(c.type)) for i, c in enumerate(COLUMNS)]
ROWS = max(len(column.values) for column in COLUMNS)


def cases() -> Iterator[Case]:
    for column in COLUMNS:
        for literal in LITERALS:
            for sign in OPERATORS:
                yield column, literal, sign


CASES = list(cases())
FEWER = CASES if LONG else CASES[::17]


def expected(case: Case) -> list[int] | None:
    """The positions of the rows that match; None for a comparison that is refused."""
    try:
        return outcome(*case)
    except RefusedError:
        return None


def shown(case: Case) -> str:
    column, literal, sign = case
    return f"{column.name} {sign} {literal.sql}"


def batch(column: Column) -> pa.RecordBatch:
    return pa.record_batch([arrow_values(column)], names=[column.name])


def kept(given: Any, column: Column) -> list[int] | None:
    try:
        flags = mask(bound_filter(given, FIELDS), batch(column)).to_pylist()
    except FilterError as error:
        # An error that does not name the column is wrong.
        return None if repr(column.name) in str(error) else [-1]
    return [i for i, flag in enumerate(flags) if flag]


def test_text_filters_and_column_expressions_follow_the_table(tally: Tally) -> None:
    wrong = []
    for case in CASES:
        column, literal, sign = case
        found = [kept(shown(case), column), kept(PYTHON[sign](col(column.name), literal.value), column)]
        if sign == "=":
            found.append(kept(f"{column.name} IN ({literal.sql})", column))
            found.append(kept(col(column.name).is_in([literal.value]), column))
            found.append(kept(f"{literal.sql} = {column.name}", column))
        if any(one != expected(case) for one in found):
            wrong.append((shown(case), expected(case), found))
    assert not wrong, "\n".join(map(str, wrong))
    tally("comparisons of a column with a literal of another type", len(CASES))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A table with one file for each value."""
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path_factory.mktemp("lake")))
    catalog.create_database("d")
    schema = pa.schema([("id", pa.int64()), *((c.name, c.arrow) for c in COLUMNS)])
    made = catalog.create_table("d.t", schema, options={"write-only": "true"})
    arrays = {column.name: arrow_values(column) for column in COLUMNS}
    for place in range(ROWS):
        row = {n: a.slice(place, 1) if place < len(a) else pa.nulls(1, a.type) for n, a in arrays.items()}
        made.append(pa.table({"id": pa.array([place]), **row}, schema=schema))
    return made


@pytest.mark.longer
def test_scans_follow_the_table(table: Table, tally: Tally) -> None:
    for case in FEWER:
        try:
            found: Any = sorted(table.scan(["id"], filter=shown(case)).to_arrow()["id"].to_pylist())
        except FilterError:
            found = None
        assert found == expected(case), shown(case)
    tally("comparisons of a column with a literal of another type", len(FEWER))


@pytest.mark.longer
def test_polars_returns_the_rows_that_its_own_filter_selects(table: Table, tally: Tally) -> None:
    eager, lazy = table.to_polars(), table.to_polars(lazy=True)
    tried = 0
    for column, literal, sign in FEWER:
        for expression in (
            PYTHON[sign](pl.col(column.name), literal.value),
            PYTHON[sign](pl.col(column.name), pl.lit(literal.value)),
        ):
            try:
                by_itself = sorted(eager.filter(expression)["id"])
            except pl.exceptions.PolarsError:
                continue
            assert sorted(lazy.filter(expression).collect()["id"]) == by_itself, expression
            tried += 1
    assert tried > len(FEWER) // 4
    tally("comparisons of a column with a literal of another type", tried)


@pytest.mark.longer
def test_duckdb_returns_the_rows_that_its_own_filter_selects(table: Table, tally: Tally) -> None:
    memory, relation = duckdb.connect().from_arrow(table.to_arrow()), table.to_duckdb()
    tried = 0
    for case in FEWER:
        try:
            by_itself = sorted(memory.filter(shown(case)).project("id").fetchall())
        except duckdb.Error:
            continue
        assert sorted(relation.filter(shown(case)).project("id").fetchall()) == by_itself, shown(case)
        tried += 1
    assert tried > len(FEWER) // 4
    tally("comparisons of a column with a literal of another type", tried)
