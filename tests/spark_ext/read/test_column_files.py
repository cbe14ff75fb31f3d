"""Tables whose columns are in files of their own, in Spark: reads, and the refusal to delete single rows."""

import pytest

import interbed
from interbed.storage.table.table import Table
from tests.spark_ext.conftest import SparkLake

ROWS = "SELECT id, v, n, _ROW_ID FROM {lake}.db.t ORDER BY id"


def _table(lake: SparkLake) -> Table:
    return interbed.load_catalog("lake", warehouse=f"file:{lake.warehouse}").get_table("db.t")


def test_spark_reads_rows_of_column_files_and_deletes_no_single_row(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id INT, v STRING, n BIGINT) TBLPROPERTIES ('row-tracking.enabled' = 'true', "
        "'data-evolution.enabled' = 'true', 'compaction.min.file-num' = '2')"
    )
    lake.sql("INSERT INTO {lake}.db.t SELECT /*+ COALESCE(1) */ id, 'v' || id, id * 10 FROM range(4)")
    _table(lake).update({"v": "x"}, "id >= 2")
    lake.sql("INSERT INTO {lake}.db.t VALUES (4, 'v4', 40)")
    _table(lake).update([{"id": 3, "n": None}, {"id": 0, "n": 7}], by="id")
    rows = [(0, "v0", 7, 0), (1, "v1", 10, 1), (2, "x", 20, 2), (3, "x", None, 3), (4, "v4", 40, 4)]
    for _ in range(2):
        assert lake.tuples(ROWS) == rows
        assert lake.tuples("SELECT id FROM {lake}.db.t WHERE v = 'x' AND n = 20") == [(2,)]
        assert lake.tuples("SELECT count(*), count(n), max(n), min(v) FROM {lake}.db.t") == [(5, 4, 40, "v0")]
        assert lake.tuples("SELECT v FROM {lake}.db.t ORDER BY id DESC LIMIT 2") == [("v4",), ("x",)]
        assert lake.tuples("SELECT id FROM {lake}.db.t WHERE _ROW_ID = 3") == [(3,)]
        assert lake.tuples("SELECT v FROM {lake}.db.t VERSION AS OF 1 WHERE id = 3") == [("v3",)]
        lake.sql("CALL {lake}.sys.compact(table => 'db.t')")
    with pytest.raises(Exception, match=r"'data-evolution\.enabled' = 'true'"):
        lake.sql("DELETE FROM {lake}.db.t WHERE id = 1")
    assert lake.tuples(ROWS) == rows
    lake.sql("INSERT OVERWRITE {lake}.db.t VALUES (9, 'v9', 90)")
    assert lake.tuples(ROWS) == [(9, "v9", 90, 5)]
