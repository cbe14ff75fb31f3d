"""DROP, PURGE and `CALL sys.undrop` in a file-system catalog that keeps dropped tables."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from interbed import load_catalog
from tests.spark_ext.conftest import SparkLake


@pytest.fixture
def kept(spark: SparkSession, tmp_path: Path) -> Iterator[SparkLake]:
    """A catalog of directories that keeps dropped tables, with an empty database `db`."""
    lake = SparkLake(spark, "kept", tmp_path)
    lake.sql(
        f"CREATE CATALOG {{lake}} WITH ('type' = 'paimon', 'undrop-seconds' = '60', 'warehouse' = 'file:{tmp_path}')"
    )
    lake.sql("CREATE DATABASE {lake}.db")
    yield lake
    lake.sql("USE spark_catalog")
    lake.sql("DROP CATALOG {lake}")


def test_a_dropped_table_comes_back_and_a_purged_one_does_not(kept: SparkLake) -> None:
    kept.sql("CREATE TABLE {lake}.db.t AS SELECT 1 AS id")
    kept.sql("DROP TABLE {lake}.db.t")
    assert kept.tuples("SHOW TABLES IN {lake}.db") == []
    assert kept.tuples("SHOW NAMESPACES IN {lake}") == [("db",)]
    kept.sql("CALL {lake}.sys.undrop('db.t')")
    assert kept.tuples("SELECT * FROM {lake}.db.t") == [(1,)]
    kept.sql("DROP TABLE {lake}.db.t")
    kept.sql("CALL {lake}.sys.undrop(table => 'db.t', new_name => 'u')")
    assert kept.tuples("SELECT * FROM {lake}.db.u") == [(1,)]
    kept.sql("DROP TABLE {lake}.db.u PURGE")
    catalog = load_catalog(warehouse=str(kept.warehouse))
    assert catalog.list_dropped() == []
    with pytest.raises(Exception, match="no dropped object"):
        kept.sql("CALL {lake}.sys.undrop('db.u')")
    kept.sql("CREATE TABLE {lake}.db.v AS SELECT 2 AS id")
    kept.sql("DROP DATABASE {lake}.db CASCADE")
    assert [entry.qualified for entry in catalog.list_dropped()] == ["db", "db.v"]
    assert [row[1:4] for row in kept.tuples("CALL {lake}.sys.dropped('db')")] == [
        ("db", None, "database"),
        ("db", "v", "table"),
    ]
    for call in ("undrop()", "undrop('db.v', database => 'db')", "undrop(database => 'db', new_name => 'e')"):
        with pytest.raises(Exception, match="The argument"):
            kept.sql(f"CALL {{lake}}.sys.{call}")
    kept.sql("CALL {lake}.sys.undrop(database => 'db')")
    assert kept.tuples("SELECT * FROM {lake}.db.v") == [(2,)]
    kept.sql("DROP TABLE {lake}.db.v")
    assert kept.tuples("CALL {lake}.sys.purge_dropped('db.v')") == [(1,)]
    assert kept.tuples("CALL {lake}.sys.dropped()") == []
