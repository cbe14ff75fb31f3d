"""Spark on an S3 object store, with Hadoop's client beside interbed: both readers, both kinds of catalogs.

The session has no settings of the object store. They are options of the catalogs, for Python and for Spark's own
reader.
"""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from interbed.spark_ext import spark_settings
from tests.support.peers.spark import SparkPeer, hadoop_aws_jars
from tests.support.servers.http_servers import running_s3
from tests.support.servers.metastore import metastore
from tests.support.spark.spark_process import QUICK_JVM

pytestmark = pytest.mark.long

BUCKET = "lake"
# The server's process creates and deletes directories with the credentials of its environment.
IN_THE_ENVIRONMENT = {
    "AWS_ENDPOINT_URL": "s3.endpoint",
    "AWS_ACCESS_KEY_ID": "s3.access-key",
    "AWS_SECRET_ACCESS_KEY": "s3.secret-key",
    "AWS_REGION": "s3.region",
}


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with running_s3(BUCKET) as options:
        yield options


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkPeer]:
    profile = tmp_path_factory.mktemp("aws") / "credentials"
    profile.write_text("[default]\naws_access_key_id = of-the-profile\naws_secret_access_key = s\n")
    settings = spark_settings()
    jars = [settings["spark.jars"], *map(str, hadoop_aws_jars())]
    others = {
        # Separate executors, which have only the settings that they are sent.
        "spark.master": "local-cluster[1,2,1024]",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": QUICK_JVM,
        # Bucket settings of the session that differ from those of the catalogs.
        "spark.hadoop.fs.s3a.bucket.lake.endpoint": "http://127.0.0.1:9",
        "spark.hadoop.fs.s3a.access.key": "of-hadoop",
        "spark.hadoop.fs.s3a.secret.key": "s",
        "spark.hadoop.fs.s3a.attempts.maximum": "1",
    }
    variables = {"AWS_SHARED_CREDENTIALS_FILE": str(profile)}
    with SparkPeer({**settings, "spark.jars": ",".join(jars), **others}, variables=variables) as peer:
        yield peer


def create_catalog(spark: SparkPeer, options: dict[str, str]) -> str:
    """Create a catalog in Spark and return its name."""
    name = f"lake_{uuid.uuid4().hex[:8]}"
    given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    spark.run(f"CREATE CATALOG {name} WITH ('type' = 'interbed', {given})")
    return name


def create_table_of_one_row(spark: SparkPeer, options: dict[str, str]) -> str:
    """Create a table with a 7 in its own catalog and return its name."""
    catalog = create_catalog(spark, options)
    spark.run(f"CREATE DATABASE {catalog}.db")
    spark.run(f"CREATE TABLE {catalog}.db.t (v INT) TBLPROPERTIES ('bucket' = '-1')")
    spark.run(f"INSERT INTO {catalog}.db.t VALUES (7)")
    return f"{catalog}.db.t"


def with_hadoops_names(store: dict[str, str]) -> dict[str, str]:
    """Return the options of an object store under Hadoop's names."""
    return {
        "fs.s3a.endpoint": store["s3.endpoint"],
        "fs.s3a.access.key": store["s3.access-key"],
        "fs.s3a.secret.key": store["s3.secret-key"],
    }


@pytest.fixture(params=["filesystem", "hive"])
def catalog(
    request: pytest.FixtureRequest, spark: SparkPeer, store: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    home = f"s3a://{BUCKET}/{uuid.uuid4()}"
    with ExitStack() as stack:
        if request.param == "filesystem":
            options = {"warehouse": home, **store}
        else:
            for variable, option in IN_THE_ENVIRONMENT.items():
                monkeypatch.setenv(variable, store[option])
            uri = stack.enter_context(metastore(warehouse=home))
            options = {"metastore": "hive", "uri": uri, "warehouse": home, **with_hadoops_names(store)}
        yield create_catalog(spark, options)


def native_splits(spark: SparkPeer, query: str) -> int:
    """Return the number of splits that Spark's own reader reads."""
    plan = str(spark.run(f"EXPLAIN {query}")[0][0])
    assert "native=" in plan, plan
    return int(plan.partition("native=")[2].partition(",")[0].split()[0])


def read_by_both(spark: SparkPeer, table: str, splits: int) -> list[list[str | None]]:
    """Return the rows of a table, after comparing both readers; Spark's must read this number of splits, and Python
    none.
    """
    query = f"SELECT * FROM {table} ORDER BY 1"
    assert native_splits(spark, query) == splits
    found = spark.run(query)
    spark.run("SET spark.interbed.spark.native-read=false")
    try:
        assert native_splits(spark, query) == 0
        assert spark.run(query) == found
    finally:
        spark.run("RESET spark.interbed.spark.native-read")
    return found


def test_tables_are_created_written_compacted_and_read(spark: SparkPeer, catalog: str) -> None:
    spark.run(f"CREATE DATABASE {catalog}.shop")
    orders = f"{catalog}.shop.orders"
    # A partition value that must be escaped in the name of its directory and in an address.
    spark.run(
        f"CREATE TABLE {orders} (id INT NOT NULL, v STRING, dt STRING NOT NULL) PARTITIONED BY (dt) "
        "TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '1')"
    )
    spark.run(f"INSERT INTO {orders} VALUES (1, 'a', '1/2 of %'), (2, 'b', '1/2 of %'), (3, 'c', 'z')")
    spark.run(f"INSERT INTO {orders} VALUES (2, 'B', '1/2 of %')")
    spark.run(
        f"MERGE INTO {orders} t USING (SELECT 3 AS id, 'C' AS v, 'z' AS dt UNION ALL SELECT 4, 'd', 'z') s "
        "ON t.id = s.id AND t.dt = s.dt WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    spark.run(f"DELETE FROM {orders} WHERE id = 1")
    expected = [["2", "B", "1/2 of %"], ["3", "C", "z"], ["4", "d", "z"]]
    # The files must be merged.
    assert read_by_both(spark, orders, 0) == expected
    spark.run(f"CALL {catalog}.sys.compact(table => 'shop.orders', compact_strategy => 'full')")
    assert read_by_both(spark, orders, 2) == expected
    assert spark.run(f"SELECT v FROM {orders} WHERE id = 4 AND dt = 'z'") == [["d"]]
    assert spark.run(f"SELECT count(*) FROM {orders} VERSION AS OF 1") == [["3"]]

    log = f"{catalog}.shop.log"
    spark.run(f"CREATE TABLE {log} (id INT, v STRING) TBLPROPERTIES ('bucket' = '-1')")
    spark.run(f"INSERT INTO {log} SELECT id, CAST(id AS STRING) FROM range(100)")
    assert len(read_by_both(spark, log, native_splits(spark, f"SELECT * FROM {log}"))) == 100
    assert native_splits(spark, f"SELECT * FROM {log}") > 0

    marked = f"{catalog}.shop.marked"
    spark.run(
        f"CREATE TABLE {marked} (id INT NOT NULL, v STRING) TBLPROPERTIES "
        "('primary-key' = 'id', 'bucket' = '1', 'deletion-vectors.enabled' = 'true')"
    )
    spark.run(f"INSERT INTO {marked} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.run(f"INSERT INTO {marked} VALUES (2, 'B')")
    spark.run(f"DELETE FROM {marked} WHERE id = 3")
    # Spark's reader omits rows in the deletion vectors that a worker sends.
    assert read_by_both(spark, marked, 1) == [["1", "a"], ["2", "B"]]


def test_equally_named_buckets_of_two_object_stores_are_read_with_their_own_keys(
    spark: SparkPeer, store: dict[str, str]
) -> None:
    with running_s3(BUCKET) as other:
        for options, value in ((store, "here"), (other, "there")):
            catalog = create_catalog(spark, {"warehouse": f"s3://{BUCKET}/twins", **options})
            spark.run(f"CREATE DATABASE {catalog}.db")
            spark.run(f"CREATE TABLE {catalog}.db.t (v STRING) TBLPROPERTIES ('bucket' = '-1')")
            spark.run(f"INSERT INTO {catalog}.db.t VALUES ('{value}')")
            assert read_by_both(spark, f"{catalog}.db.t", 1) == [[value]]


def test_a_path_is_read_with_the_options_of_the_reader(spark: SparkPeer, store: dict[str, str]) -> None:
    create_table_of_one_row(spark, {"warehouse": f"s3://{BUCKET}/paths", **store})
    given = ", ".join(f"'{key}' '{value}'" for key, value in store.items())
    place = f"s3a://{BUCKET}/paths/db.db/t"
    spark.run(f"CREATE TEMPORARY VIEW by_path USING interbed OPTIONS ('path' '{place}', {given})")
    assert native_splits(spark, "SELECT * FROM by_path") == 1
    assert spark.run("SELECT * FROM by_path") == [["7"]]


def test_sparks_reader_also_reads_streams(spark: SparkPeer, store: dict[str, str], tmp_path: Path) -> None:
    source = create_table_of_one_row(spark, {"warehouse": f"s3://{BUCKET}/streams", **store})
    target = source.replace(".t", ".u")
    spark.run(f"CREATE TABLE {target} (v INT, file STRING) TBLPROPERTIES ('bucket' = '-1')")
    # Python's reader has no column with the file name.
    spark.stream(source, ["v", "input_file_name() AS file"], target, tmp_path)
    [[value, file]] = spark.run(f"SELECT * FROM {target}")
    assert (value, str(file).startswith(f"s3a://{BUCKET}/streams/db.db/t/bucket-0/")) == ("7", True)


def test_hadoops_own_keys_are_used_only_on_request(spark: SparkPeer, store: dict[str, str]) -> None:
    # Python uses the keys of a profile, Hadoop's configuration has others.
    options = {"s3.endpoint": store["s3.endpoint"], "s3.region": store["s3.region"]}
    table = create_table_of_one_row(spark, {"warehouse": f"s3://{BUCKET}/profile", **options})
    assert "native=0 (no keys for Hadoop)" in str(spark.run(f"EXPLAIN SELECT * FROM {table}")[0][0])
    assert spark.run(f"SELECT * FROM {table}") == [["7"]]
    spark.run("SET spark.interbed.spark.native-read=true")
    try:
        assert native_splits(spark, f"SELECT * FROM {table}") == 1
        assert spark.run(f"SELECT * FROM {table}") == [["7"]]
    finally:
        spark.run("RESET spark.interbed.spark.native-read")
