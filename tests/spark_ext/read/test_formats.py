"""Spark writes and reads tables whose files are ORC or Avro, like any others."""

from decimal import Decimal

import pytest

from interbed import load_catalog
from tests.spark_ext.conftest import SparkLake


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_a_table_of_another_format_is_written_compacted_and_read(lake: SparkLake, file_format: str) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id INT, at TIMESTAMP, tags ARRAY<STRING>, price DECIMAL(9, 2)) TBLPROPERTIES "
        f"('primary-key' = 'id', 'bucket' = '2', 'file.format' = '{file_format}', 'deletion-vectors.enabled' = 'true')"
    )
    lake.sql("INSERT INTO {lake}.db.t SELECT id, timestamp_seconds(id), array('a', NULL), id / 4 FROM range(100)")
    lake.sql("INSERT INTO {lake}.db.t SELECT id, NULL, array(), -id FROM range(50, 110)")

    load_catalog(warehouse=str(lake.warehouse)).get_table("db.t").compact()

    assert lake.tuples("SELECT count(*), count(at), sum(price), sum(size(tags)) FROM {lake}.db.t") == [
        (110, 50, Decimal("-4463.75"), 100)
    ]
    assert lake.tuples("SELECT id, tags FROM {lake}.db.t WHERE id IN (49, 50) ORDER BY id") == [
        (49, ["a", None]),
        (50, []),
    ]
    assert {name.rpartition(".")[2] for name in lake.files("db.t") if "index" not in name} == {file_format}
