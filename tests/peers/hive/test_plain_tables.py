"""Hive's own tables beside the lake: the operations of a platform on a metastore that it shares with interbed."""

import datetime
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import interbed
from interbed.catalog.client.errors import NotAnInterbedTableError
from tests.support.peers.hive import HiveServer2
from tests.support.peers.process import PeerError
from tests.support.servers.metastore import MetastoreUnderTest
from tests.support.shares import each_run


@pytest.fixture
def database(hive: HiveServer2, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database for one test, which is the current one of the session."""
    name = request.node.name.partition("[")[0].removeprefix("test_")[:40]
    hive.run(f"CREATE DATABASE {name}")
    hive.run(f"USE {name}")
    yield name
    hive.run("USE default")
    hive.run(f"DROP DATABASE {name} CASCADE")


def test_databases_are_created_described_changed_and_dropped(hive: HiveServer2, metastore: MetastoreUnderTest) -> None:
    hive.run("CREATE DATABASE plain COMMENT 'of hive' WITH DBPROPERTIES ('k'='v')")
    with pytest.raises(PeerError, match="plain already exists"):
        hive.run("CREATE DATABASE plain")
    hive.run("ALTER DATABASE plain SET DBPROPERTIES ('k'='w', 'l'='m')")
    hive.run("ALTER DATABASE plain SET OWNER USER bob")
    described = hive.run("DESCRIBE DATABASE EXTENDED plain")
    assert described.column("db_name") == ["plain"]
    assert described.column("comment") == ["of hive"]
    assert described.column("location") == [f"file:{metastore.warehouse}/plain.db"]
    assert described.column("owner_name") == ["bob"]
    assert described.column("parameters") == ["{k=w, l=m}"]
    hive.run("CREATE TABLE plain.t (id INT)")
    with pytest.raises(PeerError, match="is not empty"):
        hive.run("DROP DATABASE plain")
    hive.run("DROP DATABASE plain CASCADE")
    assert hive.run("SHOW DATABASES LIKE 'plain'").rows == []
    assert not (metastore.warehouse / "plain.db").exists()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "file_format", each_run(["ORC", "PARQUET", "TEXTFILE", "AVRO"], lambda name: name in ("PARQUET", "TEXTFILE"))
)
def test_rows_of_every_format_are_read_back(hive: HiveServer2, database: str, file_format: str) -> None:
    hive.run(
        "CREATE TABLE t (b BOOLEAN, i INT, l BIGINT, d DOUBLE, n DECIMAL(10,2), s STRING, v VARCHAR(5), dt DATE,"
        f" ts TIMESTAMP, a ARRAY<INT>, m MAP<STRING,INT>, r STRUCT<x:INT,y:STRING>) STORED AS {file_format}"
    )
    hive.run(
        "INSERT INTO t SELECT true, 1, 9223372036854775807, 0.5, 1.25, 'ü', 'abc', DATE '2024-02-29',"
        " TIMESTAMP '2024-02-29 12:34:56.789', array(1, 2), map('k', 1), named_struct('x', 1, 'y', 'z')"
    )
    full = ["true", "1", "9223372036854775807", "0.5", "1.25", "ü", "abc", "2024-02-29", "2024-02-29 12:34:56.789"]
    assert hive.run("SELECT * FROM t").rows == [[*full, "[1,2]", '{"k":1}', '{"x":1,"y":"z"}']]
    assert hive.run("SELECT count(*), max(n) FROM t").rows == [["1", "1.25"]]


@pytest.mark.long
def test_partitions_are_written_shown_renamed_and_found(
    hive: HiveServer2, database: str, metastore: MetastoreUnderTest
) -> None:
    hive.run("CREATE TABLE t (id INT, amount DECIMAL(10,2)) PARTITIONED BY (dt STRING, h INT) STORED AS ORC")
    hive.run("INSERT INTO t PARTITION (dt='2024-01-01', h=1) VALUES (1, 1.5), (2, 2.5)")
    hive.run("SET hive.exec.dynamic.partition.mode=nonstrict")
    hive.run(
        "INSERT INTO t PARTITION (dt, h) VALUES (3, 3.5, '2024-01-02', 1), (4, 4.5, '2024-01-02', 2),"
        " (5, NULL, 'a b/c=d', 3), (6, NULL, 'q', NULL)"
    )
    names = ["dt=2024-01-01/h=1", "dt=2024-01-02/h=1", "dt=2024-01-02/h=2", "dt=q/h=__HIVE_DEFAULT_PARTITION__"]
    odd = "dt=a b%2Fc%3Dd/h=3"
    assert sorted(hive.run("SHOW PARTITIONS t").column("partition"), key=str) == sorted([*names, odd])
    assert (metastore.warehouse / f"{database}.db" / "t" / odd).is_dir()
    assert hive.run("SHOW PARTITIONS t PARTITION (dt='2024-01-02')").column("partition") == names[1:3]
    conditions = {
        "dt='2024-01-02' AND h>1": ["4"],
        "dt>'2024-01-01' AND h<3": ["3", "4"],
        "dt IN ('2024-01-01', 'a b/c=d')": ["1", "2", "5"],
        "h IS NULL": ["6"],
        "h BETWEEN 2 AND 3 OR amount = 1.5": ["1", "4", "5"],
        "dt LIKE '2024%' AND NOT h = 1": ["4"],
        "upper(dt) = 'A B/C=D'": ["5"],
    }
    for condition, ids in conditions.items():
        assert sorted(hive.run(f"SELECT id FROM t WHERE {condition}").column("id"), key=str) == ids, condition
    grouped = hive.run("SELECT dt, count(*), sum(amount) FROM t WHERE dt LIKE '2024%' GROUP BY dt ORDER BY dt")
    assert grouped.rows == [["2024-01-01", "2", "4.00"], ["2024-01-02", "2", "8.00"]]
    hive.run("ALTER TABLE t ADD IF NOT EXISTS PARTITION (dt='x', h=9) PARTITION (dt='y', h=9)")
    with pytest.raises(PeerError, match=r"(?i)already exists"):
        hive.run("ALTER TABLE t ADD PARTITION (dt='y', h=9)")
    hive.run("ALTER TABLE t PARTITION (dt='2024-01-02', h=2) RENAME TO PARTITION (dt='z', h=10)")
    assert hive.run("SELECT id FROM t WHERE dt='z'").rows == [["4"]]
    assert (metastore.warehouse / f"{database}.db" / "t" / "dt=z" / "h=10").is_dir()
    described = {
        (row[0] or "").strip(): row[1] for row in hive.run("DESCRIBE FORMATTED t PARTITION (dt='z', h=10)").rows
    }
    assert (described["Partition Value:"] or "").strip() == "[z, 10]"
    assert (described["Location:"] or "").strip() == f"file:{metastore.warehouse}/{database}.db/t/dt=z/h=10"


@pytest.mark.long
def test_partitions_are_dropped_by_conditions(hive: HiveServer2, database: str, metastore: MetastoreUnderTest) -> None:
    hive.run("CREATE TABLE t (id INT) PARTITIONED BY (name STRING, number INT, day DATE)")

    def left(*conditions: str) -> list[str | None]:
        for condition in conditions:
            hive.run(f"ALTER TABLE t DROP PARTITION ({condition})")
        return [str(name).partition("/")[0] for name in hive.run("SHOW PARTITIONS t").column("partition")]

    added = [
        f"PARTITION (name='{name}', number={number}, day='2024-01-0{number}')"
        for number, name in enumerate("abcdef", 1)
    ]
    hive.run(f"ALTER TABLE t ADD {' '.join(added)}")
    assert left("name='a'") == ["name=b", "name=c", "name=d", "name=e", "name=f"]
    assert left("number<3", "day>DATE '2024-01-05'") == ["name=c", "name=d", "name=e"]
    assert left("name='c', number=4") == ["name=c", "name=d", "name=e"]
    assert left("name='c', number=3, day='2024-01-03'") == ["name=d", "name=e"]
    assert left("name='nobody'") == ["name=d", "name=e"]
    assert left("name>='d'") == []
    assert list((metastore.warehouse / f"{database}.db" / "t").rglob("day=*")) == []


@pytest.mark.long
def test_statistics_are_gathered_kept_and_shown(hive: HiveServer2, database: str) -> None:
    hive.run("CREATE TABLE t (id INT, name STRING, amount DOUBLE) STORED AS ORC")
    hive.run("INSERT INTO t VALUES (1, 'x', 0.5), (2, 'longer', NULL), (3, 'y', 2.5)")
    # Gathered by the INSERT; ANALYZE computes the same.
    for _ in range(2):
        column = {row[0]: row[1] for row in hive.run("DESCRIBE FORMATTED t id").rows}
        assert (column["min"], column["max"], column["num_nulls"], column["distinct_count"]) == ("1", "3", "0", "3")
        column = {row[0]: row[1] for row in hive.run("DESCRIBE FORMATTED t name").rows}
        assert (column["max_col_len"], column["num_nulls"], column["distinct_count"]) == ("6", "0", "3")
        column = {row[0]: row[1] for row in hive.run("DESCRIBE FORMATTED t amount").rows}
        assert (column["min"], column["max"], column["num_nulls"]) == ("0.5", "2.5", "1")
        hive.run("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS")
    # Answered from the statistics alone.
    assert hive.run("SELECT count(*), min(id), max(id), max(amount) FROM t").rows == [["3", "1", "3", "2.5"]]
    hive.run("INSERT INTO t VALUES (9, 'z', 9.5)")
    assert hive.run("SELECT count(*), max(id), max(amount) FROM t").rows == [["4", "9", "9.5"]]


@pytest.mark.long
def test_columns_properties_and_names_are_changed(
    hive: HiveServer2, database: str, metastore: MetastoreUnderTest
) -> None:
    hive.run("CREATE TABLE t (id INT, name STRING) PARTITIONED BY (p INT) STORED AS ORC TBLPROPERTIES ('a'='b')")
    hive.run("INSERT INTO t PARTITION (p=1) VALUES (1, 'x')")
    hive.run("ALTER TABLE t ADD COLUMNS (extra STRING COMMENT 'more') CASCADE")
    hive.run("ALTER TABLE t CHANGE COLUMN name title STRING COMMENT 'what it is called' CASCADE")
    hive.run("INSERT INTO t PARTITION (p=1) VALUES (2, 'y', 'z')")
    assert hive.run("SELECT id, title, extra FROM t ORDER BY id").rows == [["1", "x", None], ["2", "y", "z"]]
    hive.run("ALTER TABLE t SET TBLPROPERTIES ('a'='c', 'd'='e')")
    hive.run("ALTER TABLE t UNSET TBLPROPERTIES ('d')")
    properties = {row[0]: row[1] for row in hive.run("SHOW TBLPROPERTIES t").rows}
    assert properties["a"] == "c"
    assert "d" not in properties
    hive.run("ALTER TABLE t RENAME TO u")
    assert (metastore.warehouse / f"{database}.db" / "u" / "p=1").is_dir()
    assert not (metastore.warehouse / f"{database}.db" / "t").exists()
    assert hive.run("SELECT title FROM u WHERE p = 1 AND id = 2").rows == [["y"]]
    described = [row[:3] for row in hive.run("DESCRIBE u").rows]
    assert described[:4] == [
        ["id", "int", ""],
        ["title", "string", "what it is called"],
        ["extra", "string", "more"],
        ["p", "int", ""],
    ]
    with pytest.raises(PeerError, match=r"(?i)table not found"):
        hive.run("SELECT * FROM t")


@pytest.mark.long
def test_a_partition_is_exchanged_with_another_table(hive: HiveServer2, database: str) -> None:
    for name in ("source", "target"):
        hive.run(f"CREATE TABLE {name} (id INT) PARTITIONED BY (p STRING)")
    hive.run("INSERT INTO source PARTITION (p='a b') VALUES (1)")
    hive.run("ALTER TABLE target EXCHANGE PARTITION (p='a b') WITH TABLE source")
    assert hive.run("SELECT * FROM target").rows == [["1", "a b"]]
    assert hive.run("SHOW PARTITIONS source").rows == []


def test_external_tables_find_their_partitions_and_keep_their_files(
    hive: HiveServer2, database: str, tmp_path: Path
) -> None:
    for number, name in ((1, "one"), (2, "two")):
        (tmp_path / f"p={number}").mkdir()
        (tmp_path / f"p={number}" / "f.txt").write_text(f"{number},{name}\n")
    hive.run(
        "CREATE EXTERNAL TABLE t (id INT, s STRING) PARTITIONED BY (p INT)"
        f" ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' LOCATION 'file:{tmp_path}'"
    )
    assert hive.run("SELECT * FROM t").rows == []
    hive.run("MSCK REPAIR TABLE t")
    assert hive.run("SHOW PARTITIONS t").column("partition") == ["p=1", "p=2"]
    assert sorted(hive.run("SELECT * FROM t").rows) == [["1", "one", "1"], ["2", "two", "2"]]
    shutil.rmtree(tmp_path / "p=2")
    hive.run("MSCK REPAIR TABLE t SYNC PARTITIONS")
    assert hive.run("SHOW PARTITIONS t").column("partition") == ["p=1"]
    created = " ".join(row[0] or "" for row in hive.run("SHOW CREATE TABLE t").rows)
    assert "CREATE EXTERNAL TABLE `t`" in created
    assert f"'file:{tmp_path}'" in created
    hive.run("DROP TABLE t")
    assert (tmp_path / "p=1" / "f.txt").exists()


@pytest.mark.long
def test_tables_are_created_from_queries_and_tables_overwritten_and_truncated(
    hive: HiveServer2, database: str, metastore: MetastoreUnderTest
) -> None:
    hive.run("CREATE TABLE a (id INT, name STRING) STORED AS ORC")
    hive.run("INSERT INTO a VALUES (1, 'x'), (2, 'y')")
    hive.run("CREATE TABLE b STORED AS PARQUET AS SELECT id, upper(name) AS name FROM a WHERE id > 1")
    assert hive.run("SELECT * FROM b").rows == [["2", "Y"]]
    hive.run("INSERT OVERWRITE TABLE b SELECT id * 10, name FROM a")
    assert sorted(hive.run("SELECT * FROM b").rows) == [["10", "x"], ["20", "y"]]
    hive.run("CREATE TABLE c LIKE a")
    assert hive.run("SELECT count(*) FROM c").rows == [["0"]]
    hive.run("TRUNCATE TABLE a")
    assert hive.run("SELECT count(*) FROM a").rows == [["0"]]
    assert hive.run("SELECT * FROM a").rows == []
    hive.run("CREATE TABLE buckets (id INT) CLUSTERED BY (id) SORTED BY (id) INTO 2 BUCKETS STORED AS ORC")
    hive.run("INSERT INTO buckets SELECT id FROM b")
    assert sorted(hive.run("SELECT id FROM buckets").rows) == [["10"], ["20"]]
    details = {(row[0] or "").strip(): row[1] for row in hive.run("DESCRIBE FORMATTED buckets").rows}
    assert (details["Num Buckets:"] or "").strip() == "2"
    assert (details["Bucket Columns:"] or "").strip() == "[id]"
    assert hive.run("SHOW TABLES").column("tab_name") == ["a", "b", "buckets", "c"]
    assert hive.run("SHOW TABLES LIKE 'b%'").column("tab_name") == ["b", "buckets"]
    for name in ("a", "b", "buckets", "c"):
        hive.run(f"DROP TABLE {name} PURGE")
    assert list((metastore.warehouse / f"{database}.db").glob("[abc]*")) == []


@pytest.mark.long
def test_views_are_created_changed_shown_and_dropped(hive: HiveServer2, database: str) -> None:
    hive.run("CREATE TABLE t (id INT, name STRING)")
    hive.run("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    hive.run("CREATE VIEW v (number COMMENT 'a key') COMMENT 'seen' AS SELECT id FROM t WHERE id > 1")
    assert hive.run("SELECT number FROM v").rows == [["2"]]
    assert hive.run("SHOW VIEWS").column("tab_name") == ["v"]
    hive.run("ALTER VIEW v AS SELECT name FROM t")
    assert sorted(hive.run("SELECT * FROM v").rows) == [["x"], ["y"]]
    assert "SELECT `t`.`name` FROM" in " ".join(row[0] or "" for row in hive.run("SHOW CREATE TABLE v").rows)
    with pytest.raises(PeerError, match=r"(?i)view"):
        hive.run("DROP TABLE v")
    hive.run("DROP VIEW v")
    assert hive.run("SHOW VIEWS").rows == []


@pytest.mark.long
def test_constraints_are_stored_shown_and_enforced_by_hive(hive: HiveServer2, database: str) -> None:
    hive.run(
        "CREATE TABLE parent (id INT, x INT, y INT DEFAULT 5, z INT NOT NULL ENABLE,"
        " PRIMARY KEY (id) DISABLE NOVALIDATE RELY, CONSTRAINT ux UNIQUE (x) DISABLE NOVALIDATE)"
    )
    hive.run(
        "CREATE TABLE child (id INT, p INT,"
        " CONSTRAINT fp FOREIGN KEY (p) REFERENCES parent(id) DISABLE NOVALIDATE RELY, CONSTRAINT ck CHECK (id > 0))"
    )
    hive.run("INSERT INTO parent (id, x, z) VALUES (1, 2, 3)")
    assert hive.run("SELECT * FROM parent").rows == [["1", "2", "5", "3"]]
    with pytest.raises(PeerError):
        hive.run("INSERT INTO parent (id, x, z) VALUES (1, 2, NULL)")
    with pytest.raises(PeerError):
        hive.run("INSERT INTO child VALUES (-1, 1)")
    described = _text(hive, "DESCRIBE FORMATTED parent")
    assert "# Primary Key" in described
    assert "ux" in described
    assert "# Not Null Constraints" in described
    assert "# Default Constraints" in described
    hive.run("ALTER TABLE child ADD CONSTRAINT up UNIQUE (p) DISABLE NOVALIDATE")
    described = _text(hive, "DESCRIBE FORMATTED child")
    assert "up" in described
    assert "Parent Column Name:" in described
    hive.run("ALTER TABLE child DROP CONSTRAINT fp")
    assert "Parent Column Name:" not in _text(hive, "DESCRIBE FORMATTED child")
    hive.run("DROP TABLE parent")
    assert "ck" in _text(hive, "DESCRIBE FORMATTED child")


@pytest.mark.long
def test_functions_are_created_called_listed_and_dropped(hive: HiveServer2, database: str) -> None:
    hive.run("CREATE FUNCTION shout AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFUpper'")
    assert hive.run(f"SELECT {database}.shout('abc')").rows == [["ABC"]]
    assert hive.run(f"SHOW FUNCTIONS LIKE '{database}.%'").rows == [[f"{database}.shout"]]
    hive.run("DROP FUNCTION shout")
    with pytest.raises(PeerError, match=r"(?i)invalid function"):
        hive.run(f"SELECT {database}.shout('abc')")


@pytest.mark.parametrize("stored", ["TEXTFILE", "PARQUET", "ORC"])
def test_interbed_and_hive_read_and_write_hives_tables(
    hive: HiveServer2, database: str, catalog: interbed.Catalog, stored: str
) -> None:
    name = f"t_{stored.lower()}"
    columns = "id INT, s STRING, d DECIMAL(10,2), day DATE"
    hive.run(f"CREATE TABLE {name} ({columns}) PARTITIONED BY (k STRING) STORED AS {stored}")
    hive.run(f"INSERT INTO {name} PARTITION (k='x') VALUES (1, 'a b', 1.50, DATE '2026-01-31'), (2, NULL, NULL, NULL)")
    assert name in catalog.list_tables(database)
    table: Any = catalog.get_table(f"{database}.{name}")
    found = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
    day = datetime.date(2026, 1, 31)
    assert found == [
        {"id": 1, "s": "a b", "d": Decimal("1.50"), "day": day, "k": "x"},
        {"id": 2, "s": None, "d": None, "day": None, "k": "x"},
    ]
    table.append([{"id": 3, "s": "c", "d": Decimal("-0.25"), "day": day, "k": "y"}])
    assert hive.run(f"SELECT id, s, d, day, k FROM {name} WHERE k = 'y'").rows == [
        ["3", "c", "-0.25", "2026-01-31", "y"]
    ]
    with pytest.raises(NotAnInterbedTableError, match=f"{database}.{name}"):
        catalog.drop_table(f"{database}.{name}")


def test_a_view_of_hive_is_no_table(hive: HiveServer2, database: str, catalog: interbed.Catalog) -> None:
    hive.run("CREATE TABLE t (id INT)")
    hive.run("CREATE VIEW v AS SELECT id FROM t")
    assert catalog.list_tables(database) == ["t"]


def _text(hive: HiveServer2, statement: str) -> str:
    return "\n".join(" ".join((cell or "").strip() for cell in row) for row in hive.run(statement).rows)
