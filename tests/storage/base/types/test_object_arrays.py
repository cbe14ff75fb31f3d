"""Python values as columns: the result for a value does not depend on the other values or on their order."""

import datetime as dt
import itertools
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from interbed.storage.base.errors import SchemaMismatchError
from interbed.storage.base.incoming import arrow_rows, arrow_schema
from interbed.storage.base.types.arrow import cast_to_schema
from interbed.storage.base.types.far_times import FarDate, FarTimestamp
from tests.support.tally import Tally

PLUS_5 = dt.timezone(dt.timedelta(hours=5))
NANOSECONDS = pd.Timestamp("2024-01-01 00:00:00.123456789")
VALUES: tuple[Any, ...] = (
    *(None, True, np.bool_(False), 0, 1, 2**53 + 1, 2**63 - 1, 2**64, 10**30, np.int8(5), np.uint64(2**64 - 1)),
    *(0.0, 1.5, 3.0, -0.0, 1e300, float("inf"), np.float32(0.25), np.float64(2.5)),
    *(Decimal("1.25"), Decimal("1E+3"), Decimal("Infinity"), Decimal("0.001")),
    *("", "abc", "2024-01-01", np.str_("x"), b"abc", b"\xff", UUID(int=5)),
    *(dt.date(2024, 1, 1), dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 17, 30, 0, 123456)),
    *(dt.datetime(2024, 1, 1, 5, tzinfo=PLUS_5), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), NANOSECONDS),
    *(NANOSECONDS.tz_localize("Asia/Tokyo"), pd.Timestamp("2024-01-01"), np.datetime64("2024-01-01", "ms")),
    *(dt.time(5), dt.time(5, 0, 0, 1000), dt.time(5, 0, 0, 1), dt.time(5, tzinfo=PLUS_5), dt.timedelta(1)),
    *(FarDate(10**7), FarTimestamp(10**18, "us"), pa.scalar(7), pa.scalar("s"), pa.scalar(None, pa.int32())),
    *([], [1], {"x": 1}, object()),
)
TYPES: tuple[pa.DataType, ...] = (
    *(pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.decimal128(5, 2), pa.decimal128(38, 0), pa.string(), pa.binary(), pa.date32(), pa.time32("ms")),
    *(pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC")),
)
Rows = Callable[[list[Any]], Any]
FORMS: dict[str, tuple[Rows, Callable[[pa.DataType], pa.DataType]]] = {
    "dicts": (lambda values: [{"v": value} for value in values], lambda kind: kind),
    "a pandas frame": (lambda values: pd.DataFrame({"v": pd.Series(values, dtype=object)}), lambda kind: kind),
    "lists": (lambda values: [{"v": [value]} for value in values], pa.list_),
    "one list": (lambda values: [{"v": values}], pa.list_),
    "rows": (lambda values: [{"v": {"x": value}} for value in values], lambda kind: pa.struct([("x", kind)])),
    "maps": (lambda values: [{"v": {"k": value}} for value in values], lambda kind: pa.map_(pa.string(), kind)),
}


def written(rows: Any, schema: pa.Schema) -> pa.Table:
    """The rows as a table with that schema stores them."""
    found: Any = arrow_rows(rows, schema, what="the table 'd.t'")
    return pa.Table.from_batches(cast_to_schema(found, schema, what="the table 'd.t'"), schema)


def column(rows: Any, kind: pa.DataType) -> list[str] | None:
    """The values of the column as texts, so that NaN, far dates and signs of zeros are comparable; None if refused."""
    try:
        table = written(rows, pa.schema([pa.field("v", kind)]))
    except SchemaMismatchError:
        return None
    return leaves(table.column("v").combine_chunks())


def leaves(array: Any) -> list[str]:
    if pa.types.is_map(array.type):
        return leaves(array.items)
    if pa.types.is_list(array.type):
        return leaves(array.flatten())
    if pa.types.is_struct(array.type):
        return leaves(array.field(0))
    if pa.types.is_temporal(array.type):
        array = array.cast(pa.int64() if array.type.bit_width == 64 else pa.int32())
    return [repr(value) for value in array.to_pylist()]


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_a_value_is_converted_as_if_it_were_alone(form: str, kind: pa.DataType, tally: Tally) -> None:
    rows_of, within = FORMS[form]
    alone = [column(rows_of([value]), within(kind)) for value in VALUES]
    assert sum(found is not None for found in alone) > 1
    pairs = list(itertools.permutations(zip(VALUES, alone, strict=True), 2))
    # Nested values are columns of their own, so a sample is enough.
    tried = pairs[TYPES.index(kind) % 5 :: 5 if form == "dicts" else 23]
    for (a, of_a), (b, of_b) in tried:
        expected = None if of_a is None or of_b is None else [*of_a, *of_b]
        assert column(rows_of([a, b]), within(kind)) == expected, (a, b)
    tally("pairs of Python values beside each other", len(tried))


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_nested_value_is_converted_as_a_top_level_one(kind: pa.DataType) -> None:
    for value in VALUES:
        found = {form: column(rows_of([value]), within(kind)) for form, (rows_of, within) in FORMS.items()}
        assert len({repr(each) for each in found.values()}) == 1, (value, found)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ("abc", pa.list_(pa.string()), "'abc' .*it is not a list"),
        ({"x": 1}, pa.list_(pa.string()), "it is not a list"),
        (5, pa.struct([("x", pa.int64())]), "it is not a row"),
        ({"x": 1, "y": 2}, pa.struct([("x", pa.int64())]), "no field 'y'; the fields are x"),
        ([1], pa.map_(pa.string(), pa.int64()), "it is not a map"),
        ([(None, 1)], pa.map_(pa.string(), pa.int64()), "no null for a key"),
        ([("a", 1), ("a", 2)], pa.map_(pa.string(), pa.int64()), "a key twice"),
        (
            [[1], [2.5]],
            pa.list_(pa.list_(pa.int64())),
            r"has 2.5 .*v\.item\.item: 2.5 is not a whole number",
        ),
        (dt.time(5, tzinfo=PLUS_5), pa.time32("ms"), "a TIME has no time zone"),
        (UUID(int=5), pa.string(), r"str\(value\), or as bytes, value\.bytes"),
        (Decimal("NaN"), pa.decimal128(5, 2), "it has no digits"),
    ],
)
def test_the_error_names_a_value_that_does_not_fit(value: Any, kind: pa.DataType, message: str) -> None:
    schema = pa.schema([pa.field("v", kind)])
    with pytest.raises(SchemaMismatchError, match=rf"column 'v' of the table 'd\.t'.* row 1 .*{message}"):
        written([{"v": None}, {"v": value}], schema)


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([1 + 2j]),
        pd.arrays.SparseArray([0, 1]),
        pd.Series(pd.period_range("2024-01", periods=1, freq="M")),
    ],
    ids=["complex", "sparse", "periods"],
)
def test_the_error_names_a_series_whose_values_arrow_cannot_represent(series: Any) -> None:
    schema = pa.schema([pa.field("v", pa.int64())])
    with pytest.raises(SchemaMismatchError, match="column 'v'"):
        written(pd.DataFrame({"v": series}), schema)


DAY, NOON = dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 12)
INSTANT = dt.datetime(2024, 1, 1, 12, tzinfo=PLUS_5)


@pytest.mark.parametrize(
    "values",
    [
        *([DAY, NOON], [NOON, INSTANT], [INSTANT, NOON], [1.5, True], [True, 1.5], [1, "a"], [[DAY], [NOON]]),
        *([{"x": NOON}, {"x": INSTANT}], [2**53 + 1, 1.5], [dt.time(5, tzinfo=PLUS_5)], [UUID(int=5)]),
    ],
    ids=str,
)
def test_a_new_column_has_no_type_for_values_of_several_kinds(values: list[Any]) -> None:
    for rows in ([{"v": value} for value in values], pd.DataFrame({"v": pd.Series(values, dtype=object)})):
        with pytest.raises(SchemaMismatchError, match="column 'v'"):
            arrow_schema(rows, what="t")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([NANOSECONDS, NOON], pa.timestamp("ns")),
        ([INSTANT, NANOSECONDS.tz_localize("Asia/Tokyo")], pa.timestamp("ns", "UTC")),
        ([1, 1.5], pa.float64()),
        ([1, None, np.int8(5)], pa.int64()),
        ([None, DAY], pa.date32()),
    ],
    ids=str,
)
def test_a_new_column_has_the_type_of_its_values(values: list[Any], kind: pa.DataType) -> None:
    for rows in ([{"v": value} for value in values], pd.DataFrame({"v": pd.Series(values, dtype=object)})):
        assert arrow_schema(rows, what="t").field("v").type == kind


def test_numbers_of_one_column_may_have_several_python_classes() -> None:
    schema = pa.schema([pa.field("v", pa.decimal128(38, 0))])
    table = written([{"v": v} for v in (2**70, 1.0, Decimal(3), np.int16(4), None)], schema)
    expected = [Decimal(2**70), Decimal(1), Decimal(3), Decimal(4), None]
    assert table.column("v").to_pylist() == expected
