"""Trino's connectors on a warehouse in an object store, with Trino's own client of S3: tables of Delta Lake, which
Trino changes in object stores only, of Iceberg by REST, and of Hive.
"""

from collections.abc import Iterator

import pytest

from interbed.catalog.server.process.command import MetastoreUri, metastore
from tests.support.peers.trino import Trino
from tests.support.servers.http_servers import running_s3

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def uri(trino: Trino) -> Iterator[MetastoreUri]:
    """Run a server whose warehouse is in S3, with Trino's catalogs `delta`, `rest` and `hive` on it."""
    with running_s3("lake") as store, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", store["s3.endpoint"])
        patch.setenv("AWS_ACCESS_KEY_ID", store["s3.access-key"])
        patch.setenv("AWS_SECRET_ACCESS_KEY", store["s3.secret-key"])
        patch.setenv("AWS_REGION", store["s3.region"])
        s3 = {
            "fs.hadoop.enabled": "false",
            "fs.native-s3.enabled": "true",
            "s3.endpoint": store["s3.endpoint"],
            "s3.region": store["s3.region"],
            "s3.aws-access-key": store["s3.access-key"],
            "s3.aws-secret-key": store["s3.secret-key"],
            "s3.path-style-access": "true",
        }
        with metastore(warehouse="s3://lake/warehouse") as uri:
            hms = {"hive.metastore.uri": str(uri)}
            rest = {"iceberg.catalog.type": "rest", "iceberg.rest-catalog.uri": uri.iceberg}
            trino.create_catalog("delta", "delta_lake", {**s3, **hms, "delta.register-table-procedure.enabled": "true"})
            trino.create_catalog("rest", "iceberg", {**s3, **rest})
            trino.create_catalog("hive", "hive", {**s3, **hms})
            yield uri
            for name in ("delta", "rest", "hive"):
                trino.rows(f"DROP CATALOG {name}")


@pytest.fixture
def schema(trino: Trino, uri: MetastoreUri, request: pytest.FixtureRequest) -> str:
    """Return the name of an empty schema."""
    name: str = request.node.name.removeprefix("test_")
    trino.rows(f"CREATE SCHEMA hive.{name}")
    return name


DELTA = """
CREATE TABLE delta.{s}.t (id bigint NOT NULL, v varchar, p varchar) COMMENT 'a table'
    WITH (partitioned_by = ARRAY['p'], change_data_feed_enabled = true, column_mapping_mode = 'name');
INSERT INTO delta.{s}.t VALUES (1, 'a', 'x'), (2, 'b', 'y');
UPDATE delta.{s}.t SET v = 'z' WHERE id = 1;
DELETE FROM delta.{s}.t WHERE id = 2;
MERGE INTO delta.{s}.t t USING (VALUES (1, 'm'), (3, 'n')) AS s(id, v) ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET v = s.v
    WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.id, s.v, 'x');
SELECT * FROM delta.{s}.t ORDER BY id;
-- 1, m, x
-- 3, n, x
SELECT operation FROM delta.{s}."t$history" ORDER BY version;
-- CREATE TABLE
-- WRITE
-- MERGE
-- MERGE
-- MERGE
SELECT _change_type, count(*) FROM TABLE(delta.system.table_changes('{s}', 't', 1)) GROUP BY 1;
-- update_preimage, 2
-- update_postimage, 2
-- delete, 1
-- insert, 1
ALTER TABLE delta.{s}.t ADD COLUMN e double;
ALTER TABLE delta.{s}.t SET PROPERTIES change_data_feed_enabled = false;
ALTER TABLE delta.{s}.t RENAME COLUMN e TO ee;
ALTER TABLE delta.{s}.t DROP COLUMN ee;
COMMENT ON TABLE delta.{s}.t IS 'commented';
ANALYZE delta.{s}.t;
SHOW STATS FOR delta.{s}.t;
-- id, null, 2.0, 0.0, null, 1, 3
-- v, ...
-- p, ...
-- null, null, null, null, 2.0, null, null
CREATE TABLE delta.{s}.made AS SELECT 1 AS a;
CREATE OR REPLACE TABLE delta.{s}.made AS SELECT 2 AS a;
SELECT * FROM delta.{s}.made FOR VERSION AS OF 0;
-- 1
CREATE VIEW delta.{s}.seen AS SELECT id FROM delta.{s}.t;
SELECT id FROM delta.{s}.seen ORDER BY id;
-- 1
-- 3
ALTER TABLE delta.{s}.t EXECUTE optimize;
CALL delta.system.vacuum('{s}', 't', '7d');
SELECT table_name, table_type FROM delta.information_schema.tables WHERE table_schema = '{s}' ORDER BY table_name;
-- made, BASE TABLE
-- seen, VIEW
-- t, BASE TABLE
CALL delta.system.unregister_table('{s}', 'made');
DROP VIEW delta.{s}.seen;
SHOW TABLES FROM delta.{s};
-- t
DROP TABLE delta.{s}.t;
DROP SCHEMA delta.{s};
"""

ICEBERG = """
CREATE TABLE rest.{s}.t WITH (partitioning = ARRAY['p']) AS SELECT * FROM (VALUES (1, 'x'), (2, 'y')) AS t(k, p);
INSERT INTO rest.{s}.t VALUES (3, 'x');
UPDATE rest.{s}.t SET p = 'z' WHERE k = 1;
DELETE FROM rest.{s}.t WHERE k = 2;
SELECT * FROM rest.{s}.t ORDER BY k;
-- 1, z
-- 3, x
SELECT regexp_like("$path", '^s3://lake/warehouse/{s}.db/t') FROM rest.{s}.t WHERE k = 3;
-- true
ALTER TABLE rest.{s}.t EXECUTE optimize;
DROP TABLE rest.{s}.t;
DROP SCHEMA rest.{s};
"""

HIVE = """
CREATE TABLE hive.{s}.t WITH (partitioned_by = ARRAY['p']) AS
    SELECT k, CAST(p AS varchar) AS p FROM (VALUES (1, 'x'), (2, 'y')) AS t(k, p);
INSERT INTO hive.{s}.t VALUES (3, 'x'), (4, 'v/w');
SELECT k FROM hive.{s}.t WHERE p = 'v/w';
-- 4
SELECT * FROM hive.{s}."t$partitions" ORDER BY p;
-- v/w
-- x
-- y
DELETE FROM hive.{s}.t WHERE p = 'x';
SELECT k FROM hive.{s}.t ORDER BY k;
-- 2
-- 4
ALTER TABLE hive.{s}.t RENAME TO hive.{s}.moved;
DROP TABLE hive.{s}.moved;
DROP SCHEMA hive.{s};
"""


def test_delta_tables_change(trino: Trino, schema: str) -> None:
    trino.script(DELTA.format(s=schema))


def test_iceberg_tables_change(trino: Trino, schema: str) -> None:
    trino.script(ICEBERG.format(s=schema))


def test_hive_tables_change(trino: Trino, schema: str) -> None:
    trino.script(HIVE.format(s=schema))
