"""Casts between types give the results of Java Paimon 1.4.2; tests/interop/files/test_casts.py compares the two."""

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.casting.cast import cast_values
from interbed.storage.base.types.casting.rules import has_cast, is_implicit
from interbed.storage.base.types.data_type import parse_atomic
from interbed.storage.meta.schema.evolution import is_widening
from tests.support.examples import examples

D = Decimal
NAN, INF = float("nan"), float("inf")
TYPES = [
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)", "DECIMAL(38, 10)"),
    *("CHAR(3)", "VARCHAR(3)", "STRING", "BINARY(3)", "VARBINARY(3)", "BYTES", "DATE", "TIME(0)", "TIME(3)"),
    *("TIMESTAMP(0)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
]


def _cast(values: list[Any], old: str, new: str) -> list[Any]:
    source, target = parse_atomic(old), parse_atomic(new)
    assert has_cast(source, target)
    # A slice, as a batch in the middle of a file is.
    array = pa.array([None, *values, None], type_to_arrow(source)).slice(1, len(values))
    result = cast_values(array, source, target)
    result.validate(full=True)
    assert result.type == type_to_arrow(target)
    return result.to_pylist()


@pytest.mark.parametrize("old", TYPES)
@pytest.mark.parametrize("new", TYPES)
def test_every_cast_keeps_nulls_and_accepts_empty_columns(old: str, new: str) -> None:
    source, target = parse_atomic(old), parse_atomic(new)
    if is_widening(source, target) and source != target:
        assert is_implicit(source, target)
    if has_cast(source, target):
        assert _cast([], old, new) == []
        assert _cast([None, None], old, new) == [None, None]


@pytest.mark.parametrize(
    ("old", "new", "values", "expected"),
    [
        ("INT", "TINYINT", [300, -129, None], [44, 127, None]),
        ("DOUBLE", "TINYINT", [1e300, -1e300, NAN, 3.9, -3.9, 300.5, None], [-1, 0, 0, 3, -3, 44, None]),
        ("DOUBLE", "INT", [1e300, -1e300, NAN, -2.5], [2**31 - 1, -(2**31), 0, -2]),
        ("FLOAT", "BIGINT", [INF, -INF, 1.5], [2**63 - 1, -(2**63), 1]),
        ("DOUBLE", "FLOAT", [1e300, 0.5], [INF, 0.5]),
        ("BIGINT", "FLOAT", [16_777_217], [16_777_216.0]),
        ("BOOLEAN", "INT", [True, False, None], [1, 0, None]),
        ("BOOLEAN", "DECIMAL(1, 1)", [True, False], [None, D("0.0")]),
        ("BIGINT", "BOOLEAN", [0, -7, None], [False, True, None]),
        ("DECIMAL(5, 2)", "TINYINT", [D("99.99"), D("-300.05"), None], [99, -44, None]),
        ("DECIMAL(38, 10)", "BIGINT", [D(2**70 + 5), D("-1.9")], [5, -1]),
        ("DECIMAL(5, 2)", "DOUBLE", [D("99.99"), None], [99.99, None]),
        ("DECIMAL(38, 10)", "DOUBLE", [D("0.1"), None], [0.1, None]),
        ("DECIMAL(5, 2)", "DECIMAL(38, 36)", [D("1.25"), D("100.00")], [D("1.25"), None]),
        ("DECIMAL(4, 2)", "DECIMAL(3, 1)", [D("99.94"), D("99.95"), D("-0.05")], [D("99.9"), None, D("-0.1")]),
        (
            "DOUBLE",
            "DECIMAL(10, 2)",
            [2.675, 1e20, 1e-5, -0.0, 123456.785],
            [D("2.68"), None, D(0), D(0), D("123456.79")],
        ),
        ("FLOAT", "DECIMAL(20, 18)", [0.1, None], [D("0.10000000149011612"), None]),
    ],
)
def test_numbers_are_cast_to_numbers_as_in_java(old: str, new: str, values: list[Any], expected: list[Any]) -> None:
    assert _cast(values, old, new) == expected


@pytest.mark.parametrize(
    ("old", "new", "values", "expected"),
    [
        (
            "DOUBLE",
            "STRING",
            [0.1, 1e20, 1e-5, -0.0, 5e-324, 2e23],
            ["0.1", "1.0E20", "1.0E-5", "-0.0", "4.9E-324", "2.0E23"],
        ),
        (
            "DOUBLE",
            "STRING",
            [100.0, 9999999.0, 1e7, INF, NAN, None],
            ["100.0", "9999999.0", "1.0E7", "Infinity", "NaN", None],
        ),
        ("FLOAT", "STRING", [0.1, 1e20, 1.4e-45], ["0.1", "1.0E20", "1.4E-45"]),
        ("DECIMAL(38, 10)", "STRING", [D("0.0000000001"), D("-1")], ["0.0000000001", "-1.0000000000"]),
        ("BOOLEAN", "CHAR(3)", [True, None], ["tru", None]),
        ("INT", "CHAR(3)", [1, -1234], ["1  ", "-12"]),
        ("DATE", "STRING", [date(1, 2, 3), None], ["0001-02-03", None]),
        ("TIME(3)", "STRING", [time(0), time(1, 2, 3, 40_000)], ["00:00:00.0", "01:02:03.04"]),
        ("TIME(0)", "STRING", [time(1, 2, 3)], ["01:02:03"]),
        ("TIMESTAMP(0)", "STRING", [datetime(2024, 2, 29, 1, 2, 3)], ["2024-02-29 01:02:03"]),
        ("TIMESTAMP(6)", "STRING", [datetime(1969, 12, 31, 23, 59, 59, 120_000)], ["1969-12-31 23:59:59.120000"]),
        ("BYTES", "VARCHAR(3)", [b"longer", b"a\xff", None], ["longer", "a\ufffd", None]),
        ("STRING", "BINARY(3)", ["a", "äö", None], [b"a\0\0", "äö".encode()[:3], None]),
        ("BYTES", "BINARY(3)", [b"", b"abcd"], [b"\0\0\0", b"abc"]),
        ("VARCHAR(3)", "CHAR(3)", ["ä", None], ["ä  ", None]),
    ],
)
def test_values_are_cast_to_text_and_bytes_as_in_java(
    old: str, new: str, values: list[Any], expected: list[Any]
) -> None:
    assert _cast(values, old, new) == expected


@pytest.mark.parametrize(
    ("new", "values", "expected"),
    [
        ("TINYINT", ["12", "+7", "-3.9", ".", "127", None], [12, 7, -3, 0, 127, None]),
        ("DOUBLE", [" 1.5\t", "1e3", "-Infinity", "1f", "0x1p3", "1e400"], [1.5, 1000.0, -INF, 1.0, 8.0, INF]),
        ("FLOAT", ["16777217", "1e39", "1.00000017881393432617187499"], [16777216.0, INF, 1.0000001192092896]),
        ("DECIMAL(5, 2)", ["1.555", "1e2", "-0.005", "1e400", "1e-400"], [D("1.56"), D(100), D("-0.01"), None, D(0)]),
        ("BOOLEAN", ["T", "no", "1", None], [True, False, True, None]),
        (
            "DATE",
            ["2024-02-29", "2024-2-9", "2024-02", "-1", "2024-01-01 x"],
            [date(2024, 2, 29), date(2024, 2, 9), date(2024, 2, 1), date(1969, 12, 31), date(2024, 1, 1)],
        ),
        (
            "TIME(3)",
            ["12:34:56.7", "8:5", "1:2:3.4567", "12345", "10:00:00+01:00"],
            [time(12, 34, 56, 700_000), time(8, 5), time(1, 2, 3, 457_000), time(0, 0, 12, 345_000), time(11)],
        ),
        (
            "TIMESTAMP(6)",
            ["2024-02-29 12:34:56.1", "2024-2-9 1:2:3", "2023-02-30", "2024-01-01 24:00:00", "-1"],
            [
                datetime(2024, 2, 29, 12, 34, 56, 100_000),
                datetime(2024, 2, 9, 1, 2, 3),
                datetime(2023, 2, 28),
                datetime(2024, 1, 2),
                datetime(1969, 12, 31, 23, 59, 59, 999_999),
            ],
        ),
        ("TIMESTAMP(2)", ["2024-02-29 12:34:56.129"], [datetime(2024, 2, 29, 12, 34, 56, 120_000)]),
    ],
)
def test_text_is_parsed_by_javas_grammar(new: str, values: list[Any], expected: list[Any]) -> None:
    assert _cast(values, "STRING", new) == expected


@pytest.mark.parametrize(
    ("new", "text"),
    [
        *(("TINYINT", text) for text in ("", "+", " 1", "128", "1e3", "x")),
        *(("DOUBLE", text) for text in ("", "nan", "1_0", "inf", "--1", "1e")),
        *(("DECIMAL(5, 2)", text) for text in ("", "NaN", " 1", "1.x")),
        *(("BOOLEAN", text) for text in ("", "tr", "on")),
        *(("DATE", text) for text in ("", "2023-02-29", "10000-01-01", "x")),
        *(("TIME(3)", text) for text in ("", "1:x", "25:00:00", "-1")),
        *(
            ("TIMESTAMP(6)", text)
            for text in ("", "2024-02-29 12:34", "2024-13-01", "0000-01-01", "2024-02-29T01:02:03")
        ),
        *(("TIMESTAMP(2)", text) for text in ("12",)),
        *(("TIMESTAMP(6) WITH LOCAL TIME ZONE", text) for text in ("12",)),
    ],
)
def test_text_that_is_no_value_raises_an_error_that_quotes_it(new: str, text: str) -> None:
    good = _cast(["2024-01-01" if "TIME" in new else None], "STRING", new) if new != "TIME(3)" else []
    assert len(good) < 2
    with pytest.raises(ValueError, match="is no"):
        _cast([None, text], "STRING", new)


@pytest.mark.parametrize(
    ("old", "new", "values", "expected"),
    [
        (
            "TIMESTAMP(3)",
            "INT",
            [datetime(2024, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 500_000)],
            [1_704_067_200, 0],
        ),
        ("TIMESTAMP(3)", "TIME(0)", [datetime(1969, 12, 31, 23, 0)], [time(23)]),
        (
            "TIMESTAMP(3)",
            "DATE",
            [datetime(2024, 1, 1, 23), datetime(1969, 12, 30, 23)],
            [date(2024, 1, 1), date(1969, 12, 31)],
        ),
        (
            "TIMESTAMP(6)",
            "TIMESTAMP(2)",
            [datetime(2024, 1, 1, 0, 0, 0, 129_999)],
            [datetime(2024, 1, 1, 0, 0, 0, 120_000)],
        ),
        ("DATE", "TIMESTAMP(6)", [date(9999, 12, 31)], [datetime(9999, 12, 31)]),
        ("TIME(3)", "TIMESTAMP(6)", [time(1)], [datetime(1970, 1, 1, 1)]),
        ("BIGINT", "TIMESTAMP(0)", [-1, None], [datetime(1969, 12, 31, 23, 59, 59), None]),
    ],
)
def test_times_are_cast_to_times_as_in_java(old: str, new: str, values: list[Any], expected: list[Any]) -> None:
    assert _cast(values, old, new) == expected


def test_times_beyond_64_bits_are_errors() -> None:
    with pytest.raises(ValueError, match="beyond what"):
        _cast([date(9999, 12, 31)], "DATE", "TIMESTAMP(9)")
    with pytest.raises(ValueError, match="beyond what"):
        _cast([2**62], "BIGINT", "TIMESTAMP(3)")
    with pytest.raises(ValueError, match="beyond what"):
        _cast(["9999-12-31"], "STRING", "TIMESTAMP(9)")


def test_instants_are_converted_in_the_machines_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", ":Europe/Berlin")
    ltz = "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    local = [datetime(2024, 3, 31, 2, 30), datetime(2024, 10, 27, 2, 30), datetime(2024, 7, 1)]
    instants = _cast(local, "TIMESTAMP(6)", ltz)
    # A time in the gap of daylight saving time is shifted by an hour; of a time that occurs twice, the first is taken.
    assert [i.replace(tzinfo=None) for i in instants] == [
        datetime(2024, 3, 31, 1, 30),
        datetime(2024, 10, 27, 0, 30),
        datetime(2024, 6, 30, 22),
    ]
    assert _cast(instants[1:], ltz, "STRING") == ["2024-10-27 02:30:00.000000", "2024-07-01 00:00:00.000000"]
    assert _cast(instants[2:], ltz, "DATE") == [date(2024, 7, 1)]
    assert _cast([date(2024, 7, 1)], "DATE", ltz) == instants[2:]
    assert _cast(["2024-07-01"], "STRING", ltz) == instants[2:]
    monkeypatch.setenv("TZ", "Nowhere/Land")
    with pytest.raises(InvalidInputError, match="Nowhere/Land"):
        _cast(instants, ltz, "STRING")


@given(st.lists(st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1)), max_size=5))
@settings(max_examples=examples(20))
def test_a_local_time_survives_the_round_trip_through_its_instant(values: list[datetime]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        ltz = "TIMESTAMP(6) WITH LOCAL TIME ZONE"
        back = _cast(_cast(values, "TIMESTAMP(6)", ltz), ltz, "TIMESTAMP(6)")
    # Except the hours in the gap of daylight saving time.
    assert all(b - v in (timedelta(0), timedelta(hours=1)) for b, v in zip(back, values, strict=True))


@given(
    st.lists(
        st.one_of(
            st.floats(1e7, 1e300).filter(lambda v: len(set(repr(v).rstrip("0").partition("e")[0])) > 3),
            st.integers(10**7, 10**15).map(float),
        ),
        max_size=5,
    )
)
@settings(max_examples=examples(50))
def test_a_large_double_has_the_digits_of_its_shortest_text(values: list[float]) -> None:
    expected = []
    for value in values:
        sign, digits, exponent = D(repr(value)).as_tuple()
        assert isinstance(exponent, int)
        text = "".join(map(str, digits)).rstrip("0")
        expected.append(f"{'-' * sign}{text[0]}.{text[1:] or '0'}E{len(digits) + exponent - 1}")
    assert _cast(values, "DOUBLE", "STRING") == expected


@given(st.lists(st.floats(), max_size=5))
@settings(max_examples=examples(50))
def test_a_double_survives_the_round_trip_through_its_text(values: list[float]) -> None:
    texts = _cast(values, "DOUBLE", "STRING")
    assert all("." in text or text.strip("-") in ("NaN", "Infinity") for text in texts)
    assert [repr(v) for v in _cast(texts, "STRING", "DOUBLE")] == [repr(v) for v in values]
