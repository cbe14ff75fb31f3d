"""spark_catalog as an interbed catalog: its tables beside Spark's own, in memory and over a Hive metastore."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from interbed import load_catalog
from interbed.spark_ext import spark_settings
from tests.support.peers.spark import SparkPeer, hive_settings
from tests.support.servers.metastore import metastore
from tests.support.sql_script import run_script

SESSION_CATALOG = {"spark.sql.catalog.spark_catalog": "interbed.spark.SparkSessionCatalog"}

SIDE_BY_SIDE = """
CREATE DATABASE side COMMENT 'both';
USE side;
CREATE TABLE ours (id INT, name STRING) USING interbed TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1');
CREATE TABLE named_paimon (id INT) USING paimon;
CREATE TABLE theirs (id INT, name STRING) USING parquet;
CREATE TABLE unnamed (id INT);
INSERT INTO ours VALUES (1, 'a'), (2, 'b');
INSERT INTO ours VALUES (2, 'B');
INSERT INTO theirs VALUES (2, 'x'), (3, 'y');
CREATE TABLE copied USING interbed AS SELECT * FROM theirs;
CREATE TABLE copied_back USING parquet AS SELECT * FROM ours;
CREATE VIEW joined AS SELECT o.id, o.name AS ours, t.name AS theirs FROM ours o JOIN theirs t ON o.id = t.id;
SELECT * FROM joined;
-- 2, B, x
SELECT * FROM spark_catalog.side.copied;
-- 2, x
-- 3, y
SELECT * FROM copied_back;
-- 1, a
-- 2, B
SELECT * FROM ours VERSION AS OF 1 ORDER BY id;
-- 1, a
-- 2, b
SELECT count(*) FROM `ours$snapshots`;
-- 2
CREATE TABLE alike LIKE ours TBLPROPERTIES ('bucket' = '2');
CREATE TABLE spark_catalog.side.alike LIKE spark_catalog.side.ours;
-- ! already
CREATE TABLE theirs LIKE ours;
-- ! ALREADY_EXISTS
CREATE TABLE IF NOT EXISTS theirs LIKE ours;
INSERT INTO alike VALUES (7, 'x');
UPDATE alike SET name = 'y' WHERE id = 7;
SELECT * FROM alike;
-- 7, y
DROP TABLE alike;
CREATE TABLE alike_theirs LIKE theirs;
INSERT INTO alike_theirs VALUES (1, 'z');
SELECT * FROM alike_theirs;
-- 1, z
DROP TABLE alike_theirs;
CREATE TABLE ours (id INT) USING parquet;
-- ! ALREADY_EXISTS
CREATE TABLE theirs (id INT) USING interbed;
-- ! ALREADY_EXISTS
ALTER TABLE ours ADD COLUMN more INT;
ALTER TABLE theirs ADD COLUMNS (more INT);
SELECT * FROM ours WHERE id = 1;
-- 1, a, null
SELECT * FROM theirs WHERE id = 2;
-- 2, x, null
ALTER TABLE ours RENAME TO renamed;
ALTER TABLE theirs RENAME TO theirs_renamed;
ALTER TABLE renamed RENAME TO theirs_renamed;
-- ! ALREADY_EXISTS
SHOW TABLES LIKE '*renamed';
-- side, renamed, false
-- side, theirs_renamed, false
DROP DATABASE side;
-- ! SCHEMA_NOT_EMPTY
DROP VIEW joined;
DROP TABLE renamed;
DROP TABLE theirs_renamed;
DROP TABLE named_paimon;
DROP TABLE IF EXISTS never;
SHOW TABLES;
-- side, copied, false
-- side, copied_back, false
-- side, unnamed, false
USE default;
CREATE TABLE first USING interbed AS SELECT 1 AS id;
SELECT * FROM default.first;
-- 1
DROP TABLE first;
DROP DATABASE side CASCADE;
SHOW TABLES IN side;
-- ! SCHEMA_NOT_FOUND
CREATE CATALOG spark_catalog WITH ('warehouse' = '/tmp/none');
-- ! already exists
"""


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> SparkSession:
    """A session whose spark_catalog is interbed's."""
    session = spark.newSession()
    for key, value in SESSION_CATALOG.items():
        session.conf.set(key, value)
    return session


def test_tables_of_either_kind_coexist_in_one_namespace(session: SparkSession) -> None:
    assert run_script(SIDE_BY_SIDE, lambda statement: session.sql(statement).collect()) > 30


def test_temporary_views_and_functions_stay_sparks(session: SparkSession) -> None:
    session.range(2).createOrReplaceTempView("numbers")
    session.sql("CREATE TEMPORARY FUNCTION twice(x INT) RETURNS INT RETURN x * 2")

    assert [tuple(row) for row in session.sql("SELECT twice(2), count(*) FROM numbers").collect()] == [(4, 2)]
    assert "numbers" in {row[1] for row in session.sql("SHOW TABLES IN default").collect()}


def test_a_table_is_read_and_written_by_its_path(session: SparkSession) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS paths")
    session.sql("CREATE TABLE paths.t (id INT) USING interbed")
    warehouse = session.conf.get("spark.sql.warehouse.dir")
    path = f"{warehouse}/paths.db/t"
    session.range(3).selectExpr("CAST(id AS INT) AS id").write.format("interbed").mode("append").save(path)

    assert session.read.format("interbed").load(path).count() == 3
    assert session.table("paths.t").count() == 3
    with pytest.raises(Exception, match=r"There is no table at"):
        session.read.format("interbed").load("/tmp/elsewhere")
    session.sql("DROP DATABASE paths CASCADE")


def test_other_names_are_refused(session: SparkSession) -> None:
    session.conf.set("spark.sql.catalog.other", "interbed.spark.SparkSessionCatalog")

    with pytest.raises(Exception, match=r"for other use interbed\.spark\.SparkCatalog"):
        session.sql("SHOW TABLES IN other.db")


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SparkPeer, str, Path]]:
    """A Spark with Hive support whose spark_catalog is interbed's, over a server; the server's uri and warehouse."""
    warehouse = tmp_path_factory.mktemp("hive")
    with metastore(db=f"sqlite:///{warehouse / 'metastore.db'}", warehouse=f"file:{warehouse}") as uri:
        settings = {**hive_settings(uri, warehouse), **spark_settings(), **SESSION_CATALOG}
        with SparkPeer(settings) as peer:
            yield peer, uri, warehouse


@pytest.mark.long
def test_tables_of_both_kinds_are_found_by_name_over_a_metastore(hive: tuple[SparkPeer, str, Path]) -> None:
    peer, uri, warehouse = hive

    assert run_script(SIDE_BY_SIDE, as_shown(peer.run)) > 30
    peer.run("CREATE DATABASE kept")
    peer.run("CREATE TABLE kept.t USING interbed AS SELECT 1 AS id")
    peer.run("CREATE TABLE kept.h (id INT) STORED AS PARQUET")
    with load_catalog(metastore="hive", uri=uri, warehouse=f"file:{warehouse}") as catalog:
        assert catalog.list_tables("kept") == ["t"]
        assert catalog.get_table("kept.t").scan().to_arrow().to_pydict() == {"id": [1]}


def as_shown(run: Callable[[str], list[list[Any]]]) -> Callable[[str], list[list[Any]]]:
    """Return the rows of a peer, which returns every value as text, as run_script formats them."""
    shown = {"True": "true", "False": "false", None: None}
    return lambda statement: [[shown.get(value, value) for value in row] for row in run(statement)]
