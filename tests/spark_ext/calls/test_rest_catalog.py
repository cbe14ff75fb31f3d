"""Spark on a REST catalog: CREATE CATALOG with 'metastore' = 'rest', and spark.sql.catalog.<name>.metastore."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from interbed import load_catalog
from interbed.storage.base.clock import now_millis
from tests.spark_ext.conftest import SparkLake
from tests.support.pages import Page
from tests.support.servers.http_servers import running_s3
from tests.support.servers.metastore import metastore
from tests.support.servers.paimon_rest import PaimonRestServers, rest_options
from tests.support.sql_script import Statement, check, statements_of
from tests.support.waits import at_most

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Address of the Paimon REST catalog of a server, and its warehouse."""
    warehouse = tmp_path_factory.mktemp("served")
    with metastore(db=f"sqlite:///{warehouse / 'metastore.db'}", warehouse=f"file:{warehouse}") as uri:
        yield uri.paimon, warehouse


def created(spark: SparkSession, options: dict[str, str], warehouse: Path) -> SparkLake:
    """Create a catalog of these options in Spark."""
    lake = SparkLake(spark, f"lake_rest{next(_NUMBERS)}", warehouse)
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in {"type": "paimon", **options}.items())
    lake.sql(f"CREATE CATALOG {{lake}} WITH ({listed})")
    return lake


@pytest.fixture
def served(spark: SparkSession, server: tuple[str, Path]) -> Iterator[SparkLake]:
    """A catalog over the server, with an empty database `db`."""
    uri, warehouse = server
    lake = created(spark, rest_options(uri, "hive"), warehouse)
    lake.sql("CREATE DATABASE {lake}.db COMMENT 'of tests' WITH DBPROPERTIES ('team' = 'a')")
    yield lake
    lake.sql("DROP DATABASE {lake}.db CASCADE")
    lake.sql("USE spark_catalog")
    lake.sql("DROP CATALOG {lake}")


def test_a_table_is_created_written_read_and_dropped(served: SparkLake, server: tuple[str, Path]) -> None:
    served.sql("CREATE TABLE {lake}.db.t (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    served.sql("INSERT INTO {lake}.db.t VALUES (1, 'a'), (2, 'b')")
    served.sql(
        "MERGE INTO {lake}.db.t USING (SELECT 2 AS id, 'c' AS v) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v"
    )
    served.sql("DELETE FROM {lake}.db.t WHERE id = 1")
    assert served.tuples("SELECT * FROM {lake}.db.t") == [(2, "c")]
    assert served.tuples("SELECT count(*) FROM {lake}.db.t VERSION AS OF 1") == [(2,)]
    with load_catalog("lake", **rest_options(server[0], "hive")) as catalog:
        assert [s.id for s in catalog.get_table("db.t").snapshots()] == [1, 2, 3]
    served.sql("DROP TABLE {lake}.db.t")
    assert served.sql("SHOW TABLES IN {lake}.db") == []


def test_a_session_configures_the_catalog(spark: SparkSession, server: tuple[str, Path]) -> None:
    spark.conf.set("spark.sql.catalog.configured", "interbed.spark.SparkCatalog")
    for key, value in rest_options(server[0], "hive").items():
        spark.conf.set(f"spark.sql.catalog.configured.{key}", value)
    lake = SparkLake(spark, "configured", server[1])
    lake.sql("CREATE DATABASE {lake}.by_configuration")
    lake.sql("CREATE TABLE {lake}.by_configuration.t AS SELECT 1 AS id")
    assert lake.tuples("SELECT * FROM {lake}.by_configuration.t") == [(1,)]
    lake.sql("DROP DATABASE {lake}.by_configuration CASCADE")


@pytest.mark.long
def test_a_stream_is_read_and_written(served: SparkLake, tmp_path: Path) -> None:
    served.sql("CREATE TABLE {lake}.db.s (id INT, v STRING)")
    served.sql("CREATE TABLE {lake}.db.t (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    for number in range(2):
        served.sql(f"INSERT INTO {{lake}}.db.s VALUES ({number}, 'a'), (9, 'b{number}')")
        query = (
            served.spark.readStream.table(f"{served.name}.db.s")
            .writeStream.outputMode("append")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .toTable(f"{served.name}.db.t")
        )
        assert query.awaitTermination(at_most(120))
    assert served.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(0, "a"), (1, "a"), (9, "b1")]


def answered_by_rest(statement: Statement) -> Statement:
    """Return the statement with its answer on a REST catalog, which has functions as a file system has not."""
    if "_function('shop.f'" not in statement.sql:
        return statement
    assert statement.error is not None
    return replace(statement, rows=("true",), error=None)


@pytest.mark.long
@pytest.mark.parametrize("page", ["procedures", "compaction", "changes", "reading", "metadata"])
def test_the_statements_of_the_pages_run_on_a_rest_catalog(spark: SparkSession, page: str, tmp_path: Path) -> None:
    with metastore(warehouse=f"file:{tmp_path}/lake") as uri:
        lake = created(spark, rest_options(uri.paimon, "hive"), tmp_path / "lake")
        lake.sql("USE {lake}")
        if page in ("changes", "metadata"):
            lake.sql("CREATE DATABASE {lake}.shop")
        statements = statements_of("\n".join(Page(f"spark-{page}.md").blocks("sql")))
        for statement in statements:
            check(answered_by_rest(statement), lambda sql: lake.sql(sql.replace("lake.", f"{lake.name}.")))
        assert len(statements) > 5
        lake.sql("USE spark_catalog")
        lake.sql("DROP CATALOG {lake}")


@pytest.mark.long
def test_executors_read_with_options_of_the_server(spark: SparkSession, tmp_path: Path) -> None:
    with (
        running_s3("lake") as store,
        PaimonRestServers() as servers,
        servers.server(tmp_path / "lake", defaults=store) as url,
    ):
        lake = created(spark, rest_options(url), tmp_path)
        lake.sql("CREATE DATABASE {lake}.db")
        lake.sql("CREATE TABLE {lake}.db.t (id INT) TBLPROPERTIES ('path' = 's3://lake/t')")
        lake.sql("INSERT INTO {lake}.db.t VALUES (1), (2)")
        assert sorted(lake.tuples("SELECT * FROM {lake}.db.t")) == [(1,), (2,)]
        lake.sql("DROP CATALOG {lake}")


@pytest.mark.long
def test_executors_get_data_tokens_by_themselves(spark: SparkSession, tmp_path: Path) -> None:
    with (
        running_s3("lake") as store,
        PaimonRestServers() as servers,
        servers.server(tmp_path / "lake", defaults={"data-token.enabled": "true"}) as url,
    ):
        lake = created(spark, rest_options(url), tmp_path)
        servers.set_token(url, "db.t", store, now_millis() + 36_000_000)
        lake.sql("CREATE DATABASE {lake}.db")
        lake.sql("CREATE TABLE {lake}.db.t (id INT) TBLPROPERTIES ('path' = 's3://lake/t')")
        lake.sql("INSERT INTO {lake}.db.t VALUES (1), (2)")
        plan = lake.plan("SELECT * FROM {lake}.db.t")
        assert "native=0 (tokens of the server)" in plan
        assert sorted(lake.tuples("SELECT * FROM {lake}.db.t")) == [(1,), (2,)]
        assert lake.tuples("CALL {lake}.sys.compact('db.t')") == [(True,)]
        with load_catalog("lake", **rest_options(url)) as catalog:
            assert catalog.get_table("db.t").scan().count() == 2
        lake.sql("DROP CATALOG {lake}")
