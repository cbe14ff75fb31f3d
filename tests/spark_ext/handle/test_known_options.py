"""Misspelt and ineffective options are refused by each statement of Spark that has options."""

import re
from collections.abc import Callable

import pytest

from tests.spark_ext.conftest import SparkLake
from tests.support.tally import Tally


def by_create(lake: SparkLake, key: str) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.other (id INT) TBLPROPERTIES ('{key}' = 'x')")


def by_alter(lake: SparkLake, key: str) -> None:
    lake.sql(f"ALTER TABLE {{lake}}.db.t SET TBLPROPERTIES ('{key}' = 'x')")


def by_hint(lake: SparkLake, key: str) -> None:
    lake.sql(f"SELECT * FROM {{lake}}.db.t WITH ('{key}' = 'x')")


def by_read(lake: SparkLake, key: str) -> None:
    lake.spark.read.option(key, "x").table(f"{lake.name}.db.t").collect()


def by_write(lake: SparkLake, key: str) -> None:
    lake.spark.range(1).selectExpr("CAST(id AS INT) id").writeTo(f"{lake.name}.db.t").option(key, "x").append()


def by_setting(lake: SparkLake, key: str) -> None:
    lake.spark.conf.set(f"spark.interbed.{key}", "x")
    try:
        lake.sql("SELECT * FROM {lake}.db.t")
    finally:
        lake.spark.conf.unset(f"spark.interbed.{key}")


WAYS = (by_create, by_alter, by_hint, by_read, by_write, by_setting)


@pytest.mark.parametrize("way", WAYS)
def test_every_statement_refuses_an_option_without_effect(
    lake: SparkLake, way: Callable[[SparkLake, str], None]
) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT) TBLPROPERTIES ('team' = 'lake')")

    with pytest.raises(Exception, match=r"no option 'scan\.snapshot-idd'\. Did you mean 'scan\.snapshot-id'\?"):
        way(lake, "scan.snapshot-idd")
    with pytest.raises(Exception, match=r"Option 'scan\.primary-branch' = 'x' is not supported: .*fallback-branch"):
        way(lake, "scan.primary-branch")
    assert lake.tuples("SHOW TBLPROPERTIES {lake}.db.t ('team')") == [("team", "lake")]


# One of each kind in docs/options.md; tests/storage/meta/options/test_every_value.py has all of them.
BAD = (
    "fields.id.distinct",
    "fields.id.count-limit",
    "deletion-vectors.enabled",
    "compaction.size-ratio",
    "compaction.delete-ratio-threshold",
    "snapshot.time-retained",
    "target-file-size",
    "merge-engine",
    "file.compression.per.level",
    "metadata.iceberg.storage-location",
)


@pytest.mark.parametrize("way", WAYS)
def test_every_statement_refuses_an_invalid_value(
    lake: SparkLake, way: Callable[[SparkLake, str], None], tally: Tally
) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    for key in BAD:
        with pytest.raises(Exception, match=f"'{re.escape(key)}' (takes|is part of the table's layout)"):
            way(lake, key)
    tally("bad values of options in Spark", len(BAD))
