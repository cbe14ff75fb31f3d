"""The same SQL over a catalog server: CREATE CATALOG with 'metastore' = 'hive'."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog as load_pyiceberg
from pyspark.sql import SparkSession

from interbed import load_catalog
from interbed.catalog.client.hive.client import HiveMetastoreClient
from tests.spark_ext.conftest import SparkLake
from tests.support.servers.metastore import metastore


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Address of a server, and its warehouse."""
    warehouse = tmp_path_factory.mktemp("served")
    with metastore(db=f"sqlite:///{warehouse / 'metastore.db'}", warehouse=f"file:{warehouse}") as uri:
        yield uri, warehouse


@pytest.fixture
def served(spark: SparkSession, server: tuple[str, Path]) -> Iterator[SparkLake]:
    """A catalog over the server, with an empty database `db`."""
    uri, warehouse = server
    lake = SparkLake(spark, "served", warehouse)
    lake.sql(
        "CREATE CATALOG {lake} WITH ('type' = 'paimon', 'metastore' = 'hive', "
        f"'uri' = '{uri}', 'warehouse' = 'file:{warehouse}')"
    )
    lake.sql("CREATE DATABASE IF NOT EXISTS {lake}.db COMMENT 'of tests' WITH DBPROPERTIES ('owner-team' = 'a')")
    yield lake
    lake.sql("DROP DATABASE IF EXISTS {lake}.db CASCADE")
    lake.sql("USE spark_catalog")
    lake.sql("DROP CATALOG {lake}")


def test_tables_are_created_written_and_read(served: SparkLake, server: tuple[str, Path]) -> None:
    served.sql(
        "CREATE TABLE {lake}.db.orders (id BIGINT, dt STRING, amount DECIMAL(10, 2)) PARTITIONED BY (dt) "
        "TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '2')"
    )
    served.sql("INSERT INTO {lake}.db.orders VALUES (1, 'a', 1.5), (2, 'b', 2.5)")
    served.sql("INSERT INTO {lake}.db.orders VALUES (2, 'b', 9.5), (3, 'b', 3.5)")

    assert [str(row[2]) for row in served.sql("SELECT * FROM {lake}.db.orders ORDER BY id")] == ["1.50", "9.50", "3.50"]
    assert served.tuples("SELECT count(*) FROM {lake}.db.orders VERSION AS OF 1") == [(2,)]
    uri, warehouse = server
    with load_catalog(metastore="hive", uri=uri, warehouse=f"file:{warehouse}") as catalog:
        table = catalog.get_table("db.orders")
        assert table.scan(filter="amount > 9").to_arrow().to_pydict()["id"] == [2]
        assert [s.id for s in table.snapshots()] == [1, 2]


def test_tables_are_renamed_altered_and_dropped(served: SparkLake) -> None:
    served.sql("CREATE TABLE {lake}.db.t AS SELECT 1 AS id")
    served.sql("ALTER TABLE {lake}.db.t ADD COLUMN note STRING")
    served.sql("ALTER TABLE {lake}.db.t SET TBLPROPERTIES ('snapshot.num-retained.min' = '7')")
    served.sql("ALTER TABLE {lake}.db.t RENAME TO db.u")

    assert served.tuples("SELECT * FROM {lake}.db.u") == [(1, None)]
    assert served.tuples("SHOW TABLES IN {lake}.db") == [("db", "u", False)]
    served.sql("DROP TABLE {lake}.db.u")
    assert served.tuples("SHOW TABLES IN {lake}.db") == []


def test_properties_of_namespaces_are_kept_and_changed(served: SparkLake) -> None:
    served.sql("ALTER DATABASE {lake}.db SET DBPROPERTIES ('owner-team' = 'b', 'tier' = 'gold')")

    described = dict(served.tuples("DESCRIBE NAMESPACE EXTENDED {lake}.db"))
    assert described["Comment"] == "of tests"
    assert "(owner-team,b)" in described["Properties"]
    assert "(tier,gold)" in described["Properties"]


BY_SITE = """
CREATE CATALOG my_hive WITH (
    'type' = 'paimon',
    'metastore' = 'hive',
    -- 'uri' = 'thrift://<hive-metastore-host-name>:<port>', default use 'hive.metastore.uris' in HiveConf
    'hive-conf-dir' = '{directory}'
    -- 'hadoop-conf-dir' = '...', this is recommended in the kerberos environment
    -- 'warehouse' = 'hdfs:///path/to/warehouse', default use 'hive.metastore.warehouse.dir' in HiveConf
);

USE CATALOG my_hive;
"""


@pytest.mark.long
def test_paimons_documented_statements_find_the_metastore_by_hive_conf_dir(
    spark: SparkSession, server: tuple[str, Path], tmp_path: Path
) -> None:
    uri, _ = server
    properties = {"hive.metastore.uris": uri, "hive.metastore.warehouse.dir": f"file:{tmp_path}/lake"}
    entries = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in properties.items())
    (tmp_path / "hive-site.xml").write_text(f"<configuration>{entries}</configuration>")
    for statement in BY_SITE.format(directory=tmp_path).split(";\n")[:-1]:
        spark.sql(statement)
    try:
        spark.sql("CREATE DATABASE by_site")
        spark.sql("CREATE TABLE by_site.t (id INT)")
        with load_catalog(metastore="hive", hive_conf_dir=tmp_path) as catalog:
            assert catalog.get_table("by_site.t").location == f"{tmp_path}/lake/by_site.db/t"
        spark.sql("DROP DATABASE by_site CASCADE")
    finally:
        spark.sql("USE spark_catalog")
        spark.sql("DROP CATALOG my_hive")


@pytest.mark.long
def test_an_iceberg_table_of_the_metastore_is_compacted_by_a_call(served: SparkLake, server: tuple[str, Path]) -> None:
    uri, warehouse = server
    with load_pyiceberg("ice", type="hive", uri=uri, warehouse=f"file:{warehouse}") as theirs:
        rows = pa.table({"id": [1, 2, 3], "day": ["a", "b", "b"]})
        table = theirs.create_table("db.ice", rows.schema)
        for _ in range(3):
            table.append(rows)
        assert served.tuples("CALL {lake}.sys.compact(table => 'db.ice', compact_strategy => 'minor')") == [(True,)]
        assert table.refresh().inspect.files().num_rows == 3
        assert served.tuples("CALL {lake}.sys.compact(table => 'db.ice')") == [(True,)]
        assert table.refresh().inspect.files().num_rows == 1
        assert table.scan().to_arrow().num_rows == 9
        statement = "CALL {lake}.sys.compact(table => 'db.ice', order_strategy => 'order', order_by => 'id')"
        assert served.tuples(statement) == [(True,)]
        assert table.refresh().scan().to_arrow()["id"].to_pylist() == [1, 1, 1, 2, 2, 2, 3, 3, 3]
        with pytest.raises(Exception, match="does not go with an Iceberg table"):
            served.sql("CALL {lake}.sys.compact(table => 'db.ice', buckets => '1')")
        theirs.drop_table("db.ice")


def test_an_iceberg_table_is_refused_with_the_catalog_to_use(served: SparkLake, server: tuple[str, Path]) -> None:
    uri, warehouse = server
    rows = pa.table({"id": [1, 2, 3]})
    with load_pyiceberg("ice", type="hive", uri=uri, warehouse=f"file:{warehouse}") as theirs:
        theirs.create_table("db.theirs", rows.schema).append(rows)
    statements = (
        "SELECT * FROM {lake}.db.theirs",
        "SELECT * FROM {lake}.db.theirs VERSION AS OF 1",
        "SELECT * FROM {lake}.db.`theirs$files`",
        "INSERT INTO {lake}.db.theirs VALUES (4)",
        "DELETE FROM {lake}.db.theirs WHERE id = 1",
        "ALTER TABLE {lake}.db.theirs ADD COLUMN v STRING",
        "DESCRIBE {lake}.db.theirs",
        "DROP TABLE {lake}.db.theirs",
    )
    for statement in statements:
        with pytest.raises(Exception, match=r"theirs.* no table of Paimon's format \(ICEBERG\)") as refused:
            served.sql(statement)
        if statement.startswith("SELECT * FROM {lake}.db.theirs"):
            assert "org.apache.iceberg.spark.SparkCatalog" in str(refused.value)
            assert f"spark.sql.catalog.ice.uri = {uri}" in str(refused.value)
    assert served.tuples("SHOW TABLES IN {lake}.db") == []
    with load_pyiceberg("ice", type="hive", uri=uri, warehouse=f"file:{warehouse}") as theirs:
        assert theirs.load_table("db.theirs").scan().to_arrow().num_rows == 3
        theirs.drop_table("db.theirs")


def test_all_tables_of_the_warehouse_are_registered(served: SparkLake, server: tuple[str, Path]) -> None:
    _, warehouse = server
    with load_catalog(warehouse=str(warehouse)) as files:
        files.create_database("found")
        files.create_table("found.t", pa.schema([("id", pa.int64())])).append([{"id": 1}])
    assert served.tuples("CALL {lake}.sys.repair('')") == [(True,)]
    assert served.tuples("SELECT * FROM {lake}.found.t") == [(1,)]
    served.sql("DROP DATABASE {lake}.found CASCADE")


def test_a_table_that_another_client_dropped_is_put_back(served: SparkLake, server: tuple[str, Path]) -> None:
    served.sql("CREATE TABLE {lake}.db.t AS SELECT 1 AS id")
    with HiveMetastoreClient(server[0]) as client:
        client.drop_table("db", "t", delete_data=True)
    assert served.tuples("SHOW TABLES IN {lake}.db") == []
    assert served.tuples("CALL {lake}.sys.undrop('db.t')") == [(True,)]
    assert served.tuples("SELECT * FROM {lake}.db.t") == [(1,)]
    with HiveMetastoreClient(server[0]) as client:
        client.drop_table("db", "t", delete_data=True)
    served.sql("CALL {lake}.sys.undrop(table => '{lake}.db.t', new_name => 'u')")
    served.sql("INSERT INTO {lake}.db.u VALUES (2)")
    assert sorted(served.tuples("SELECT * FROM {lake}.db.u")) == [(1,), (2,)]
    served.sql("DROP TABLE {lake}.db.u")
    served.sql("CALL {lake}.sys.undrop('db.u')")
    assert sorted(served.tuples("SELECT * FROM {lake}.db.u")) == [(1,), (2,)]
    served.sql("CREATE TABLE {lake}.db.purged (id INT)")
    served.sql("DROP TABLE {lake}.db.purged PURGE")
    with pytest.raises(Exception, match=r"there is no dropped object db\.purged"):
        served.sql("CALL {lake}.sys.undrop('db.purged')")
    with pytest.raises(Exception, match=r"there is no dropped object db\.none"):
        served.sql("CALL {lake}.sys.undrop('db.none')")
