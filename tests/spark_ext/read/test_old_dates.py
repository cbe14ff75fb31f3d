"""Dates and timestamps about the end of the Julian calendar, which java.sql.Date and java.sql.Timestamp follow.

Spark's own reader of Parquet files skips row groups by filters of those classes. So its answers count where the
comparison is no filter.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark_ext.conftest import SparkLake
from tests.support.shares import LONG
from tests.support.tally import Tally

FILES = (
    ("0001-01-01", "1582-10-10"),
    ("1582-10-04", "1582-10-05"),
    ("1582-10-14", "1582-10-15"),
    ("1500-02-28", "1500-03-01"),
    ("1883-11-18",),
)
DAYS = sorted(day for file in FILES for day in file)
LITERALS = DAYS if LONG else DAYS[::3]
TYPES = {"dt": "DATE", "z": "TIMESTAMP", "n": "TIMESTAMP_NTZ"}
CONDITIONS = ("= {}", "<=> {}", "< {}", "<= {}", "> {}", ">= {}", "<> {}", "IN ({}, {other})")


@pytest.fixture(params=["UTC", "America/New_York"])
def zone(request: pytest.FixtureRequest, lake: SparkLake) -> Iterator[str]:
    """A time zone of the session and of its JVM."""
    jvm: Any = lake.spark._jvm
    zones = jvm.java.util.TimeZone
    before, of_session = zones.getDefault(), str(lake.spark.conf.get("spark.sql.session.timeZone"))
    name: str = request.param
    zones.setDefault(zones.getTimeZone(name))
    lake.spark.conf.set("spark.sql.session.timeZone", name)
    yield name
    lake.spark.conf.set("spark.sql.session.timeZone", of_session)
    zones.setDefault(before)
    lake.sql("DROP TABLE IF EXISTS spark_catalog.default.old_dates")


@pytest.mark.longer
@pytest.mark.sample(1)
def test_old_dates_are_found_as_in_a_table_of_spark(lake: SparkLake, zone: str, tally: Tally) -> None:
    ours, theirs = "{lake}.db.t", "spark_catalog.default.old_dates"
    columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    lake.sql(f"CREATE TABLE {ours} (day STRING, {columns})")
    lake.sql(f"CREATE TABLE {theirs} (day STRING, {columns}) USING parquet")
    for file in FILES:
        literals = ", ".join(f"{kind} '{{day}}'" for kind in TYPES.values())
        rows = ", ".join(f"('{day}', {literals.format(day=day)})" for day in file)
        lake.sql(f"INSERT INTO {ours} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}")
    lake.sql(f"INSERT INTO {theirs} SELECT * FROM {ours}")
    for name, kind in TYPES.items():
        expected = compared(lake, theirs, name, kind)
        assert sum(day == found for day, condition, found in expected if condition == "= {}") == len(LITERALS)
        found = filtered(lake, ours, name, kind)
        assert sorted(expected - found) == []
        assert sorted(found - expected) == []
        tally("filters of old dates in Spark", len(LITERALS) * len(CONDITIONS))


def sql_of(condition: str, column: str, kind: str, day: str) -> str:
    return f"{column} " + condition.format(f"{kind} '{day}'", other=f"{kind} '1700-01-01'")


def compared(lake: SparkLake, table: str, column: str, kind: str) -> set[tuple[str, str, str]]:
    """Return the literal, the condition and the day of each row for which the condition with this literal is true."""
    pairs = [(day, condition) for day in LITERALS for condition in CONDITIONS]
    flags = ", ".join(sql_of(condition, column, kind, day) for day, condition in pairs)
    rows = lake.tuples(f"SELECT day, array({flags}) FROM {table}")
    return {(*pair, day) for day, are_true in rows for pair, is_true in zip(pairs, are_true, strict=True) if is_true}


def filtered(lake: SparkLake, table: str, column: str, kind: str) -> set[tuple[str, str, str]]:
    """Return the same by filters."""
    found: set[tuple[str, str, str]] = set()
    for day in LITERALS:
        # One statement for all conditions, each of which is pushed down to a separate scan.
        queries = [f"SELECT '{c}', day FROM {table} WHERE {sql_of(c, column, kind, day)}" for c in CONDITIONS]
        found.update((day, *row) for row in lake.tuples(" UNION ALL ".join(queries)))
    return found
