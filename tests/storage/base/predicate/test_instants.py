"""Comparing a DATE or TIMESTAMP column with an instant (a time with a zone) is refused by every API that compares."""

from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import FilterError, InvalidInputError
from interbed.storage.base.predicate.conditions import col
from interbed.storage.base.types.far_times import FarTimestamp
from interbed.storage.table.table import Table

AWARE = datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=5)))
INSTANTS: dict[str, Any] = {
    "a datetime": AWARE,
    "pandas": pd.Timestamp(AWARE),
    "a FarTimestamp": FarTimestamp(0, "us", zoned=True),
    "Arrow": pa.scalar(AWARE),
}
TEXTS = (
    "{} = '2024-01-01 00:00:00+05:00'",
    "{} <> '2024-01-01T00:00Z'",
    "{} IN ('2024-01-01', '2024-01-01 10:00:00.5+0530')",
    "{} BETWEEN '2024-01-01' AND '2024-01-02 00:00 UTC'",
    "{} < '2024-01-01 10:00 Europe/Berlin'",
    "{} < TIMESTAMP '2024-01-01 00:00:00+05:00'",
)
FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda c, v: c == v,
    "!=": lambda c, v: c != v,
    "<": lambda c, v: c < v,
    ">=": lambda c, v: c >= v,
    "is_in": lambda c, v: c.is_in([v]),
    "is_not_in": lambda c, v: c.is_not_in([v]),
    "between": lambda c, v: c.between(v, v),
    "not": lambda c, v: ~(c == v),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path_factory.mktemp("lake")))
    catalog.create_database("d")
    fields: list[pa.Field[Any]] = [pa.field("v", pa.date32()), pa.field("w", pa.timestamp("us"))]
    made = catalog.create_table("d.t", pa.schema(fields))
    days = [date(2023, 12, 31), date(2024, 1, 1), date(2024, 1, 2)]
    made.append(pa.table({"v": days, "w": pa.array(days).cast(pa.timestamp("us"))}))
    return made


@pytest.mark.parametrize("column", ["v", "w"])
@pytest.mark.parametrize("kind", INSTANTS)
def test_an_expression_with_an_instant_is_refused(table: Table, column: str, kind: str) -> None:
    for form in FORMS.values():
        with pytest.raises(FilterError, match=repr(column)):
            table.scan(filter=form(col(column), INSTANTS[kind])).count()
        with pytest.raises(FilterError, match=repr(column)):
            table.delete(form(col(column), INSTANTS[kind]))
    make = table.new_read_builder().new_predicate_builder()
    builds: tuple[Callable[[], Any], ...] = (
        lambda: make.equal(column, INSTANTS[kind]),
        lambda: make.less_than(column, INSTANTS[kind]),
        lambda: make.is_in(column, [INSTANTS[kind]]),
        lambda: make.between(column, INSTANTS[kind], INSTANTS[kind]),
    )
    for build in builds:
        with pytest.raises(FilterError):
            table.new_read_builder().with_filter(build())
    assert table.scan().count() == 3


def test_a_text_with_a_zone_offset_is_refused(table: Table) -> None:
    for text in TEXTS:
        for column in ("v", "w"):
            with pytest.raises(FilterError, match=repr(column)):
                table.delete(text.format(column))
    assert table.scan(filter="v = '2024-01-01 10:00:00'").count() == 1


def test_numpy_values_are_handled_as_python_values(table: Table) -> None:
    for value in (np.datetime64("2024-01-01"), np.datetime64("2024-01-01", "ns"), np.datetime64("2024-01-01T00", "h")):
        assert table.scan(filter=col("v") == value).count() == table.scan(filter=col("w") == value).count() == 1
    assert table.scan(filter=col("w") < np.datetime64(1704067200000000001, "ns")).count() == 2
    assert table.scan(filter=col("v") < np.datetime64("20000-01-01")).count() == 3


def test_a_partition_specification_with_an_instant_is_refused(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    fields: list[pa.Field[Any]] = [
        pa.field("v", pa.date32()),
        pa.field("w", pa.timestamp("us")),
        pa.field("x", pa.int64()),
    ]
    table = catalog.create_table("d.t", pa.schema(fields), partition_keys=["v", "w"])
    table.append([{"v": date(2023, 12, 31), "w": datetime(2024, 1, 1), "x": 1}])
    whole = {"v": date(2023, 12, 31), "w": datetime(2024, 1, 1)}
    for name in ("v", "w"):
        for value in (AWARE, "2024-01-01 05:00:00+05:00", FarTimestamp(19722, "us", zoned=True)):
            with pytest.raises((FilterError, InvalidInputError)):
                table.delete_partitions({name: value})
            with pytest.raises((FilterError, InvalidInputError)):
                table.overwrite([{"x": 2}], {**whole, name: value})
    assert table.scan().to_arrow().to_pylist() == [{**whole, "x": 1}]
