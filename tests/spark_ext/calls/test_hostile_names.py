"""Statements and procedures of Spark refuse names that lead out of a database, and nothing is created or deleted."""

from itertools import cycle, islice

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tests.spark_ext.conftest import SparkLake
from tests.support.hostile_names import LEADING_OUT, NAMES
from tests.support.sentinel import Sentinel
from tests.support.shares import LONG
from tests.support.tally import Tally

pytestmark = pytest.mark.longer

STATEMENTS = (
    "ALTER TABLE {lake}.db.ok RENAME TO {lake}.db.`{}`",
    "ALTER TABLE {lake}.db.ok RENAME TO db.`{}`",
    "CREATE TABLE {lake}.db.`{}` (id INT)",
    "CREATE TABLE {lake}.db.`{}` AS SELECT 1 AS id",
    "CREATE OR REPLACE TABLE {lake}.db.`{}` AS SELECT 1 AS id",
    "DROP TABLE {lake}.db.`{}`",
    "INSERT INTO {lake}.db.`{}` VALUES (1)",
    "SELECT * FROM {lake}.db.`{}`",
    "TRUNCATE TABLE {lake}.db.`{}`",
    "CREATE DATABASE {lake}.`{}`",
    "DROP DATABASE {lake}.`{}` CASCADE",
    "CREATE TABLE {lake}.`{}`.t (id INT)",
    "CALL {lake}.sys.create_tag(table => 'db.ok', tag => '{}')",
    "CALL {lake}.sys.create_branch(table => 'db.ok', branch => '{}')",
    "CALL {lake}.sys.rollback(table => 'db.ok', version => '{}')",
    "CALL {lake}.sys.compact(table => 'db.{}')",
    "CALL {lake}.sys.expire_snapshots(table => 'db.{}', retain_max => 1)",
    "CALL {lake}.sys.remove_orphan_files(table => 'db.{}')",
)


def _tried(lake: SparkLake, statement: str) -> None:
    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        lake.sql(statement)
    assert "Traceback (most recent call last)" not in str(caught.value), statement


def test_a_table_is_not_renamed_out_of_the_warehouse(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.ok (id INT)")
    before = Sentinel(lake.warehouse.parent).outside()
    for name in ("../../moved", "../moved", "..", "a/b", "/moved"):
        with pytest.raises(PySparkException, match="Not a table name"):
            lake.sql(f"ALTER TABLE {{lake}}.db.ok RENAME TO {{lake}}.db.`{name}`")
    assert {path for path in Sentinel(lake.warehouse.parent).outside() if "/db.db" not in path} == {
        path for path in before if "/db.db" not in path
    }
    assert lake.tuples("SHOW TABLES IN {lake}.db") == [("db", "ok", False)]


def test_every_statement_refuses_every_hostile_name(lake: SparkLake, tally: Tally) -> None:
    lake.sql("CREATE TABLE {lake}.db.ok (id INT)")
    lake.sql("INSERT INTO {lake}.db.ok VALUES (1)")
    # Spark has no quoted empty names, and a backquote ends a name.
    names = [name for name in (NAMES if LONG else LEADING_OUT) if name.isprintable() and name and "\\" not in name]
    # A statement in Spark takes a sixth of a second.
    less = 6 if LONG else 25
    root = lake.warehouse.parent
    before = {path for path in Sentinel(root).outside() if not path.startswith(f"{lake.warehouse}/db.db")}
    tried = 0
    for number, statement in enumerate(STATEMENTS):
        for name in islice(cycle(names), number, number + len(names), less):
            _tried(lake, statement.replace("{}", name))
            tried += 1
    after = {path for path in Sentinel(root).outside() if not path.startswith(f"{lake.warehouse}/db.db")}
    assert after == before
    assert lake.tuples("SHOW TABLES IN {lake}.db") == [("db", "ok", False)]
    tally("hostile names given to Spark", tried)
