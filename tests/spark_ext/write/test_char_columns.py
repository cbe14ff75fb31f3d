"""UPDATE, DELETE and MERGE of tables with CHAR columns that other writers wrote without blanks at the end.

Spark pads CHAR values when it reads and writes. A row keeps the stored form of the values that a statement does not
set.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from interbed import load_catalog
from interbed.storage.table.table import Table
from tests.spark_ext.conftest import SparkLake

ROWS = [(1, "ab", 10), (2, "ab  ", 20), (3, "x", 30), (4, None, 40), (5, "y   ", 50)]
KINDS = {
    "append": "",
    "deletion vectors": "TBLPROPERTIES ('deletion-vectors.enabled' = 'true', 'bucket' = '-1')",
    "partitioned": "PARTITIONED BY (c)",
    "keyed": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')",
    "old rows": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'changelog-producer' = 'input')",
}
STATEMENTS: dict[str, tuple[str, dict[int, Any]]] = {
    # Each statement, and the rows that it changes or deletes by their ids.
    "UPDATE": ("UPDATE {t} SET v = 0 WHERE id < 4", {1: ("ab", 0), 2: ("ab  ", 0), 3: ("x", 0)}),
    "UPDATE of CHAR": ("UPDATE {t} SET c = 'z' WHERE id = 1", {1: ("z   ", 10)}),
    "UPDATE to null": ("UPDATE {t} SET c = NULL WHERE id = 3", {3: (None, 30)}),
    "DELETE": ("DELETE FROM {t} WHERE id IN (SELECT 3)", {3: None}),
    "MERGE": (
        "MERGE INTO {t} t USING (SELECT 3 AS id, 'q' AS c, 7 AS v UNION ALL SELECT 9, 'n', 9) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE AND t.id < 2 THEN DELETE",
        {1: None, 3: ("x", 7), 9: ("n   ", 9)},
    ),
}


def _table(lake: SparkLake) -> Table:
    return load_catalog(warehouse=str(lake.warehouse)).get_table("db.t")


def _stored(lake: SparkLake) -> dict[int, tuple[str | None, int]]:
    return {row["id"]: (row["c"], row["v"]) for row in _table(lake).to_arrow().to_pylist()}


def _written(lake: SparkLake, columns: str, kind: str) -> None:
    lake.sql("DROP TABLE IF EXISTS {lake}.db.t")
    lake.sql(f"CREATE TABLE {{lake}}.db.t ({columns}) {kind}")
    names = [part.split()[0] for part in columns.split(",")]
    ids, chars, values = zip(*ROWS, strict=True)
    made = {"id": pa.array(ids, pa.int32()), "c": pa.array(chars), "v": pa.array(values, pa.int32())}
    rows = pa.table({name: made[name] for name in names})
    table = _table(lake)
    if table.primary_keys:
        # A key is not null.
        table.upsert(rows.filter(pc.is_valid(rows.column(table.primary_keys[0]))))
    else:
        table.append(rows)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_values_that_a_statement_does_not_set_are_kept_as_they_are_stored(lake: SparkLake, kind: str) -> None:
    before = {number: (char, value) for number, char, value in ROWS}
    faults = {}
    for name, (statement, changes) in STATEMENTS.items():
        _written(lake, "id INT, c CHAR(4), v INT", KINDS[kind])
        lake.sql(statement.replace("{t}", "{lake}.db.t"))
        wanted = {number: row for number, row in {**before, **changes}.items() if row is not None}
        found = _stored(lake)
        if found != wanted:
            faults[name] = found
    assert not faults, faults


@pytest.mark.long
def test_rows_are_found_by_keys_that_are_not_padded(lake: SparkLake) -> None:
    _written(lake, "c CHAR(4) NOT NULL, v INT, id INT", "TBLPROPERTIES ('primary-key' = 'c', 'bucket' = '2')")
    before = _keys(lake)
    lake.sql("UPDATE {lake}.db.t SET v = 0 WHERE id IN (1, 2)")
    assert _keys(lake) == {**before, "ab": 0, "ab  ": 0}
    source = "(SELECT 1 AS id, 7 AS v) s"
    merge = f"MERGE INTO {{lake}}.db.t t USING {source} ON t.id = s.id WHEN MATCHED THEN "
    lake.sql(f"{merge} UPDATE SET v = s.v")
    after = {**before, "ab": 7, "ab  ": 0}
    assert _keys(lake) == after
    lake.sql("DELETE FROM {lake}.db.t WHERE id = 3")
    del after["x"]
    assert _keys(lake) == after
    lake.sql("DELETE FROM {lake}.db.t WHERE id = 5")
    del after["y   "]
    assert _keys(lake) == after


def _keys(lake: SparkLake) -> dict[str, int]:
    return {row["c"]: row["v"] for row in _table(lake).to_arrow().to_pylist()}
