"""Spark 4.1 with Hive support keeps partitions on the server, with its bundled client and with Hive 4's: written,
filtered by keys of many types, added, dropped, renamed, moved, and recovered from the file system.
"""

import datetime
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.peers.spark_hive.conftest import SparkOnMetastore
from tests.support.peers.process import PeerError
from tests.support.servers.metastore import foreign_client
from tests.support.shares import LONG


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredRow:
    """A row of the filtered table: its number and its keys."""

    id: int
    s: str | None
    n: int
    d: datetime.date
    big: int


DAY = datetime.date.fromisoformat

ROWS = (
    FilteredRow(id=1, s="a", n=1, d=DAY("2024-01-01"), big=2**40),
    FilteredRow(id=2, s="b c", n=2, d=DAY("2024-01-02"), big=-1),
    FilteredRow(id=3, s="a/b=c%", n=10, d=DAY("2024-01-31"), big=0),
    FilteredRow(id=4, s=None, n=9, d=DAY("2024-02-01"), big=7),
    FilteredRow(id=5, s="it's", n=-5, d=DAY("2023-12-31"), big=7),
    FilteredRow(id=6, s='say "hi"', n=0, d=DAY("1969-12-31"), big=2**62),
    FilteredRow(id=7, s="München", n=100, d=DAY("2024-02-29"), big=7),
)

FILTERS: tuple[tuple[str, Callable[[FilteredRow], bool]], ...] = (
    ("s = 'a'", lambda row: row.s == "a"),
    ("'a' = s", lambda row: row.s == "a"),
    ("s <> 'a'", lambda row: row.s is not None and row.s != "a"),
    ("s > 'a' AND s < 'c'", lambda row: row.s is not None and "a" < row.s < "c"),
    ("s IN ('a', 'b c', 'x')", lambda row: row.s in ("a", "b c")),
    ("s NOT IN ('a', 'b c')", lambda row: row.s is not None and row.s not in ("a", "b c")),
    ("s LIKE 'a%'", lambda row: row.s is not None and row.s.startswith("a")),
    ("s LIKE '%c%'", lambda row: row.s is not None and "c" in row.s),
    ("s = 'a/b=c%'", lambda row: row.s == "a/b=c%"),
    ('s = "it\'s"', lambda row: row.s == "it's"),
    ("s = 'say \"hi\"'", lambda row: row.s == 'say "hi"'),
    ("s = 'München'", lambda row: row.s == "München"),
    ("s IS NULL", lambda row: row.s is None),
    ("s IS NOT NULL", lambda row: row.s is not None),
    ("s <=> NULL OR s = 'a'", lambda row: row.s in (None, "a")),
    ("n = 10", lambda row: row.n == 10),
    ("n = -5", lambda row: row.n == -5),
    ("n > 2", lambda row: row.n > 2),
    ("n >= 2 AND n <= 10", lambda row: 2 <= row.n <= 10),
    ("n BETWEEN -5 AND 1", lambda row: -5 <= row.n <= 1),
    ("n IN (1, 9, 100)", lambda row: row.n in (1, 9, 100)),
    ("n NOT IN (1, 9)", lambda row: row.n not in (1, 9)),
    ("n <> 9", lambda row: row.n != 9),
    ("NOT (n = 1 OR n = 2)", lambda row: row.n not in (1, 2)),
    ("n % 2 = 0", lambda row: row.n % 2 == 0),
    ("big > 2147483648", lambda row: row.big > 2147483648),
    ("big = 7 AND n > 0", lambda row: row.big == 7 and row.n > 0),
    ("d = DATE'2024-01-02'", lambda row: row.d == DAY("2024-01-02")),
    ("d = '2024-01-02'", lambda row: row.d == DAY("2024-01-02")),
    ("d >= DATE'2024-01-02' AND d < DATE'2024-02-01'", lambda row: DAY("2024-01-02") <= row.d < DAY("2024-02-01")),
    ("d < DATE'1970-01-01'", lambda row: row.d < DAY("1970-01-01")),
    ("d IN (DATE'2024-01-01', DATE'2024-02-29')", lambda row: row.d in (DAY("2024-01-01"), DAY("2024-02-29"))),
    ("d NOT IN (DATE'2024-01-01')", lambda row: row.d != DAY("2024-01-01")),
    ("d <> DATE'2024-01-01'", lambda row: row.d != DAY("2024-01-01")),
    ("year(d) = 2024 AND month(d) = 2", lambda row: (row.d.year, row.d.month) == (2024, 2)),
    ("(s = 'a' OR n = 9) AND d > '2024-01-15'", lambda row: row.n == 9),
    ("s = 'a' OR id = 5", lambda row: row.s == "a" or row.id == 5),
    ("s = 'nowhere'", lambda row: False),
)


def literal(value: str | int | datetime.date | None) -> str:
    """Return the value as an SQL literal."""
    match value:
        case None:
            return "NULL"
        case str():
            return "'" + value.replace("'", "\\'") + "'"
        case datetime.date():
            return f"DATE'{value}'"
        case _:
            return str(value)


@pytest.mark.long
def test_filters_on_keys_of_many_types_select_the_right_rows(spark: SparkOnMetastore, database: str) -> None:
    spark.run("CREATE TABLE keyed (id INT) PARTITIONED BY (s STRING, n INT, d DATE, big BIGINT) STORED AS PARQUET")
    values = ", ".join(f"({row.id}, {literal(row.s)}, {row.n}, {literal(row.d)}, {row.big})" for row in ROWS)
    spark.run(f"INSERT INTO keyed VALUES {values}")
    assert len(spark.run("SHOW PARTITIONS keyed")) == len(ROWS)
    for condition, holds in FILTERS if LONG else FILTERS[::2]:
        expected = [str(row.id) for row in ROWS if holds(row)]
        assert spark.column(f"SELECT id FROM keyed WHERE {condition} ORDER BY id") == expected, condition
    assert spark.column("SHOW PARTITIONS keyed PARTITION (s='a/b=c%')") == ["s=a%2Fb%3Dc%25/n=10/d=2024-01-31/big=0"]
    assert spark.column("SHOW PARTITIONS keyed PARTITION (n=9)") == [
        "s=__HIVE_DEFAULT_PARTITION__/n=9/d=2024-02-01/big=7"
    ]


def test_inserts_create_partitions_and_overwrites_replace_them(spark: SparkOnMetastore, database: str) -> None:
    spark.run("CREATE TABLE days (id INT) PARTITIONED BY (dt STRING, n INT) STORED AS PARQUET")
    spark.run("INSERT INTO days VALUES (1, '2024-01-01', 1), (2, '2024-01-02', 2), (3, '2024-01-02', 3)")
    spark.run("INSERT INTO days PARTITION (dt='2024-01-03', n=4) VALUES (4), (5)")
    spark.run("INSERT INTO days PARTITION (dt='2024-01-03', n) VALUES (6, 4), (7, 5)")
    assert spark.column("SHOW PARTITIONS days") == [
        "dt=2024-01-01/n=1",
        "dt=2024-01-02/n=2",
        "dt=2024-01-02/n=3",
        "dt=2024-01-03/n=4",
        "dt=2024-01-03/n=5",
    ]
    assert spark.column("SELECT id FROM days WHERE dt = '2024-01-03' AND n = 4 ORDER BY id") == ["4", "5", "6"]
    spark.run("INSERT OVERWRITE TABLE days PARTITION (dt='2024-01-03', n=4) VALUES (8)")
    spark.run("INSERT OVERWRITE TABLE days PARTITION (dt, n) VALUES (9, '2024-01-01', 1)")
    assert spark.column("SELECT id FROM days ORDER BY id") == ["2", "3", "7", "8", "9"]
    spark.run("TRUNCATE TABLE days PARTITION (dt='2024-01-02')")
    assert spark.column("SELECT id FROM days ORDER BY id") == ["7", "8", "9"]
    spark.run("TRUNCATE TABLE days")
    assert spark.run("SELECT * FROM days") == []
    assert len(spark.run("SHOW PARTITIONS days")) == 5


def test_partitions_are_added_dropped_renamed_and_moved(spark: SparkOnMetastore, database: str, tmp_path: Path) -> None:
    spark.run("CREATE TABLE days (id INT) PARTITIONED BY (dt STRING, n INT) STORED AS PARQUET")
    spark.run(
        f"ALTER TABLE days ADD PARTITION (dt='a', n=1) PARTITION (dt='b', n=2) LOCATION 'file:{tmp_path}/b' "
        "PARTITION (dt='c', n=3)"
    )
    spark.run("ALTER TABLE days ADD IF NOT EXISTS PARTITION (dt='a', n=1)")
    with pytest.raises(PeerError, match="ALREADY_EXIST"):
        spark.run("ALTER TABLE days ADD PARTITION (dt='a', n=1)")
    spark.run("INSERT INTO days VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    assert list((tmp_path / "b").glob("*part-*"))
    assert spark.described("EXTENDED days PARTITION (dt='b', n=2)")["Partition Values"] == "[dt=b, n=2]"
    spark.run("ALTER TABLE days PARTITION (dt='a', n=1) RENAME TO PARTITION (dt='z', n=26)")
    assert spark.column("SELECT id FROM days WHERE dt = 'z' AND n = 26") == ["1"]
    with pytest.raises(PeerError, match="ALREADY_EXIST"):
        spark.run("ALTER TABLE days PARTITION (dt='c', n=3) RENAME TO PARTITION (dt='z', n=26)")
    shutil.copytree(tmp_path / "b", tmp_path / "other")
    spark.run(f"ALTER TABLE days PARTITION (dt='c', n=3) SET LOCATION 'file:{tmp_path}/other'")
    assert spark.column("SELECT id FROM days WHERE dt = 'c'") == ["2"]
    spark.run("ALTER TABLE days DROP PARTITION (dt='z')")
    spark.run("ALTER TABLE days DROP IF EXISTS PARTITION (dt='z'), PARTITION (dt='b', n=2)")
    with pytest.raises(PeerError, match=r"PARTITIONS?_NOT_FOUND|No partition"):
        spark.run("ALTER TABLE days DROP PARTITION (dt='z', n=26)")
    assert spark.column("SHOW PARTITIONS days") == ["dt=c/n=3"]
    spark.run("ALTER TABLE days RENAME TO nights")
    spark.run("INSERT INTO nights VALUES (5, 'c', 3), (6, 'd', 4)")
    assert spark.column("SELECT id FROM nights ORDER BY id") == ["2", "5", "6"]
    with foreign_client(spark.metastore.port) as client:
        partition = client.get_partition_by_name(database, "nights", "dt=d/n=4")
    assert partition.sd.location == f"file:{spark.metastore.warehouse}/{database}.db/nights/dt=d/n=4"


@pytest.mark.long
def test_msck_repair_adds_found_directories_and_drops_missing_ones(
    spark: SparkOnMetastore, database: str, tmp_path: Path
) -> None:
    files = tmp_path / "found"
    spark.run(
        f"CREATE EXTERNAL TABLE found (id INT) PARTITIONED BY (k STRING) STORED AS PARQUET LOCATION 'file:{files}'"
    )
    spark.run("INSERT INTO found VALUES (1, 'a'), (2, 'b')")
    shutil.copytree(files / "k=a", files / "k=x%2Fy")
    shutil.copytree(files / "k=a", files / "k=c")
    spark.run("MSCK REPAIR TABLE found")
    assert spark.column("SHOW PARTITIONS found") == ["k=a", "k=b", "k=c", "k=x%2Fy"]
    assert spark.column("SELECT id FROM found WHERE k = 'x/y'") == ["1"]
    shutil.rmtree(files / "k=b")
    spark.run("MSCK REPAIR TABLE found DROP PARTITIONS")
    assert spark.column("SHOW PARTITIONS found") == ["k=a", "k=c", "k=x%2Fy"]
    shutil.rmtree(files / "k=c")
    shutil.copytree(files / "k=a", files / "k=d")
    spark.run("MSCK REPAIR TABLE found SYNC PARTITIONS")
    assert spark.column("SHOW PARTITIONS found") == ["k=a", "k=d", "k=x%2Fy"]
    spark.run("ALTER TABLE found RECOVER PARTITIONS")


@pytest.mark.long
def test_tables_of_a_provider_also_keep_their_partitions(spark: SparkOnMetastore, database: str) -> None:
    spark.run("CREATE TABLE mine (Id INT, kind STRING, d DATE) USING parquet PARTITIONED BY (kind, d)")
    spark.run("INSERT INTO mine VALUES (1, 'a', DATE'2024-01-01'), (2, 'b', DATE'2024-01-02'), (3, NULL, NULL)")
    assert spark.column("SELECT id FROM mine WHERE KIND = 'a'") == ["1"]
    assert spark.column("SELECT id FROM mine WHERE d > DATE'2024-01-01'") == ["2"]
    assert spark.column("SELECT id FROM mine WHERE kind IS NULL AND d IS NULL") == ["3"]
    spark.run("ALTER TABLE mine DROP PARTITION (kind='a')")
    spark.run("ALTER TABLE mine ADD COLUMNS (more STRING)")
    assert spark.run("SELECT id, more, kind FROM mine WHERE kind IS NOT NULL") == [["2", None, "b"]]
    assert len(spark.run("SHOW PARTITIONS mine")) == 2


@pytest.mark.long
def test_hundreds_of_partitions_are_written_at_once(spark: SparkOnMetastore, database: str) -> None:
    spark.run("CREATE TABLE many (id BIGINT) PARTITIONED BY (k BIGINT) STORED AS PARQUET")
    spark.run("ALTER TABLE many ADD " + " ".join(f"PARTITION (k={number})" for number in range(500)))
    assert len(spark.run("SHOW PARTITIONS many")) == 500
    spark.run("INSERT INTO many VALUES (1, 499), (2, 500)")
    assert spark.column("SELECT id FROM many WHERE k >= 499 ORDER BY id") == ["1", "2"]
    assert spark.run("SHOW PARTITIONS many PARTITION (k=77)") == [["k=77"]]


def test_the_server_answered_all_calls_of_spark_without_failures(spark: SparkOnMetastore) -> None:
    log = (spark.metastore.warehouse.parent / "server.log").read_text()
    assert "not served" not in log
    assert "Traceback" not in log
