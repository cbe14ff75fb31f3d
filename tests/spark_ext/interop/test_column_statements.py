"""UPDATE and MERGE of Spark have the same effect on a table whose columns are in files of their own as on plain rows.

After each statement Java Paimon and pypaimon read the rows and ids that Spark reads.
"""

from tests.spark_ext.interop.all_readers import AllReaders

TRACKS = "'row-tracking.enabled' = 'true', 'compaction.min.file-num' = '2'"
TABLES = {"t": f"{TRACKS}, 'data-evolution.enabled' = 'true'", "plain": TRACKS}
STATEMENTS = [
    "UPDATE {lake}.db.%s SET v = concat(v, '!'), n = n + 1 WHERE id IN (1, 4)",
    "UPDATE {lake}.db.%s SET s = named_struct('a', id, 'b', v) WHERE n > (SELECT min(n) FROM {lake}.db.%s)",
    "UPDATE {lake}.db.%s SET s.b = NULL, id = id + 100 WHERE _ROW_ID BETWEEN 2 AND 5 AND p = 'x'",
    "UPDATE {lake}.db.%s AS o SET n = (SELECT count(*) FROM {lake}.db.%s i WHERE i.p = o.p AND i.id < o.id)",
    """MERGE INTO {lake}.db.%s t USING (SELECT * FROM VALUES (1, 'one'), (6, 'six'), (50, 'new') AS s(id, v)) s
       ON t.id = s.id WHEN MATCHED AND t.id = 1 THEN UPDATE SET v = s.v WHEN MATCHED THEN UPDATE SET n = -1
       WHEN NOT MATCHED THEN INSERT (p, id, v) VALUES ('y', s.id, s.v)
       WHEN NOT MATCHED BY SOURCE AND t.p = 'y' THEN UPDATE SET n = t.n * 2""",
    "CALL {lake}.sys.compact(table => 'db.%s')",
    """MERGE INTO {lake}.db.%s t USING (SELECT p, id, 'all' AS v, 7L AS n, s FROM {lake}.db.%s WHERE id < 5) s
       ON t.p = s.p AND t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
    "UPDATE {lake}.db.%s SET v = NULL",
]


def test_statements_have_the_same_effect_as_on_plain_rows_for_all_readers(readers: AllReaders) -> None:
    for name, options in TABLES.items():
        readers.sql(
            f"CREATE TABLE {{lake}}.db.{name} (p STRING, id INT, v STRING, n BIGINT, s STRUCT<a: INT, b: STRING>) "
            f"PARTITIONED BY (p) TBLPROPERTIES ({options})"
        )
        for first, partition in ((0, "x"), (3, "y"), (6, "x")):
            readers.sql(
                f"INSERT INTO {{lake}}.db.{name} SELECT /*+ COALESCE(1) */ '{partition}', CAST(id AS INT), 'v' || id, "
                f"id * 10, named_struct('a', 0, 'b', 'b') FROM range({first}, {first + 3})"
            )
    for statement in STATEMENTS:
        for name in TABLES:
            readers.sql(statement.replace("%s", name))
        of_columns, of_rows = (
            readers.lake.tuples(f"SELECT *, _ROW_ID FROM {{lake}}.db.{name} ORDER BY _ROW_ID") for name in TABLES
        )
        assert of_columns == of_rows, statement
        assert len(readers.agree("db.t")) == len(of_rows), statement
        of_java = readers.table("db.t$row_tracking").read_table().rows
        assert sorted((int(row[5]), row[1]) for row in of_java) == [(row[5], row[1]) for row in of_columns], statement
