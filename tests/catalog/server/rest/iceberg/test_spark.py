"""Iceberg's Spark runtime 1.12 with `type` = `rest`: statements, procedures and metadata tables, beside its Hive
catalog on the Thrift port of the same server.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException

from interbed.catalog.server.process.command import MetastoreUri, metastore
from tests.support.peers.process import PeerError
from tests.support.peers.spark import SparkPeer, iceberg_settings
from tests.support.sql_script import run_script

pytestmark = pytest.mark.long

COMMITS = 4
COMMITS_TRIED_MAX = 100
RETRIES = "'commit.retry.num-retries'='100', 'commit.retry.min-wait-ms'='20', 'commit.retry.total-timeout-ms'='240000'"


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUri]:
    """Run a server with HTTP."""
    with metastore(warehouse=f"file:{tmp_path_factory.mktemp('warehouse')}") as uri:
        yield uri


@pytest.fixture(scope="module")
def spark(uri: MetastoreUri, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkPeer]:
    """Start a session with the catalogs `rest` and `hms` of Iceberg."""
    settings = {
        **iceberg_settings(uri, tmp_path_factory.mktemp("unused"), "hms"),
        "spark.sql.catalog.rest": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.rest.type": "rest",
        "spark.sql.catalog.rest.uri": uri.iceberg,
        "spark.sql.catalog.rest.cache-enabled": "false",
    }
    with SparkPeer(settings) as peer:
        yield peer


@pytest.fixture
def namespace(spark: SparkPeer, request: pytest.FixtureRequest) -> str:
    """Return the name of an empty namespace of both catalogs."""
    name: str = request.node.name.partition("[")[0].removeprefix("test_")
    spark.run(f"CREATE NAMESPACE rest.{name}")
    return name


NAMESPACES = """
CREATE NAMESPACE rest.made COMMENT 'a comment' WITH DBPROPERTIES ('k' = 'v');
CREATE NAMESPACE rest.made;
-- ! SCHEMA_ALREADY_EXISTS
ALTER NAMESPACE rest.made SET PROPERTIES ('k' = 'w', 'l' = 'm');
ALTER NAMESPACE rest.made UNSET PROPERTIES ('l');
DESCRIBE NAMESPACE EXTENDED rest.made;
-- Catalog Name, rest
-- Namespace Name, made
-- Comment, a comment
-- Location, file:.../made.db
-- ...
-- Properties, ((k,w))
SHOW NAMESPACES IN rest LIKE 'ma*';
-- made
CREATE TABLE rest.made.t (id INT) USING iceberg;
DROP NAMESPACE rest.made;
-- ! is not empty
DROP TABLE rest.made.t PURGE;
DROP NAMESPACE rest.made;
SHOW NAMESPACES IN hms LIKE 'ma*';
-- (nothing)
"""

LEVELS = """
CREATE NAMESPACE rest.top;
CREATE NAMESPACE rest.top.mid WITH DBPROPERTIES ('k' = 'v');
CREATE NAMESPACE rest.top.mid.low;
CREATE NAMESPACE rest.top.mid;
-- ! SCHEMA_ALREADY_EXISTS
SHOW NAMESPACES IN rest.top;
-- top.mid
SHOW NAMESPACES IN rest.top.mid;
-- top.mid.low
CREATE TABLE rest.top.mid.low.t (id INT) USING iceberg;
INSERT INTO rest.top.mid.low.t VALUES (1), (2);
SELECT * FROM rest.top.mid.low.t ORDER BY id;
-- 1
-- 2
ALTER TABLE rest.top.mid.low.t RENAME TO top.mid.u;
SHOW TABLES IN rest.top.mid;
-- top.mid, u, False
SELECT count(*) FROM hms.`top$mid`.u;
-- 2
DROP NAMESPACE rest.top.mid;
-- ! is not empty
DROP TABLE rest.top.mid.u PURGE;
DROP NAMESPACE rest.top.mid.low;
DROP NAMESPACE rest.top.mid;
DROP NAMESPACE rest.top;
SHOW NAMESPACES IN hms LIKE 'top*';
-- (nothing)
"""

ROWS = """
CREATE TABLE rest.{n}.t (id BIGINT NOT NULL COMMENT 'the key', v STRING, d DATE, n DECIMAL(10, 2)) USING iceberg
    PARTITIONED BY (days(d), bucket(4, id))
    TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = '{mode}', 'write.update.mode' = '{mode}',
                   'write.merge.mode' = '{mode}');
CREATE TABLE rest.{n}.t (id INT) USING iceberg;
-- ! TABLE_OR_VIEW_ALREADY_EXISTS
INSERT INTO rest.{n}.t SELECT id, concat('v', id), date_add(DATE'2024-01-01', int(id % 3)), id * 1.5 FROM range(1, 9);
MERGE INTO rest.{n}.t t USING (
    SELECT 2L AS id, 'bb' AS v, DATE'2024-01-03' AS d, 0.0 AS n UNION ALL SELECT 20L, 'd', DATE'2024-01-04', 4.5) s
    ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *;
UPDATE rest.{n}.t SET v = 'z' WHERE id IN (1, 4);
DELETE FROM rest.{n}.t WHERE id = 3;
DELETE FROM rest.{n}.t WHERE d = DATE'2024-01-03';
SELECT id, v FROM rest.{n}.t ORDER BY id;
-- 1, z
-- 4, z
-- 6, v6
-- 7, v7
-- 20, d
SELECT count(*) > 0 FROM rest.{n}.t.all_delete_files;
-- {has_deletes}
INSERT OVERWRITE rest.{n}.t SELECT 30L, 'o', DATE'2024-01-02', 1.0;
SELECT id, v, d, n FROM hms.{n}.t;
-- 30, o, 2024-01-02, 1.00
TRUNCATE TABLE rest.{n}.t;
SELECT count(*) FROM rest.{n}.t;
-- 0
SELECT count(*) FROM rest.{n}.t.snapshots;
-- 7
"""

VERSION_3 = """
CREATE TABLE rest.{n}.t (id BIGINT, x VARIANT) USING iceberg
    TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read',
                   'write.update.mode' = 'merge-on-read');
INSERT INTO rest.{n}.t SELECT id, parse_json('{{"a": 1}}') FROM range(4);
DELETE FROM rest.{n}.t WHERE id = 3;
UPDATE rest.{n}.t SET x = parse_json('{{"a": 2}}') WHERE id = 1;
SELECT id, variant_get(x, '$.a', 'int'), _row_id, _last_updated_sequence_number FROM rest.{n}.t ORDER BY id;
-- 0, 1, 0, 1
-- 1, 2, 1, 3
-- 2, 1, 2, 1
SELECT DISTINCT content, file_format FROM rest.{n}.t.delete_files;
-- 1, PUFFIN
CREATE TABLE rest.{n}.u (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '1');
INSERT INTO rest.{n}.u VALUES (1);
ALTER TABLE rest.{n}.u SET TBLPROPERTIES ('format-version' = '3');
INSERT INTO rest.{n}.u VALUES (2);
SELECT id FROM hms.{n}.u ORDER BY id;
-- 1
-- 2
ALTER TABLE rest.{n}.u SET TBLPROPERTIES ('format-version' = '2');
-- ! Cannot downgrade v3 table to v2
"""

ALTERED = """
CREATE TABLE rest.{n}.t (id BIGINT NOT NULL, v STRING, d DATE, n DECIMAL(10, 2)) USING iceberg PARTITIONED BY (days(d));
INSERT INTO rest.{n}.t VALUES (1, 'a', DATE'2024-01-01', 1.5);
ALTER TABLE rest.{n}.t ADD COLUMN (s STRUCT<x: INT, y: STRING> COMMENT 'a struct');
ALTER TABLE rest.{n}.t ADD COLUMN s.z DOUBLE AFTER x;
ALTER TABLE rest.{n}.t DROP COLUMN s.z;
ALTER TABLE rest.{n}.t RENAME COLUMN v TO w;
ALTER TABLE rest.{n}.t ALTER COLUMN w COMMENT 'said';
ALTER TABLE rest.{n}.t ADD COLUMN f FLOAT FIRST;
ALTER TABLE rest.{n}.t ALTER COLUMN f TYPE DOUBLE;
ALTER TABLE rest.{n}.t ALTER COLUMN f AFTER w;
ALTER TABLE rest.{n}.t ALTER COLUMN n TYPE DECIMAL(12, 2);
ALTER TABLE rest.{n}.t SET IDENTIFIER FIELDS id;
ALTER TABLE rest.{n}.t DROP IDENTIFIER FIELDS id;
ALTER TABLE rest.{n}.t ALTER COLUMN id DROP NOT NULL;
ALTER TABLE rest.{n}.t ADD PARTITION FIELD truncate(2, w) AS tw;
ALTER TABLE rest.{n}.t REPLACE PARTITION FIELD tw WITH bucket(8, id) AS b8;
ALTER TABLE rest.{n}.t DROP PARTITION FIELD days(d);
ALTER TABLE rest.{n}.t WRITE ORDERED BY id DESC NULLS LAST;
ALTER TABLE rest.{n}.t SET TBLPROPERTIES ('owner.team' = 'lake', 'deleted' = 'soon');
ALTER TABLE rest.{n}.t UNSET TBLPROPERTIES ('deleted');
INSERT INTO rest.{n}.t SELECT 9, 'i', 0.5, DATE'2024-02-01', 9.9, named_struct('x', 1, 'y', 'q');
SELECT id, w, f, d, n, s.y FROM rest.{n}.t ORDER BY id;
-- 1, a, null, 2024-01-01, 1.50, null
-- 9, i, 0.5, 2024-02-01, 9.90, q
SHOW CREATE TABLE rest.{n}.t;
-- ...w STRING COMMENT 'said',...f DOUBLE,...PARTITIONED BY (bucket(8, id))...'owner.team' = 'lake',...
SELECT partition.b8 IS NULL, partition.d_day, record_count FROM rest.{n}.t.partitions;
-- ...
-- ...
ALTER TABLE rest.{n}.t RENAME TO rest.{n}.u;
-- ! Namespace does not exist: rest.{n}
ALTER TABLE rest.{n}.t RENAME TO {n}.u;
SHOW TABLES IN rest.{n};
-- {n}, u, False
DROP TABLE rest.{n}.u;
SHOW TABLES IN rest.{n};
-- (nothing)
"""

REFERENCES = """
CREATE TABLE rest.{n}.t USING iceberg AS SELECT id FROM range(3);
ALTER TABLE rest.{n}.t CREATE BRANCH audit;
INSERT INTO rest.{n}.t.branch_audit VALUES (100);
ALTER TABLE rest.{n}.t CREATE TAG first RETAIN 5 DAYS;
ALTER TABLE rest.{n}.t CREATE TAG IF NOT EXISTS first;
ALTER TABLE rest.{n}.t CREATE OR REPLACE BRANCH other WITH SNAPSHOT RETENTION 2 SNAPSHOTS;
ALTER TABLE rest.{n}.t REPLACE BRANCH other;
SELECT name, type FROM rest.{n}.t.refs ORDER BY name;
-- audit, BRANCH
-- first, TAG
-- main, BRANCH
-- other, BRANCH
ALTER TABLE rest.{n}.t DROP BRANCH other;
SELECT count(*) FROM rest.{n}.t VERSION AS OF 'audit';
-- 4
SELECT count(*) FROM rest.{n}.t VERSION AS OF 'first';
-- 3
SELECT count(*) FROM rest.{n}.t TIMESTAMP AS OF current_timestamp();
-- 3
CALL rest.system.fast_forward('{n}.t', 'main', 'audit');
SELECT count(*) FROM hms.{n}.t;
-- 4
ALTER TABLE rest.{n}.t DROP TAG first;
SELECT name FROM rest.{n}.t.refs ORDER BY name;
-- audit
-- main
"""

VIEWS = """
CREATE TABLE rest.{n}.t USING iceberg PARTITIONED BY (p) AS SELECT id, id % 3 AS p FROM range(9);
CREATE OR REPLACE TABLE rest.{n}.t USING iceberg AS SELECT id FROM range(5);
REPLACE TABLE rest.{n}.t USING iceberg AS SELECT id, id + 1 AS k FROM range(4);
SELECT count(*), count(k) FROM hms.{n}.t;
-- 4, 4
SELECT count(*) FROM rest.{n}.t.snapshots;
-- 3
CREATE VIEW rest.{n}.seen (k COMMENT 'the number') COMMENT 'a view' TBLPROPERTIES ('p' = 'q')
    AS SELECT id AS k FROM rest.{n}.t WHERE id < 2;
CREATE VIEW rest.{n}.seen AS SELECT 1 AS one;
-- ! ALREADY_EXISTS
SELECT k FROM rest.{n}.seen ORDER BY k;
-- 0
-- 1
CREATE OR REPLACE VIEW rest.{n}.seen AS SELECT id AS l FROM rest.{n}.t WHERE id < 1;
ALTER VIEW rest.{n}.seen SET TBLPROPERTIES ('k' = 'v', 'l' = 'm');
ALTER VIEW rest.{n}.seen UNSET TBLPROPERTIES ('l');
SHOW VIEWS IN rest.{n};
-- {n}, seen, False
ALTER VIEW rest.{n}.seen RENAME TO rest.{n}.looked;
SELECT l FROM hms.{n}.looked;
-- 0
DROP VIEW rest.{n}.looked;
SHOW VIEWS IN rest.{n};
-- (nothing)
"""

PROCEDURES = """
CREATE TABLE rest.{n}.t (id BIGINT, v STRING) USING iceberg PARTITIONED BY (v)
    TBLPROPERTIES ('write.delete.mode' = 'merge-on-read');
INSERT INTO rest.{n}.t SELECT id, 'a' FROM range(4);
INSERT INTO rest.{n}.t SELECT id, 'b' FROM range(4, 8);
DELETE FROM rest.{n}.t WHERE id = 1;
CALL rest.system.rewrite_data_files(table => '{n}.t', options => map('rewrite-all', 'true'));
CALL rest.system.rewrite_position_delete_files('{n}.t');
CALL rest.system.rewrite_manifests('{n}.t');
CALL rest.system.compute_table_stats('{n}.t');
CALL rest.system.compute_partition_stats('{n}.t');
CALL rest.system.remove_orphan_files(table => '{n}.t', dry_run => true);
-- (nothing)
CALL rest.system.create_changelog_view(table => '{n}.t');
CALL rest.system.ancestors_of('{n}.t');
CALL rest.system.expire_snapshots(table => '{n}.t', older_than => current_timestamp(), retain_last => 1);
SELECT count(*) FROM rest.{n}.t.snapshots;
-- 1
SELECT count(*) FROM hms.{n}.t;
-- 7
SELECT count(*) FROM rest.{n}.t.files WHERE content = 0;
-- 2
SELECT count(*) > 3 FROM rest.{n}.t.metadata_log_entries;
-- True
"""


def run(spark: SparkPeer, script: str, namespace: str, **values: str) -> None:
    """Run a script of statements for this namespace."""
    run_script(script.format(n=namespace, **values), spark.run)


def test_namespaces_of_several_levels_are_made_used_and_dropped(spark: SparkPeer) -> None:
    run_script(LEVELS, spark.run)


def test_namespaces_are_created_described_changed_and_dropped(spark: SparkPeer) -> None:
    run_script(NAMESPACES, spark.run)


@pytest.mark.parametrize(("mode", "version"), [("copy-on-write", "2"), ("merge-on-read", "2"), ("merge-on-read", "3")])
def test_statements_change_rows_in_each_mode_and_version(spark: SparkPeer, mode: str, version: str) -> None:
    namespace = f"rows_{mode.replace('-', '_')}_{version}"
    spark.run(f"CREATE NAMESPACE rest.{namespace}")
    run(spark, ROWS, namespace, mode=mode, version=version, has_deletes=str(mode == "merge-on-read"))


def test_a_table_is_upgraded_to_version_3(spark: SparkPeer, namespace: str) -> None:
    run(spark, VERSION_3, namespace)


def test_columns_partitions_and_properties_are_altered(spark: SparkPeer, namespace: str) -> None:
    run(spark, ALTERED, namespace)


def test_branches_and_tags_are_written_read_and_dropped(spark: SparkPeer, namespace: str) -> None:
    run(spark, REFERENCES, namespace)


def test_tables_are_made_and_replaced_by_queries_and_shown_by_views(spark: SparkPeer, namespace: str) -> None:
    run(spark, VIEWS, namespace)


def test_procedures_rewrite_files_and_expire_snapshots(spark: SparkPeer, namespace: str) -> None:
    run(spark, PROCEDURES, namespace)


def test_snapshots_are_rolled_back_and_chosen(spark: SparkPeer, uri: MetastoreUri, namespace: str) -> None:
    table = f"rest.{namespace}.t"
    spark.run(f"CREATE TABLE {table} USING iceberg AS SELECT id FROM range(3)")
    spark.run(f"INSERT INTO {table} VALUES (10)")
    first, second = (row[0] for row in spark.run(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at"))
    spark.run(f"CALL rest.system.rollback_to_snapshot('{namespace}.t', {first})")
    assert spark.run(f"SELECT count(*) FROM {table}") == [["3"]]
    spark.run(f"CALL rest.system.set_current_snapshot('{namespace}.t', {second})")
    assert spark.run(f"SELECT count(*) FROM hms.{namespace}.t") == [["4"]]
    spark.run(f"CALL rest.system.rollback_to_snapshot('{namespace}.t', {first})")
    spark.run(f"CALL rest.system.cherrypick_snapshot('{namespace}.t', {second})")
    assert spark.run(f"SELECT count(*) FROM {table} VERSION AS OF {first}") == [["3"]]
    assert spark.run(f"SELECT count(*) FROM {table}") == [["4"]]
    with load_catalog("ice", type="rest", uri=uri.iceberg) as catalog:
        location = catalog.load_table((namespace, "t")).metadata_location
    spark.run(f"CALL rest.system.register_table('{namespace}.again', '{location}')")
    assert spark.run(f"SELECT count(*) FROM hms.{namespace}.again") == [["4"]]
    with pytest.raises(PeerError, match="already exists"):
        spark.run(f"CALL rest.system.register_table('{namespace}.again', '{location}')")


def append_by_pyiceberg(uri: MetastoreUri, name: str, writer: str) -> None:
    """Append COMMITS rows, each by a commit of its own; a commit that loses is repeated on the newer table."""
    with load_catalog("ice", type="rest", uri=uri.iceberg) as catalog:
        for number in range(COMMITS):
            for _ in range(COMMITS_TRIED_MAX):
                table = catalog.load_table(name)
                rows = pa.table({"id": [number], "writer": [writer]}, schema=table.schema().as_arrow())
                try:
                    table.append(rows)
                except CommitFailedException:
                    continue
                break
            else:
                raise AssertionError(f"{writer} lost {COMMITS_TRIED_MAX} times")


def test_spark_by_rest_and_by_thrift_and_pyiceberg_commit_at_once(
    spark: SparkPeer, uri: MetastoreUri, namespace: str
) -> None:
    name = f"{namespace}.t"
    spark.run(f"CREATE TABLE rest.{name} (id BIGINT, writer STRING) USING iceberg TBLPROPERTIES ({RETRIES})")
    by_spark = [f"{catalog}-{number}" for catalog in ("rest", "hms") for number in range(2)]
    scripts = [
        [f"INSERT INTO {writer.partition('-')[0]}.{name} VALUES ({number}, '{writer}')" for number in range(COMMITS)]
        for writer in by_spark
    ]
    by_pyiceberg = ["pyiceberg-0", "pyiceberg-1"]
    with ThreadPoolExecutor() as threads:
        running = [threads.submit(append_by_pyiceberg, uri, name, writer) for writer in by_pyiceberg]
        refusals = spark.together(scripts)
        for one in running:
            one.result()
    assert refusals == [[] for _ in scripts]
    expected = sorted([str(number), writer] for writer in by_spark + by_pyiceberg for number in range(COMMITS))
    for catalog in ("rest", "hms"):
        assert sorted(spark.run(f"SELECT id, writer FROM {catalog}.{name}")) == expected
        assert spark.run(f"SELECT count(*) FROM {catalog}.{name}.snapshots") == [[str(len(expected))]]
