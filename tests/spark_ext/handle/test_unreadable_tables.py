"""Tables of newer versions in Spark: they are listed, renamed and dropped, and hide no other table."""

import json
from pathlib import Path

import pytest

from tests.spark_ext.conftest import SparkLake


def spoil(lake: SparkLake, name: str) -> Path:
    path = lake.warehouse / "db.db" / name / "schema" / "schema-0"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))
    return path


def test_a_table_of_a_newer_version_is_listed_renamed_and_dropped(lake: SparkLake) -> None:
    for name in ("good", "newer"):
        lake.sql(f"CREATE TABLE {{lake}}.db.{name} (id INT)")
    path = spoil(lake, "newer")

    assert [row.tableName for row in lake.sql("SHOW TABLES IN {lake}.db")] == ["good", "newer"]
    with pytest.raises(Exception, match="has version 99"):
        lake.sql("SELECT * FROM {lake}.db.newer")
    assert lake.tuples("SELECT table_name FROM {lake}.sys.tables ORDER BY 1") == [("good",), ("newer",)]
    lake.sql("DROP TABLE {lake}.db.newer")
    assert not path.exists()
    assert [row.tableName for row in lake.sql("SHOW TABLES IN {lake}.db")] == ["good"]
    lake.sql("DROP TABLE IF EXISTS {lake}.db.newer")
