"""Texts of the queries, and comparison of their answers."""

from datetime import datetime
from decimal import Decimal

from tests.benchmarks.ch.answers import QueryAnswer, difference
from tests.benchmarks.ch.queries import QUERIES, BenchmarkQuery

QUERY = BenchmarkQuery(number=1, text="", order=("a",))
BY_NOTHING = BenchmarkQuery(number=2, text="", order=())


def answer(*rows: tuple[object, ...]) -> QueryAnswer:
    return QueryAnswer(("a", "b"), rows)


def test_all_22_queries_are_loaded_with_their_sort_columns() -> None:
    assert [query.number for query in QUERIES] == list(range(1, 23))
    orders = {query.number: query.order for query in QUERIES}
    assert orders[3] == ("revenue", "o_entry_d")
    assert orders[22] == ("country",)
    assert [number for number, order in orders.items() if not order] == [6, 14, 17, 19]


def test_only_ties_may_come_in_any_order() -> None:
    expected = answer((1, "x"), (1, "y"), (2, "z"))
    assert difference(QUERY, expected, answer((1, "y"), (1, "x"), (2, "z"))) is None
    text = difference(QUERY, expected, answer((2, "z"), (1, "x"), (1, "y")))
    assert text == "row 0 is not in its place: (2, 'z'), expected (1, 'x')"
    assert difference(BY_NOTHING, expected, answer((2, "z"), (1, "x"), (1, "y"))) is None


def test_different_values_counts_and_columns_are_differences() -> None:
    expected = answer((1, Decimal("2.50")))
    assert difference(QUERY, expected, answer((1, Decimal("2.51")))) is not None
    assert difference(QUERY, expected, answer((1, None))) is not None
    assert difference(QUERY, expected, answer()) == "0 rows, expected 1"
    assert difference(QUERY, expected, QueryAnswer(("a", "c"), expected.rows)) is not None
    assert difference(QUERY, answer((1, datetime(2026, 1, 1))), answer((1, datetime(2026, 1, 2)))) is not None


def test_quotients_are_compared_to_the_precision_of_spark() -> None:
    expected = answer((1, Decimal("0.66666666666666666667")))
    assert difference(QUERY, expected, answer((1, Decimal("0.666667")))) is None
    assert difference(QUERY, expected, answer((1, Decimal("0.666669")))) is not None
    assert difference(QUERY, expected, answer((1, 2 / 3))) is None
    assert difference(QUERY, expected, answer((1, 0.6667))) is not None
    # Sums are compared with all their digits.
    assert difference(QUERY, answer((1, Decimal("5.00"))), answer((1, Decimal("5.01")))) is not None
    assert difference(QUERY, answer((1, Decimal(5))), answer((1, 5))) is None
