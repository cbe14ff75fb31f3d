"""SHOW, ADD, DROP and TRUNCATE of partitions."""

import pytest

from interbed import load_catalog
from tests.spark_ext.conftest import SparkLake
from tests.support.pages import Page

VALUES = (
    "(1, 'a', DATE '2026-01-31', 1), (2, 'b', DATE '2026-01-31', 2), (3, 'c', DATE '2026-02-01', 1), (4, 'd', NULL, 1)"
)


@pytest.fixture
def table(lake: SparkLake) -> SparkLake:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, v STRING, dt DATE, h INT) PARTITIONED BY (dt, h)")
    lake.sql(f"INSERT INTO {{lake}}.db.t VALUES {VALUES}")
    return lake


def ids(lake: SparkLake) -> list[int]:
    return sorted(row[0] for row in lake.tuples("SELECT id FROM {lake}.db.t"))


def test_partitions_are_shown(table: SparkLake) -> None:
    assert [row[0] for row in table.tuples("SHOW PARTITIONS {lake}.db.t")] == [
        "dt=2026-01-31/h=1",
        "dt=2026-01-31/h=2",
        "dt=2026-02-01/h=1",
        "dt=null/h=1",
    ]
    assert table.tuples("SHOW PARTITIONS {lake}.db.t PARTITION (dt = '2026-02-01')") == [("dt=2026-02-01/h=1",)]
    table.sql("CREATE TABLE {lake}.db.plain (id INT)")
    with pytest.raises(Exception, match=r"(?i)partition"):
        table.sql("SHOW PARTITIONS {lake}.db.plain")


def test_partitions_are_dropped_and_truncated(table: SparkLake) -> None:
    table.sql("ALTER TABLE {lake}.db.t DROP PARTITION (dt = '2026-01-31', h = 2)")
    assert ids(table) == [1, 3, 4]
    with pytest.raises(Exception, match=r"PARTITIONS_NOT_FOUND|not found"):
        table.sql("ALTER TABLE {lake}.db.t DROP PARTITION (dt = '2020-01-01', h = 2)")
    table.sql("ALTER TABLE {lake}.db.t DROP IF EXISTS PARTITION (dt = '2020-01-01', h = 2)")
    table.sql("ALTER TABLE {lake}.db.t ADD IF NOT EXISTS PARTITION (dt = '2026-01-31', h = 1)")
    table.sql("TRUNCATE TABLE {lake}.db.t PARTITION (dt = '2026-01-31')")
    assert ids(table) == [3, 4]
    table.sql("TRUNCATE TABLE {lake}.db.t PARTITION (dt = NULL, h = 1)")
    assert ids(table) == [3]


def test_some_of_the_partition_columns_drop_several_partitions(table: SparkLake) -> None:
    with pytest.raises(Exception, match=r"no partition \(dt=2020-01-01\)"):
        table.sql("ALTER TABLE {lake}.db.t DROP PARTITION (dt = '2020-01-01')")
    with pytest.raises(Exception, match="no value of the partition column 'dt'"):
        table.sql("ALTER TABLE {lake}.db.t DROP PARTITION (dt = 'today')")
    table.sql("ALTER TABLE {lake}.db.t DROP IF EXISTS PARTITION (dt = '2020-01-01')")
    assert ids(table) == [1, 2, 3, 4]
    table.sql("ALTER TABLE {lake}.db.t DROP PARTITION (dt = '2026-01-31')")
    assert ids(table) == [3, 4]
    table.sql("ALTER TABLE {lake}.db.t DROP PARTITION (h = 1)")
    assert ids(table) == []


@pytest.mark.parametrize("order", ["b, c", "c, b"])
def test_a_partial_partition_compares_char_values_without_padding(lake: SparkLake, order: str) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, c CHAR(4), b BOOLEAN) PARTITIONED BY ({order})")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'ab', true), (2, 'ab', false), (3, 'cd', false), (4, 'ef', true)")
    lake.sql("ALTER TABLE {lake}.db.t DROP IF EXISTS PARTITION (c = 'ab')")
    assert ids(lake) == [3, 4]
    lake.sql("ALTER TABLE {lake}.db.t DROP PARTITION (c = 'cd  ')")
    assert ids(lake) == [4]
    lake.sql("ALTER TABLE {lake}.db.t DROP PARTITION (c = 'ef')")
    assert ids(lake) == []


def test_partitions_of_char_are_found_by_any_writer_s_form(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, c CHAR(4)) PARTITIONED BY (c)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'ab'), (2, 'cd')")
    table = load_catalog(warehouse=str(lake.warehouse)).get_table("db.t")
    table.append([{"id": 3, "c": "ab"}, {"id": 4, "c": "ab "}, {"id": 5, "c": "cd"}])
    assert lake.tuples("SELECT id FROM {lake}.db.t WHERE c = 'ab' ORDER BY id") == [(1,), (3,), (4,)]
    assert sorted(row["id"] for row in table.scan(filter="c = 'ab'").to_arrow().to_pylist()) == [1, 3, 4]
    lake.sql("CALL {lake}.sys.compact(table => 'db.t', `where` => \"c = 'cd'\")")
    lake.sql("ALTER TABLE {lake}.db.t DROP PARTITION (c = 'ab')")
    assert ids(lake) == [2, 5]
    table.append([{"id": 6, "c": "ef"}])
    lake.sql("ALTER TABLE {lake}.db.t DROP IF EXISTS PARTITION (c = 'ef  ')")
    assert ids(lake) == [2, 5]
    lake.sql("TRUNCATE TABLE {lake}.db.t PARTITION (c = 'cd')")
    assert ids(lake) == []


def test_a_partial_partition_of_char_is_found_in_any_writer_s_form(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, c CHAR(4), p INT) PARTITIONED BY (c, p)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'ab', 1), (2, 'cd', 1)")
    load_catalog(warehouse=str(lake.warehouse)).get_table("db.t").append([{"id": 3, "c": "ab", "p": 2}])
    lake.sql("ALTER TABLE {lake}.db.t DROP PARTITION (c = 'ab')")
    assert ids(lake) == [2]


def test_a_partition_of_a_not_null_boolean_is_overwritten(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, p BOOLEAN NOT NULL, q BOOLEAN) PARTITIONED BY (p, q)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, false, false), (2, true, false), (3, true, true), (4, false, null)")
    lake.sql("INSERT OVERWRITE {lake}.db.t PARTITION (p = false) SELECT 5, true")
    assert ids(lake) == [2, 3, 5]
    lake.sql("INSERT OVERWRITE {lake}.db.t PARTITION (p = true, q = false) SELECT 6")
    assert ids(lake) == [3, 5, 6]


def test_nested_fields_that_a_query_does_not_select_are_not_read(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.n (id INT, s STRUCT<a: INT, b: STRING, c: INT>, l ARRAY<STRUCT<x: INT, y: INT>>) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'file.format' = 'orc')"
    )
    lake.sql(
        "INSERT INTO {lake}.db.n VALUES "
        "(1, named_struct('a', 1, 'b', 'one', 'c', 3), array(named_struct('x', 8, 'y', 9)))"
    )
    assert lake.tuples("SELECT s.c, l.y FROM {lake}.db.n WHERE s.b = 'one'") == [(3, [9])]


@pytest.mark.long
def test_the_page_of_tables_runs_as_written(lake: SparkLake) -> None:
    lake.sql("CREATE DATABASE {lake}.shop")
    lake.sql("USE {lake}.db")

    assert Page("spark-tables.md").run_sql(lambda sql: lake.spark.sql(sql).collect()) > 10
    assert ids_of_orders(lake) == []


def ids_of_orders(lake: SparkLake) -> list[int]:
    return [row[0] for row in lake.tuples("SELECT id FROM {lake}.shop.orders")]
