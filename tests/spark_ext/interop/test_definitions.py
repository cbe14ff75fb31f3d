"""ALTER TABLE of every kind, and CREATE TABLE AS: all readers read rows from before and after."""

import pytest

from tests.spark_ext.interop.all_readers import AllReaders
from tests.support.shares import each_run

ALTERATIONS = [
    "ADD COLUMNS (x DATE COMMENT 'a day' AFTER id, s.z DOUBLE FIRST, l.element.y STRING)",
    "ADD COLUMN m.value.w ARRAY<INT>",
    "RENAME COLUMN s.b TO label",
    "RENAME COLUMN v TO amount",
    "ALTER COLUMN s.a TYPE BIGINT",
    "ALTER COLUMN amount TYPE BIGINT",
    "ALTER COLUMN f TYPE DOUBLE",
    "ALTER COLUMN d TYPE DECIMAL(12, 2)",
    "ALTER COLUMN l.element.x TYPE BIGINT",
    "ALTER COLUMN m.value.q AFTER w",
    "ALTER COLUMN amount FIRST",
    "ALTER COLUMN s AFTER l",
    "DROP COLUMN s.z",
    "DROP COLUMN f",
    "ADD COLUMN f STRING",
    "ALTER COLUMN f SET DEFAULT 'of now'",
    "ALTER COLUMN d DROP NOT NULL",
]
PRIMARY = "'primary-key' = 'id', 'bucket' = '1'"


@pytest.mark.long
@pytest.mark.parametrize(
    "properties",
    each_run(["'file.format' = 'parquet'", f"{PRIMARY}, 'file.format' = 'orc'"], lambda given: PRIMARY in given),
)
def test_rows_before_and_after_an_alteration_are_read_by_all_readers(readers: AllReaders, properties: str) -> None:
    readers.sql(
        "CREATE TABLE {lake}.db.t (id INT NOT NULL, v INT, f FLOAT, d DECIMAL(9, 2) NOT NULL, "
        "s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<q: INT>>) "
        f"TBLPROPERTIES ({properties})"
    )
    readers.sql(
        "INSERT INTO {lake}.db.t VALUES (1, 1, 1.5, 1.25, named_struct('a', 1, 'b', 'one'), "
        "array(named_struct('x', 10)), map('k', named_struct('q', 100))), (2, NULL, NULL, 0, NULL, array(), map())"
    )
    for number, change in enumerate(ALTERATIONS):
        readers.sql(f"ALTER TABLE {{lake}}.db.t {change}")
        # pypaimon finds nested fields by their names.
        assert len(readers.agree("db.t", pypaimon=False)) == 2 + number
        readers.sql(f"INSERT INTO {{lake}}.db.t (id, d) VALUES ({number + 3}, {number})")
    before = readers.agree("db.t", pypaimon=False)
    readers.sql("UPDATE {lake}.db.t SET s.label = 'new', amount = 9999999999 WHERE id IN (1, 5)")
    assert readers.agree("db.t", pypaimon=False) != before
    readers.sql("CALL {lake}.sys.compact('db.t')")
    readers.agree("db.t", pypaimon=False)
    assert len(readers.agree("db.t", version="1")) == 2


def test_tables_created_from_queries_are_read_by_all_readers(readers: AllReaders) -> None:
    readers.sql(
        f"CREATE TABLE {{lake}}.db.t TBLPROPERTIES ({PRIMARY}) AS SELECT * FROM VALUES (1, 'a', 1.5D), (2, 'b', 2.5D) "
        "AS t(id, name, x)"
    )
    readers.agree("db.t")
    readers.sql(f"CREATE OR REPLACE TABLE {{lake}}.db.t (id INT NOT NULL, other DATE) TBLPROPERTIES ({PRIMARY})")
    assert readers.agree("db.t") == []
    readers.sql("INSERT INTO {lake}.db.t VALUES (3, DATE '2026-01-31')")
    assert len(readers.agree("db.t")) == 1
    readers.sql(
        f"REPLACE TABLE {{lake}}.db.t TBLPROPERTIES ({PRIMARY}, 'changelog-producer' = 'lookup') AS "
        "SELECT id + 1 AS id, named_struct('at', other, 'tags', array('x')) AS s FROM {lake}.db.t"
    )
    assert len(readers.agree("db.t")) == 1
    readers.sql(
        "INSERT INTO {lake}.db.t SELECT id, named_struct('at', DATE '2000-01-01', 'tags', array()) FROM {lake}.db.t"
    )
    assert len(readers.agree("db.t")) == 1
    readers.sql("CREATE TABLE {lake}.db.l LIKE {lake}.db.t TBLPROPERTIES ('bucket' = '2')")
    readers.sql("INSERT OVERWRITE {lake}.db.l SELECT * FROM {lake}.db.t")
    assert readers.agree("db.l") == readers.agree("db.t")
