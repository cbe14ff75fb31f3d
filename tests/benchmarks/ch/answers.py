"""Whether two engines answer a query alike: the same rows, in an order that the query asks for.

Integers, decimals, times and texts have to be equal. Where PostgreSQL has more digits of a quotient than Spark, or
Spark has a DOUBLE, they have to be equal as far as Spark's answer goes.
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
    """The names of the columns, and the rows in their order."""

    columns: tuple[str, ...]
    rows: Sequence[Row]


def postgres_answers(url: str) -> dict[int, QueryAnswer]:
    """What PostgreSQL answers to each of the queries."""
    found = {}
    with psycopg.connect(url, autocommit=True) as connection:
        for query in QUERIES:
            cursor = connection.execute(query.text.encode())
            columns = tuple(column.name for column in cursor.description or ())
            found[query.number] = QueryAnswer(columns, cursor.fetchall())
    return found


def difference(query: BenchmarkQuery, expected: QueryAnswer, found: QueryAnswer) -> str | None:
    """How Spark's answer differs from PostgreSQL's, in words; None where it does not."""
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
    """Digits after the point."""
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return -exponent


def _sorted(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=_place)


def _place(row: Row) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Where a row is among others: by what is exact first."""
    exact = tuple(_text(value) for value in row if not isinstance(value, float | Decimal))
    return exact, tuple(float(value) for value in row if isinstance(value, float | Decimal))


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
