"""Spark's own Parquet reader on files whose rows are marked by deletion vectors, and on damaged files."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from interbed import load_catalog
from tests.spark_ext.conftest import SparkLake
from tests.support.shares import LONG

QUERIES = [
    "SELECT * FROM {t}",
    "SELECT part.b, m['k'], part.a FROM {t}",
    "SELECT sum(1) FROM {t}",
    "SELECT id, name FROM {t} WHERE id > 9600",
    "SELECT id FROM {t} WHERE name IS NULL AND n < 300",
]


def _check(lake: SparkLake, table: str, rows: int) -> None:
    """Assert that both readers return the same rows, of the expected number."""
    frames = {}
    for native in ("true", "false"):
        lake.spark.read.option("spark.native-read", native).table(table).createOrReplaceTempView(f"read_{native}")
    for query in QUERIES[:: 1 if LONG else 2]:
        for native in ("true", "false"):
            found = lake.spark.sql(query.format(t=f"read_{native}")).collect()
            frames[native] = sorted(map(str, found))
        assert frames["true"] == frames["false"], query
        assert query != QUERIES[0] or len(frames["true"]) == rows


@pytest.mark.longer
def test_sparks_own_reader_skips_deleted_rows(lake: SparkLake) -> None:
    table = f"{lake.name}.db.t"
    lake.sql(
        f"CREATE TABLE {table} (id BIGINT, name STRING, n DECIMAL(20, 2), part STRUCT<a: INT, b: ARRAY<BIGINT>>, "
        "m MAP<STRING, BIGINT>) TBLPROPERTIES ('deletion-vectors.enabled' = 'true', 'parquet.block.size' = '65536')"
    )
    for start in (0, 10_000):
        lake.sql(
            f"INSERT INTO {table} SELECT id, IF(id % 7 = 0, NULL, concat('n', id)), CAST(id / 4 AS DECIMAL(20, 2)), "
            "IF(id % 11 = 0, NULL, named_struct('a', CAST(id % 5 AS INT), 'b', array(id, id + 1))), map('k', id) "
            f"FROM range({start}, {start + 10_000}, 1, 1)"
        )
    lake.sql(f"DELETE FROM {table} WHERE id < 10000 AND (id % 3 = 0 OR id BETWEEN 200 AND 9500)")

    assert "native=1" in lake.plan(f"SELECT * FROM {table}")
    _check(lake, table, 10_000 + sum(1 for i in range(10_000) if i % 3 and not 200 <= i <= 9500))


@pytest.mark.long
def test_compacted_primary_key_tables_are_read_by_sparks_reader(lake: SparkLake) -> None:
    table = f"{lake.name}.db.t"
    lake.sql(
        f"CREATE TABLE {table} (id BIGINT, name STRING, n INT, part STRUCT<a: INT, b: INT>, m MAP<STRING, INT>) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'deletion-vectors.enabled' = 'true')"
    )
    made = "CAST(id AS STRING), 1, named_struct('a', 1, 'b', NULL), map('k', 1) FROM range"
    lake.sql(f"INSERT INTO {table} SELECT id, {made}(10000)")
    stored = load_catalog(warehouse=str(lake.warehouse)).get_table("db.t")
    stored.compact(full=True)
    lake.sql(f"INSERT INTO {table} SELECT id, {made}(5, 15)")
    # The writer's compaction marks older rows in their files.
    lake.sql(f"DELETE FROM {table} WHERE id IN (3, 9000)")

    deleted = [d for split in stored.new_scan().plan().splits for d in split.deletion_files]
    assert deleted
    assert "native=0" not in lake.plan(f"SELECT * FROM {table}")
    _check(lake, table, 9998)


def test_a_damaged_page_is_detected(lake: SparkLake) -> None:
    table = f"{lake.name}.db.t"
    lake.sql(f"CREATE TABLE {table} (id BIGINT, name STRING) TBLPROPERTIES ('file.compression' = 'none')")
    lake.sql(f"INSERT INTO {table} SELECT id, concat('name-', id * 7919 % 1000003) FROM range(0, 5000, 1, 1)")
    (file,) = Path(load_catalog(warehouse=str(lake.warehouse)).get_table("db.t").location).glob("bucket-*/*.parquet")
    content = bytearray(file.read_bytes())
    content[content.index(b"name-", 2_000) + 6] ^= 1
    file.unlink()
    file.write_bytes(content)
    assert "native=1" in lake.plan(f"SELECT * FROM {table}")
    for native in ("true", "false"):
        with pytest.raises((PySparkException, Py4JJavaError), match="CRC checksum verification failed"):
            lake.spark.read.option("spark.native-read", native).table(table).collect()
