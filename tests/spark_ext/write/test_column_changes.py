"""UPDATE and MERGE INTO of Spark in tables with `data-evolution.enabled` write the assigned columns alone."""

from typing import Any

import pytest

import interbed
from interbed.storage.table.table import Table
from tests.spark_ext.conftest import SparkLake

IDS = "SELECT *, _ROW_ID FROM {lake}.db.t ORDER BY _ROW_ID"
EVOLVES = "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true'"


def _table(lake: SparkLake, name: str = "t") -> Table:
    return interbed.load_catalog("lake", warehouse=f"file:{lake.warehouse}").get_table(f"db.{name}")


def _create(lake: SparkLake, columns: str = "id INT, v STRING, n BIGINT", more: str = "", options: str = "") -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t ({columns}) {more} TBLPROPERTIES ({EVOLVES}{options})")


def _written(table: Table) -> list[Any]:
    """Return the columns of the files of the newest snapshot that have some of the columns, in their order."""
    newest = table.snapshots()[-1].id
    files = [entry.file for entry in table.new_scan().entries()]
    return sorted(f.write_cols or () for f in files if f.max_sequence_number == newest)


def test_an_update_writes_the_assigned_columns_and_rows_keep_their_ids(lake: SparkLake) -> None:
    _create(lake)
    lake.sql("INSERT INTO {lake}.db.t SELECT /*+ COALESCE(1) */ id, 'v' || id, id * 10 FROM range(3)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (3, 'v3', 30)")
    lake.sql("UPDATE {lake}.db.t SET v = concat(v, '!') WHERE n >= 10 AND id < 3")
    assert lake.tuples(IDS) == [(0, "v0", 0, 0), (1, "v1!", 10, 1), (2, "v2!", 20, 2), (3, "v3", 30, 3)]
    assert _written(_table(lake)) == [("v",)]
    lake.sql("UPDATE {lake}.db.t SET n = id, id = n")
    assert lake.tuples(IDS) == [(0, "v0", 0, 0), (10, "v1!", 1, 1), (20, "v2!", 2, 2), (30, "v3", 3, 3)]
    assert _written(_table(lake)) == [("id", "n"), ("id", "n")]
    lake.sql("UPDATE {lake}.db.t SET v = NULL WHERE _ROW_ID = (SELECT max(_ROW_ID) FROM {lake}.db.t)")
    assert lake.tuples("SELECT id FROM {lake}.db.t WHERE v IS NULL") == [(30,)]
    before = len(_table(lake).snapshots())
    lake.sql("UPDATE {lake}.db.t SET v = 'none' WHERE id = 99")
    assert len(_table(lake).snapshots()) == before
    assert _table(lake).maintenance.fsck().is_sound


def test_a_merge_updates_columns_and_appends_rows_in_one_snapshot(lake: SparkLake) -> None:
    _create(lake)
    lake.sql("INSERT INTO {lake}.db.t SELECT /*+ COALESCE(1) */ id, 'v' || id, id * 10 FROM range(4)")
    lake.sql(
        "MERGE INTO {lake}.db.t t USING (SELECT * FROM VALUES (1, 'a'), (2, 'b'), (7, 'c') AS s(id, v)) s ON t.id = s.id "
        "WHEN MATCHED AND t.n > 10 THEN UPDATE SET n = t.n + 1 WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    )
    assert lake.tuples(IDS) == [(0, "v0", 0, 0), (1, "a", 10, 1), (2, "v2", 21, 2), (3, "v3", 30, 3), (7, "c", None, 4)]
    assert len(_table(lake).snapshots()) == 2
    assert _written(_table(lake)) == [(), ("v", "n")]
    with pytest.raises(Exception, match="MERGE_CARDINALITY_VIOLATION"):
        lake.sql(
            "MERGE INTO {lake}.db.t t USING (SELECT * FROM VALUES (1, 'x'), (1, 'y') AS s(id, v)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = s.v"
        )
    assert _table(lake).maintenance.fsck().is_sound
