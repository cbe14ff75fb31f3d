"""pypaimon-rust 0.4 as a client by `metastore` = `rest`: its SQL, its readers and its writers, beside interbed's Hive
catalog.
"""

from collections.abc import Iterator

import pytest

from interbed.catalog.client.hive.catalog import HiveCatalog
from tests.catalog.server.rest.paimon.conftest import RestClient
from tests.support.peers.pypaimon import PyPaimon
from tests.support.sql_script import run_script
from tests.support.waits import at_most

pytestmark = pytest.mark.long

KEYED = """
CREATE TABLE lake.{d}.t (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id)) WITH ('bucket' = '1');
CREATE TABLE lake.{d}.t (id BIGINT);
-- ! already exists
INSERT INTO lake.{d}.t VALUES (1, 'a'), (2, 'b');
INSERT INTO lake.{d}.t VALUES (2, 'c'), (3, 'd');
SELECT * FROM lake.{d}.t ORDER BY id;
-- 1, a
-- 2, c
-- 3, d
SELECT * FROM lake.{d}.t VERSION AS OF 1;
-- 1, a
-- 2, b
SELECT snapshot_id, commit_kind FROM lake.{d}."t$snapshots" ORDER BY snapshot_id;
-- 1, APPEND
-- 2, APPEND
ALTER TABLE lake.{d}.t ADD COLUMN e INT;
ALTER TABLE lake.{d}.t RENAME COLUMN e TO ee;
INSERT INTO lake.{d}.t VALUES (4, 'e', 5);
SELECT ee FROM lake.{d}.t WHERE id > 2 ORDER BY id;
-- null
-- 5
ALTER TABLE lake.{d}.t DROP COLUMN ee;
ALTER TABLE lake.{d}.t SET TBLPROPERTIES ('snapshot.num-retained.min' = '3');
CALL sys.create_tag(table => '{d}.t', tag => 'first');
SELECT tag_name FROM lake.{d}."t$tags";
-- first
CREATE VIEW lake.{d}.seen AS SELECT id FROM lake.{d}.t WHERE id < 3;
SELECT id FROM lake.{d}.seen ORDER BY id;
-- 1
-- 2
ALTER TABLE lake.{d}.t RENAME TO u;
SELECT count(*) FROM lake.{d}.u;
-- 4
"""

APPENDED = """
CREATE TABLE lake.{d}.p (id BIGINT, dt STRING) PARTITIONED BY (dt);
INSERT INTO lake.{d}.p VALUES (1, 'a'), (2, 'b'), (3, 'b');
INSERT OVERWRITE lake.{d}.p PARTITION (dt = 'a') VALUES (9);
UPDATE lake.{d}.p SET id = 7 WHERE id = 2;
DELETE FROM lake.{d}.p WHERE id = 3;
SELECT * FROM lake.{d}.p ORDER BY id;
-- 7, b
-- 9, a
"""


@pytest.fixture(scope="module")
def pypaimon() -> Iterator[PyPaimon]:
    """Run pypaimon-rust in its own environment."""
    with PyPaimon(timeout_seconds=at_most(120)) as peer:
        yield peer


@pytest.fixture
def uri(rest: RestClient) -> str:
    """Return the address of the REST catalog."""
    return f"http://127.0.0.1:{rest.port}/paimon"


def test_a_table_with_a_key_is_created_changed_and_renamed(
    pypaimon: PyPaimon, hive: HiveCatalog, uri: str, database: str
) -> None:
    run_script(KEYED.format(d=database), lambda sql: pypaimon.rust_sql(uri, sql))
    table = hive.get_table(f"{database}.u")
    assert table.schema.options["snapshot.num-retained.min"] == "3"
    assert [tag.name for tag in table.versions.tags()] == ["first"]
    table.upsert([{"id": 1, "v": "z"}])
    assert pypaimon.rust_sql(uri, f"SELECT v FROM lake.{database}.u WHERE id = 1") == [["z"]]
    pypaimon.rust_sql(uri, f"DROP TABLE lake.{database}.u")
    assert hive.list_tables(database) == []


def test_a_table_with_partitions_is_overwritten_and_changed(
    pypaimon: PyPaimon, hive: HiveCatalog, uri: str, database: str
) -> None:
    run_script(APPENDED.format(d=database), lambda sql: pypaimon.rust_sql(uri, sql))
    rows = sorted(hive.get_table(f"{database}.p").to_arrow().to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": 7, "dt": "b"}, {"id": 9, "dt": "a"}]


def test_databases_are_created_and_dropped(pypaimon: PyPaimon, hive: HiveCatalog, uri: str) -> None:
    pypaimon.rust_sql(uri, "CREATE SCHEMA lake.of_rust")
    assert "of_rust" in hive.list_databases()
    pypaimon.rust_sql(uri, "CREATE TABLE lake.of_rust.t (id INT)")
    pypaimon.rust_sql(uri, "DROP SCHEMA lake.of_rust CASCADE")
    assert "of_rust" not in hive.list_databases()


def test_rows_of_its_writers_and_of_interbed_are_merged(
    pypaimon: PyPaimon, hive: HiveCatalog, uri: str, database: str
) -> None:
    table = pypaimon.table(uri, f"{database}.t", engine="rust")
    table.create([("id", "BIGINT NOT NULL"), ("v", "STRING")], primary_keys=["id"], options={"bucket": "2"})
    table.write([[1, "a"], [2, "b"]])
    hive.get_table(f"{database}.t").upsert([{"id": 2, "v": "c"}, {"id": 3, "v": "d"}])
    table.write([[3, "e"]])
    assert table.read().comparable() == [[1, "a"], [2, "c"], [3, "e"]]
    assert table.read(snapshot_id=1).comparable() == [[1, "a"], [2, "b"]]
