"""Filters over tables: the tables that they select, and the errors."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.catalog.server.service.errors import BadFilterError
from interbed.catalog.server.service.filters.grammar import compile_table_filter
from interbed.catalog.server.service.model import MetastoreTable
from tests.support.examples import examples

OWNER = "hive_filter_field_owner__"
ACCESS = "hive_filter_field_last_access__"
PARAMETER = "hive_filter_field_params__"


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        (f'{OWNER} = "me"', True),
        (f"{OWNER} != 'me'", False),
        (f'"me" = {OWNER}', True),
        (f'{OWNER} like "m.*"', True),
        (f'{OWNER} LIKE ".*x.*"', False),
        (f"{ACCESS} = 30", True),
        (f"{ACCESS} >= 31", False),
        (f"29 < {ACCESS} and {ACCESS} < 31", True),
        (f'{ACCESS} = "30"', True),
        (f'{PARAMETER}a.b-c = "1"', True),
        (f"{PARAMETER}a.b-c = 1", True),
        (f'{PARAMETER}a.b-c <> "1"', False),
        (f'{PARAMETER}missing <> "1"', False),
        (f'{PARAMETER}missing = "1" or {OWNER} = "me"', True),
        (f'not ({PARAMETER}missing = "1") and {OWNER} = "me"', True),
        (f'({OWNER} = "you" or {OWNER} = "me") and {ACCESS} <> 0', True),
        (f'{OWNER} = "m\\"e"', False),
    ],
)
def test_a_filter_selects_by_owner_parameter_and_last_access(text: str, selected: bool) -> None:
    table = MetastoreTable(database="d", name="t", owner="me", last_access_time=30, parameters={"a.b-c": "1"})
    assert compile_table_filter(text)(table) is selected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "owner = 'me'",
        f"{OWNER} =",
        f"{PARAMETER} = '1'",
        f"{ACCESS} = 'yesterday'",
        f"{ACCESS} like '3.*'",
        f"{OWNER} = 'me' garbage",
        "(" * 5000,
        f"{OWNER} = 'x' or " * 20_000,
    ],
)
def test_an_invalid_filter_is_refused(text: str) -> None:
    with pytest.raises(BadFilterError):
        compile_table_filter(text)


def test_matching_a_pattern_takes_bounded_time() -> None:
    predicate = compile_table_filter(f"{OWNER} like '{'.*a' * 30}b'")
    started = time.monotonic()
    assert not predicate(MetastoreTable(database="d", name="t", owner="a" * 5000))
    assert time.monotonic() - started < 30


@settings(max_examples=examples(100), deadline=None)
@given(st.text(alphabet="ab.*x", max_size=12), st.text(alphabet="abx", max_size=8))
def test_like_has_wildcards_for_texts_and_single_characters_only(pattern: str, owner: str) -> None:
    found = compile_table_filter(f'{OWNER} like "{pattern}"')(MetastoreTable(database="d", name="t", owner=owner))
    assert found is _matches(pattern, owner)


def _matches(pattern: str, text: str) -> bool:
    if pattern.startswith(".*"):
        return any(_matches(pattern[2:], text[start:]) for start in range(len(text) + 1))
    if not pattern:
        return not text
    return bool(text) and pattern[0] in (".", text[0]) and _matches(pattern[1:], text[1:])
