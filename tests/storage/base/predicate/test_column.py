"""Predicates built from Python expressions are equal to the predicates parsed from the same conditions as text."""

from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from interbed.storage.base.errors import FilterError
from interbed.storage.base.predicate.conditions import col
from interbed.storage.base.predicate.expr import Comparison, Op, Predicate, bind
from interbed.storage.base.predicate.grammar import parse_filter
from interbed.storage.base.types.arrow import data_type
from interbed.storage.base.types.data_type import DataField

FIELDS = [
    DataField(id=i, name=name, type=data_type(text))
    for i, (name, text) in enumerate(
        [
            ("id", "BIGINT"),
            ("name", "STRING"),
            ("flag", "BOOLEAN"),
            ("place", "ROW<city STRING, at ROW<x INT>>"),
            ("labels", "MAP<STRING NOT NULL, STRING>"),
            ("counts", "MAP<INT NOT NULL, ROW<n BIGINT>>"),
        ]
    )
]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (col("id") == 5, "id = 5"),
        (col("id") != 5, "id <> 5"),
        ((col("id") < 5) & (col("id") >= 1), "id < 5 and id >= 1"),
        ((col("id") <= 5) | (col("id") > 9), "id <= 5 or id > 9"),
        (col("id") < 5, "id < 5"),
        (~(col("id") == 5), "not id = 5"),
        (col("id").is_in([1, 2]), "id in (1, 2)"),
        (col("id").is_not_in([1, 2]), "id not in (1, 2)"),
        (col("id").between(1, 5), "id between 1 and 5"),
        (col("name").is_null(), "name is null"),
        (col("name").is_not_null(), "name is not null"),
        (col("name").like("a%"), "name like 'a%'"),
        (col("place")["city"] == "x", "place.city = 'x'"),
        (col("place")["at"]["x"] > 5, "place['at'].x > 5"),
        (col("labels")["env"].is_null(), "labels['env'] is null"),
        (col("counts")[5]["n"].is_in([1, 2]), "counts[5].n in (1, 2)"),
        (col("flag") == True, "flag"),  # noqa: E712 - a column is compared, not tested.
    ],
)
def test_an_expression_equals_the_parsed_condition(expression: Predicate, text: str) -> None:
    assert bind(expression, FIELDS) == parse_filter(text, FIELDS)


def test_string_predicates_search_inside_values() -> None:
    for predicate in (col("name").startswith("a"), col("name").endswith("a"), col("name").contains("a")):
        assert bind(predicate, FIELDS) == predicate


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: col("id") == None, r"col\('id'\)\.is_null\(\)"),  # noqa: E711
        (lambda: col("id") == col("name"), "with a value, not with col"),
        (lambda: col("name").is_in("ab"), "takes a list of values, not 'ab'"),
        (lambda: col("place")[None], r"not by None"),
        (lambda: col(5), "named by text, not by 5"),  # type: ignore[arg-type]
    ],
)
def test_an_expression_that_no_filter_can_state_is_refused(make: Any, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        make()


def test_python_s_and_or_and_chained_comparisons_are_refused_instead_of_misread() -> None:
    for wrong in (
        lambda: (col("id") > 1) and (col("id") < 5),
        lambda: 1 < col("id") < 5,
        lambda: not (col("id") > 1),
    ):
        with pytest.raises(TypeError, match=r"by &, \| and ~"):
            wrong()
    with pytest.raises(TypeError, match="alone is not a condition"):
        bool(col("flag"))
    with pytest.raises(TypeError):
        (col("id") > 1) & 5  # type: ignore[operator]


def test_a_column_is_not_iterable() -> None:
    with pytest.raises(TypeError, match="not iterable"):
        list(col("place"))  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("place.town = 'x'", "the field 'town' of place; its fields are city, at"),
        ("place.at.z = 1", r"the field 'z' of place\['at'\]; its fields are x"),
        ("place[1] = 1", "the field 1 of place"),
        ("labels[5] = 'x'", r"labels\[…\]', but 5 is not a value of type STRING"),
        ("counts[5.5].n = 1", "the key Decimal.*of counts; its keys are INT, which has no such value"),
        ("id.x = 1", "looks for 'x' inside of id, which is BIGINT; only a ROW has fields"),
        ("nope.x = 1", "the column 'nope'; the columns are id"),
        ("place = 1", "the column 'place', but a nested type has no literals"),
        ("place.city = 5", r"the column .place\['city'\].*5 is not a value of type STRING"),
        ("labels[TIMESTAMP '2024-01-01 00:00:00'] = 'x'", "expected a literal|expected"),
        ("place. = 1", "expected a column"),
    ],
)
def test_a_path_that_does_not_fit_its_column_is_refused(text: str, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        parse_filter(text, FIELDS)


def test_values_of_numpy_and_pandas_are_literals() -> None:
    kinds = {"i": "INT", "d": "DATE", "t": "TIMESTAMP(6)", "n": "TIMESTAMP(9)"}
    fields = [DataField(id=i, name=name, type=data_type(kind)) for i, (name, kind) in enumerate(kinds.items())]
    stamp = pd.Timestamp("2024-05-06 10:00:00.000000001")
    assert bind(col("i") == np.int64(5), fields) == Comparison(Op.EQ, "i", 5)
    assert bind(col("d") == np.datetime64("2024-05-06"), fields) == Comparison(Op.EQ, "d", date(2024, 5, 6))
    assert bind(col("t") < stamp, fields) == Comparison(Op.LE, "t", datetime(2024, 5, 6, 10))
    assert bind(col("n") == stamp, fields) == Comparison(Op.EQ, "n", stamp.value)
    for nothing in (pd.NaT, pd.NA):
        with pytest.raises(FilterError, match="'t'"):
            bind(col("t") == nothing, fields)
