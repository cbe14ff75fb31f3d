"""Tables with row filters and column masks in Spark: each way to read shows what the policies show, or is refused.

The model has the shown rows as a view of Spark's own; a query has the same result on it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark_ext.conftest import SparkLake
from tests.spark_ext.policed import (
    BOTH,
    COLUMNS,
    FILTERED,
    FIRST,
    MASKED,
    READERS,
    SECOND,
    PolicedServer,
    Row,
    policed_server,
    shown,
)
from tests.support.shares import LONG
from tests.support.waits import at_most, wait_until

REFUSED = "has row filters or column masks for you"
TABLES = ("appended", "keyed")
SOME_READERS = READERS if LONG else (BOTH,)
"""Readers of tests that repeat queries in another setting: each run takes the one with a filter and masks."""


@dataclass(frozen=True)
class PolicedCatalogs:
    """The catalogs of the users of a server with policies."""

    server: PolicedServer
    spark: SparkSession
    lakes: dict[str, SparkLake]

    def of(self, reader: str, table: str, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query by a reader; `{t}` is the table."""
        return _sorted(self.frame(reader, table, query))

    def frame(self, reader: str, table: str, query: str) -> DataFrame:
        """Return the data frame of a query by a reader."""
        named = re.sub(r"\{t\}(\$\w+)?", lambda found: f"{{lake}}.sales.`{table}{found[1] or ''}`", query)
        return self.lakes[reader].frame(named)

    def model(self, reader: str, query: str, rows: Sequence[Row]) -> list[tuple[Any, ...]]:
        """Return the rows of a query on what a reader sees of rows."""
        values = _values(shown(reader, rows))
        names = ", ".join(column.split()[0] for column in COLUMNS.split(", "))
        self.spark.sql(f"CREATE OR REPLACE TEMP VIEW shown_rows AS SELECT * FROM VALUES {values} AS rows({names})")
        return _sorted(self.spark.sql(query.replace("{t}", "shown_rows")))


def _values(rows: Sequence[Row]) -> str:
    """Return rows as SQL: a data frame of Python's values would start a Python worker in each query."""
    return ", ".join(f"({', '.join('NULL' if value is None else repr(value) for value in row)})" for row in rows)


def _sorted(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.fixture(scope="module")
def policed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicedCatalogs]:
    """Run a server with two tables of the same rows and policies: one without a key, and one with a key."""
    with policed_server(tmp_path_factory.mktemp("policed")) as server:
        lakes = {user: server.lake(spark, user) for user in ("root", *READERS)}
        root = lakes["root"]
        root.sql("CREATE DATABASE {lake}.sales")
        root.sql(f"CREATE TABLE {{lake}}.sales.appended ({COLUMNS}) PARTITIONED BY (dt)")
        root.sql(
            f"CREATE TABLE {{lake}}.sales.keyed ({COLUMNS}) PARTITIONED BY (dt) TBLPROPERTIES ("
            "'primary-key' = 'dt,id', 'bucket' = '1', 'changelog-producer' = 'input')"
        )
        for table in TABLES:
            for rows in (FIRST, SECOND):
                root.sql(f"INSERT INTO {{lake}}.sales.{table} VALUES {_values(rows)}")
            server.set_policies(f"sales.{table}")
        for reader in READERS:
            root.sql(f"GRANT ALL ON DATABASE {{lake}}.sales TO USER {reader}")
        wait_until(lambda: lakes[BOTH].tuples("SELECT count(*) FROM {lake}.sales.keyed") == [(4,)])
        yield PolicedCatalogs(server, spark, lakes)
        spark.sql("USE spark_catalog")


QUERIES = {
    "all": "SELECT * FROM {t}",
    "columns": "SELECT phone, id FROM {t}",
    "masked column": "SELECT phone FROM {t}",
    "count": "SELECT count(*) FROM {t}",
    "count of values": "SELECT count(phone), count(amount), count(city) FROM {t}",
    "least and greatest": "SELECT min(id), max(id), min(phone), max(phone), min(amount), max(amount) FROM {t}",
    "count by partition": "SELECT dt, count(*) FROM {t} GROUP BY dt",
    "greatest by partition": "SELECT dt, max(amount), max(phone) FROM {t} GROUP BY dt",
    "partitions": "SELECT DISTINCT dt FROM {t}",
    "count of a partition": "SELECT count(*) FROM {t} WHERE dt = 'd'",
    "hidden row": "SELECT * FROM {t} WHERE id = 1",
    "hidden rows": "SELECT * FROM {t} WHERE id IN (1, 3, 5, 7)",
    "raw text": "SELECT id FROM {t} WHERE phone = '22'",
    "raw texts": "SELECT id FROM {t} WHERE phone IN ('22', '66', '*Ulm')",
    "not a raw text": "SELECT id FROM {t} WHERE phone <> '22'",
    "mask": "SELECT id, phone FROM {t} WHERE phone = '*Ulm'",
    "prefix": "SELECT id FROM {t} WHERE phone LIKE '2%' OR phone LIKE '*K%'",
    "raw number": "SELECT id FROM {t} WHERE amount > 10",
    "no raw number": "SELECT id FROM {t} WHERE NOT (amount > 10)",
    "null": "SELECT id FROM {t} WHERE amount IS NULL",
    "not null": "SELECT id FROM {t} WHERE amount IS NOT NULL AND phone IS NOT NULL",
    "null safe": "SELECT id FROM {t} WHERE amount <=> 20",
    "masked or not": "SELECT id FROM {t} WHERE phone = '22' OR id = 6",
    "masked and not": "SELECT id FROM {t} WHERE phone = '*Ulm' AND id < 4 AND dt = 'a'",
    "raw in a condition": "SELECT id, CASE WHEN amount > 50 THEN 'much' ELSE 'little' END FROM {t}",
    "error of a hidden row": "SELECT id, 100 / amount FROM {t}",
    "two columns": "SELECT id FROM {t} WHERE concat('*', city) = phone",
    "top": "SELECT max(id) FROM (SELECT * FROM {t} ORDER BY id DESC LIMIT 1)",
    "least": "SELECT id, phone FROM {t} ORDER BY id LIMIT 1",
    "top of masked": "SELECT amount FROM {t} ORDER BY amount DESC NULLS LAST LIMIT 1",
    "limit": "SELECT count(*) FROM (SELECT * FROM {t} LIMIT 3)",
    "limit and offset": "SELECT count(*) FROM (SELECT * FROM {t} LIMIT 10 OFFSET 2)",
    "groups of masked": "SELECT phone, count(*) FROM {t} GROUP BY phone",
    "having": "SELECT phone FROM {t} GROUP BY phone HAVING max(amount) > 10 OR count(*) > 1",
    "distinct": "SELECT DISTINCT phone, amount FROM {t}",
    "self join": "SELECT a.id, b.id FROM {t} a JOIN {t} b ON a.phone = b.phone",
    "self join by key": "SELECT a.id, b.phone FROM {t} a JOIN {t} b ON a.dt = b.dt AND a.id = b.id",
    "join on masked": "SELECT t.id, v.x FROM {t} t JOIN VALUES ('22'), ('*Ulm') AS v(x) ON t.phone = v.x",
    "left join": "SELECT v.x, t.id FROM VALUES (1), (2), (5) AS v(x) LEFT JOIN {t} t ON t.id = v.x",
    "anti join": "SELECT v.x FROM VALUES (1), (2), (5) AS v(x) LEFT ANTI JOIN {t} t ON t.id = v.x",
    "dynamic pruning": "SELECT /*+ BROADCAST(v) */ t.id FROM {t} t JOIN VALUES ('a', 1), ('d', 1) AS v(x, y) "
    "ON t.dt = v.x WHERE v.y = 1",
    "subquery": "SELECT id FROM {t} WHERE phone IN (SELECT phone FROM {t} WHERE id = 2)",
    "scalar subquery": "SELECT id FROM {t} WHERE phone = (SELECT max(phone) FROM {t})",
    "exists": "SELECT v.x FROM VALUES ('11'), ('*Ulm') AS v(x) WHERE EXISTS (SELECT 1 FROM {t} t WHERE t.phone = v.x)",
    "window": "SELECT id, rank() OVER (PARTITION BY phone ORDER BY id), sum(amount) OVER (ORDER BY id) FROM {t}",
    "union": "SELECT phone FROM {t} UNION SELECT city FROM {t}",
    "common table": "WITH c AS (SELECT * FROM {t} WHERE id > 1) SELECT phone, max(id) FROM c GROUP BY phone",
    "hash": "SELECT id, hash(phone, amount) FROM {t}",
    "row as a whole": "SELECT struct(*) FROM {t}",
    "sum": "SELECT sum(amount), avg(amount), count(DISTINCT phone), approx_count_distinct(phone) FROM {t}",
    "sample": "SELECT count(*) FROM {t} TABLESAMPLE (100 PERCENT)",
}


@pytest.fixture
def quick(spark: SparkSession) -> Iterator[None]:
    """Run small queries without what only pays for large ones."""
    settings = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "1",
    }
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key, former in before.items():
        assert former is not None
        spark.conf.set(key, former)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("reader", "table"),
    [
        pytest.param(BOTH, "keyed", marks=pytest.mark.longer),
        *(
            pytest.param(reader, table, marks=pytest.mark.long)
            for reader in READERS
            for table in TABLES
            if (reader, table) != (BOTH, "keyed")
        ),
    ],
)
def test_each_query_sees_shown_rows_and_values(policed: PolicedCatalogs, reader: str, table: str) -> None:
    rows = (*FIRST, *SECOND)
    queries = {name: QUERIES[name] for name in list(QUERIES)[:: 1 if LONG else 4]}
    seen = {name: policed.of(reader, table, query) for name, query in queries.items()}
    assert seen == {name: policed.model(reader, query, rows) for name, query in queries.items()}


@pytest.mark.longer
@pytest.mark.parametrize(
    "settings",
    [
        {"spark.sql.cbo.enabled": "true", "spark.sql.cbo.planStats.enabled": "true"},
        {"spark.sql.sources.v2.bucketing.enabled": "true", "spark.sql.autoBroadcastJoinThreshold": "-1"},
        {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false"},
    ],
    ids=["statistics", "partitioned", "interpreted"],
)
def test_settings_of_the_optimizer_show_no_more(policed: PolicedCatalogs, settings: dict[str, str]) -> None:
    names = ("least and greatest", "self join", "self join by key", "groups of masked", "dynamic pruning", "count")
    try:
        for key, value in settings.items():
            policed.spark.conf.set(key, value)
        for reader in SOME_READERS:
            for name in names:
                query = QUERIES[name]
                assert policed.of(reader, "keyed", query) == policed.model(reader, query, (*FIRST, *SECOND)), name
    finally:
        for key in settings:
            policed.spark.conf.unset(key)


def test_the_owner_is_not_bound(policed: PolicedCatalogs) -> None:
    rows = sorted((*FIRST, *SECOND), key=repr)
    assert [policed.of("root", table, "SELECT * FROM {t}") for table in TABLES] == [rows, rows]


@pytest.mark.longer
def test_older_versions_branches_and_tags_show_no_more(policed: PolicedCatalogs) -> None:
    root = policed.lakes["root"]
    root.sql("CALL {lake}.sys.create_tag('sales.keyed', 'first', 1)")
    root.sql("CALL {lake}.sys.create_branch('sales.keyed', 'b', 'first')")
    moment = root.tuples("SELECT commit_time FROM {lake}.sales.`keyed$snapshots` WHERE snapshot_id = 1")[0][0]
    for reader in SOME_READERS:
        model = policed.model(reader, "SELECT * FROM {t}", FIRST)
        for query in (
            "SELECT * FROM {t} VERSION AS OF 1",
            "SELECT * FROM {t} VERSION AS OF 'first'",
            f"SELECT * FROM {{t}} TIMESTAMP AS OF '{moment}'",
            "SELECT * FROM {t}$branch_b",
            "SELECT * FROM {t} WITH ('scan.snapshot-id' = '1')",
            "SELECT * FROM {t} WITH ('scan.tag-name' = 'first', 'query-auth.enabled' = 'false')",
        ):
            assert policed.of(reader, "keyed", query) == model, query
        lake = policed.lakes[reader]
        for options in ({"scan.snapshot-id": "1"}, {"scan.tag-name": "first"}):
            frame = policed.spark.read.options(**options).table(f"{lake.name}.sales.keyed")
            assert _sorted(frame) == model, options
        policed.spark.conf.set(f"spark.interbed.{lake.name}.sales.keyed.scan.snapshot-id", "1")
        assert policed.of(reader, "keyed", "SELECT * FROM {t}") == model
        policed.spark.conf.unset(f"spark.interbed.{lake.name}.sales.keyed.scan.snapshot-id")


@pytest.mark.longer
def test_changes_of_a_range_show_no_more(policed: PolicedCatalogs) -> None:
    for reader in SOME_READERS:
        lake, model = policed.lakes[reader], policed.model(reader, "SELECT * FROM {t}", SECOND)
        for table in TABLES:
            name = f"{lake.name}.sales.{table}"
            by_options = policed.spark.read.option("incremental-between", "1,2").table(name)
            assert _sorted(by_options) == model
            by_function = f"SELECT * FROM paimon_incremental_query('{name}', '1', '2')"
            assert _sorted(policed.spark.sql(by_function)) == model


@pytest.mark.longer
def test_data_frames_views_and_copies_show_no_more(policed: PolicedCatalogs) -> None:
    rows = (*FIRST, *SECOND)
    for reader in SOME_READERS:
        lake, model = policed.lakes[reader], policed.model(reader, "SELECT * FROM {t}", rows)
        frame = policed.spark.table(f"{lake.name}.sales.keyed")
        assert _sorted(frame) == model
        assert frame.count() == len(model)
        assert sorted(frame.toArrow().to_pydict()["id"]) == sorted(row[0] for row in model)
        assert len(frame.take(100)) == len(frame.head(100)) == len(frame.tail(100)) == len(model)
        assert frame.filter("phone = '22'").isEmpty() is (reader != FILTERED)
        lake.sql(f"CREATE VIEW {{lake}}.sales.seen_by_{reader} AS SELECT * FROM {{lake}}.sales.keyed")
        assert policed.of(reader, f"seen_by_{reader}", "SELECT * FROM {t}") == model
        lake.sql(f"CREATE TABLE {{lake}}.sales.copied_by_{reader} AS SELECT * FROM {{lake}}.sales.appended")
        assert policed.of("root", f"copied_by_{reader}", "SELECT * FROM {t}") == model
        lake.sql(f"INSERT INTO {{lake}}.sales.copied_by_{reader} SELECT * FROM {{lake}}.sales.keyed")
        assert policed.of("root", f"copied_by_{reader}", "SELECT * FROM {t}") == sorted(model * 2, key=repr)
        lake.sql(f"CREATE TABLE {{lake}}.sales.like_by_{reader} LIKE {{lake}}.sales.keyed")
        assert policed.of("root", f"like_by_{reader}", "SELECT * FROM {t}") == []


def test_rows_that_another_user_caches_are_not_seen(policed: PolicedCatalogs) -> None:
    policed.frame("root", "keyed", "CACHE TABLE of_root AS SELECT * FROM {t}")
    cached = policed.spark.table(f"{policed.lakes['root'].name}.sales.keyed").cache()
    assert cached.count() == len(FIRST) + len(SECOND)
    other = policed.spark.newSession()
    name, of_both = "shared_by_name", policed.server.options(BOTH)
    for session, options in ((policed.spark, policed.server.options("root")), (other, of_both)):
        session.conf.set(f"spark.sql.catalog.{name}", "interbed.spark.SparkCatalog")
        for key, value in options.items():
            session.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    everything = policed.spark.table(f"{name}.sales.keyed").cache()
    assert everything.count() == len(FIRST) + len(SECOND)
    model = policed.model(BOTH, "SELECT * FROM {t}", (*FIRST, *SECOND))
    assert _sorted(other.table(f"{name}.sales.keyed")) == model
    assert policed.of(BOTH, "keyed", "SELECT * FROM {t}") == model
    cached.unpersist()
    everything.unpersist()
    policed.spark.sql("UNCACHE TABLE of_root")


@pytest.mark.longer
def test_a_stream_shows_no_more(policed: PolicedCatalogs, tmp_path: Path) -> None:
    for number, (reader, table) in enumerate((reader, table) for reader in SOME_READERS for table in TABLES):
        lake = policed.lakes[reader]
        query = (
            policed.spark.readStream.option("scan.mode", "from-snapshot")
            .option("scan.snapshot-id", "1")
            .table(f"{lake.name}.sales.{table}")
            .filter("phone IS NULL OR phone <> '66'")
            .writeStream.format("memory")
            .queryName(f"seen{number}")
            .option("checkpointLocation", str(tmp_path / str(number)))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(at_most(120))
        expected = policed.model(reader, "SELECT * FROM {t} WHERE phone IS NULL OR phone <> '66'", (*FIRST, *SECOND))
        assert _sorted(policed.spark.table(f"seen{number}")) == expected


STATEMENTS = (
    "UPDATE {t} SET city = 'x' WHERE phone = '22'",
    "DELETE FROM {t} WHERE phone = '22'",
    "DELETE FROM {t} WHERE amount / 0 > 1",
    "DELETE FROM {t} WHERE dt = 'a'",
    "DELETE FROM {t} WHERE id IN (1, 2)",
    "DELETE FROM {t}",
    "TRUNCATE TABLE {t}",
    "MERGE INTO {t} USING (SELECT 1 AS x) s ON {t}.id = s.x WHEN MATCHED THEN DELETE",
    "MERGE INTO {t} USING (SELECT 1 AS x) s ON {t}.phone = '22' WHEN MATCHED THEN UPDATE SET city = 'x'",
    "MERGE INTO {t} USING (SELECT 1 AS x) s ON {t}.id = s.x WHEN NOT MATCHED THEN INSERT (id, dt) VALUES (x, 'a')",
    "INSERT INTO {t} VALUES (9, 'x', 'y', 1, 'a')",
    "INSERT INTO {t} SELECT * FROM {t}",
    "INSERT OVERWRITE {t} VALUES (9, 'x', 'y', 1, 'a')",
    "ANALYZE TABLE {t} COMPUTE STATISTICS FOR ALL COLUMNS",
    "ALTER TABLE {t} DROP COLUMN phone",
    "ALTER TABLE {t} DROP PARTITION (dt = 'a')",
    "SHOW PARTITIONS {t}",
    "SELECT * FROM {t}$files",
    "SELECT * FROM {t}$partitions",
    "SELECT * FROM {t}$buckets",
    "SELECT * FROM {t}$ro",
    "SELECT * FROM {t}$audit_log",
    "SELECT * FROM {t}$binlog",
    "SELECT * FROM {t}$statistics",
    "SELECT * FROM {t}$manifests",
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_that_would_show_or_change_more_are_refused(policed: PolicedCatalogs, statement: str) -> None:
    for reader, table in ((FILTERED, "keyed"), (MASKED, "appended")):
        with pytest.raises(Exception, match=REFUSED):
            policed.of(reader, table, statement)


@pytest.mark.parametrize("column", ["__paimon_file_path", "__paimon_row_index", "__interbed_row"])
def test_hidden_columns_are_not_there(policed: PolicedCatalogs, column: str) -> None:
    for table in TABLES:
        with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
            policed.of(MASKED, table, f"SELECT {column} FROM {{t}}")


def test_plans_do_not_depend_on_hidden_rows_and_values(policed: PolicedCatalogs) -> None:
    def plan(reader: str, condition: str) -> str:
        (found,) = policed.frame(reader, "keyed", f"EXPLAIN COST SELECT city FROM {{t}} WHERE {condition}").collect()
        return "".join(letter for letter in str(found[0]) if not letter.isdigit())

    assert plan(FILTERED, "id = 1") == plan(FILTERED, "id = 5")
    for reader in (MASKED, BOTH):
        assert plan(reader, "phone = '22'") == plan(reader, "phone = '99'")
        assert plan(reader, "amount > 10") == plan(reader, "amount > 1000")
        assert "native=0 (row filters or masks)" in policed.lakes[reader].plan("SELECT * FROM {lake}.sales.keyed")
    for reader, condition in ((FILTERED, "id = 1"), (MASKED, "phone = '22'")):
        numbers = policed.frame(reader, "keyed", f"SELECT id FROM {{t}} WHERE {condition}").rdd.getNumPartitions()
        assert numbers == policed.frame(reader, "keyed", "SELECT id FROM {t}").rdd.getNumPartitions()


@pytest.mark.longer
def test_a_catalog_by_the_interface_of_hive_shows_no_more(policed: PolicedCatalogs) -> None:
    rows = (*FIRST, *SECOND)
    for reader in SOME_READERS:
        lake = policed.server.lake(policed.spark, reader, "hive")
        names = ("all", "least and greatest", "raw text", "count", "self join", "error of a hidden row")
        for name in names[: None if LONG else 3]:
            query = QUERIES[name].replace("{t}", "{lake}.sales.keyed")
            assert _sorted(lake.frame(query)) == policed.model(reader, QUERIES[name], rows), name
        for statement in STATEMENTS[:8]:
            with pytest.raises(Exception, match=REFUSED):
                lake.sql(statement.replace("{t}", "{lake}.sales.keyed"))
