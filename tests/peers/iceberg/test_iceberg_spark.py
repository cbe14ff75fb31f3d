"""Iceberg's Spark runtime uses the server as the metastore of its Hive catalog: namespaces, tables, views, and commits
of two concurrent processes without a lost one.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import LockRequest, LockType, ShowLocksRequest, UnlockRequest

from tests.support.peers.process import PeerError
from tests.support.peers.spark import Rows, SparkPeer, iceberg_settings, peers_at_once
from tests.support.servers.metastore import (
    MetastoreUnderTest,
    foreign_client,
    lock_component,
    metastore_under_test,
    new_database,
)
from tests.support.servers.postgres import postgres_server
from tests.support.shares import LONG, each_run

THREADS = 3
COMMITS = 3
TRIES = "'commit.retry.num-retries'='100', 'commit.retry.min-wait-ms'='20', 'commit.retry.total-timeout-ms'='240000'"


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Server on a PostgreSQL database."""
    directory = tmp_path_factory.mktemp("metastore")
    with postgres_server() as url, metastore_under_test(new_database(url), directory) as running:
        yield running


@pytest.fixture(scope="module")
def peers(metastore: MetastoreUnderTest) -> Iterator[list[SparkPeer]]:
    """Two sessions in separate processes, each with the catalogs `ice`, which takes locks of the metastore, and `cas`,
    which relies on the comparison that the metastore makes when a table is altered; one session if no test needs both.
    """
    settings = {
        **iceberg_settings(metastore.uri, metastore.warehouse),
        **iceberg_settings(metastore.uri, metastore.warehouse, "cas"),
        "spark.sql.catalog.cas.hadoop.iceberg.engine.hive.lock-enabled": "false",
    }
    with peers_at_once(*[settings] * (2 if LONG else 1)) as both:
        yield both


@pytest.fixture(scope="module")
def spark(peers: list[SparkPeer]) -> SparkPeer:
    """The first of the sessions."""
    return peers[0]


def column(rows: Rows, place: int = 0) -> list[str | None]:
    """Return one column of an answer."""
    return [row[place] for row in rows]


def assert_no_locks(metastore: MetastoreUnderTest) -> None:
    """Assert that no lock is held or waited for."""
    with foreign_client(metastore.port) as client:
        assert client.show_locks(ShowLocksRequest()).locks == []


@pytest.mark.long
def test_namespaces_are_created_described_changed_and_dropped(spark: SparkPeer, tmp_path: Path) -> None:
    spark.run("CREATE NAMESPACE ice.shop")
    spark.run(f"CREATE NAMESPACE ice.there COMMENT 'c' LOCATION 'file:{tmp_path}/there' WITH DBPROPERTIES ('k'='v')")
    assert column(spark.run("SHOW NAMESPACES IN ice")) == ["default", "shop", "there"]
    spark.run("ALTER NAMESPACE ice.there SET PROPERTIES ('k'='w')")
    described = {row[0]: row[1] for row in spark.run("DESCRIBE NAMESPACE EXTENDED ice.there")}
    assert described["Comment"] == "c"
    assert described["Location"] == f"file:{tmp_path}/there"
    assert "(k,w)" in (described["Properties"] or "")
    with pytest.raises(PeerError, match="SCHEMA_ALREADY_EXISTS"):
        spark.run("CREATE NAMESPACE ice.there")
    spark.run("CREATE TABLE ice.there.t (id INT) USING iceberg")
    with pytest.raises(PeerError, match=r"not empty|SCHEMA_NOT_EMPTY"):
        spark.run("DROP NAMESPACE ice.there")
    spark.run("DROP TABLE ice.there.t PURGE")
    spark.run("DROP NAMESPACE ice.there")
    spark.run("DROP NAMESPACE ice.shop")
    assert column(spark.run("SHOW NAMESPACES IN ice")) == ["default"]


@pytest.mark.parametrize("catalog", each_run(["ice", "cas"], lambda name: name == "ice"))
def test_tables_are_created_written_merged_evolved_renamed_and_dropped(
    spark: SparkPeer, metastore: MetastoreUnderTest, catalog: str
) -> None:
    spark.run(f"CREATE NAMESPACE {catalog}.one")
    spark.run(f"CREATE NAMESPACE {catalog}.two")
    table = f"{catalog}.one.orders"
    spark.run(f"CREATE TABLE {table} (id BIGINT, v STRING, d DATE) USING iceberg PARTITIONED BY (days(d))")
    with pytest.raises(PeerError, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.run(f"CREATE TABLE {table} (id BIGINT) USING iceberg")
    spark.run(f"INSERT INTO {table} VALUES (1, 'a', DATE'2024-01-01'), (2, 'b', DATE'2024-01-02')")
    spark.run(
        f"MERGE INTO {table} t USING (SELECT 2 AS id, 'bb' AS v, DATE'2024-01-02' AS d UNION ALL "
        "SELECT 3, 'c', DATE'2024-01-03') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    spark.run(f"UPDATE {table} SET v = 'z' WHERE id = 1")
    spark.run(f"DELETE FROM {table} WHERE id = 3")
    assert spark.run(f"SELECT * FROM {table} ORDER BY id") == [["1", "z", "2024-01-01"], ["2", "bb", "2024-01-02"]]

    spark.run(f"ALTER TABLE {table} ADD COLUMN (n STRUCT<x: INT, y: STRING>)")
    spark.run(f"ALTER TABLE {table} RENAME COLUMN v TO w")
    spark.run(f"ALTER TABLE {table} ALTER COLUMN w COMMENT 'said'")
    spark.run(f"ALTER TABLE {table} ADD COLUMN f FLOAT FIRST")
    spark.run(f"ALTER TABLE {table} ALTER COLUMN f TYPE DOUBLE")
    spark.run(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(4, id)")
    spark.run(f"ALTER TABLE {table} SET TBLPROPERTIES ('owner.team'='lake', 'gone'='soon')")
    spark.run(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('gone')")
    with foreign_client(metastore.port) as client:
        kept = client.get_table("one", "orders")
    assert [(field.name, field.type, field.comment) for field in kept.sd.cols] == [
        ("f", "double", None),
        ("id", "bigint", None),
        ("w", "string", "said"),
        ("d", "date", None),
        ("n", "struct<x:int,y:string>", None),
    ]
    assert kept.tableType == "EXTERNAL_TABLE"
    assert kept.parameters["table_type"] == "ICEBERG"
    assert kept.parameters["owner.team"] == "lake"
    assert "gone" not in kept.parameters
    spark.run(f"INSERT INTO {table} SELECT 0.5, 4, 'd', DATE'2024-01-04', named_struct('x', 1, 'y', 'q')")
    assert spark.run(f"SELECT f, id, w, n.y FROM {table} WHERE d = DATE'2024-01-04'") == [["0.5", "4", "d", "q"]]
    assert column(spark.run(f"SELECT operation FROM {table}.snapshots ORDER BY committed_at")) == [
        "append",
        "overwrite",
        "overwrite",
        "delete",
        "append",
    ]

    spark.run(f"ALTER TABLE {table} RENAME TO {catalog}.two.bills")
    assert spark.run(f"SHOW TABLES IN {catalog}.one") == []
    assert column(spark.run(f"SHOW TABLES IN {catalog}.two"), 1) == ["bills"]
    assert spark.run(f"SELECT count(*) FROM {catalog}.two.bills") == [["3"]]
    spark.run(f"CREATE TABLE {catalog}.two.made USING iceberg AS SELECT id FROM {catalog}.two.bills WHERE id < 3")
    spark.run(f"CREATE OR REPLACE TABLE {catalog}.two.made USING iceberg AS SELECT id + 1 AS k FROM range(2)")
    assert spark.run(f"SELECT k FROM {catalog}.two.made ORDER BY k") == [["1"], ["2"]]
    files = Path(str(kept.sd.location).removeprefix("file:"))
    spark.run(f"DROP TABLE {catalog}.two.bills")
    assert list(files.rglob("*.parquet")), "Iceberg leaves the files of a table that is dropped without PURGE"
    with pytest.raises(PeerError, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.run(f"SELECT * FROM {catalog}.two.bills")
    spark.run(f"DROP TABLE {catalog}.two.made PURGE")
    spark.run(f"DROP NAMESPACE {catalog}.one")
    spark.run(f"DROP NAMESPACE {catalog}.two")
    assert_no_locks(metastore)


@pytest.mark.long
def test_views_are_created_replaced_renamed_and_dropped(spark: SparkPeer, metastore: MetastoreUnderTest) -> None:
    spark.run("CREATE NAMESPACE ice.views")
    spark.run("CREATE TABLE ice.views.t USING iceberg AS SELECT id FROM range(3)")
    spark.run("CREATE VIEW ice.views.few AS SELECT id FROM ice.views.t WHERE id < 1")
    assert spark.run("SELECT * FROM ice.views.few") == [["0"]]
    spark.run("CREATE OR REPLACE VIEW ice.views.few AS SELECT id + 1 AS k FROM ice.views.t WHERE id > 1")
    assert spark.run("SELECT k FROM ice.views.few") == [["3"]]
    with pytest.raises(PeerError, match="ALREADY_EXISTS"):
        spark.run("CREATE VIEW ice.views.few AS SELECT 1 AS one")
    spark.run("ALTER VIEW ice.views.few SET TBLPROPERTIES ('k'='v')")
    spark.run("ALTER VIEW ice.views.few RENAME TO ice.views.fewer")
    assert column(spark.run("SHOW VIEWS IN ice.views"), 1) == ["fewer"]
    assert column(spark.run("SHOW TABLES IN ice.views"), 1) == ["t"]
    with foreign_client(metastore.port) as client:
        kept = client.get_table("views", "fewer")
    assert kept.tableType == "VIRTUAL_VIEW"
    assert kept.parameters["table_type"] == "ICEBERG-VIEW"
    assert "id + 1 AS k" in kept.viewOriginalText
    with pytest.raises(PeerError, match="not empty"):
        spark.run("DROP NAMESPACE ice.views")
    spark.run("DROP VIEW ice.views.fewer")
    assert spark.run("SHOW VIEWS IN ice.views") == []
    spark.run("DROP TABLE ice.views.t PURGE")
    spark.run("DROP NAMESPACE ice.views")
    assert_no_locks(metastore)


def next_lock(metastore: MetastoreUnderTest) -> int:
    """Return the number of a lock that is acquired now and released; the numbers are consecutive."""
    with foreign_client(metastore.port) as client:
        component = lock_component(LockType.EXCLUSIVE, "default", "nobodys")
        lock_id: int = client.lock(LockRequest(component=[component], user="tester", hostname="here")).lockid
        client.unlock(UnlockRequest(lockid=lock_id))
    return lock_id


# tests/catalog/server/thrift/calls/test_locks.py tests concurrent locks and swaps in each run.
@pytest.mark.long
@pytest.mark.parametrize("catalog", ["ice", "cas"])
def test_concurrent_commits_of_two_processes_are_all_kept(
    peers: list[SparkPeer], metastore: MetastoreUnderTest, catalog: str
) -> None:
    name = f"{catalog}.default.counted_{catalog}"
    peers[0].run(f"CREATE TABLE {name} (id BIGINT, writer STRING) USING iceberg TBLPROPERTIES ({TRIES})")
    before = next_lock(metastore)
    with ThreadPoolExecutor(len(peers)) as both:
        writing = [
            both.submit(
                peer.together,
                [
                    [f"INSERT INTO {name} VALUES ({commit}, '{process}/{thread}')" for commit in range(COMMITS)]
                    for thread in range(THREADS)
                ],
            )
            for process, peer in enumerate(peers)
        ]
        refusals = [said for one in writing for script in one.result() for said in script]
    locks_between = next_lock(metastore) - before - 1
    assert refusals == []
    expected = sorted(
        [str(commit), f"{process}/{thread}"]
        for process in range(len(peers))
        for thread in range(THREADS)
        for commit in range(COMMITS)
    )
    assert sorted(peers[1].run(f"SELECT id, writer FROM {name}")) == expected
    assert peers[0].run(f"SELECT count(*) FROM {name}.snapshots") == [[str(len(expected))]]
    if catalog == "ice":
        assert locks_between >= len(expected)
    else:
        assert locks_between == 0
    assert_no_locks(metastore)


def test_the_server_answered_all_calls_of_iceberg_without_failures(
    spark: SparkPeer, metastore: MetastoreUnderTest
) -> None:
    assert spark.version().startswith("4.1.")
    log = (metastore.warehouse.parent / "server.log").read_text()
    assert "not served" not in log
    assert "Traceback" not in log
