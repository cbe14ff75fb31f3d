"""Format tables in Spark, in Hive and REST catalogs: created, read, appended and overwritten, by partitions."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import interbed
from interbed.catalog.client.table_parts import as_format_table
from tests.spark_ext.conftest import SparkLake
from tests.support import shares
from tests.support.format_tables import data_files
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.servers.paimon_rest import rest_options

FORMATS = ("csv", "json", "parquet", "orc", "avro") if shares.LONG else ("csv", "parquet")
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    directory = tmp_path_factory.mktemp("formats")
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory, "--http-port", "0") as running:
        yield running


@pytest.fixture(params=["hive", "rest"])
def catalog(request: pytest.FixtureRequest, server: MetastoreUnderTest) -> Iterator[interbed.Catalog]:
    """Open the catalog in Python."""
    hive = {"metastore": "hive", "uri": server.uri}
    options: dict[str, Any] = hive if request.param == "hive" else rest_options(f"{server.http}/paimon", "hive")
    with interbed.load_catalog("formats", **options) as opened:
        yield opened


@pytest.fixture
def lake(spark: SparkSession, catalog: interbed.Catalog, tmp_path: Path) -> Iterator[SparkLake]:
    """The catalog in Spark, with a database of its own as the current one."""
    wanted = ("metastore", "uri", "warehouse", "token.provider", "token")
    given = ", ".join(f"'{k}' = '{v}'" for k, v in catalog.options.raw.items() if k in wanted)
    lake = SparkLake(spark, "formats", tmp_path)
    lake.sql(f"CREATE CATALOG {{lake}} WITH ('type' = 'paimon', {given})")
    database = f"db{next(_NUMBERS)}"
    lake.sql(f"CREATE DATABASE {{lake}}.{database}")
    lake.sql(f"USE {{lake}}.{database}")
    yield lake
    lake.sql("USE spark_catalog")
    lake.sql(f"DROP DATABASE {{lake}}.{database} CASCADE")
    lake.sql("DROP CATALOG {lake}")


def _opened(lake: SparkLake, catalog: interbed.Catalog, name: str) -> interbed.FormatTable:
    table = as_format_table(catalog.get_table(f"{lake.spark.catalog.currentDatabase()}.{name}"))
    assert table is not None
    return table


def _create(lake: SparkLake, name: str, file_format: str, partitioned: bool = True) -> None:
    of = "PARTITIONED BY (dt)" if partitioned else ""
    lake.sql(
        f"CREATE TABLE {name} (id BIGINT, v STRING, d DECIMAL(9, 2), dt STRING) {of} "
        f"TBLPROPERTIES ('type' = 'format-table', 'file.format' = '{file_format}')"
    )


@pytest.mark.parametrize("file_format", FORMATS)
def test_rows_are_appended_read_and_overwritten(lake: SparkLake, catalog: interbed.Catalog, file_format: str) -> None:
    _create(lake, "t", file_format)
    lake.sql("INSERT INTO t VALUES (1, 'a', 1.5, 'x'), (2, NULL, 2.25, 'y'), (3, 'c', NULL, 'x')")
    rows = [(1, "a", "1.50", "x"), (2, None, "2.25", "y"), (3, "c", None, "x")]
    shown = "SELECT id, v, cast(d AS STRING), dt FROM t ORDER BY id"
    assert lake.tuples(shown) == rows
    table = _opened(lake, catalog, "t")
    assert sorted(row["id"] for row in table.scan().to_arrow().to_pylist()) == [1, 2, 3]
    assert all("_temporary" not in name for name in data_files(table))
    table.append([{"id": 4, "v": "d", "d": None, "dt": "z"}])
    assert lake.tuples("SELECT id FROM t WHERE dt > 'x' AND id > 2") == [(4,)]
    assert lake.tuples("SELECT count(*), max(d) FROM t WHERE dt = 'x'")[0][0] == 2
    assert lake.tuples("SELECT count(*) FROM t") == [(4,)]
    lake.sql("INSERT OVERWRITE t PARTITION (dt = 'x') SELECT id + 10, v, d FROM t WHERE dt = 'x'")
    assert lake.tuples("SELECT id, dt FROM t ORDER BY id") == [(2, "y"), (4, "z"), (11, "x"), (13, "x")]
    lake.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        lake.sql("INSERT OVERWRITE t SELECT 5, 'e', 0, 'y'")
    finally:
        lake.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert lake.tuples("SELECT id, dt FROM t ORDER BY id") == [(4, "z"), (5, "y"), (11, "x"), (13, "x")]
    lake.sql("INSERT OVERWRITE t VALUES (6, 'f', 0, 'w')")
    assert lake.tuples("SELECT id, dt FROM t ORDER BY id") == [(6, "w")]
    assert len(data_files(table)) == 1


def test_partitions_are_listed_added_and_dropped(lake: SparkLake, catalog: interbed.Catalog) -> None:
    _create(lake, "p", "parquet")
    lake.sql("INSERT INTO p VALUES (1, 'a', 1, 'x'), (2, 'b', 2, 'y'), (3, 'c', 3, 'z')")
    assert lake.tuples("SHOW PARTITIONS p") == [("dt=x",), ("dt=y",), ("dt=z",)]
    lake.sql("ALTER TABLE p ADD PARTITION (dt = 'new')")
    lake.sql("ALTER TABLE p DROP PARTITION (dt = 'x')")
    lake.sql("TRUNCATE TABLE p PARTITION (dt = 'y')")
    assert lake.tuples("SHOW PARTITIONS p") == [("dt=new",), ("dt=y",), ("dt=z",)]
    assert lake.tuples("SELECT id FROM p") == [(3,)]
    lake.sql("DELETE FROM p WHERE dt = 'z'")
    assert lake.tuples("SELECT id FROM p") == []
    lake.sql("INSERT INTO p VALUES (4, 'a', 1, 'x')")
    lake.sql("TRUNCATE TABLE p")
    assert lake.tuples("SELECT id FROM p") == []
    lake.sql("DROP TABLE p")
    assert lake.tuples("SHOW TABLES") == []


def test_what_a_format_table_does_not_take_is_refused_by_name(lake: SparkLake, catalog: interbed.Catalog) -> None:
    _create(lake, "r", "csv", partitioned=False)
    lake.sql("INSERT INTO r VALUES (1, 'a', 1, 'x')")
    for statement, message in (
        ("UPDATE r SET v = 'b'", "takes no UPDATE of single rows"),
        ("DELETE FROM r WHERE id = 1", "takes no DELETE of single rows"),
        ("MERGE INTO r USING (SELECT 1 AS id) s ON r.id = s.id WHEN MATCHED THEN DELETE", "MERGE of single rows"),
        ("SELECT * FROM r VERSION AS OF 1", "no older versions"),
        ("INSERT INTO r VALUES (2, 'two\nlines', 1, 'x')", "would end the line"),
        ("ALTER TABLE r ADD COLUMN w INT", "format table"),
        (
            "CREATE TABLE c TBLPROPERTIES ('type' = 'format-table') AS SELECT 1 AS id",
            "not created together with its rows",
        ),
    ):
        with pytest.raises(Exception, match=message):
            lake.sql(statement)
    with pytest.raises(Exception, match=r"(?i)column|cannot"):
        lake.frame("SELECT 2 AS id, 'b' AS v, 0 AS d, 'x' AS dt, 1 AS more").writeTo("r").append()
    assert lake.tuples("SELECT id, v FROM r") == [(1, "a")]
    assert [name for name in data_files(_opened(lake, catalog, "r")) if "_temporary" in name] == []


def test_frames_are_written_by_many_tasks(lake: SparkLake, catalog: interbed.Catalog) -> None:
    _create(lake, "m", "parquet")
    frame = lake.spark.range(1000).selectExpr(
        "id", "cast(id AS STRING) AS v", "cast(id AS DECIMAL(9, 2)) AS d", "cast(id % 3 AS STRING) AS dt"
    )
    frame.repartition(4).writeTo("m").append()
    assert lake.tuples("SELECT count(*), sum(id), count(DISTINCT dt) FROM m") == [(1000, 499500, 3)]
    joined = "SELECT count(*) FROM m a JOIN m b ON a.id = b.id WHERE a.dt = '1' AND b.v LIKE '9%'"
    assert lake.tuples(joined)[0][0] == len([n for n in range(1000) if n % 3 == 1 and str(n).startswith("9")])
    left = Path(_opened(lake, catalog, "m").location) / "_temporary" / ".tmp.0b0f0c9e-6a4b-4b0e-9c56-2f0f3d0a1b2c"
    left.write_text("left")
    os.utime(left, (0, 0))
    removed = [tuple(row) for row in lake.sql("CALL {lake}.sys.remove_orphan_files('m')")]
    assert (removed, left.exists()) == ([(1, 4)], False)
    assert lake.tuples(f"CALL {{lake}}.sys.remove_orphan_files('{lake.spark.catalog.currentDatabase()}.*')") == [(0, 0)]
