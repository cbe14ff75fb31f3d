"""The filter language of partitions: parse trees and errors.

Selection in a database is tested in tests/catalog/server/database/test_partition_filter.py.
"""

import pytest

from interbed.catalog.server.service.errors import BadFilterError
from interbed.catalog.server.service.filters.expression import parse_filter
from interbed.catalog.server.service.filters.tree import (
    EVERYTHING,
    AllOf,
    AnyOf,
    KeyComparison,
    LikePattern,
    MissingValue,
    OneOf,
    PartitionFilter,
    filter_of_values,
)
from interbed.catalog.server.service.model import MetastoreColumn

KEYS = [
    MetastoreColumn(name="dt", type="string"),
    MetastoreColumn(name="n", type="int"),
    MetastoreColumn(name="date", type="date"),
]


def text_is(value: str) -> KeyComparison:
    """Return the tree of `dt` equal to a text."""
    return KeyComparison(position=0, operator="=", operand=value)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("", EVERYTHING),
        ("   ", EVERYTHING),
        ('dt = "x"', text_is("x")),
        ("'x' = DT", text_is("x")),
        ("`dt` == 'x'", text_is("x")),
        ("(('x' = dt))", text_is("x")),
        ("n >= -3", KeyComparison(position=1, operator=">=", operand="V6")),
        ("-3 < n", KeyComparison(position=1, operator=">", operand="V6")),
        ("n <> '12'", KeyComparison(position=1, operator="<>", operand="c12")),
        ("not n = 12", KeyComparison(position=1, operator="<>", operand="c12")),
        ("not not n = 12", KeyComparison(position=1, operator="=", operand="c12")),
        ('dt = "x" or dt = "y"', OneOf(position=0, operands=frozenset("xy"))),
        ('(dt) in ("x", "y")', OneOf(position=0, operands=frozenset("xy"))),
        ('dt not in ("x", "y")', OneOf(position=0, operands=frozenset("xy"), negated=True)),
        ('not (dt = "x" or dt = "y")', OneOf(position=0, operands=frozenset("xy"), negated=True)),
        (
            "n not between 1 and 2",
            AnyOf(
                parts=(
                    KeyComparison(position=1, operator="<", operand="b1"),
                    KeyComparison(position=1, operator=">", operand="b2"),
                )
            ),
        ),
        (
            'dt = "x" and n = 1 or n = 2',
            AnyOf(
                parts=(
                    KeyComparison(position=1, operator="=", operand="b2"),
                    AllOf(parts=(text_is("x"), KeyComparison(position=1, operator="=", operand="b1"))),
                )
            ),
        ),
        (
            '(struct(dt, n)) in (const struct("x", 1))',
            AllOf(parts=(text_is("x"), KeyComparison(position=1, operator="=", operand="b1"))),
        ),
        ("date = 2024-01-05", KeyComparison(position=2, operator="=", operand="2024-01-05")),
        ("date = DATE '2024-1-5'", KeyComparison(position=2, operator="=", operand="2024-01-05")),
        ("DATE '2024-1-5' > date", KeyComparison(position=2, operator="<", operand="2024-01-05")),
        ('n = "__HIVE_DEFAULT_PARTITION__"', MissingValue(position=1)),
        ('n != "__HIVE_DEFAULT_PARTITION__"', MissingValue(position=1, negated=True)),
        ('dt = "__HIVE_DEFAULT_PARTITION__"', text_is("__HIVE_DEFAULT_PARTITION__")),
        (r'dt = "a\"b\c"', text_is('a"b\\c')),
        ("dt like 'a.b.*'", LikePattern(position=0, pattern=("\\a.b", "%"))),
        (r"dt not like '%a\_b_'", LikePattern(position=0, pattern=("%", "\\a_b", "_"), negated=True)),
    ],
)
def test_filters_parse_to_trees(text: str, tree: PartitionFilter) -> None:
    assert parse_filter(text, KEYS) == tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bogus = 1", "Specified key <bogus> is not a partitioning key for the table"),
        ("dt = 1", "Filtering is supported only on partition keys of type string"),
        ("n like '1%'", "Filtering is supported only on partition keys of type string"),
        ("'x' like dt", "Value should be on the RHS for LIKE operator : Key <dt>"),
        ('n = "a"', "Cannot compare partition key n of type int"),
        ("n > '__HIVE_DEFAULT_PARTITION__'", "but by = and !="),
        ("date = '2024-13-01'", "Cannot compare partition key date of type date"),
        ("date = DATE 'soon'", "'soon' is no date or timestamp"),
        ("n = " + "9" * 30, "Cannot compare partition key n of type int"),
        ("n = " + "9" * 5000, "is no number of 64 bits"),
        ('dt = "x" and', "Error parsing partition filter"),
        ("dt = x", "Error parsing partition filter"),
        ("n = 3; drop table tables", "Error parsing partition filter"),
        ("(struct(dt, n)) in (const struct('x'))", "another number of values than of keys"),
        ("dt = 'a\0b'", "NUL character"),
        ("(" * 5000, "Error parsing partition filter"),
        ("not " * 5000 + "n = 3", "Error parsing partition filter"),
        (" or ".join(f"(n = {number} and dt = 'x')" for number in range(3000)), "more than 5000 comparisons"),
    ],
)
def test_bad_filters_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadFilterError, match=message):
        parse_filter(text, KEYS)


def test_a_key_of_a_type_without_order_is_refused() -> None:
    with pytest.raises(BadFilterError, match="not supported for type decimal"):
        parse_filter("d > 1", [MetastoreColumn(name="d", type="decimal(10,2)")])


def test_equalities_of_one_key_become_one_comparison() -> None:
    tree = parse_filter(" or ".join(f"n = {number}" for number in range(5000)), KEYS)
    assert isinstance(tree, OneOf)
    assert len(tree.operands) == 5000


def test_values_select_the_partitions_written_with_the_same_digits() -> None:
    tree = filter_of_values(KEYS, ["", "03"])
    assert isinstance(tree, AllOf)
    # The number as an indexed comparison, and the digits as a second one.
    assert tree.parts[0] == KeyComparison(position=1, operator="=", operand="b3")
    assert len(tree.parts) == 2
