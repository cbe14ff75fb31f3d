"""Integers that a DOUBLE cannot represent, mixed with fractions: the column keeps its first kind in all batches."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed import data_type
from interbed.ingest.formats.debezium_json import DebeziumJson
from interbed.ingest.formats.format import Decoder, PlainJson
from interbed.ingest.tables.new_columns import as_one_by_one
from tests.ingest.memory_source import messages_of
from tests.support.examples import examples
from tests.support.tally import Tally

LARGE = 2**53 + 1
NUMBERS = (LARGE, -LARGE, 2**70 + 1, 1.5, 1e300, 10**400)


def read(values: list[Any], decoder: Decoder | None = None) -> tuple[list[Any], list[int]]:
    """Return the rows that a new table gets from messages, and the numbers of the bad messages."""
    decoded = (decoder or PlainJson()).decode(messages_of([json.dumps(value).encode() for value in values]))
    if not decoded.changes:
        return [], [each.index for each in decoded.bad]
    [changes] = decoded.changes
    changes, bad = as_one_by_one(changes, {})
    return changes.rows.to_pylist(), [each.index for each in (*decoded.bad, *bad)]


@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: {"y": v}, lambda v: [v, 3], lambda v: [{"y": [None, v]}]])
def test_a_column_keeps_the_kind_of_its_first_value(wrap: Any, tally: Tally) -> None:
    for first, second in ((LARGE, 1.5), (1.5, LARGE), (LARGE, 1e300), (1e300, -LARGE), (2**70 + 1, 0.5)):
        rows = [{"id": i, "x": wrap(v)} for i, v in enumerate((first, first, second, first))]
        found, bad = read(rows)
        assert bad == [2], rows
        assert [each["x"] for each in found] == [wrap(first)] * 3
        tally("mixed numbers of guessed JSON", 1)


def test_a_message_with_both_kinds_is_refused() -> None:
    found, bad = read([{"x": [LARGE]}, {"x": [1.5, LARGE]}, {"x": [LARGE, 1.5]}, {"x": [1]}])
    assert (found, bad) == ([{"x": [LARGE]}, {"x": [1]}], [1, 2])


def test_integers_that_a_double_represents_are_accepted_as_doubles() -> None:
    values = [1.5, 1, 2**53, -(2**60), 2**70]
    assert read([{"x": v} for v in values]) == ([{"x": float(v)} for v in values], [])


def test_the_reason_names_field_value_and_remedy() -> None:
    decoded = PlainJson().decode(messages_of([b'{"a":{"b":1.5}}', b'{"a":{"b":9007199254740993}}']))
    _, [bad] = as_one_by_one(decoded.changes[0], {})
    assert bad.index == 1
    assert "a.b has 9007199254740993" in bad.reason
    assert "DECIMAL" in bad.reason


def test_an_existing_table_column_accepts_both_kinds() -> None:
    decoded = PlainJson().decode(messages_of([b'{"a":1.5}', b'{"a":9007199254740993}']))
    changes, bad = as_one_by_one(decoded.changes[0], {"a": data_type("DOUBLE")})
    assert (len(changes.kinds), bad) == (2, [])


def test_a_later_batch_of_integers_stays_integers() -> None:
    decoder = PlainJson()
    read([{"x": 1.5}], decoder)
    assert read([{"x": LARGE}, {"x": 2}], decoder) == ([{"x": LARGE}, {"x": 2}], [])
    assert read([{"x": 2.5}, {"x": 2}], decoder) == ([{"x": 2.5}, {"x": 2.0}], [])


def test_rows_before_and_after_are_of_one_kind() -> None:
    events = [
        {"before": None, "after": {"x": LARGE}, "op": "c", "source": {"db": "shop", "table": "orders"}},
        {"before": {"x": 1.5}, "after": {"x": 1}, "op": "u", "source": {"db": "shop", "table": "orders"}},
    ]
    assert read(events, DebeziumJson()) == ([{"x": LARGE}], [1])


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.sampled_from(NUMBERS), max_size=6), st.lists(st.integers(0, 6), max_size=3))
def test_integers_are_exact_whatever_the_batches(values: list[Any], ends: list[int]) -> None:
    decoder = PlainJson()
    for start, end in itertools.pairwise([0, *sorted(min(e, len(values)) for e in ends), len(values)]):
        part = values[start:end]
        found, bad = read([{"i": i, "x": v} for i, v in enumerate(part)], decoder)
        for each in found:
            given = part[int(each["i"])]
            assert each["x"] == (str(given) if isinstance(each["x"], str) and isinstance(given, int) else given) or (
                isinstance(each["x"], str) and float(each["x"]) == given
            )
        assert len(found) + len(bad) == len(part)
