"""Values of messages for a table's column: cast if the cast is exact, and refused if it would lose information."""

import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from interbed import data_type
from interbed.ingest.tables.column_fit import fitted


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        (7, "INT", 7),
        (7, "DOUBLE", 7.0),
        (7, "DECIMAL(10, 2)", Decimal("7.00")),
        (7, "STRING", "7"),
        (1.5, "DECIMAL(10, 2)", Decimal("1.50")),
        (1.0, "BIGINT", 1),
        ("12.34", "DECIMAL(10, 2)", Decimal("12.34")),
        ("+.5", "DECIMAL(10, 2)", Decimal("0.50")),
        ("0012.3400", "DECIMAL(4, 2)", Decimal("12.34")),
        ("1e3", "DECIMAL(10, 2)", Decimal("1000.00")),
        ("0." + "0" * 50, "DECIMAL(38, 2)", Decimal("0.00")),
        (Decimal(892), "DECIMAL(38, 10)", Decimal("892.0000000000")),
        (2**53 + 2, "DOUBLE", 2.0**53 + 2),
        (Decimal(2**70), "FLOAT", 2.0**70),
        (str(2**53 + 2), "DOUBLE", 2.0**53 + 2),
        (Decimal("0.1"), "DOUBLE", 0.1),
        ("2026-01-31", "DATE", date(2026, 1, 31)),
        ("2026-01-31 10:00:00.5", "TIMESTAMP(6)", datetime(2026, 1, 31, 10, 0, 0, 500_000)),
        ("2026-01-31T10:00:00", "TIMESTAMP(3)", datetime(2026, 1, 31, 10)),
        ("2026-01-31T10:00:00+02:00", "TIMESTAMP_LTZ(6)", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("10:20:30.25", "TIME(3)", time(10, 20, 30, 250_000)),
        ("true", "BOOLEAN", True),
        ("abc", "CHAR(3)", "abc"),
        ({"a": 1}, "ROW<a INT, b STRING>", {"a": 1, "b": None}),
        ({"a": 1}, "STRING", '{"a":1}'),
        ([1, None], "ARRAY<DOUBLE>", [1.0, None]),
        ([1, 2], "STRING", "[1,2]"),
    ],
)
def test_a_value_is_cast_exactly(value: Any, kind: str, wanted: object) -> None:
    array: Any = pa.array([value, None])
    assert fitted(array, data_type(kind)).to_pylist() == [wanted, None]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (2**31, "INT"),
        (1.5, "BIGINT"),
        ("1.5", "INT"),
        ("1.234", "DECIMAL(10, 2)"),
        (12345678901, "DECIMAL(10, 2)"),
        (1.234, "DECIMAL(10, 2)"),
        ("1" * 38, "DECIMAL(38, 2)"),
        ("1" * 401, "DECIMAL(38, 2)"),
        ("8e20", "DECIMAL(38, 20)"),
        ("1e-40", "DECIMAL(38, 20)"),
        ("1_0", "DECIMAL(10, 2)"),
        ("NaN", "DECIMAL(10, 2)"),
        ("٣", "DECIMAL(10, 2)"),
        (Decimal(892), "DECIMAL(38, 38)"),
        (Decimal("3921269018413419811328609574339736758"), "DECIMAL(38, 2)"),
        (2**53 + 1, "DOUBLE"),
        (2**24 + 1, "FLOAT"),
        (2**62 + 1, "DOUBLE"),
        (Decimal(2**70 + 1), "DOUBLE"),
        (str(2**53 + 1), "DOUBLE"),
        ("16777217", "FLOAT"),
        ("1" * 5000, "DOUBLE"),
        ("10", "TIME(3)"),
        (1e300, "FLOAT"),
        ("1e300", "FLOAT"),
        ("10:20:30.1239", "TIME(3)"),
        ("2026-01-31 10:00:00.123", "TIMESTAMP(2)"),
        ("2026-02-30", "DATE"),
        (20_000, "DATE"),
        (1_700_000_000_000, "TIMESTAMP(3)"),
        ("2026-01-31 10:00:00.1234567", "TIMESTAMP(6)"),
        ("2026-01-31 10:00:00", "TIMESTAMP_LTZ(6)"),
        ("2026-01-31T10:00:00Z", "TIMESTAMP(6)"),
        ("abcd", "CHAR(3)"),
        ("abc", "BYTES"),
        (True, "INT"),
        ({"a": 1, "z": 2}, "ROW<a INT>"),
        (5, "ROW<a INT>"),
        (5, "ARRAY<INT>"),
        (5, "MAP<STRING, INT>"),
    ],
)
def test_a_lossy_cast_is_refused(value: Any, kind: str) -> None:
    array: Any = pa.array([value])
    with pytest.raises(ValueError, match=r".") as refused:
        fitted(array, data_type(kind))
    assert not re.search("scalar of type|struct<|list<", str(refused.value))


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        ("2026-02-30", "DATE", "it is no DATE, such as 2024-01-31"),
        ("soon", "TIMESTAMP(0)", "it is no TIMESTAMP(0) without a zone, such as 2024-01-31T10:20:30"),
        (
            "2026-01-31 10:00:00",
            "TIMESTAMP_LTZ(3)",
            "it is no TIMESTAMP(3) WITH LOCAL TIME ZONE with a zone, such as 2024-01-31T10:20:30.000Z",
        ),
        ("x", "INT", "it is no INT"),
        ("x", "BOOLEAN", "it is no BOOLEAN"),
        ("x", "DOUBLE", "it is no DOUBLE"),
        ("10:20:30.1239", "TIME(3)", "it is no TIME(3), such as 10:20:30.250"),
        (
            {"k": 1},
            "MAP<STRING, INT>",
            "messages have no values of MAP<STRING, INT>; make the column a ROW or a STRING",
        ),
    ],
)
def test_the_reason_of_a_refusal_names_the_type(value: Any, kind: str, reason: str) -> None:
    array: Any = pa.array([value])
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        fitted(array, data_type(kind))


def test_untyped_nulls_fit_every_type() -> None:
    assert fitted(pa.nulls(2), data_type("DATE")).to_pylist() == [None, None]
