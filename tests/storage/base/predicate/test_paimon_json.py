"""Row filters and masks in Paimon's JSON: what Paimon's classes read, and what is refused because they do not."""

import json

import pyarrow as pa
import pytest

from interbed.storage.base.errors import FilterError
from interbed.storage.base.predicate.evaluate import mask as mask_rows
from interbed.storage.base.predicate.grammar import parse_filter
from interbed.storage.base.predicate.json import (
    filter_from_paimon,
    filter_to_paimon,
    mask_from_paimon,
    mask_to_paimon,
)
from interbed.storage.base.predicate.masks import apply_masks, parse_mask
from interbed.storage.base.types.data_type import DataField, type_from_json

FIELDS = [
    DataField(id=index, name=name, type=type_from_json(kind))
    for index, (name, kind) in enumerate(
        {
            "id": "INT NOT NULL",
            "city": "STRING",
            "country": "STRING",
            "amount": "DOUBLE",
            "paid": "BOOLEAN",
            "dt": "DATE",
            "price": "DECIMAL(10, 2)",
            "code": "CHAR(3)",
            "other": "INT",
        }.items()
    )
]
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int32()),
        "city": ["Bonn", "Köln", None, "Ulm"],
        "country": ["de", None, "fr", "de"],
        "amount": [1.0, 2.5, None, -1.0],
        "paid": [True, False, None, True],
        "other": pa.array([7, None, 9, 10], pa.int32()),
    }
)


def test_a_filter_is_the_json_of_paimons_predicates() -> None:
    found = json.loads(filter_to_paimon(parse_filter("id > 2 AND country = 'de'", FIELDS), FIELDS))
    ref = {"index": 0, "name": "id", "type": "INT NOT NULL"}
    assert found["kind"] == "COMPOUND"
    assert found["function"] == "AND"
    assert found["children"][0] == {
        "kind": "LEAF",
        "transform": {"name": "FIELD_REF", "fieldRef": ref},
        "function": "GREATER_THAN",
        "literals": [2],
    }


@pytest.mark.parametrize(
    "text",
    [
        "id > 2",
        "NOT (id IN (1, 2) OR country = 'de')",
        "city LIKE '_o%' OR city IS NULL",
        "amount BETWEEN 0 AND 2.5",
        "NOT (amount BETWEEN 0 AND 2)",
        "NOT paid OR id NOT IN (1, 2)",
        "country <> 'de'",
        "id = 3000000000",
        "city IS NOT NULL AND country IS NULL",
        "FALSE",
        "TRUE",
    ],
)
def test_a_filter_selects_the_same_rows_after_the_round_trip(text: str) -> None:
    predicate = parse_filter(text, FIELDS)
    again = filter_from_paimon(filter_to_paimon(predicate, FIELDS), FIELDS)
    assert mask_rows(again, ROWS).equals(mask_rows(predicate, ROWS))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("dt = DATE '2026-01-01'", "'dt' is DATE"),
        ("price > 5", "'price' is DECIMAL"),
        ("code <> 'ab'", "'code' is CHAR"),
        ("city NOT LIKE 'B%'", "write it without NOT"),
        ("amount = 'Infinity'", "not finite"),
    ],
)
def test_a_filter_that_paimons_readers_lack_is_refused_by_name(text: str, reason: str) -> None:
    with pytest.raises(FilterError, match=reason):
        filter_to_paimon(parse_filter(text, FIELDS), FIELDS)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"kind":"LEAF","transform":{"name":"UPPER","inputs":[]},"function":"EQUAL","literals":["x"]}',
        '{"kind":"LEAF","transform":{"name":"FIELD_REF","fieldRef":{"name":"id"}},"function":"NEW","literals":[1]}',
        '{"kind":"LEAF","transform":{"name":"FIELD_REF","fieldRef":{"name":"gone"}},"function":"IS_NULL"}',
        '{"kind":"COMPOUND","function":"XOR","children":[]}',
    ],
)
def test_a_filter_that_is_not_known_here_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        filter_from_paimon(text, FIELDS)


@pytest.mark.parametrize(
    ("column", "text", "values"),
    [
        ("city", "NULL", [None] * 4),
        ("city", "'it''s hidden'", ["it's hidden"] * 4),
        ("city", "upper(country)", ["DE", None, "FR", "DE"]),
        ("city", "LOWER(city)", ["bonn", "köln", None, "ulm"]),
        ("city", "CONCAT(city, ', ', `country`)", ["Bonn, de", None, None, "Ulm, de"]),
        ("city", "concat_ws('-', city, country)", ["Bonn-de", "Köln", "fr", "Ulm-de"]),
        ("city", "country", ["de", None, "fr", "de"]),
        ("other", "id", [1, 2, 3, 4]),
    ],
)
def test_a_mask_replaces_the_values_of_its_column_before_and_after_the_round_trip(
    column: str, text: str, values: list[object]
) -> None:
    mask = parse_mask(text, column, FIELDS)
    assert apply_masks(ROWS, {column: mask})[column].to_pylist() == values
    assert mask_from_paimon(mask_to_paimon(mask, FIELDS), column, FIELDS) == mask


def test_masks_are_computed_from_values_before_any_mask() -> None:
    masks = {"city": parse_mask("country", "city", FIELDS), "country": parse_mask("city", "country", FIELDS)}
    found = apply_masks(ROWS, masks)
    assert found["city"].to_pylist() == ROWS["country"].to_pylist()
    assert found["country"].to_pylist() == ROWS["city"].to_pylist()


@pytest.mark.parametrize(
    ("column", "text", "reason"),
    [
        ("id", "NULL", "NOT NULL"),
        ("id", "other", "may be null"),
        ("amount", "other", "same type"),
        ("amount", "'x'", "takes texts"),
        ("city", "UPPER(id)", "takes texts"),
        ("city", "city", "the column itself"),
        ("city", "gone", "no column 'gone'"),
        ("gone", "NULL", "no column 'gone'"),
        ("city", "SHA2(city, 256)", "is not a mask"),
        ("city", "UPPER(city, city)", "is not a mask"),
        ("city", "UPPER(city", "is not a mask"),
        ("city", "CONCAT(city,)", "is not a mask"),
        ("city", "CONCAT(city city)", "is not a mask"),
        ("city", "CONCAT(,)", "is not a mask"),
        ("city", "5", "is not a mask"),
        ("city", "", "is not a mask"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused_by_name(column: str, text: str, reason: str) -> None:
    with pytest.raises(FilterError, match=reason):
        parse_mask(text, column, FIELDS)


@pytest.mark.parametrize("text", ["{}", '{"name":"CAST"}', '{"name":"UPPER","inputs":[5]}', "[]"])
def test_a_mask_that_is_not_known_here_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        mask_from_paimon(text, "city", FIELDS)
