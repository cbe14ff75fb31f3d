"""Trino's Hive connector on the server: tables, partitions, statistics, views, functions, and what Trino keeps in the
metastore.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import interbed
from interbed.catalog.server.process.command import MetastoreUri, metastore
from tests.support.peers.process import PeerError
from tests.support.peers.trino import Trino
from tests.support.servers.metastore import foreign_client

pytestmark = pytest.mark.long

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def uri(trino: Trino, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUri]:
    """Run a server, with Trino's catalogs `hive` and `ice` on it."""
    with metastore(warehouse=f"file:{tmp_path_factory.mktemp('warehouse')}") as uri:
        both = {"hive.metastore.uri": str(uri), "hive.metastore.thrift.client.max-retries": "0"}
        properties = {
            "hive.iceberg-catalog-name": "ice",
            "hive.hive-views.enabled": "true",
            "hive.non-managed-table-writes-enabled": "true",
            "hive.allow-register-partition-procedure": "true",
            "hive.security": "allow-all",
        }
        trino.create_catalog("hive", "hive", {**both, **properties})
        trino.create_catalog("ice", "iceberg", {**both, "iceberg.catalog.type": "hive_metastore"})
        yield uri
        for name in ("hive", "ice"):
            trino.rows(f"DROP CATALOG {name}")


@pytest.fixture
def schema(trino: Trino, uri: MetastoreUri) -> str:
    """Return the name of an empty schema of the catalogs."""
    name = f"s{next(_numbers)}"
    trino.rows(f"CREATE SCHEMA hive.{name}")
    return name


TYPES = """
CREATE TABLE hive.{s}.t (
    id bigint, v varchar, c varchar(5), d date, n decimal(10, 2), ts timestamp, b boolean, f double,
    a array(integer), m map(varchar, bigint), r row(x integer, y varchar)
) COMMENT 'a table' WITH (format = '{f}');
INSERT INTO hive.{s}.t VALUES (
    1, 'a', 'cc', date '2024-01-01', 1.5, timestamp '2024-01-01 00:00:00.123', true, 0.5, array[1, 2],
    map(array['k'], array[bigint '1']), row(1, 'y'));
SELECT * FROM hive.{s}.t;
-- 1, a, cc, 2024-01-01, 1.50, 2024-01-01 00:00:00.123, true, 0.5, [1, 2], {{k: 1}}, [1, y]
"""

CHANGES = """
CREATE TABLE hive.{s}.t (id bigint, v varchar) COMMENT 'a table';
CREATE TABLE hive.{s}.t (id bigint);
-- ! already exists
CREATE TABLE hive.{s}.transactional (id bigint) WITH (format = 'ORC', transactional = true);
-- ! asks for transactions
ALTER TABLE hive.{s}.t ADD COLUMN e double COMMENT 'added';
ALTER TABLE hive.{s}.t RENAME COLUMN e TO ee;
ALTER TABLE hive.{s}.t ADD COLUMN f double;
ALTER TABLE hive.{s}.t DROP COLUMN f;
COMMENT ON TABLE hive.{s}.t IS 'commented';
COMMENT ON COLUMN hive.{s}.t.v IS 'text';
DESCRIBE hive.{s}.t;
-- id, bigint, ...
-- v, varchar, ... text
-- ee, double, ... added
SELECT comment FROM system.metadata.table_comments WHERE catalog_name = 'hive' AND schema_name = '{s}';
-- commented
ALTER TABLE hive.{s}.t RENAME TO hive.{s}.moved;
CREATE TABLE hive.{s}.bucketed WITH (bucketed_by = ARRAY['id'], bucket_count = 4, sorted_by = ARRAY['v'])
    AS SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (3, 'c')) AS t(id, v);
SELECT v FROM hive.{s}.bucketed WHERE id = 2;
-- b
SHOW CREATE TABLE hive.{s}.bucketed;
-- ...bucket_count = 4,...bucketed_by = ARRAY['id'],...sorted_by = ARRAY['v']...
CREATE TABLE hive.{s}.apart (id bigint) WITH (external_location = 'file:{d}', format = 'PARQUET');
INSERT INTO hive.{s}.apart VALUES 1;
SELECT table_name FROM hive.information_schema.tables WHERE table_schema = '{s}' ORDER BY table_name;
-- apart
-- bucketed
-- moved
DROP TABLE hive.{s}.apart;
SHOW TABLES FROM hive.{s};
-- bucketed
-- moved
CREATE VIEW hive.{s}.seen COMMENT 'a view' AS SELECT id FROM hive.{s}.bucketed;
SELECT sum(id) FROM hive.{s}.seen;
-- 6
CREATE OR REPLACE VIEW hive.{s}.seen AS SELECT id, v FROM hive.{s}.bucketed;
COMMENT ON VIEW hive.{s}.seen IS 'commented';
SHOW CREATE VIEW hive.{s}.seen;
-- CREATE VIEW hive.{s}.seen COMMENT 'commented' SECURITY DEFINER AS...
ALTER VIEW hive.{s}.seen RENAME TO hive.{s}.looked;
SELECT v FROM hive.{s}.looked WHERE id = 3;
-- c
DROP VIEW hive.{s}.looked;
CREATE FUNCTION hive.{s}.next(x bigint) RETURNS bigint RETURN x + 1;
SELECT hive.{s}.next(41);
-- 42
CREATE OR REPLACE FUNCTION hive.{s}.next(x bigint) RETURNS bigint RETURN x + 2;
SELECT hive.{s}.next(40);
-- 42
DROP FUNCTION hive.{s}.next(bigint);
DROP SCHEMA hive.{s};
-- ! Cannot drop non-empty schema
"""

PARTITIONS = """
CREATE TABLE hive.{s}.t WITH (format = 'ORC', partitioned_by = ARRAY['p', 'q']) AS
    SELECT id, v, CAST(p AS varchar) AS p, q
    FROM (VALUES (1, 'c1', 'O', 2024), (2, 'c2', 'F', 2023), (3, 'c3', 'O', 2023)) AS t(id, v, p, q);
SELECT id, v FROM hive.{s}.t WHERE p = 'O' AND q = 2024;
-- 1, c1
INSERT INTO hive.{s}.t VALUES (4, 'c4', 'P', 2020), (5, 'c5', 'O', 2024), (6, 'c6', 'a b/c=d%', 2020);
SELECT * FROM hive.{s}."t$partitions" ORDER BY p, q;
-- F, 2023
-- O, 2023
-- O, 2024
-- P, 2020
-- a b/c=d%, 2020
SELECT id FROM hive.{s}.t WHERE q >= 2023 ORDER BY id;
-- 1
-- 2
-- 3
-- 5
SELECT id FROM hive.{s}.t WHERE p LIKE 'a b%';
-- 6
DELETE FROM hive.{s}.t WHERE p = 'P';
SELECT count(*) FROM hive.{s}.t;
-- 5
ANALYZE hive.{s}.t;
SHOW STATS FOR hive.{s}.t;
-- id, null, ..., 0.0, null, 1, 6
-- v, ...
-- p, ..., 3.0, 0.0, null, null, null
-- q, null, 3.0, 0.0, null, 2020, 2024
-- null, null, null, null, 5.0, null, null
CALL hive.system.create_empty_partition('{s}', 't', ARRAY['p', 'q'], ARRAY['Z', '1999']);
CALL hive.system.create_empty_partition('{s}', 't', ARRAY['p', 'q'], ARRAY['Z', '1999']);
-- ! already exists
CALL hive.system.drop_stats('{s}', 't', ARRAY[ARRAY['O', '2024']]);
CALL hive.system.unregister_partition('{s}', 't', ARRAY['p', 'q'], ARRAY['F', '2023']);
SELECT count(*) FROM hive.{s}."t$partitions";
-- 4
CALL hive.system.sync_partition_metadata('{s}', 't', 'FULL');
SELECT * FROM hive.{s}."t$partitions" ORDER BY p, q;
-- F, 2023
-- O, 2023
-- O, 2024
-- Z, 1999
-- a b/c=d%, 2020
ALTER TABLE hive.{s}.t ADD COLUMN w integer;
SELECT id, w FROM hive.{s}.t WHERE q = 2020;
-- 6, null
SELECT count(*) FROM hive.{s}.t;
-- 5
"""


@pytest.mark.parametrize("file_format", ["PARQUET", "ORC", "AVRO", "JSON"])
def test_values_of_all_types_are_read_as_they_were_written(trino: Trino, schema: str, file_format: str) -> None:
    trino.script(TYPES.format(s=schema, f=file_format))


def test_tables_views_and_functions_change(trino: Trino, schema: str, tmp_path: Path) -> None:
    trino.script(CHANGES.format(s=schema, d=tmp_path))
    assert list(tmp_path.iterdir()), "The files of an external table stay."


def test_partitions_are_added_analyzed_and_dropped(trino: Trino, uri: MetastoreUri, schema: str) -> None:
    trino.script(PARTITIONS.format(s=schema))
    with foreign_client(int(uri.rpartition(":")[2])) as client:
        assert sorted(client.get_partition_names(schema, "t", -1)) == [
            "p=F/q=2023",
            "p=O/q=2023",
            "p=O/q=2024",
            "p=Z/q=1999",
            "p=a b%2Fc%3Dd%25/q=2020",
        ]
        parameters = client.get_partition_by_name(schema, "t", "p=O/q=2023").parameters or {}
        assert parameters["numRows"] == "1"


def test_tables_of_iceberg_are_redirected(trino: Trino, schema: str) -> None:
    trino.rows(f"CREATE TABLE ice.{schema}.t AS SELECT 1 AS id")
    trino.rows(f"INSERT INTO hive.{schema}.t VALUES 2")
    assert trino.rows(f"SELECT id FROM hive.{schema}.t ORDER BY id") == [[1], [2]]
    assert trino.rows(f"SHOW TABLES FROM hive.{schema}") == [["t"]]


def test_tables_of_paimon_are_refused_and_stay(trino: Trino, uri: MetastoreUri, schema: str) -> None:
    with interbed.CatalogFactory.create({"metastore": "hive", "uri": str(uri)}) as catalog:
        table = catalog.create_table_as(f"{schema}.t", [{"id": 1}])
        assert trino.rows(f"SHOW TABLES FROM hive.{schema}") == [["t"]]
        with pytest.raises(PeerError, match=r"(?i)paimon|not supported|unsupported"):
            trino.rows(f"SELECT * FROM hive.{schema}.t")
        assert table.to_arrow().num_rows == 1
