"""Merge engines, postponed buckets and stream sinks: writes of Spark that Java reads after every step."""

from pathlib import Path

import pytest

from tests.spark_ext.interop.all_readers import AllReaders
from tests.support.shares import each_run
from tests.support.waits import at_most

ENGINES: dict[str, tuple[str, list[tuple[str, list[list[object]]]]]] = {
    "aggregation": (
        "'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'sum', 'fields.s.aggregate-function' = "
        "'listagg', 'aggregation.remove-record-on-delete' = 'true', 'changelog-producer' = 'lookup'",
        [
            (
                "INSERT INTO {t} VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 1, 'c')",
                [[1, 10, "a"], [2, 20, "b"], [3, 1, "c"]],
            ),
            ("INSERT INTO {t} VALUES (1, 5, 'x'), (2, NULL, NULL)", [[1, 15, "a,x"], [2, 20, "b"], [3, 1, "c"]]),
            ("DELETE FROM {t} WHERE v = 20", [[1, 15, "a,x"], [3, 1, "c"]]),
            ("CALL {lake}.sys.compact('db.t')", [[1, 15, "a,x"], [3, 1, "c"]]),
            ("INSERT OVERWRITE {t} VALUES (1, 1, 'new')", [[1, 1, "new"]]),
        ],
    ),
    "first-row": (
        "'merge-engine' = 'first-row', 'changelog-producer' = 'lookup'",
        [
            ("INSERT INTO {t} VALUES (1, 10, 'a'), (2, 20, 'b')", [[1, 10, "a"], [2, 20, "b"]]),
            ("INSERT INTO {t} VALUES (1, 5, 'x'), (3, 30, 'c')", [[1, 10, "a"], [2, 20, "b"], [3, 30, "c"]]),
            ("INSERT OVERWRITE {t} VALUES (3, 3, 'over')", [[3, 3, "over"]]),
            ("TRUNCATE TABLE {t}", []),
        ],
    ),
    "sequence field": (
        "'sequence.field' = 'v', 'changelog-producer' = 'full-compaction'",
        [
            ("INSERT INTO {t} VALUES (1, 10, 'a'), (2, 20, 'b')", [[1, 10, "a"], [2, 20, "b"]]),
            ("INSERT INTO {t} VALUES (1, 5, 'late'), (2, 21, 'next')", [[1, 10, "a"], [2, 21, "next"]]),
            ("UPDATE {t} SET v = 11, s = 'newer' WHERE id = 1", [[1, 11, "newer"], [2, 21, "next"]]),
            ("DELETE FROM {t} WHERE id = 2", [[1, 11, "newer"]]),
        ],
    ),
}


@pytest.mark.parametrize("engine", list(ENGINES))
def test_writes_to_each_merge_engine_are_read_by_all_readers(readers: AllReaders, engine: str) -> None:
    options, statements = ENGINES[engine]
    readers.sql(
        "CREATE TABLE {lake}.db.t (id INT NOT NULL, v INT, s STRING) "
        f"TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', {options})"
    )
    for statement, rows in statements:
        readers.sql(statement.replace("{t}", "{lake}.db.t"))
        assert readers.agree("db.t", pypaimon=False) == rows, statement
    readers.agree_on_changes("db.t", 1, readers.last_snapshot("db.t"))


def test_postponed_rows_are_read_by_all_readers(readers: AllReaders) -> None:
    readers.sql(
        "CREATE TABLE {lake}.db.t (id INT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '-2')"
    )
    readers.sql("INSERT INTO {lake}.db.t VALUES (1, 1), (2, 2)")
    assert readers.agree("db.t") == [[1, 1], [2, 2]]
    readers.sql("ALTER TABLE {lake}.db.t SET TBLPROPERTIES ('postpone.batch-write-fixed-bucket' = 'false')")
    readers.sql("INSERT INTO {lake}.db.t VALUES (2, 2), (3, 3)")
    readers.agree("db.t", pypaimon=False)
    readers.sql("CALL {lake}.sys.compact('db.t')")
    assert readers.agree("db.t") == [[1, 1], [2, 2], [3, 3]]
    readers.sql("INSERT INTO {lake}.db.t VALUES (2, 3)")
    readers.table("db.t").compact()
    assert readers.agree("db.t") == [[1, 1], [2, 3], [3, 3]]


@pytest.mark.long
@pytest.mark.parametrize("mode", each_run(["append", "update", "complete"], lambda mode: mode == "complete"))
def test_rows_of_a_stream_are_read_by_all_readers(readers: AllReaders, mode: str, tmp_path: Path) -> None:
    readers.table("db.source").create([("id", "INT"), ("v", "INT")])
    readers.sql(
        "CREATE TABLE {lake}.db.t (id INT NOT NULL, v BIGINT) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2', 'changelog-producer' = 'input')"
    )
    name = readers.lake.name
    for rows in ([[1, 10], [2, 20]], [[1, 1], [3, 30]]):
        readers.table("db.source").write(rows)
        stream = readers.lake.spark.readStream.table(f"{name}.db.source")
        if mode != "append":
            stream = stream.groupBy("id").sum("v").withColumnRenamed("sum(v)", "v")
        query = (
            stream.writeStream.outputMode(mode)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .toTable(f"{name}.db.t")
        )
        try:
            assert query.awaitTermination(at_most(120))
        finally:
            query.stop()
        last = readers.agree("db.t")
    assert last == [[1, 1 if mode == "append" else 11], [2, 20], [3, 30]]
