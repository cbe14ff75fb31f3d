"""INSERT, INSERT OVERWRITE, CTAS and the DataFrame API."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

from interbed import load_catalog
from interbed.storage.table.table import Table
from interbed.storage.upkeep.job_files import JobFiles
from tests.spark_ext.conftest import SparkLake
from tests.support.shares import each_run

pytestmark = pytest.mark.usefixtures("usual_queries")

BY_ANY_TYPE = "PARTITIONED BY (c) TBLPROPERTIES ('partition.legacy-name' = 'false')"


def _table(lake: SparkLake, name: str) -> Table:
    return load_catalog(warehouse=str(lake.warehouse)).get_table(name)


@pytest.fixture
def dynamic(lake: SparkLake) -> Iterator[None]:
    """Setting by which INSERT OVERWRITE replaces only the partitions that get rows."""
    lake.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    yield
    lake.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def test_an_insert_upserts_by_primary_key(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'a'), (2, 'b')")
    lake.sql("INSERT INTO {lake}.db.t VALUES (2, 'B'), (3, 'c')")

    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(1, "a"), (2, "B"), (3, "c")]


def test_a_job_of_many_tasks_is_one_commit_with_one_file_per_bucket(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id BIGINT, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '4')")

    lake.spark.range(0, 40_000, 1, 8).selectExpr("id", "'v' || id AS v").writeTo(f"{lake.name}.db.t").append()

    (snapshot,) = _table(lake, "db.t").snapshots()
    assert snapshot.total_record_count == 40_000
    assert len(lake.files("db.t")) == 4
    assert lake.tuples("SELECT count(*), count(DISTINCT id) FROM {lake}.db.t") == [(40_000, 40_000)]


KEYS = ["id", "id,name", "day", "at", "amount", "name,day"]


@pytest.mark.parametrize("keys", each_run(KEYS, lambda keys: keys in ("id,name", "at", "amount")))
def test_rows_of_a_bucket_are_written_by_one_task_whatever_the_key(lake: SparkLake, keys: str) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id BIGINT, name STRING, day DATE, at TIMESTAMP, amount DECIMAL(20, 2)) "
        f"TBLPROPERTIES ('primary-key' = '{keys}', 'bucket' = '3')"
    )
    rows = lake.spark.range(0, 300, 1, 6).selectExpr(
        "id",
        "'name-' || id AS name",
        "date_add(DATE'2024-01-01', CAST(id AS INT)) AS day",
        "timestamp_seconds(id * 1000) AS at",
        "CAST(id * 1.5 AS DECIMAL(20, 2)) AS amount",
    )

    rows.writeTo(f"{lake.name}.db.t").append()

    files = lake.files("db.t")
    assert len(files) == len({file.split("/")[0] for file in files})
    assert lake.tuples("SELECT count(*) FROM {lake}.db.t") == [(300,)]


@pytest.mark.parametrize("partition", each_run(["", "PARTITIONED BY (p)"], bool))
def test_tasks_do_not_assign_dynamic_buckets_on_their_own(lake: SparkLake, partition: str) -> None:
    lake.sql(
        f"CREATE TABLE {{lake}}.db.t (p INT, id BIGINT, v BIGINT) {partition} "
        "TBLPROPERTIES ('primary-key' = 'p,id', 'dynamic-bucket.target-row-num' = '400')"
    )
    for value in range(3):
        rows = lake.spark.range(value * 500, value * 500 + 1500, 1, 6)
        rows.selectExpr("CAST(id % 3 AS INT) AS p", "id", f"CAST({value} AS BIGINT) AS v").writeTo(
            f"{lake.name}.db.t"
        ).append()

    assert lake.tuples("SELECT count(*), count(DISTINCT id), sum(v) FROM {lake}.db.t") == [(2500, 2500, 500 + 3000)]
    buckets = {file.rpartition("/")[0] for file in lake.files("db.t")}
    assert len(buckets) == (9 if partition else 7)
    lake.sql("INSERT OVERWRITE {lake}.db.t VALUES (1, 7, 9), (2, 8, 9)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 7, 10)")
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY p") == [(1, 7, 10), (2, 8, 9)]


def test_keys_move_between_partitions(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id BIGINT, dt STRING, v INT) PARTITIONED BY (dt) "
        "TBLPROPERTIES ('primary-key' = 'id')"
    )
    for day in ("a", "b"):
        rows = lake.spark.range(0 if day == "a" else 50, 100, 1, 4)
        rows.selectExpr("id", f"'{day}' AS dt", "1 AS v").writeTo(f"{lake.name}.db.t").append()

    assert lake.tuples("SELECT dt, count(*) FROM {lake}.db.t GROUP BY dt ORDER BY dt") == [("a", 50), ("b", 50)]


@pytest.mark.long
def test_postponed_rows_are_visible_after_a_compaction(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id BIGINT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '-2', "
        "'postpone.batch-write-fixed-bucket' = 'false')"
    )
    lake.sql("INSERT INTO {lake}.db.t SELECT id, 1 FROM range(100)")
    assert lake.tuples("SELECT count(*) FROM {lake}.db.t") == [(0,)]

    _table(lake, "db.t").compact()
    assert lake.tuples("SELECT count(*) FROM {lake}.db.t") == [(100,)]


def test_a_batch_write_to_postponed_buckets_is_visible_at_once(lake: SparkLake) -> None:
    """Partitions keep their numbers of buckets; one task writes a bucket and compacts it as it writes."""
    lake.sql(
        "CREATE TABLE {lake}.db.t (p INT, id BIGINT, v INT) PARTITIONED BY (p) TBLPROPERTIES "
        "('primary-key' = 'p,id', 'bucket' = '-2', 'postpone.default-bucket-num' = '4', "
        "'deletion-vectors.enabled' = 'true')"
    )
    lake.sql("INSERT INTO {lake}.db.t SELECT 1, id, 0 FROM range(0, 400, 1, 8)")
    lake.sql("ALTER TABLE {lake}.db.t SET TBLPROPERTIES ('postpone.default-bucket-num' = '6')")
    for number in (1, 2):
        lake.sql(f"INSERT INTO {{lake}}.db.t SELECT 1 + id % 2, id, {number} FROM range(0, 400, 1, 8)")
    lake.sql("UPDATE {lake}.db.t SET v = 9 WHERE id = 7")
    lake.sql("DELETE FROM {lake}.db.t WHERE id = 8")

    assert lake.tuples("SELECT p, count(*), sum(v) FROM {lake}.db.t GROUP BY p ORDER BY p") == [
        (1, 399, 2 * 199 + 9),
        (2, 200, 2 * 199 + 9),
    ]
    buckets = {file.rpartition("/")[0].split("db.t/")[-1] for file in lake.files("db.t")}
    assert len(buckets) == 4 + 6
    lake.sql("INSERT OVERWRITE {lake}.db.t VALUES (3, 7, 1)")
    assert lake.tuples("SELECT p, id, v FROM {lake}.db.t WHERE p = 3") == [(3, 7, 1)]


def test_files_outside_of_the_table_are_written_and_cleaned_up(lake: SparkLake, tmp_path: Path) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (p INT, id BIGINT, v INT) PARTITIONED BY (p) TBLPROPERTIES "
        f"('primary-key' = 'p,id', 'bucket' = '2', 'data-file.external-paths' = 'file:{tmp_path}/outside', "
        "'data-file.external-paths.strategy' = 'entropy-inject')"
    )
    lake.sql("INSERT INTO {lake}.db.t SELECT id % 2, id, 0 FROM range(100)")
    lake.sql("UPDATE {lake}.db.t SET v = 1 WHERE id < 10")
    assert lake.tuples("SELECT count(*), sum(v) FROM {lake}.db.t") == [(100, 10)]
    outside = {str(path) for path in (tmp_path / "outside").rglob("*.parquet")}
    assert outside >= set(lake.files("db.t"))
    job = sorted(outside)[0].rpartition("/data-")[2][:36]
    table = _table(lake, "db.t")
    assert set(JobFiles(table.store, job).paths()) == {path for path in outside if f"data-{job}" in path}
    lake.sql("DROP TABLE {lake}.db.t")
    assert not list((tmp_path / "outside").rglob("*.parquet"))


@pytest.mark.long
def test_an_append_table_accepts_rows_of_any_order(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, v STRING)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'a')")
    lake.sql("INSERT INTO {lake}.db.t (v, id) VALUES ('turned', 3)")
    lake.sql("INSERT INTO {lake}.db.t BY NAME SELECT 'named' AS v, 2 AS id")

    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY v") == [(1, "a"), (2, "named"), (3, "turned")]


def test_an_insert_of_no_rows_creates_no_snapshot(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    lake.sql("INSERT INTO {lake}.db.t SELECT 1 WHERE false")

    assert _table(lake, "db.t").snapshots() == []


def test_a_table_is_created_from_a_query(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'p,id', 'bucket' = '1') "
        "AS SELECT id, id % 3 AS p, 'v' || id AS v FROM range(9)"
    )

    assert lake.tuples("SELECT count(*) FROM {lake}.db.t WHERE p = 1") == [(3,)]
    assert _table(lake, "db.t").schema.primary_keys == ("p", "id")


def test_a_failed_query_leaves_no_table(lake: SparkLake) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        lake.sql("CREATE TABLE {lake}.db.t AS SELECT 1 / (id - 5) AS v FROM range(10)")

    assert lake.tuples("SHOW TABLES IN {lake}.db") == []


def _partitioned(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, dt STRING, h INT) PARTITIONED BY (dt, h)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 1), (4, NULL, 1)")


def test_an_overwrite_replaces_the_whole_table(lake: SparkLake) -> None:
    _partitioned(lake)
    lake.sql("INSERT OVERWRITE {lake}.db.t VALUES (9, 'z', 9)")

    assert lake.tuples("SELECT * FROM {lake}.db.t") == [(9, "z", 9)]
    assert lake.tuples("SELECT count(*) FROM {lake}.db.t VERSION AS OF 1") == [(4,)]


def test_a_static_overwrite_replaces_the_partitions_it_names(lake: SparkLake) -> None:
    _partitioned(lake)
    lake.sql("INSERT OVERWRITE {lake}.db.t PARTITION (dt = 'a', h = 1) SELECT 10")
    assert lake.tuples("SELECT id FROM {lake}.db.t ORDER BY id") == [(2,), (3,), (4,), (10,)]

    lake.sql("INSERT OVERWRITE {lake}.db.t PARTITION (dt = 'a', h) SELECT 11, 7")
    assert lake.tuples("SELECT id FROM {lake}.db.t ORDER BY id") == [(3,), (4,), (11,)]

    lake.sql("INSERT OVERWRITE {lake}.db.t PARTITION (dt = 'b', h = 1) SELECT 1 WHERE false")
    assert lake.tuples("SELECT id FROM {lake}.db.t ORDER BY id") == [(4,), (11,)]


@pytest.mark.usefixtures("dynamic")
def test_a_dynamic_overwrite_replaces_the_partitions_that_get_rows(lake: SparkLake) -> None:
    _partitioned(lake)
    lake.sql("INSERT OVERWRITE {lake}.db.t VALUES (10, 'a', 1), (11, 'c', 3)")
    assert lake.tuples("SELECT id FROM {lake}.db.t ORDER BY id") == [(2,), (3,), (4,), (10,), (11,)]

    lake.sql("INSERT OVERWRITE {lake}.db.t SELECT 1, 'a', 1 WHERE false")
    assert lake.tuples("SELECT count(*) FROM {lake}.db.t") == [(5,)]


def test_an_overwrite_by_other_columns_than_partitions_is_refused_before_it_runs(lake: SparkLake) -> None:
    _partitioned(lake)
    frame = lake.spark.sql("SELECT 1 AS id, 'a' AS dt, 1 AS h")

    for condition in (sf.col("id") == 1, sf.col("dt") > "a"):
        with pytest.raises(Exception, match=r"whole partitions .* \(dt, h\)"):
            frame.writeTo(f"{lake.name}.db.t").overwrite(condition)
    frame.writeTo(f"{lake.name}.db.t").overwrite(sf.col("dt") == "a")
    assert lake.tuples("SELECT id FROM {lake}.db.t ORDER BY id") == [(1,), (3,), (4,)]
    frame.writeTo(f"{lake.name}.db.t").overwrite((sf.col("DT") == "a") & (sf.col("H") == 1))
    assert lake.tuples("SELECT id FROM {lake}.db.t ORDER BY id") == [(1,), (3,), (4,)]


@pytest.mark.parametrize("option", ["overwrite-mode", "replaceWhere"])
def test_an_option_of_another_format_replaces_no_row(lake: SparkLake, option: str) -> None:
    _partitioned(lake)
    frame = lake.spark.sql("SELECT 1 AS id, 'a' AS dt, 1 AS h")
    given = {"overwrite-mode": "dynamic", "replaceWhere": "dt = 'a'"}[option]
    write = frame.write.mode("overwrite").option(option, given)

    path = str(lake.warehouse / "db.db" / "t")
    ways: list[Callable[[], None]] = [
        lambda: write.insertInto(f"{lake.name}.db.t"),
        lambda: write.format("interbed").save(path),
    ]
    for writes in ways:
        with pytest.raises(Exception, match=rf"'{option}' .* no effect .*overwrite"):
            writes()
    assert lake.tuples("SELECT id FROM {lake}.db.t ORDER BY id") == [(1,), (2,), (3,), (4,)]


def test_truncate_empties_a_table(lake: SparkLake) -> None:
    _partitioned(lake)
    lake.spark.sql("SELECT 1 AS id, 'a' AS dt, 1 AS h WHERE false").writeTo(f"{lake.name}.db.t").overwrite(sf.lit(True))

    assert lake.tuples("SELECT * FROM {lake}.db.t") == []


def test_frames_are_written_and_read(lake: SparkLake) -> None:
    name = f"{lake.name}.db.t"
    frame = lake.spark.range(100).select(sf.col("id"), (sf.col("id") % 2).alias("p"))

    frame.writeTo(name).using("interbed").partitionedBy(sf.col("p")).tableProperty("file.compression", "zstd").create()
    frame.writeTo(name).append()
    frame.write.mode("append").saveAsTable(name)
    frame.write.insertInto(name)

    assert lake.spark.table(name).count() == 400
    frame.where("p = 0").writeTo(name).overwritePartitions()
    assert lake.spark.table(name).groupBy("p").count().orderBy("p").collect() == [(0, 50), (1, 200)]
    frame.write.mode("overwrite").insertInto(name)
    assert lake.spark.table(name).count() == 100
    assert _table(lake, "db.t").schema.options == {"file.compression": "zstd"}


def test_a_table_is_inserted_into_from_itself(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id BIGINT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')")
    lake.sql("INSERT INTO {lake}.db.t SELECT id, 0 FROM range(100)")

    lake.sql("INSERT INTO {lake}.db.t SELECT id, v + 1 FROM {lake}.db.t WHERE id < 50")
    lake.sql("INSERT OVERWRITE {lake}.db.t SELECT id, v FROM {lake}.db.t WHERE v = 1")

    assert lake.tuples("SELECT count(*), sum(v) FROM {lake}.db.t") == [(50, 50)]


@pytest.mark.long
def test_wide_and_nested_rows_survive_many_batches(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id BIGINT, s STRING, a ARRAY<STRUCT<k: STRING, v: MAP<STRING, INT>>>)")
    frame = lake.spark.range(0, 20_000, 1, 2).selectExpr(
        "id", "repeat('x', 2000) || id AS s", "array(named_struct('k', 'k' || id, 'v', map('m', CAST(id AS INT)))) AS a"
    )

    frame.writeTo(f"{lake.name}.db.t").append()

    found = lake.tuples("SELECT count(*), sum(length(s)), sum(a[0].v['m']), max(a[0].k) FROM {lake}.db.t")
    assert found == [(20_000, sum(2000 + len(str(i)) for i in range(20_000)), sum(range(20_000)), "k9999")]


def test_a_null_in_a_key_is_refused(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")

    with pytest.raises(Exception, match="NOT_NULL_ASSERT_VIOLATION"):
        lake.sql("INSERT INTO {lake}.db.t SELECT CAST(NULL AS INT), 1")
    assert _table(lake, "db.t").snapshots() == []


def test_unwritable_tables_are_refused_before_a_task_starts(lake: SparkLake) -> None:
    with pytest.raises(Exception, match=r"Option 'scan\.bucket' = '1' is not supported"):
        lake.sql("CREATE TABLE {lake}.db.t (id INT, v INT) TBLPROPERTIES ('scan.bucket' = '1')")
    lake.sql("CREATE TABLE {lake}.db.t (id INT, v INT)")
    # Another engine has created it like this.
    path = lake.warehouse / "db.db" / "t" / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    schema["options"]["scan.bucket"] = "1"
    path.write_text(json.dumps(schema))

    with pytest.raises(Exception, match=r"can't be written\. Option 'scan\.bucket'"):
        lake.sql("INSERT INTO {lake}.db.t VALUES (1, 1)")


@pytest.mark.parametrize(
    ("of", "value", "other", "shown"),
    [
        ("CHAR(3)", "'a'", "'b'", "a  "),
        ("VARCHAR(3)", "'a'", "'b'", "a"),
        ("BINARY", "X'61'", "X'00ff'", b"a"),
    ],
)
def test_a_static_partition_is_overwritten(lake: SparkLake, of: str, value: str, other: str, shown: object) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, c {of}) {BY_ANY_TYPE}")
    lake.sql(f"INSERT INTO {{lake}}.db.t VALUES (1, {value}), (2, {other}), (3, NULL)")
    lake.sql(f"INSERT OVERWRITE {{lake}}.db.t PARTITION (c = {value}) SELECT 7")
    assert lake.tuples("SELECT id FROM {lake}.db.t ORDER BY id") == [(2,), (3,), (7,)]
    assert lake.tuples("SELECT c FROM {lake}.db.t WHERE id = 7") == [(shown,)]
    lake.sql("INSERT OVERWRITE {lake}.db.t PARTITION (c = NULL) SELECT 8")
    lake.sql(f"INSERT OVERWRITE {{lake}}.db.t PARTITION (c = {value}) SELECT 7 WHERE false")
    assert lake.tuples("SELECT id FROM {lake}.db.t ORDER BY id") == [(2,), (8,)]


@pytest.mark.long
def test_a_padded_partition_replaces_an_unpadded_one_of_another_writer(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, c CHAR(3)) PARTITIONED BY (c)")
    table = load_catalog(warehouse=str(lake.warehouse)).get_table("db.t")
    table.append(pa.table({"id": pa.array([1, 2], pa.int32()), "c": ["a", "ab"]}))
    lake.sql("INSERT OVERWRITE {lake}.db.t PARTITION (c = 'a') SELECT 7")
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(2, "ab "), (7, "a  ")]


def test_a_binary_partition_value_that_is_no_text_is_refused(lake: SparkLake) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, c BINARY) {BY_ANY_TYPE}")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, X'00ff')")
    for statement in ("INSERT INTO", "INSERT OVERWRITE"):
        with pytest.raises(Exception, match=r"binary column 'c'.*is no text.*dynamic"):
            lake.sql(statement + " {lake}.db.t PARTITION (c = X'00ff') SELECT 7")
    assert lake.tuples("SELECT * FROM {lake}.db.t") == [(1, b"\x00\xff")]


def test_an_option_of_the_write_chooses_the_replaced_partitions_or_is_refused(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, p STRING) PARTITIONED BY (p)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'a'), (2, 'b')")
    name = f"{lake.name}.db.t"
    rows = lake.spark.sql("SELECT 9 AS id, 'a' AS p")

    def write(**options: str) -> None:
        rows.write.mode("overwrite").options(**options).insertInto(name)

    refused = {"replaceWhere": "p = 'a'", "overwrite-mode": "dynamic", "partitionOverwriteMode": "all"}
    for option, value in refused.items():
        with pytest.raises(Exception, match=f"option '?{option}"):
            write(**{option: value})
    as_table = rows.write.format("interbed").mode("overwrite").partitionBy("p")
    with pytest.raises(Exception, match="saveAsTable in the mode overwrite replaces the whole table"):
        as_table.option("partitionOverwriteMode", "dynamic").saveAsTable(name)
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(1, "a"), (2, "b")]
    write(partitionOverwriteMode="dynamic")
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(2, "b"), (9, "a")]
    write(partitionOverwriteMode="static")
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(9, "a")]


def test_a_static_option_contradicts_a_dynamic_session(lake: SparkLake, dynamic: None) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, p STRING) PARTITIONED BY (p)")
    rows = lake.spark.sql("SELECT 9 AS id, 'a' AS p")
    with pytest.raises(Exception, match="partitionOverwriteMode = static contradicts"):
        rows.write.mode("overwrite").option("partitionOverwriteMode", "static").insertInto(f"{lake.name}.db.t")
