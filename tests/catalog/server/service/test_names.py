"""Names and patterns of objects in a metastore."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.server.service.model import MetastoreColumn
from interbed.catalog.server.service.names import (
    escaped,
    is_valid_name,
    is_valid_table_name,
    matching,
    parsed_name,
    partition_name,
    pattern_matcher,
    unescaped,
    values_of_name,
)


@pytest.mark.parametrize("name", ["a", "A_1", "_", "9", "x" * 128])
def test_letters_digits_and_underscores_are_valid_names(name: str) -> None:
    assert is_valid_name(name)


@pytest.mark.parametrize("name", [None, "", "a-b", "a.b", "a b", "é", "a\n", "a/b", "..", "x" * 129])
@pytest.mark.attack("paths and links")
def test_other_characters_and_lengths_are_invalid(name: str | None) -> None:
    assert not is_valid_name(name)


def test_names_of_tables_may_be_longer() -> None:
    assert is_valid_table_name("x" * 256)
    assert not is_valid_table_name("x" * 257)
    assert not is_valid_table_name("a-b")


def test_matching_a_pattern_takes_bounded_time() -> None:
    started = time.monotonic()
    assert pattern_matcher("*a" * 60 + "b").fullmatch("a" * 128) is None
    assert time.monotonic() - started < 1


@given(st.lists(st.sampled_from("ab_*"), max_size=8).map("".join), st.text("ab_", max_size=8))
def test_a_star_matches_any_text(pattern: str, name: str) -> None:
    def match(rest: str, text: str) -> bool:
        if not rest:
            return not text
        if rest[0] == "*":
            return match(rest[1:], text) or (bool(text) and match(rest, text[1:]))
        return bool(text) and text[0] == rest[0] and match(rest[1:], text[1:])

    assert (matching([name], pattern) == [name]) == match(pattern, name)


@given(st.text())
def test_unescaping_is_the_inverse_of_escaping(text: str) -> None:
    assert unescaped(escaped(text)) == text
    assert not set(escaped(text)) & set('/=:"#*?\\{[]^')


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_a_partition_name_is_parsed_to_its_values(values: list[str]) -> None:
    keys = [MetastoreColumn(name=f"Key_{number}", type="string") for number in range(len(values))]
    name = partition_name(keys, values)
    assert values_of_name(keys, name) == tuple(values)
    assert [value for _, value in parsed_name(name)] == values


def test_partition_names_are_written_as_in_hive() -> None:
    keys = [MetastoreColumn(name="dt", type="string"), MetastoreColumn(name="N", type="int")]
    assert partition_name(keys, ["a/b=c d%", "2"]) == "dt=a%2Fb%3Dc d%25/n=2"
    assert partition_name(keys, ["", "2"]) == "dt=__HIVE_DEFAULT_PARTITION__/n=2"
