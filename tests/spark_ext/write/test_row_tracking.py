"""Tables that track rows in Spark: ids as metadata columns, which UPDATE, MERGE, DELETE and compactions keep."""

import pytest

from tests.spark_ext.conftest import SparkLake

IDS = "SELECT id, v, _ROW_ID, _SEQUENCE_NUMBER FROM {lake}.db.t ORDER BY _ROW_ID"


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_statements_keep_the_ids_of_rows(lake: SparkLake, vectors: str) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id INT, v STRING) TBLPROPERTIES ('row-tracking.enabled' = 'true', "
        f"'deletion-vectors.enabled' = '{vectors}', 'compaction.min.file-num' = '2')"
    )
    lake.sql("INSERT INTO {lake}.db.t SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c') AS s(id, v)")
    assert lake.tuples(IDS) == [(1, "a", 0, 1), (2, "b", 1, 1), (3, "c", 2, 1)]
    assert lake.tuples("SELECT * FROM {lake}.db.t WHERE id = 1") == [(1, "a")]
    lake.sql("UPDATE {lake}.db.t SET v = 'B' WHERE id = 2")
    assert lake.tuples(IDS) == [(1, "a", 0, 1), (2, "B", 1, 2), (3, "c", 2, 1)]
    lake.sql(
        "MERGE INTO {lake}.db.t t USING (SELECT 0 AS row) s ON t._ROW_ID = s.row WHEN MATCHED THEN UPDATE SET v = NULL"
    )
    assert lake.tuples(IDS) == [(1, None, 0, 3), (2, "B", 1, 2), (3, "c", 2, 1)]
    lake.sql(
        "MERGE INTO {lake}.db.t t USING (SELECT * FROM VALUES (3, 'C'), (4, 'd') AS s(id, v)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN DELETE"
    )
    merged = [(2, "B", 1, 2), (3, "C", 2, 4), (4, "d", 3, 4)]
    assert lake.tuples(IDS) == merged
    lake.sql("CALL {lake}.sys.compact(table => 'db.t')")
    assert lake.tuples(IDS) == merged
    lake.sql("CALL {lake}.sys.compact(table => 'db.t', order_strategy => 'order', order_by => 'v')")
    assert lake.tuples(IDS) == merged
    lake.sql("DELETE FROM {lake}.db.t WHERE _ROW_ID = 2")
    assert lake.tuples(IDS) == [merged[0], merged[2]]
    assert lake.tuples("SELECT max(_ROW_ID), count(_SEQUENCE_NUMBER) FROM {lake}.db.t") == [(3, 2)]
    assert lake.tuples("SELECT id, _ROW_ID FROM {lake}.db.t VERSION AS OF 1 WHERE _ROW_ID > 0 ORDER BY id") == [
        (2, 1),
        (3, 2),
    ]
    assert lake.tuples("SELECT * FROM {lake}.db.`t$row_tracking` ORDER BY id") == [merged[0], merged[2]]
