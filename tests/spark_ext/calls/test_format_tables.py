"""Format tables in Spark, in Hive and REST catalogs, and tables of Hive: created, read, appended and overwritten."""

import copy
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import interbed
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.table_parts import as_format_table
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.client.hive.test_foreign_partitions import PARQUET, PARQUET_INPUT
from tests.catalog.client.hive.test_format_tables import of_hive
from tests.spark_ext.conftest import SparkLake
from tests.support import shares
from tests.support.format_tables import data_files, rows_of
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


def test_tables_are_created_with_the_rows_of_a_query(lake: SparkLake, catalog: interbed.Catalog) -> None:
    rows = "SELECT id, concat('v', id) AS v, cast(id % 2 AS STRING) AS dt FROM range(6)"
    lake.sql(f"CREATE TABLE made USING csv PARTITIONED BY (dt) AS {rows}")
    lake.sql(f"CREATE TABLE IF NOT EXISTS other TBLPROPERTIES ('type' = 'format-table') AS {rows}")
    lake.sql(f"CREATE OR REPLACE TABLE third USING json AS {rows}")
    for name, file_format in (("made", "csv"), ("other", "parquet"), ("third", "json")):
        assert lake.tuples(f"SELECT id, v, dt FROM {name} ORDER BY id")[5] == (5, "v5", "1")
        table = _opened(lake, catalog, name)
        assert (table.file_format, table.scan().to_arrow().num_rows) == (file_format, 6)
    assert lake.tuples("SHOW PARTITIONS made") == [("dt=0",), ("dt=1",)]
    lake.sql(f"CREATE TABLE IF NOT EXISTS made USING csv AS {rows}")
    assert lake.tuples("SELECT count(*) FROM made") == [(6,)]


def test_a_table_whose_query_fails_is_dropped_again(lake: SparkLake, catalog: interbed.Catalog) -> None:
    with pytest.raises(Exception, match="would end the line"):
        lake.sql("CREATE TABLE failed USING csv AS SELECT 'two\\nlines' AS v")
    assert lake.tuples("SHOW TABLES LIKE 'failed'") == []
    lake.sql("CREATE TABLE failed USING csv AS SELECT 'one line' AS v")
    assert lake.tuples("SELECT v FROM failed") == [("one line",)]


def test_partitions_that_a_part_of_the_columns_names_are_dropped(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE two (id INT, p STRING, q INT) PARTITIONED BY (p, q) TBLPROPERTIES ('type' = 'format-table')")
    lake.sql("INSERT INTO two VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 1), (4, 'b', 2), (5, NULL, 2)")
    lake.sql("ALTER TABLE two DROP PARTITION (p = 'a')")
    assert lake.tuples("SELECT id FROM two ORDER BY id") == [(3,), (4,), (5,)]
    lake.sql("ALTER TABLE two DROP PARTITION (q = 1), PARTITION (p = NULL)")
    assert lake.tuples("SELECT id FROM two") == [(4,)]
    with pytest.raises(Exception, match="has no partition"):
        lake.sql("ALTER TABLE two DROP PARTITION (q = 7)")
    lake.sql("ALTER TABLE two DROP IF EXISTS PARTITION (q = 7)")
    assert lake.tuples("SELECT id FROM two") == [(4,)]


def test_what_a_format_table_does_not_take_is_refused_by_name(lake: SparkLake, catalog: interbed.Catalog) -> None:
    _create(lake, "r", "csv", partitioned=False)
    lake.sql("INSERT INTO r VALUES (1, 'a', 1, 'x')")
    replaced = "format table" if isinstance(catalog, HiveCatalog) else "replaces no schema together with its rows"
    for statement, message in (
        ("UPDATE r SET v = 'b'", "takes no UPDATE of single rows"),
        ("DELETE FROM r WHERE id = 1", "takes no DELETE of single rows"),
        ("MERGE INTO r USING (SELECT 1 AS id) s ON r.id = s.id WHEN MATCHED THEN DELETE", "MERGE of single rows"),
        ("SELECT * FROM r VERSION AS OF 1", "no older versions"),
        ("INSERT INTO r VALUES (2, 'two\nlines', 1, 'x')", "would end the line"),
        ("ALTER TABLE r ADD COLUMN w INT", "format table"),
        ("CREATE TABLE c (id INT DEFAULT 5) TBLPROPERTIES ('type' = 'format-table')", "'id' .* can't have a default"),
        (
            "REPLACE TABLE r TBLPROPERTIES ('type' = 'format-table') AS SELECT 1 AS id",
            "is not replaced by a format table",
        ),
        ("CREATE OR REPLACE TABLE r USING csv AS SELECT 1 AS id", "is not replaced by a format table"),
        ("CREATE OR REPLACE TABLE r AS SELECT 1 AS id", replaced),
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


only_hive = pytest.mark.parametrize("catalog", ["hive"], indirect=True)


class HiveTable:
    """A table `h` as Hive registers it, in the current database of the lake."""

    def __init__(self, lake: SparkLake, catalog: interbed.Catalog, location: Path, **described: Any) -> None:
        assert isinstance(catalog, HiveCatalog)
        self._lake, self._catalog, self.location = lake, catalog, location
        self.database = lake.spark.catalog.currentDatabase()
        location.mkdir()
        self._entry = of_hive(location, **described)
        self._entry.dbName = self.database
        catalog.client.create_table(self._entry)

    def register(self, value: str, place: Path, **changes: Any) -> Path:
        """Register a partition with changes of its storage descriptor or its SerDe, and return its directory."""
        place.mkdir(parents=True, exist_ok=True)
        sd = copy.deepcopy(self._entry.sd)
        sd.location = f"file:{place}"
        for name, change in changes.items():
            setattr(sd.serdeInfo if name in ("serializationLib", "parameters") else sd, name, change)
        part = ttypes.Partition(values=[value], dbName=self.database, tableName="h", sd=sd, parameters={})
        self._catalog.client.add_partitions(self.database, "h", [part], if_not_exists=False)
        return place

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows that Spark reads, after a comparison with those that Python reads."""
        found = sorted(self._lake.tuples("SELECT * FROM h"), key=repr)
        assert found == rows_of(_opened(self._lake, self._catalog, "h"))
        return found


def _write_ints(place: Path, number: int, name: str = "k") -> None:
    pq.write_table(pa.table({name: pa.array([number], pa.int32())}), place / "f")


TEXTS: tuple[tuple[dict[str, Any], bytes, list[tuple[Any, ...]], bytes], ...] = (
    ({}, b"1\x01x,y\n\\N\x01\\N\n", [(1, "x,y"), (None, None)], b"7\x01\\N\n"),
    (
        {
            "serde_parameters": {"field.delim": ";", "escape.delim": "\\", "serialization.null.format": "NIL"},
            "parameters": {"skip.header.line.count": "1"},
        },
        b"a;b\n1;x\\;y\n2;NIL\n",
        [(1, "x;y"), (2, None)],
        b"7;NIL\n",
    ),
    (
        {"serde": "org.apache.hive.hcatalog.data.JsonSerDe"},
        b'{"A": 1, "B": "x"}\n{"a": 2}\n',
        [(1, "x"), (2, None)],
        b"",
    ),
)


@only_hive
@pytest.mark.parametrize(("described", "data", "rows", "written"), TEXTS)
def test_text_files_of_hive_are_read_and_written_by_their_serde(
    lake: SparkLake,
    catalog: interbed.Catalog,
    tmp_path: Path,
    described: dict[str, Any],
    data: bytes,
    rows: list[tuple[Any, ...]],
    written: bytes,
) -> None:
    table = HiveTable(lake, catalog, tmp_path / "h", columns={"a": "int", "b": "string"}, **described)
    (table.location / "f").write_bytes(data)
    assert table.rows == sorted(rows, key=repr)
    assert lake.tuples("SELECT b FROM h WHERE a = 1") == [(rows[0][1],)]
    lake.sql("INSERT INTO h VALUES (7, NULL)")
    if written:
        found = next(path for path in table.location.iterdir() if path.name.startswith("data-"))
        assert found.read_bytes().endswith(written)
    assert table.rows == sorted([*rows, (7, None)], key=repr)
    lake.sql("INSERT OVERWRITE h VALUES (8, 'z')")
    assert table.rows == [(8, "z")]
    assert len(data_files(_opened(lake, catalog, "h"))) == 1


@only_hive
def test_quoted_files_of_hive_are_only_read(lake: SparkLake, catalog: interbed.Catalog, tmp_path: Path) -> None:
    serde = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
    table = HiveTable(lake, catalog, tmp_path / "h", columns={"a": "string", "b": "string"}, serde=serde)
    (table.location / "f").write_bytes(b'"a,b",""\n"c"\n')
    assert table.rows == [("a,b", ""), ("c", None)]
    for statement in ("INSERT INTO h VALUES ('x', 'y')", "INSERT OVERWRITE h VALUES ('x', 'y')", "TRUNCATE TABLE h"):
        with pytest.raises(Exception, match=rf"{table.database}\.h' is only read.*OpenCSVSerde"):
            lake.sql(statement)
    assert table.rows == [("a,b", ""), ("c", None)]


@only_hive
def test_partitions_of_hive_are_read_and_written_in_their_places(
    lake: SparkLake, catalog: interbed.Catalog, tmp_path: Path
) -> None:
    table = HiveTable(
        lake,
        catalog,
        tmp_path / "h",
        columns={"k": "int"},
        keys={"p": "int"},
        serde=PARQUET,
        input_format=PARQUET_INPUT,
    )
    elsewhere = table.register("2", tmp_path / "elsewhere")
    _write_ints(table.register("1", table.location / "p=1"), 1, "K")
    _write_ints(elsewhere, 2)
    (table.location / "p=3").mkdir()
    _write_ints(table.location / "p=3", 3)
    assert table.rows == [(1, 1), (2, 2)]
    assert lake.tuples("SELECT k FROM h WHERE k = 1") == [(1,)]
    lake.sql("INSERT INTO h VALUES (4, 2), (5, 7), (6, NULL)")
    assert table.rows == [(1, 1), (2, 2), (4, 2), (5, 7), (6, None)]
    assert len(list(elsewhere.glob("data-*"))) == 1
    lake.sql("INSERT OVERWRITE h PARTITION (p = 1) SELECT 8")
    assert table.rows == [(2, 2), (4, 2), (5, 7), (6, None), (8, 1)]
    # Two partitions with equal values, and a change of the rows of the value.
    _write_ints(table.register("02", tmp_path / "again"), 9)
    assert table.rows == [(2, 2), (4, 2), (5, 7), (6, None), (8, 1), (9, 2)]
    lake.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        lake.sql("INSERT OVERWRITE h VALUES (10, 2)")
    finally:
        lake.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert table.rows == [(10, 2), (5, 7), (6, None), (8, 1)]
    _write_ints(tmp_path / "again", 11)
    lake.sql("INSERT OVERWRITE h PARTITION (p = 2) SELECT 12")
    assert table.rows == [(12, 2), (5, 7), (6, None), (8, 1)]
    # Partitions with one directory are changed together.
    _write_ints(table.register("20", tmp_path / "both"), 13)
    table.register("21", tmp_path / "both")
    assert [row for row in table.rows if row[1] in (20, 21)] == [(13, 20), (13, 21)]
    for statement in ("INSERT INTO h VALUES (14, 20)", "INSERT OVERWRITE h PARTITION (p = 21) SELECT 14"):
        with pytest.raises(Exception, match=r"p=2\d can't be changed alone.*/both"):
            lake.sql(statement)
    assert [row for row in table.rows if row[1] in (20, 21)] == [(13, 20), (13, 21)]


@only_hive
def test_partitions_of_hive_with_a_serde_of_their_own_are_read_by_it_and_not_written(
    lake: SparkLake, catalog: interbed.Catalog, tmp_path: Path
) -> None:
    described: dict[str, Any] = {"columns": {"k": "int"}, "keys": {"p": "string"}}
    table = HiveTable(lake, catalog, tmp_path / "h", **described, serde_parameters={"field.delim": ","})
    (table.register("x", table.location / "p=x") / "f").write_bytes(b"1\n")
    own = table.register("y", table.location / "p=y", parameters={"serialization.null.format": "9"})
    (own / "f").write_bytes(b"2\n9\n")
    _write_ints(
        table.register("z", table.location / "p=z", serializationLib=PARQUET, inputFormat=PARQUET_INPUT), 3, "K"
    )
    json_place = table.register("w", tmp_path / "w", serializationLib="org.apache.hive.hcatalog.data.JsonSerDe")
    (json_place / "f").write_bytes(b'{"K": 4}\n')
    rows = [(1, "x"), (2, "y"), (3, "z"), (4, "w"), (None, "y")]
    assert table.rows == rows
    assert lake.tuples("SELECT k FROM h WHERE p = 'z' AND k = 3") == [(3,)]
    for value in "yzw":
        for statement in (
            f"INSERT INTO h VALUES (5, '{value}')",
            f"INSERT OVERWRITE h PARTITION (p = '{value}') SELECT 5",
        ):
            with pytest.raises(Exception, match=f"The partition p={value} at .*is only read"):
                lake.sql(statement)
    lake.sql("INSERT INTO h VALUES (5, 'x')")
    assert table.rows == sorted([*rows, (5, "x")], key=repr)
