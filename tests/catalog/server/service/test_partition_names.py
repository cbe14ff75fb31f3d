"""Names of partitions, escaped as in Hive, and the values parsed from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.server.service.errors import InvalidPartitionError, NoSuchObjectError
from interbed.catalog.server.service.model import MetastoreColumn
from interbed.catalog.server.service.names import (
    escaped,
    parsed_name,
    partition_name,
    unescaped,
    values_of_name,
)

KEYS = [MetastoreColumn(name="Dt", type="string"), MetastoreColumn(name="n", type="int")]
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@given(TEXTS)
def test_unescaping_is_the_inverse_of_escaping(text: str) -> None:
    assert unescaped(escaped(text)) == text
    assert not set(escaped(text)) & set("\"#'*/:=?\\{[]^\x7f\n")


@given(TEXTS.filter(bool), TEXTS.filter(bool))
def test_a_partition_name_is_parsed_to_its_values(first: str, second: str) -> None:
    name = partition_name(KEYS, [first, second])
    assert [value for _, value in parsed_name(name)] == [first, second]
    assert values_of_name(KEYS, name) == (first, second)


def test_partition_names_are_those_of_hive() -> None:
    assert partition_name(KEYS, ["a/b=c%", ""]) == "dt=a%2Fb%3Dc%25/n=__HIVE_DEFAULT_PARTITION__"
    assert values_of_name(KEYS, "N=3/DT=x") == ("x", "3")
    assert unescaped("100%") == "100%"


def test_wrong_values_are_reported() -> None:
    with pytest.raises(InvalidPartitionError, match=r"keys \[Dt, n, \], values \[x, \]"):
        partition_name(KEYS, ["x"])
    with pytest.raises(NoSuchObjectError, match="incomplete partition name - missing n"):
        values_of_name(KEYS, "dt=x")
