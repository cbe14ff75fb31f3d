"""Predicates survive the round trip through JSON."""

from typing import Any

import pytest
from hypothesis import given, settings

from interbed.storage.base.errors import FilterError
from interbed.storage.base.predicate.expr import Comparison, Op, Predicate
from interbed.storage.base.predicate.json import from_json, to_json
from interbed.storage.base.types.data_type import DataField
from tests.storage.base.predicate.model import tables
from tests.support.examples import examples


@settings(deadline=None, max_examples=examples(100))
@given(tables())
def test_a_predicate_survives_the_round_trip_with_its_values(
    case: tuple[list[DataField], list[dict[str, Any]], Predicate],
) -> None:
    # Compare as text, because NaN is not equal to itself.
    assert repr(from_json(to_json(case[2]))) == repr(case[2])


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"op":"eq"}', '{"op":"what","column":"a","value":1}', '{"op":"in","column":"a","values":[[1]]}']
    + [f'{{"op":"eq","column":"a","value":{v}}}' for v in ('{"date":"x"}', '{"decimal":"x"}', "{}", '{"binary":5}')],
)
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(FilterError, match="Not a predicate in JSON"):
        from_json(text)


def test_other_literals_are_refused() -> None:
    with pytest.raises(FilterError, match="not a literal"):
        to_json(Comparison(Op.EQ, "a", object()))
