"""UPDATE and MERGE INTO of Spark in tables with `data-evolution.enabled` write the assigned columns alone."""

import json
from decimal import Decimal
from pathlib import Path
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


def _with_vectors(table: Table) -> None:
    """Give the table deletion vectors, as another writer does that creates it."""
    path = Path(table.location.removeprefix("file:"), "schema", "schema-0")
    schema = json.loads(path.read_text())
    schema["options"]["deletion-vectors.enabled"] = "true"
    path.write_text(json.dumps(schema))


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
        "MERGE INTO {lake}.db.t t USING (SELECT * FROM VALUES (1, 'a'), (2, 'b'), (7, 'c') AS s(id, v)) s "
        "ON t.id = s.id WHEN MATCHED AND t.n > 10 THEN UPDATE SET n = t.n + 1 WHEN MATCHED THEN UPDATE SET v = s.v "
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


def test_columns_that_a_statement_does_not_need_are_not_read(lake: SparkLake) -> None:
    _create(lake)
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'a', 10)")
    for statement in (
        "UPDATE {lake}.db.t SET n = id + 1 WHERE id > 0",
        "MERGE INTO {lake}.db.t t USING (SELECT 1 AS id, 5L AS n) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n)",
    ):
        plan = lake.frame("EXPLAIN " + statement).collect()[0][0]
        (scan,) = [line for line in plan.splitlines() if "BatchScan" in line]
        assert "columns=[id, __paimon_file_path, __paimon_row_index]" in scan


def test_partitions_stay_and_types_are_kept(lake: SparkLake) -> None:
    columns = "p STRING, c CHAR(4), s STRUCT<a: INT, b: STRING> NOT NULL, d DECIMAL(10, 2) NOT NULL"
    _create(lake, columns, "PARTITIONED BY (p)")
    lake.sql(
        "INSERT INTO {lake}.db.t VALUES ('x', 'a', named_struct('a', 1, 'b', 'q'), 1.5), "
        "('y', 'b', named_struct('a', 2, 'b', 'r'), 2)"
    )
    rows = "SELECT p, c, s.a, s.b, d FROM {lake}.db.t ORDER BY p"
    lake.sql("UPDATE {lake}.db.t SET s.a = 7 WHERE p = 'x'")
    assert _written(_table(lake)) == [("s",)]
    assert lake.tuples(rows) == [("x", "a   ", 7, "q", Decimal("1.50")), ("y", "b   ", 2, "r", 2)]
    lake.sql("UPDATE {lake}.db.t SET c = 'zz', d = d + 1 WHERE p = 'y' AND c = 'b'")
    assert _written(_table(lake)) == [("c", "d")]
    with pytest.raises(Exception, match=r"'p'.*can't be updated \(from 'x' to 'w'\)"):
        lake.sql("UPDATE {lake}.db.t SET p = 'w' WHERE c = 'a'")
    with pytest.raises(Exception, match=r"NOT_NULL|null"):
        lake.sql("UPDATE {lake}.db.t SET d = NULL")
    # A star assigns the partition columns, too, which stay if ON compares them.
    lake.sql(
        "MERGE INTO {lake}.db.t t USING (SELECT p, c, s, CAST(9 AS DECIMAL(10, 2)) AS d FROM {lake}.db.t) s "
        "ON t.p = s.p AND t.c = s.c WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert lake.tuples(rows) == [("x", "a   ", 7, "q", 9), ("y", "zz  ", 2, "r", 9)]
    assert _written(_table(lake)) == [("c", "s", "d")] * 2


def test_rows_are_deleted_by_vectors_alone(lake: SparkLake) -> None:
    _create(lake)
    insert = "INSERT INTO {lake}.db.%s SELECT /*+ COALESCE(1) */ id, 'v' || id, id * 10 FROM range(5)"
    lake.sql(insert % "t")
    merge = (
        "MERGE INTO {lake}.db.%s t USING (SELECT * FROM VALUES (1, 'a'), (2, 'b'), (9, 'c') AS s(id, v)) s "
        "ON t.id = s.id WHEN MATCHED AND t.id = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    )
    for statement in ("DELETE FROM {lake}.db.t WHERE id = 1", merge % "t"):
        with pytest.raises(Exception, match=r"DELETE from .*'data-evolution\.enabled' = 'true'.*only deletion vectors"):
            lake.sql(statement)
    assert len(_table(lake).snapshots()) == 1
    # Other writers make such tables, which take no new rows.
    _with_vectors(_table(lake))
    with pytest.raises(Exception, match="contradict each other"):
        lake.sql(merge % "t")
    lake.sql((merge % "t").partition("WHEN NOT MATCHED")[0])
    assert lake.tuples(IDS) == [(0, "v0", 0, 0), (1, "a", 10, 1), (3, "v3", 30, 3), (4, "v4", 40, 4)]
    lake.sql("UPDATE {lake}.db.t SET n = 1 WHERE id < 4")
    lake.sql("DELETE FROM {lake}.db.t WHERE n = 1 AND v = 'a'")
    lake.sql("DELETE FROM {lake}.db.t WHERE _ROW_ID IN (3, 9)")
    assert lake.tuples(IDS) == [(0, "v0", 1, 0), (4, "v4", 40, 4)]
    assert _table(lake).maintenance.fsck().is_sound
