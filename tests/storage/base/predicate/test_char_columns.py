"""Comparisons of CHAR columns are those of values padded with blanks, as Spark makes them."""

import operator
from collections.abc import Callable
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from interbed.storage.base.errors import FilterError
from interbed.storage.base.predicate.conditions import bound_filter, col
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.types.arrow import data_type
from interbed.storage.base.types.data_type import DataField

LENGTH = 3
TEXTS = ["".join(letters) for length in range(LENGTH + 1) for letters in product("\t ab\u00e9", repeat=length)]
FIELDS = [
    DataField(id=0, name="c", type=data_type(f"CHAR({LENGTH})")),
    DataField(id=1, name="v", type=data_type("VARCHAR(3)")),
    DataField(id=2, name="r", type=data_type("ROW<c CHAR(3)>")),
]
STORED: list[Any] = [*TEXTS, None]
ROWS = pa.table({"c": STORED, "v": STORED, "r": [{"c": text} for text in STORED]})
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def selected(condition: Any) -> list[str]:
    """Return the values of `c` of the rows that the condition selects."""
    found: Any = ROWS.filter(mask(bound_filter(condition, FIELDS), ROWS)).column("c").to_pylist()
    return [str(text) for text in found]


def padded(text: str, literal: str) -> str:
    return text.ljust(max(LENGTH, len(literal)))


@pytest.mark.parametrize("symbol", OPERATORS)
def test_a_comparison_is_that_of_padded_values(symbol: str) -> None:
    compare = OPERATORS[symbol]
    for literal in [*TEXTS, "abab", "ab  \t", "abc    "]:
        wanted = [text for text in TEXTS if compare(padded(text, literal), padded(literal, literal))]
        assert selected(f"c {symbol} '{literal}'") == wanted, literal
        kept = set(wanted)
        assert selected(f"NOT (c {symbol} '{literal}')") == [text for text in TEXTS if text not in kept], literal


def test_lists_and_ranges_compare_as_single_values_do() -> None:
    equal = [text for text in TEXTS if text.rstrip(" ") in ("a", "b\t")]
    assert selected("c IN ('a  ', 'b\t', NULL)") == equal
    assert selected(col("c").is_in(["a", "b\t "])) == equal
    assert selected("c NOT IN ('a', 'b\t')") == [text for text in TEXTS if text not in equal]
    assert selected("c NOT IN ('a', NULL)") == []
    assert selected("c = 'a' OR c = 'b\t  '") == equal
    between = [text for text in TEXTS if "a".ljust(3) <= text.ljust(3) <= "b\t".ljust(3)]
    assert selected("c BETWEEN 'a ' AND 'b\t'") == between
    assert selected(col("c").between("a", "b\t")) == between


def test_a_bound_condition_selects_the_same_rows_when_it_is_bound_again() -> None:
    for symbol, literal in product(OPERATORS, ["a", "a ", "b\t", "\t", ""]):
        once = bound_filter(f"c {symbol} '{literal}'", FIELDS)
        assert selected(bound_filter(once, FIELDS)) == selected(once), (symbol, literal)


def test_other_texts_are_compared_with_their_blanks() -> None:
    for column in ("v", "r.c"):
        assert selected(f"{column} = 'a'") == ["a"]
        assert selected(f"{column} = 'a '") == ["a "]
        assert "a " in selected(f"{column} > 'a'")
    assert selected("c LIKE 'a'") == ["a"]
    assert selected("c LIKE 'a '") == ["a "]
    assert len(selected("c IS NOT NULL")) == len(TEXTS)


def test_a_column_of_many_blanks_is_refused_by_name() -> None:
    long = [DataField(id=0, name="c", type=data_type("CHAR(100000)"))]
    with pytest.raises(FilterError, match=r"the column 'c', a CHAR\(100000\), with 'a'"):
        bound_filter("c = 'a'", long)
    bound_filter("c LIKE 'a%'", long)
