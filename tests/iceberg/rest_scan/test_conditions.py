"""Filters in JSON: every form of the specification, literals by the types of the columns, and what prunes nothing."""

from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from interbed.iceberg.rest_scan.conditions import (
    DEPTH_MAX,
    ColumnTest,
    column_tests_of,
    condition_json,
    parsed_condition,
)
from interbed.storage.base.errors import FilterError

COLUMNS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "Name", StringType()),
    NestedField(3, "at", TimestamptzType()),
    NestedField(4, "price", DecimalType(5, 2)),
    NestedField(5, "ratio", FloatType()),
    NestedField(6, "raw", BinaryType()),
    NestedField(7, "key", FixedType(2)),
    NestedField(8, "uid", UUIDType()),
    NestedField(9, "clock", TimeType()),
    NestedField(10, "exact", TimestampNanoType()),
    NestedField(11, "part", StructType(NestedField(12, "size", IntegerType(), required=True))),
    NestedField(13, "tags", ListType(14, StringType(), element_required=False)),
    NestedField(15, "small", IntegerType()),
)


def _one(json: Any, **options: Any) -> ColumnTest:
    (found,) = column_tests_of(parsed_condition(json, COLUMNS, **options))
    return found


def test_the_present_forms_of_a_predicate_are_those_of_the_deprecated_ones() -> None:
    wanted = {"type": "lt", "term": "id", "value": 3}
    reference = {"type": "reference", "name": "id"}
    for json in (
        wanted,
        {"type": "lt", "left": reference, "right": 3},
        {"type": "lt", "left": {"type": "reference", "id": 1}, "right": {"type": "literal", "value": 3}},
        {"type": "gt", "left": {"type": "literal", "value": 3, "data-type": "long"}, "right": reference},
        {"type": "not", "child": {"type": "gt-eq", "term": reference, "value": 3}},
        {"type": "not", "child": {"type": "lt-eq", "left": 3, "right": reference}},
    ):
        assert condition_json(parsed_condition(json, COLUMNS)) == wanted
    assert _one({"type": "is-null", "child": {"type": "reference", "name": "Name"}}).json["term"] == "Name"
    assert _one({"type": "in", "child": reference, "values": [1, {"type": "literal", "value": 2}]}).json == {
        "type": "in",
        "term": "id",
        "values": [1, 2],
    }
    constants: list[tuple[Any, bool]] = [
        (True, True),
        ({"type": "false"}, False),
        ({"type": "not", "child": False}, True),
    ]
    for constant, value in constants:
        assert condition_json(parsed_condition(constant, COLUMNS)) is value
    # The column is required.
    assert condition_json(parsed_condition({"type": "not-null", "term": "id"}, COLUMNS)) is True


def test_names_are_found_without_their_case_if_that_is_wanted() -> None:
    assert _one({"type": "eq", "term": "NAME", "value": "a"}, case_sensitive=False).json["term"] == "Name"
    with pytest.raises(FilterError, match="'NAME'"):
        parsed_condition({"type": "eq", "term": "NAME", "value": "a"}, COLUMNS)


@pytest.mark.parametrize(
    ("column", "value", "is_known"),
    [
        ("id", 1 << 62, True),
        ("small", 1 << 40, False),
        ("at", "2024-02-29T10:00:00+00:00", True),
        ("at", 1_700_000_000_000_000, True),
        ("price", "1.5", True),
        ("price", 2, True),
        ("price", "1.555", False),
        ("price", "12345678.00", False),
        ("ratio", 0.5, True),
        ("ratio", 0.1, False),
        ("raw", "00FF", True),
        ("key", "0aFF", True),
        ("uid", "eb26bdb1-a1d8-4aa6-990e-da940875492c", True),
        ("clock", "22:31:08.123456", True),
        ("exact", "2024-02-29T10:00:00.123456789", False),
        ("part.size", 3, True),
    ],
)
def test_a_literal_has_the_type_of_its_column_and_prunes_if_it_is_exact(
    column: str, value: Any, is_known: bool
) -> None:
    json = {"type": "lt", "term": column, "value": value}
    found = _one(json)
    assert found.json == json
    assert (found.named is not None) is is_known


def test_a_field_of_a_struct_may_be_null_though_it_is_required() -> None:
    for word in ("is-null", "not-null"):
        assert _one({"type": word, "term": "part.size"}).named is None
        assert _one({"type": word, "term": "part"}).named is None


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("id", "1"), ("id", 1.5), ("id", True), ("Name", 1), ("price", "many"), ("ratio", "1")),
        *(("raw", "0"), ("raw", "xy"), ("key", "00"), ("uid", "1"), ("clock", "noon"), ("at", "2024-02-29")),
        *(("part", 1), ("tags", "a"), ("tags.element", "a"), ("id", []), ("id", {"type": "reference", "name": "id"})),
    ],
)
def test_a_literal_of_another_type_is_refused(column: str, value: Any) -> None:
    with pytest.raises(FilterError):
        parsed_condition({"type": "eq", "term": column, "value": value}, COLUMNS)


def test_a_long_chain_is_one_level_and_deep_nesting_is_refused() -> None:
    chain: Any = {"type": "eq", "term": "id", "value": 0}
    for number in range(1, 3000):
        chain = {"type": "or", "left": chain, "right": {"type": "eq", "term": "id", "value": number}}
    found = parsed_condition(chain, COLUMNS)
    assert [test.json["value"] for test in column_tests_of(found)] == list(range(3000))
    depth, node = 0, condition_json(found)
    while node["type"] == "or":
        depth, node = depth + 1, node["left"]
    assert depth < 13
    nested: Any = {"type": "eq", "term": "id", "value": 0}
    for _ in range(DEPTH_MAX + 1):
        nested = {"type": "not", "child": nested}
    with pytest.raises(FilterError, match="nested"):
        parsed_condition(nested, COLUMNS)
