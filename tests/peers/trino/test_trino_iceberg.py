"""Trino's Iceberg connector on the server, as a REST catalog and as a Hive metastore: both see the same tables, and
commit to one table at once.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyiceberg.catalog import load_catalog

import interbed
from interbed.catalog.server.process.command import MetastoreUri, metastore
from tests.support.peers.process import PeerError
from tests.support.peers.trino import Trino

pytestmark = pytest.mark.long

KINDS = ("rest", "hms")
COMMITS = 4


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the location of the warehouse."""
    return f"file:{tmp_path_factory.mktemp('warehouse')}"


@pytest.fixture(scope="module")
def uri(trino: Trino, warehouse: str) -> Iterator[MetastoreUri]:
    """Run a server, with Trino's catalogs `rest` and `hms` on it."""
    with metastore(warehouse=warehouse) as uri:
        rest = {"iceberg.catalog.type": "rest", "iceberg.rest-catalog.uri": uri.iceberg}
        hms = {"iceberg.catalog.type": "hive_metastore", "hive.metastore.uri": uri}
        for name, properties in (("rest", rest), ("hms", hms)):
            more = {"iceberg.register-table-procedure.enabled": "true"}
            trino.create_catalog(name, "iceberg", {**properties, **more})
        yield uri
        for name in KINDS:
            trino.rows(f"DROP CATALOG {name}")


@pytest.fixture
def schema(trino: Trino, uri: MetastoreUri, request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the name of an empty schema, which both catalogs have."""
    name = request.node.name.partition("[")[0].removeprefix("test_")[:30]
    trino.rows(f"CREATE SCHEMA rest.{name}")
    yield name
    trino.rows(f"DROP SCHEMA rest.{name} CASCADE")


ROWS = """
CREATE TABLE {s}.t (
    id bigint NOT NULL, v varchar COMMENT 'text', d date, n decimal(10, 2), ts timestamp(6) with time zone,
    a array(integer), m map(varchar, bigint), r row(x integer, y varchar)
) COMMENT 'a table' WITH (partitioning = ARRAY['day(d)', 'bucket(id, 4)'], sorted_by = ARRAY['v'], format_version = 2);
CREATE TABLE {s}.t (id bigint);
-- ! already exists
INSERT INTO {s}.t VALUES
    (1, 'a', date '2024-01-01', 1.5, timestamp '2024-01-01 00:00:00.123456 UTC', array[1, 2],
     map(array['k'], array[bigint '1']), row(1, 'y')),
    (2, 'b', date '2024-01-02', 2.5, null, null, null, null),
    (3, 'c', date '2024-01-03', 3.5, null, null, null, null);
UPDATE {s}.t SET v = 'z' WHERE id = 1;
DELETE FROM {s}.t WHERE id = 3;
MERGE INTO {s}.t t USING (VALUES (2, 'bb'), (4, 'd')) AS s(id, v) ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET v = s.v
    WHEN NOT MATCHED THEN INSERT (id, v, d) VALUES (s.id, s.v, date '2024-02-02');
SELECT id, v, d, n, a, m, r FROM {s}.t ORDER BY id;
-- 1, z, 2024-01-01, 1.50, [1, 2], {{k: 1}}, [1, y]
-- 2, bb, 2024-01-02, 2.50, null, null, null
-- 4, d, 2024-02-02, null, null, null, null
SELECT operation FROM {s}."t$snapshots" ORDER BY committed_at;
-- append
-- append
-- overwrite
-- delete
-- overwrite
SELECT count(*) FROM {s}."t$metadata_log_entries";
-- 6
SELECT name, type FROM {s}."t$refs";
-- main, BRANCH
DELETE FROM {s}.t WHERE d = date '2024-02-02';
SELECT count(*) FROM {s}.t;
-- 2
TRUNCATE TABLE {s}.t;
SELECT count(*) FROM {s}.t;
-- 0
"""

CHANGES = """
CREATE TABLE {s}.t (id bigint NOT NULL, v varchar, d date, r row(x integer, y varchar)) WITH (format = 'PARQUET');
INSERT INTO {s}.t VALUES (1, 'a', date '2024-01-01', row(1, 'y'));
ALTER TABLE {s}.t ADD COLUMN e real COMMENT 'added';
ALTER TABLE {s}.t ADD COLUMN r.z integer;
ALTER TABLE {s}.t RENAME COLUMN e TO ee;
ALTER TABLE {s}.t RENAME COLUMN r.y TO yy;
ALTER TABLE {s}.t ALTER COLUMN ee SET DATA TYPE double;
ALTER TABLE {s}.t DROP COLUMN r.z;
ALTER TABLE {s}.t ADD COLUMN f integer FIRST;
ALTER TABLE {s}.t ALTER COLUMN id DROP NOT NULL;
COMMENT ON TABLE {s}.t IS 'commented';
COMMENT ON COLUMN {s}.t.v IS 'text';
ALTER TABLE {s}.t SET PROPERTIES partitioning = ARRAY['month(d)'];
ALTER TABLE {s}.t SET PROPERTIES sorted_by = ARRAY['id'];
ALTER TABLE {s}.t SET PROPERTIES format = 'ORC';
INSERT INTO {s}.t (id, v, d) VALUES (9, 'i', date '2024-03-01');
DESCRIBE {s}.t;
-- f, integer, ...
-- id, bigint, ...
-- v, varchar, ... text
-- d, date, ...
-- r, row(x integer, yy varchar), ...
-- ee, double, ... added
SHOW CREATE TABLE {s}.t;
-- ...'commented'...format = 'ORC'...partitioning = ARRAY['month(d)'],...sorted_by = ARRAY['id ASC NULLS FIRST']...
SELECT * FROM {s}.t ORDER BY id;
-- null, 1, a, 2024-01-01, [1, y], null
-- null, 9, i, 2024-03-01, null, null
ANALYZE {s}.t;
SHOW STATS FOR {s}.t;
-- f, ...
-- id, null, 2.0, 0.0, null, 1, 9
-- v, ..., 2.0, 0.0, null, null, null
-- d, null, 2.0, 0.0, null, 2024-01-01, 2024-03-01
-- r, ...
-- ee, ...
-- null, null, null, null, 2.0, null, null
ALTER TABLE {s}.t EXECUTE optimize(file_size_threshold => '128MB');
ALTER TABLE {s}.t EXECUTE optimize_manifests;
ALTER TABLE {s}.t EXECUTE expire_snapshots(retention_threshold => '7d');
ALTER TABLE {s}.t EXECUTE remove_orphan_files(retention_threshold => '7d');
ALTER TABLE {s}.t EXECUTE drop_extended_stats;
ALTER TABLE {s}.t RENAME TO {s}.moved;
SHOW TABLES FROM {s};
-- moved
SELECT count(*) FROM {s}.moved;
-- 2
DROP TABLE {s}.moved;
SHOW TABLES FROM {s};
-- (nothing)
"""

CREATED = """
CREATE TABLE {s}.made WITH (partitioning = ARRAY['p']) AS SELECT * FROM (VALUES (1, 'x'), (2, 'y')) AS t(k, p);
SELECT * FROM {s}.made ORDER BY k;
-- 1, x
-- 2, y
CREATE OR REPLACE TABLE {s}.made AS SELECT * FROM (VALUES (7, 'x', true)) AS t(k, p, q);
SELECT * FROM {s}.made;
-- 7, x, true
SELECT count(*) FROM {s}."made$snapshots";
-- 2
CREATE VIEW {s}.seen COMMENT 'a view' AS SELECT k FROM {s}.made;
CREATE VIEW {s}.seen AS SELECT 1 AS one;
-- ! already exists
SELECT * FROM {s}.seen;
-- 7
CREATE OR REPLACE VIEW {s}.seen SECURITY INVOKER AS SELECT k, p FROM {s}.made;
COMMENT ON VIEW {s}.seen IS 'commented';
COMMENT ON COLUMN {s}.seen.k IS 'the number';
SHOW CREATE VIEW {s}.seen;
-- CREATE VIEW {s}.seen COMMENT 'commented' SECURITY ...
ALTER VIEW {s}.seen RENAME TO {s}.looked;
SELECT * FROM {s}.looked;
-- 7, x
DROP SCHEMA {s};
-- ! Cannot drop non-empty schema
DROP VIEW {s}.looked;
SHOW TABLES FROM {s};
-- made
CALL {c}.system.unregister_table('{n}', 'made');
SHOW TABLES FROM {s};
-- (nothing)
"""

MATERIALIZED = """
CREATE TABLE {s}.t AS SELECT * FROM (VALUES (1, 'a'), (2, 'a'), (3, 'b')) AS t(id, v);
CREATE MATERIALIZED VIEW {s}.counted WITH (partitioning = ARRAY['v']) AS SELECT v, count(*) c FROM {s}.t GROUP BY v;
REFRESH MATERIALIZED VIEW {s}.counted;
SELECT * FROM {s}.counted ORDER BY v;
-- a, 2
-- b, 1
SELECT name, freshness FROM system.metadata.materialized_views WHERE catalog_name = 'hms' AND schema_name = '{n}';
-- counted, FRESH
INSERT INTO {s}.t VALUES (4, 'b');
SELECT name, freshness FROM system.metadata.materialized_views WHERE catalog_name = 'hms' AND schema_name = '{n}';
-- counted, STALE
REFRESH MATERIALIZED VIEW {s}.counted;
SELECT * FROM {s}.counted ORDER BY v;
-- a, 2
-- b, 2
ALTER MATERIALIZED VIEW {s}.counted RENAME TO {s}.sums;
SELECT * FROM {s}.sums ORDER BY v;
-- a, 2
-- b, 2
DROP MATERIALIZED VIEW {s}.sums;
SHOW TABLES FROM {s};
-- t
"""


def script(text: str, catalog: str, schema: str) -> str:
    """Return a script for a schema of a catalog."""
    return text.format(s=f"{catalog}.{schema}", c=catalog, n=schema)


@pytest.mark.parametrize("catalog", KINDS)
def test_statements_change_rows_in_both_catalogs(trino: Trino, schema: str, catalog: str) -> None:
    trino.script(script(ROWS, catalog, schema))


@pytest.mark.parametrize("catalog", KINDS)
def test_columns_and_properties_change_in_both_catalogs(trino: Trino, schema: str, catalog: str) -> None:
    trino.script(script(CHANGES, catalog, schema))


@pytest.mark.parametrize("catalog", KINDS)
def test_tables_are_made_of_queries_and_shown_by_views(trino: Trino, schema: str, catalog: str) -> None:
    trino.script(script(CREATED, catalog, schema))


def test_materialized_views_are_refreshed_in_a_metastore(trino: Trino, schema: str) -> None:
    """Trino has them in Hive metastores; its REST catalogs refuse them."""
    trino.script(script(MATERIALIZED, "hms", schema))
    with pytest.raises(PeerError, match="createMaterializedView is not supported for Iceberg REST catalog"):
        trino.rows(f"CREATE MATERIALIZED VIEW rest.{schema}.no AS SELECT 1 AS one")


def test_both_catalogs_and_pyiceberg_see_the_same_tables(trino: Trino, uri: MetastoreUri, schema: str) -> None:
    trino.rows(f"CREATE TABLE rest.{schema}.t AS SELECT 1 AS id")
    trino.rows(f"INSERT INTO hms.{schema}.t VALUES 2")
    with load_catalog("ice", type="rest", uri=uri.iceberg) as catalog:
        table = catalog.load_table((schema, "t"))
        table.append(table.scan().to_arrow().slice(0, 1))
    for name in KINDS:
        assert trino.rows(f"SELECT count(*), sum(id) FROM {name}.{schema}.t") in ([[3, 4]], [[3, 5]])
    location = table.metadata_location.rpartition("/metadata/")[0]
    trino.rows(f"CALL hms.system.unregister_table('{schema}', 't')")
    assert trino.rows(f"SHOW TABLES FROM rest.{schema}") == []
    trino.rows(f"CALL rest.system.register_table('{schema}', 'again', '{location}')")
    assert trino.rows(f"SELECT count(*) FROM hms.{schema}.again") == [[3]]


def test_concurrent_commits_are_all_kept(trino: Trino, uri: MetastoreUri, schema: str) -> None:
    trino.rows(f"CREATE TABLE rest.{schema}.t (id bigint, writer varchar) WITH (max_commit_retry = 100)")
    writers = [(catalog, f"{catalog}-{number}") for catalog in KINDS for number in range(2)]

    def write(catalog: str, writer: str) -> None:
        for number in range(COMMITS):
            trino.rows(f"INSERT INTO {catalog}.{schema}.t VALUES ({number}, '{writer}')")

    with ThreadPoolExecutor(len(writers)) as threads:
        for done in [threads.submit(write, *writer) for writer in writers]:
            done.result()
    expected = sorted([number, writer] for _, writer in writers for number in range(COMMITS))
    assert sorted(trino.rows(f"SELECT id, writer FROM rest.{schema}.t")) == expected
    # The first snapshot is that of the new table.
    assert trino.rows(f'SELECT count(*) FROM hms.{schema}."t$snapshots"') == [[len(expected) + 1]]


def test_names_of_a_rest_catalog_have_other_characters(trino: Trino, schema: str) -> None:
    trino.script(
        f"""
        CREATE TABLE rest.{schema}."odd name/of a table" (id bigint);
        INSERT INTO rest.{schema}."odd name/of a table" VALUES 1;
        SELECT * FROM rest.{schema}."odd name/of a table";
        """
    )


def test_published_tables_are_read(trino: Trino, uri: MetastoreUri, warehouse: str, schema: str) -> None:
    """Tables of interbed with Iceberg metadata, as docs/readers.md says."""
    options = {"metastore": "hive", "uri": str(uri), "warehouse": warehouse}
    with interbed.CatalogFactory.create(options) as catalog:
        published = {
            "metadata.iceberg.storage": "hive-catalog",
            "metadata.iceberg.uri": str(uri),
            "metadata.iceberg.table": "items_iceberg",
            "metadata.iceberg.manifest-compression": "null",
        }
        rows = [{"id": number, "name": f"n{number}"} for number in range(3)]
        table = catalog.create_table_as(f"{schema}.items", rows, options=published)
        for name in KINDS:
            assert trino.rows(f"SELECT id, name FROM {name}.{schema}.items_iceberg ORDER BY id") == [
                [0, "n0"],
                [1, "n1"],
                [2, "n2"],
            ]
        table.append([{"id": 3, "name": "n3"}])
        table.delete("id = 1")
        for name in KINDS:
            assert trino.rows(f"SELECT id FROM {name}.{schema}.items_iceberg ORDER BY id") == [[0], [2], [3]]
        first = trino.rows(f'SELECT min(snapshot_id) FROM hms.{schema}."items_iceberg$snapshots"')[0][0]
        assert trino.rows(f"SELECT count(*) FROM rest.{schema}.items_iceberg FOR VERSION AS OF BIGINT '{first}'") == [
            [3]
        ]
        with pytest.raises(PeerError, match=r"(?s)published|Paimon|interbed"):
            trino.rows(f"INSERT INTO rest.{schema}.items_iceberg VALUES (9, 'x')")
        catalog.drop_table(f"{schema}.items")
