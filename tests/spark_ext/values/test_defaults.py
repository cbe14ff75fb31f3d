"""Column defaults in SQL: their form in a schema file, and refused defaults."""

import time

import pytest

from interbed.spark_ext.values.defaults import default_from_spark, default_to_spark
from interbed.spark_ext.values.spark_types import type_from_spark
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.types.default_value import default_scalar

ARRAY = {"type": "array", "elementType": "binary", "containsNull": True}
DAYS = {"type": "array", "elementType": "date", "containsNull": True}
STRUCT = {
    "type": "struct",
    "fields": [
        {"name": "a", "type": "string", "nullable": True, "metadata": {}},
        {
            "name": "b",
            "type": {"type": "array", "elementType": "integer", "containsNull": True},
            "nullable": True,
            "metadata": {},
        },
    ],
}


@pytest.mark.parametrize(
    ("kind", "sql", "expected"),
    [
        ("binary", "X'41c3a4'", "Aä".encode()),
        ("binary", "x'f'", b"\x0f"),
        ("binary", "X''", b""),
        ("binary", "'abc'", b"abc"),
        ("binary", "cast('abc' as binary)", b"abc"),
        ("string", "'it''s'", "it's"),
        ("string", "'a' \"b\"", "ab"),
        ("string", r"R'\n'", r"\n"),
        ("string", r"'\u00e4\101\%'", r"äA\%"),
        ("string", "5L", "5"),
        ("string", "-.50", "-0.50"),
        ("string", "TRUE", "true"),
        ("string", "'null'", "null"),
        ("integer", "- 7", -7),
        ("double", "1e3D", 1000.0),
        ("double", "double('-Infinity')", float("-inf")),
        ("float", "float('NaN')", "nan"),
        ("double", "'NaN'", "nan"),
        ("decimal(5,2)", "1.005", "1.01"),
        ("decimal(38,10)", "12345678901234567890.01234567895", "12345678901234567890.0123456790"),
        ("decimal(5,2)", "-1.005", "-1.01"),
        ({"type": "array", "elementType": "string", "containsNull": True}, "array('a, b', '[x]')", ["a, b", "[x]"]),
        ("timestamp_ntz", "TIMESTAMP_LTZ '2026-01-31 10:00:00.500000-05:00'", "2026-01-31 10:00:00.500000"),
        ("timestamp", "TIMESTAMP_LTZ '2026-01-31 10:00:00.000000-05:00'", "2026-01-31 15:00:00+00:00"),
        (ARRAY, "array(X'00', NULL, 'b')", [b"\0", None, b"b"]),
        (DAYS, "array(date'2020-01-01')", "[datetime.date(2020, 1, 1)]"),
        (DAYS, "array()", []),
        (STRUCT, "named_struct('a', 'x', 'b', array(1, 2))", {"a": "x", "b": [1, 2]}),
        (STRUCT, "struct(NULL, array(1))", {"a": None, "b": [1]}),
    ],
    ids=str,
)
def test_a_literal_has_the_value_that_spark_computes(kind: object, sql: str, expected: object) -> None:
    data_type = type_from_spark(kind, column="c")
    text = default_from_spark(sql, data_type, column="c")
    assert text is not None
    found = default_scalar(text, data_type, column="c").as_py()
    assert (str(found) if isinstance(expected, str) else found) == expected
    back = default_to_spark(text, data_type, column="c")
    assert back is not None
    again = default_from_spark(back, data_type, column="c")
    assert again is not None
    assert repr(default_scalar(again, data_type, column="c").as_py()) == repr(found)


@pytest.mark.parametrize("sql", ["NULL", "cast(null as binary)"])
def test_null_is_no_default(sql: str) -> None:
    assert default_from_spark(sql, type_from_spark("binary", column="c"), column="c") is None


@pytest.mark.parametrize(
    ("kind", "sql", "reason"),
    [
        ("binary", "X'ff00'", "UTF-8"),
        ("binary", "5", "BYTES"),
        ("binary", "cast(5 as binary)", "evaluated"),
        ("string", "concat('a', 'b')", "'concat' would have to be evaluated"),
        ("string", "current_date()", "'current_date' would have to be evaluated"),
        ("string", "current_date", "'current_date' is no literal"),
        ("string", "'a' || 'b'", "no part of a literal"),
        ("string", "cast('a' as binary)", "STRING"),
        ("string", "upper('a')", "evaluated"),
        ("string", "double('1')", "in quotes"),
        ("double", "double(1 + 1)", "'1'|where a literal"),
        ("decimal(5,2)", "double('NaN')", "DECIMAL"),
        ("string", "1e3", "in quotes"),
        ("string", "'a", "no part of a literal"),
        ("string", "", "ends within"),
        ("integer", "1 + 1", r"'\+' is behind the literal"),
        ("timestamp", "'2020-01-01 00:00:00'", "written as TIMESTAMP"),
        ("timestamp", "DATE '2020-01-01'", "written as TIMESTAMP"),
        (ARRAY, "array(X'ff')", "UTF-8"),
        (ARRAY, "array('it''s')", "quote"),
        (STRUCT, "struct(1)", "1 fields, not 2"),
    ],
    ids=str,
)
def test_a_default_that_is_not_a_literal_of_the_type_is_refused_by_name(kind: object, sql: str, reason: str) -> None:
    with pytest.raises(NotSupportedError, match=f"column 'c' is a literal of the column's type.*{reason}"):
        default_from_spark(sql, type_from_spark(kind, column="c"), column="c")


@pytest.mark.parametrize(
    ("zone", "stored"),
    [("America/New_York", "'2026-07-01 10:00:00.000000'"), ("Asia/Tokyo", "'2026-07-01 10:00:00.000000-04:00'")],
)
def test_a_timestamp_is_stored_as_java_reads_it_in_the_machines_time_zone(
    monkeypatch: pytest.MonkeyPatch, zone: str, stored: str
) -> None:
    data_type = type_from_spark("timestamp", column="c")
    try:
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        text = default_from_spark("TIMESTAMP_LTZ '2026-07-01 10:00:00.000000-04:00'", data_type, column="c")
        assert text is not None
        assert text == stored
        assert str(default_scalar(text, data_type, column="c").as_py()) == "2026-07-01 14:00:00+00:00"
    finally:
        monkeypatch.undo()
        time.tzset()
