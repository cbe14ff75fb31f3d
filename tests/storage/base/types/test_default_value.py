"""Defaults of columns: texts that are values of the type, and texts that are refused with the way out."""

from datetime import UTC, date, datetime, time
from typing import Any

import pytest

from interbed import data_type
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.default_value import default_scalar


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("0044-03-15", "DATE", date(44, 3, 15)),
        ("10:20", "TIME", time(10, 20)),
        ("'10:20:30.5'", "TIME(3)", time(10, 20, 30, 500_000)),
        ("2024-01-31 10:00:00.500", "TIMESTAMP(1)", datetime(2024, 1, 31, 10, 0, 0, 500_000)),
        ("2024-01-31 10:00:00.5+01:00", "TIMESTAMP_LTZ(3)", datetime(2024, 1, 31, 9, 0, 0, 500_000, UTC)),
        ("0.1", "FLOAT", pytest.approx(0.1)),
        ("0e9", "DOUBLE", 0.0),
        ("-Infinity", "DOUBLE", float("-inf")),
        ("9007199254740992", "DOUBLE", 2.0**53),
    ],
)
def test_a_default_is_the_value_of_its_text(text: str, kind: str, value: Any) -> None:
    assert default_scalar(text, data_type(kind), column="d").as_py() == value


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("-0044-03-15", "DATE", "a date is written as 2026-01-31, and its year is from 0001 to 9999"),
        ("10000-01-01", "DATE", "its year is from 0001 to 9999"),
        ("soon", "TIME", "a time is written as 10:20:30"),
        ("10:20:30.1234", "TIME(3)", "at most 3 digits after the second"),
        ("-0044-03-15 00:00:00", "TIMESTAMP", "its year is from 0001 to 9999"),
        ("2024-01-31 10:00:00.1234567", "TIMESTAMP_LTZ(6)", "at most 6 digits after the second"),
        ("2024-01-31 10:00:00.123456", "TIMESTAMP_LTZ(3)", "at most 3 digits after the second"),
        ("1.5", "INT", "it is no whole number"),
        ("300", "TINYINT", "beyond the range of the type"),
        ("1e400", "DOUBLE", "beyond the range of the type"),
        ("1e39", "FLOAT", "beyond the range of the type"),
        ("1e-400", "DOUBLE", "closer to 0 than any"),
        ("9007199254740993", "DOUBLE", "an integer with too many digits"),
        ("1.555", "DECIMAL(3, 2)", "no number with at most 3 digits, 2 of them after the point"),
    ],
)
def test_a_default_that_is_no_value_is_refused_with_the_form_of_values(text: str, kind: str, reason: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        default_scalar(text, data_type(kind), column="d")
    message = str(refused.value)
    assert message.startswith(f"The default {text!r} of the column 'd' is no ")
    assert reason in message
    assert message.endswith("Give the column another default, or none.")
