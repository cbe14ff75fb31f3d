"""Filters written as text are parsed to bound predicates."""

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.errors import FilterError
from interbed.storage.base.predicate.expr import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Like,
    Not,
    NotIn,
    Op,
    Or,
    Predicate,
    between,
    text_of,
)
from interbed.storage.base.predicate.grammar import MADE_OF, loaded_parser, made_of, new_parser, parse_filter
from interbed.storage.base.types.data_type import DataField, type_from_json

_COLUMNS = {
    "id": "INT",
    "tiny": "TINYINT",
    "name": "STRING",
    "date": "DATE",
    "time": "TIME(3)",
    "timestamp": "TIMESTAMP(3)",
    "ltz": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "nanos": "TIMESTAMP(9)",
    "price": "DECIMAL(5, 2)",
    "score": "DOUBLE",
    "ok": "BOOLEAN",
    "raw": "BYTES",
    "notes": "STRING",
    "a b": "INT",
    'q"`': "INT",
    "größe": "INT",
    "tags": "ARRAY<INT>",
}
FIELDS = [
    DataField(id=i, name=n, type=type_from_json({"type": "ARRAY", "element": "INT"} if t.startswith("ARRAY") else t))
    for i, (n, t) in enumerate(_COLUMNS.items())
]


def eq(column: str, value: object) -> Predicate:
    """Return the predicate `column = value`."""
    return Comparison(Op.EQ, column, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 1", eq("id", 1)),
        ("id=-1", eq("id", -1)),
        ("id <> 1", Comparison(Op.NE, "id", 1)),
        ("id != 1", Comparison(Op.NE, "id", 1)),
        ("1 < id", Comparison(Op.GT, "id", 1)),
        ("1 >= id", Comparison(Op.LE, "id", 1)),
        ("1 = id", eq("id", 1)),
        ("id=1 or id=2 and ok", Or((eq("id", 1), And((eq("id", 2), eq("ok", True)))))),
        ("(id=1 OR id=2) AND NOT ok", And((In("id", (1, 2)), Not(eq("ok", True))))),
        ("id=1 OR tiny=2 OR id=1 OR id in (2, 3)", Or((In("id", (1, 2, 3)), eq("tiny", 2)))),
        ("not not id = 1", Not(Not(eq("id", 1)))),
        ("id in (1, 2)", In("id", (1, 2))),
        ("id not in (1, null)", NotIn("id", (1, None))),
        ("id in (1.5, 2.0)", In("id", (2,))),
        ("id between 1 and 2 and ok", And((between("id", 1, 2), eq("ok", True)))),
        ("id not between 1 and 2", Not(between("id", 1, 2))),
        ("name is null or name is not null", Or((IsNull("name"), IsNotNull("name")))),
        ("tags is null", IsNull("tags")),
        ("name = 'it''s'", eq("name", "it's")),
        ("name like 'a\\_%'", Like("name", "a\\_%")),
        ("name not like '%'", Not(Like("name", "%"))),
        ("name = NULL", eq("name", None)),
        ("price = 1.50", eq("price", Decimal("1.50"))),
        ("price = 1", eq("price", Decimal("1.00"))),
        ("price < '2.5'", Comparison(Op.LT, "price", Decimal("2.50"))),
        ("score >= 1e3", Comparison(Op.GE, "score", 1000.0)),
        ("score = .5", eq("score", 0.5)),
        ("ok = true", eq("ok", True)),
        ("true and false", And((AlwaysTrue(), AlwaysFalse()))),
        ("raw = X'00fF'", eq("raw", b"\x00\xff")),
        ("date = DATE '2024-02-29'", eq("date", date(2024, 2, 29))),
        ("date = '2024-02-29'", eq("date", date(2024, 2, 29))),
        ("date = '2024'", eq("date", date(2024, 1, 1))),
        ("date = DATE '2024-5'", eq("date", date(2024, 5, 1))),
        ("timestamp = '2024-05'", eq("timestamp", datetime(2024, 5, 1))),
        ("raw = 'x'", eq("raw", b"x")),
        ("date = TIMESTAMP '2024-01-01'", eq("date", date(2024, 1, 1))),
        ("date < TIMESTAMP '2024-01-01 10:00'", Comparison(Op.LE, "date", date(2024, 1, 1))),
        ("date = '2024-01-01 10:00:00'", eq("date", date(2024, 1, 1))),
        ("date = '+10000-01-01'", eq("date", 2932897)),
        ("timestamp = TIMESTAMP '2024'", eq("timestamp", datetime(2024, 1, 1))),
        ("time < TIME '12:34:56.7'", Comparison(Op.LT, "time", time(12, 34, 56, 700_000))),
        ("timestamp = '2024-02-29 12:34:56.789'", eq("timestamp", datetime(2024, 2, 29, 12, 34, 56, 789_000))),
        ("timestamp = TIMESTAMP '2024-02-29'", eq("timestamp", datetime(2024, 2, 29))),
        ("timestamp = DATE '2024-02-29'", eq("timestamp", datetime(2024, 2, 29))),
        ("timestamp > '2024-02-29 00:00:00.0005'", Comparison(Op.GT, "timestamp", datetime(2024, 2, 29))),
        ("timestamp < '2024-02-29 00:00:00.0005'", Comparison(Op.LE, "timestamp", datetime(2024, 2, 29))),
        ("ltz = '2024-02-29T12:00:00+02:00'", eq("ltz", datetime(2024, 2, 29, 10, tzinfo=UTC))),
        ("nanos = '1970-01-01 00:00:00.123456789'", eq("nanos", 123_456_789)),
        ("notes = 'x' and nota_bene_ is null", None),
        ("`a b` = 1", eq("a b", 1)),
        ('"q""`" = 1', eq('q"`', 1)),
        ("größe = 1", eq("größe", 1)),
    ],
)
def test_a_condition_becomes_a_bound_predicate(text: str, expected: Predicate | None) -> None:
    if expected is None:
        with pytest.raises(FilterError, match="'nota_bene_'; the columns are id, tiny"):
            parse_filter(text, FIELDS)
        return
    assert parse_filter(text, FIELDS) == expected
    assert text_of(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id < 5.5", Comparison(Op.LE, "id", 5)),
        ("id <= 5.5", Comparison(Op.LE, "id", 5)),
        ("id > 5.5", Comparison(Op.GT, "id", 5)),
        ("id >= -5.5", Comparison(Op.GT, "id", -6)),
        ("id = 5.5", And((IsNull("id"), eq("id", None)))),
        ("id <> 5.5", Or((IsNotNull("id"), eq("id", None)))),
        ("tiny < 1000", Or((IsNotNull("tiny"), eq("tiny", None)))),
        ("tiny < -1000", And((IsNull("tiny"), eq("tiny", None)))),
        ("tiny > -128.5", Or((IsNotNull("tiny"), eq("tiny", None)))),
        ("tiny > 127.5", Comparison(Op.GT, "tiny", 127)),
        ("price < 1e30", Or((IsNotNull("price"), eq("price", None)))),
        ("price <= 1.005", Comparison(Op.LE, "price", Decimal("1.00"))),
    ],
)
def test_numbers_that_a_column_cannot_hold_become_an_equivalent_predicate(text: str, expected: Predicate) -> None:
    assert parse_filter(text, FIELDS) == expected


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 1, "a column"),
        ("id =", 5, "a literal"),
        ("id == 1", 5, "a literal"),
        ("(id = 1", 8, "')'"),
        ("id = 1)", 7, "the end"),
        ("id in ()", 8, "a literal"),
        ("id between 1 or 2", 14, "AND"),
        ("id ! 1", 4, "a comparison"),
        ("name like 5", 11, "a text in quotes"),
        ("id = 'open", 6, "a literal"),
        ("id = 1 id = 2", 8, "the end"),
        ("id is 5", 7, "NULL"),
    ],
)
def test_a_syntax_error_shows_the_position_and_the_expected_tokens(text: str, position: int, expected: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_filter(text, FIELDS)
    message = str(caught.value)
    assert f"at position {position};" in message
    assert expected in message
    assert message.endswith("\n  " + " " * (position - 1) + "^")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nope = 1", "'nope'; the columns are id, tiny"),
        ("id = 'x'", "column 'id', but 'x' is not a value of type INT"),
        ("name = 5", "column 'name', but 5 is not a value of type STRING"),
        ("id", "column 'id', but True is not"),
        ("ok = 1", "column 'ok', but 1 is not"),
        ("raw = 5", "column 'raw'"),
        ("tags = 1", "column 'tags', but a nested type has no literals"),
        ("id like 'x'", "'id' is INT; Like takes a text column"),
        ("date = DATE '2024-13-01'", "DATE '2024-13-01' is not a date"),
        ("date = '19723'", "column 'date'"),
        ("date = DATE '19723'", "DATE '19723' is not a date"),
        ("date = '-1'", "column 'date'"),
        ("date = 5", "column 'date', but 5 is not a value of type DATE, which is compared with DATE '2024-01-31'"),
        ("time = 5", "column 'time', but 5 is not a value of type TIME(3)"),
        ("timestamp > 5", "column 'timestamp', but 5 is not"),
        ("nanos > 5", "column 'nanos', but 5 is not"),
        ("timestamp = '2024-01-01 00:00:00+01:00'", "has a time zone"),
        ("timestamp = TIMESTAMP '2024-01-01 00:00:00Z'", "has a time zone"),
        ("score = '1_0'", "column 'score'"),
        ("time = TIME '25:00'", "TIME '25:00' is not a time"),
        ("timestamp = 'soon'", "column 'timestamp', but 'soon' is no timestamp"),
        ("timestamp = '2024-01-01 00:00:00.123456789'", "more than 6"),
        ("raw = X'0'", "X'0' is not bytes"),
        ("name like 'a\\'", "ends with a backslash"),
        ("score = 1e99999999999999999999", "out of the range of numbers"),
        ("not " * 5000 + "ok", "nested too deeply"),
        ("ok" + " " * (1 << 20), "at most"),
    ],
)
def test_a_filter_that_does_not_fit_the_columns_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_filter(text, FIELDS)
    assert message in str(caught.value)


@settings(deadline=None)
@given(
    st.text()
    | st.lists(st.sampled_from(["id", "=", "1", "(", ")", "and", "not", "'x'", "in", ",", "is", "null"])).map(" ".join)
)
def test_any_text_parses_to_a_predicate_or_raises_a_filter_error(text: str) -> None:
    try:
        found = parse_filter(text, FIELDS)
    except FilterError:
        return
    assert text_of(found)


def test_the_parser_tables_match_the_grammar() -> None:
    # `python -m tests.support.filter_grammar` generates them.
    assert made_of() == MADE_OF
    for text in (
        "a = 1 and (b <> 'x' or not c in (1, 2))",
        "a\tbetween\n1 and 2\r",
        "`a` like 'x%' or \"b\" is not null",
    ):
        assert loaded_parser().parse(text) == new_parser().parse(text)
