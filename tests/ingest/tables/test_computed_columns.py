"""Computed columns, by Paimon's functions."""

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from interbed.ingest.flow.changes import RowChanges
from interbed.ingest.tables.computed_columns import ComputedColumn, with_computed
from interbed.storage.base.errors import InvalidInputError, NotSupportedError

ROWS = pa.table(
    {
        "at": ["2026-01-31 10:20:30.5", None, "1969-12-31T23:59:59Z"],
        "n": [-5, 5, None],
        "s": ["Abc ", "é日本", None],
        "day": pa.array([date(2026, 1, 2), None, date(1970, 1, 1)], pa.date32()),
        "zoned": pa.array([datetime(2026, 1, 2, 3, 4, 5, 678901, UTC), None, None], pa.timestamp("us", "UTC")),
    }
)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("x=date_format(day, 'yyyy-MM-dd')", ["2026-01-02", None, "1970-01-01"]),
        ("x=date_format(zoned,'yyyyMMdd''T''HH:mm:ss')", ["20260102T03:04:05", None, None]),
        ("x=year(day)", [2026, None, 1970]),
        ("x=minute(zoned)", [4, None, None]),
        ("x=truncate(n,10)", [-10, 0, None]),
        ("x=truncate(s,2)", ["Ab", "é日", None]),
        ("x=substring(s,1)", ["bc ", "日本", None]),
        ("x = substring( s , 0 , 2 )", ["Ab", "é日", None]),
        ("x=upper(s)", ["ABC ", "É日本", None]),
        ("x=trim(s)", ["Abc", "é日本", None]),
        ("x=cast('5',INT)", [5, 5, 5]),
        ("x=cast('it''s',STRING)", ["it's"] * 3),
    ],
)
def test_a_column_is_computed(text: str, values: list[Any]) -> None:
    assert ComputedColumn.parse(text).computed(ROWS).to_pylist() == values


def test_texts_may_be_times_with_an_offset_or_without() -> None:
    column = ComputedColumn.parse("x=date_format(at,'yyyy-MM-dd HH:mm:ss')")
    assert column.computed(ROWS.slice(0, 2)).to_pylist() == ["2026-01-31 10:20:30", None]
    assert column.computed(ROWS.slice(2)).to_pylist() == ["1969-12-31 23:59:59"]
    with pytest.raises(ValueError, match="Failed to parse"):
        ComputedColumn.parse("x=year(s)").computed(ROWS)


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("x", InvalidInputError, "NAME=FUNCTION"),
        ("x=no(a)", NotSupportedError, "there is no function 'no'"),
        ("x=year(a, b)", InvalidInputError, "does not take 2"),
        ("x=substring(a, b)", InvalidInputError, "'b' is no whole number"),
        ("x=date_format(a,'EEE')", NotSupportedError, "'E'"),
        ("x=truncate(a, 0)", InvalidInputError, "no width"),
        ("x=cast('q', INT)", InvalidInputError, "it is no INT"),
        ("x=lower('a' 'b')", InvalidInputError, "single quotes"),
    ],
)
def test_an_invalid_computed_column_is_refused(text: str, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        ComputedColumn.parse(text)


def test_a_missing_input_column_is_named() -> None:
    with pytest.raises(InvalidInputError, match="needs a column 'created'"):
        ComputedColumn.parse("x=year(created)").computed(ROWS)


def test_a_cast_takes_a_constant_and_no_column() -> None:
    """Paimon takes any text as a constant; an unquoted column name is most likely meant as the column."""
    changes = RowChanges(source=None, rows=ROWS, kinds=np.zeros(3, np.int8), messages=np.arange(3))
    for text, known in (("x=cast(s,STRING)", ()), ("x=cast( old , STRING)", ("old",))):
        with pytest.raises(InvalidInputError, match=r"takes a constant.*create the table with"):
            with_computed(changes, [ComputedColumn.parse(text)], known)
    for text in ("x=cast('s',STRING)", "x=cast(t,STRING)", "x=cast(x,STRING)"):
        found, bad = with_computed(changes, [ComputedColumn.parse(text)], ["x"])
        assert (found.rows.column("x").to_pylist(), bad) == ([text[7:].strip("'").split(",")[0].strip("'")] * 3, [])
