"""Object tables in Spark: created, read with filters and joins, refused for writes, dropped without their files."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark_ext.conftest import SparkLake


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[SparkLake]:
    """A file-system catalog in Spark with a database."""
    lake = SparkLake(spark, "objects", tmp_path)
    lake.sql(f"CREATE CATALOG {{lake}} WITH ('type' = 'paimon', 'warehouse' = 'file:{tmp_path}/lake')")
    lake.sql("CREATE DATABASE {lake}.d")
    lake.sql("USE {lake}.d")
    yield lake
    lake.sql("USE spark_catalog")
    lake.sql("DROP CATALOG {lake}")


def test_files_are_rows(lake: SparkLake, tmp_path: Path) -> None:
    lake.sql("CREATE TABLE o TBLPROPERTIES ('type' = 'object-table', 'team' = 'a')")
    directory = tmp_path / "lake" / "d.db" / "o"
    (directory / "a").mkdir()
    (directory / "a" / "x.png").write_bytes(b"123")
    (directory / "y").write_bytes(b"")
    rows = lake.sql("SELECT path, name, length, owner FROM o WHERE path NOT LIKE 'schema/%' ORDER BY path")
    assert [tuple(row) for row in rows] == [("a/x.png", "x.png", 3, None), ("y", "y", 0, None)]
    assert lake.sql("SELECT count(*) FROM o WHERE length = 3")[0][0] == 1
    (directory / "y").unlink()
    assert lake.sql("SELECT name FROM o WHERE length = 0") == []
    shown = {row[0]: row[1] for row in lake.sql("SHOW TBLPROPERTIES o")}
    assert (shown["type"], shown["team"]) == ("object-table", "a")
    assert lake.sql("SELECT table_type FROM {lake}.sys.tables")[0][0] == "object-table"
    lake.sql("DROP TABLE o")
    assert lake.sql("SHOW TABLES") == []
    assert (directory / "a" / "x.png").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO o VALUES ('p', 'n', 1, 1, 0, NULL)",
        "INSERT OVERWRITE o VALUES ('p', 'n', 1, 1, 0, NULL)",
        "DELETE FROM o WHERE length = 0",
        "UPDATE o SET length = 1",
        "TRUNCATE TABLE o",
        "ALTER TABLE o ADD COLUMN c INT",
        "ALTER TABLE o SET TBLPROPERTIES ('team' = 'b')",
        "ALTER TABLE o RENAME COLUMN path TO p",
        "ANALYZE TABLE o COMPUTE STATISTICS",
        "CREATE TABLE p TBLPROPERTIES ('type' = 'object-table') AS SELECT * FROM o",
        "CREATE OR REPLACE TABLE o (id INT)",
        "SELECT * FROM o VERSION AS OF 1",
        "SELECT * FROM `o$files`",
        "CALL {lake}.sys.compact('d.o')",
        "CALL {lake}.sys.create_tag('d.o', 't')",
        "CALL {lake}.sys.remove_orphan_files('d.o')",
    ],
)
def test_changes_are_refused_by_name(lake: SparkLake, tmp_path: Path, statement: str) -> None:
    lake.sql("CREATE TABLE o TBLPROPERTIES ('type' = 'object-table')")
    file = tmp_path / "lake" / "d.db" / "o" / "bucket-0" / "data-0.parquet"
    file.parent.mkdir()
    file.write_bytes(b"1")
    with pytest.raises(Exception, match=r"[Tt]he object table '(d\.)?[op]'"):
        lake.sql(statement)
    assert file.exists()
    assert lake.sql("SELECT count(*) FROM o WHERE length = 1")[0][0] == 1


def test_procedures_on_a_database_pass_by(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE o TBLPROPERTIES ('type' = 'object-table')")
    lake.sql("CREATE TABLE t (id INT)")
    lake.sql("INSERT INTO t VALUES (1)")
    lake.sql("CALL {lake}.sys.remove_orphan_files('d.*')")
    done = lake.sql("CALL {lake}.sys.compact_database()")
    assert "Failed: 0" in str(done)
