"""Comparison of two engines' answers to a query: the same rows, in an order that the query allows.

Integers, decimals, times and texts must be equal. Where PostgreSQL has more digits of a quotient than Spark, or Spark
has a DOUBLE, they must be equal to the precision of Spark's answer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import psycopg

from tests.benchmarks.ch.queries import QUERIES, BenchmarkQuery

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """Names of the columns, and the rows in their order."""

    columns: tuple[str, ...]
    rows: Sequence[Row]


def postgres_answers(url: str) -> dict[int, QueryAnswer]:
    """Return PostgreSQL's answer to each of the queries."""
    found = {}
    with psycopg.connect(url, autocommit=True) as connection:
        for query in QUERIES:
            cursor = connection.execute(query.text.encode())
            columns = tuple(column.name for column in cursor.description or ())
            found[query.number] = QueryAnswer(columns, cursor.fetchall())
    return found


def difference(query: BenchmarkQuery, expected: QueryAnswer, found: QueryAnswer) -> str | None:
    """Return the difference of Spark's answer from PostgreSQL's, in words; None if they are equal."""
    if expected.columns != found.columns:
        return f"columns {found.columns}, expected {expected.columns}"
    if len(expected.rows) != len(found.rows):
        return f"{len(found.rows):,} rows, expected {len(expected.rows):,}"
    order = [expected.columns.index(name) for name in query.order]
    for number, (left, right) in enumerate(zip(expected.rows, found.rows, strict=True)):
        if not all(_equal(left[i], right[i]) for i in order):
            return f"row {number} is not in its place: {right}, expected {left}"
    for left, right in zip(_sorted(expected.rows), _sorted(found.rows), strict=True):
        if not all(map(_equal, left, right)):
            return f"a row {right}, expected {left}"
    return None


def _equal(expected: Any, found: Any) -> bool:
    if expected is None or found is None:
        return expected is found
    if isinstance(found, float):
        return math.isclose(float(expected), found, rel_tol=1e-9)
    if isinstance(found, Decimal) and isinstance(expected, Decimal) and _digits(expected) > _digits(found):
        # The last digit may have been rounded twice.
        return abs(expected - found) <= Decimal(1).scaleb(-_digits(found))
    return bool(expected == found)


def _digits(value: Decimal) -> int:
    """Return the number of digits after the point."""
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return -exponent


def _sorted(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=_place)


def _place(row: Row) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return the sort key of a row: its exact values come first."""
    exact = tuple(_text(value) for value in row if not isinstance(value, float | Decimal))
    return exact, tuple(float(value) for value in row if isinstance(value, float | Decimal))


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
