"""UPDATE, DELETE and MERGE INTO that name hidden columns of their target, held against the rows that a SELECT computes.

The statements of one kind of table change the same table, one after the other; every SELECT runs before its statement.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from pyspark.sql.functions import expr

from tests.spark_ext.conftest import SparkLake

ROWS = """SELECT /*+ COALESCE(1) */ id, v, CAST(0 AS BIGINT) AS c FROM VALUES
    (1, 10), (2, 20), (3, 30), (4, NULL), (5, 50), (6, 60) AS s(id, v)"""

ROW_TRACKING = "'row-tracking.enabled' = 'true'"
VECTORS = "'deletion-vectors.enabled' = 'true'"

KINDS = {
    "append": ("", ["__paimon_row_index"]),
    "append with vectors": (f"TBLPROPERTIES ({VECTORS})", ["__paimon_row_index"]),
    "row tracking": (f"TBLPROPERTIES ({ROW_TRACKING})", ["_ROW_ID", "__paimon_row_index"]),
    "row tracking with vectors": (f"TBLPROPERTIES ({ROW_TRACKING}, {VECTORS})", ["_ROW_ID", "_SEQUENCE_NUMBER"]),
    "partitions": ("PARTITIONED BY (id)", ["__paimon_row_index"]),
}


@dataclass(frozen=True, kw_only=True)
class RowStatementCase:
    """A statement and the SELECT of the rows after it; `{n}` is a number that is hidden, `{t}` the table."""

    statement: str
    rows: str


def _update(values: dict[str, str], condition: str) -> RowStatementCase:
    """Return an UPDATE of the table `t`, with its SELECT."""
    columns = [
        f"CASE WHEN {condition} THEN {values[name]} ELSE {name} END" if name in values else name
        for name in ("id", "v", "c")
    ]
    assigned = ", ".join(f"{name} = {value}" for name, value in values.items())
    return RowStatementCase(
        statement=f"UPDATE {{t}} AS t SET {assigned} WHERE {condition}",
        rows=f"SELECT {', '.join(columns)} FROM {{t}} AS t",
    )


def _delete(condition: str) -> RowStatementCase:
    return RowStatementCase(
        statement=f"DELETE FROM {{t}} AS t WHERE {condition}",
        rows=f"SELECT id, v, c FROM {{t}} AS t WHERE NOT coalesce({condition}, false)",
    )


SOURCE = "(SELECT * FROM VALUES (0L, 100, 7), (1L, 101, 8), (77L, 102, 9) AS s(k, w, id)) s"
FULL_SOURCE = "(SELECT * FROM VALUES ({0}1, 1, 1L), ({0}2, 300, 300L) AS s(id, v, c)) s"
STARS, INSERTS, SEVERAL = (FULL_SOURCE.replace("{0}", tens) for tens in ("4", "5", "6"))

CHANGES = {
    "update by a hidden column": _update({"v": "v + 1"}, "{n} = 1"),
    "update by several hidden columns": _update(
        {"v": "v + 1"}, "upper(t.__paimon_file_path) LIKE '%BUCKET%' AND {n} < 3"
    ),
    "update by a qualified name": _update({"v": "v + 1"}, "t.{n} > 1 AND t.v IS NOT NULL"),
    "update to a hidden column": _update({"c": "{n}"}, "id < 4"),
    "update to and by hidden columns": _update({"c": "{n} * 10 + id", "v": "CAST(t.{n} AS INT)"}, "t.{n} % 2 = 0"),
    "update of all rows": RowStatementCase(
        statement="UPDATE {t} SET c = c + {n}, v = length(__paimon_file_path)",
        rows="SELECT id, length(__paimon_file_path), c + {n} FROM {t}",
    ),
    "update to a correlated subquery": _update(
        {"c": "(SELECT max(y.{n}) + 5 FROM {t} y WHERE y.id = t.id AND y.{n} = t.{n})"}, "t.{n} > 0"
    ),
    "update by a list of the same table": _update({"c": "11"}, "t.{n} IN (SELECT y.{n} FROM {t} y WHERE y.v > 5)"),
    "update by a maximum of the same table": _update({"c": "12"}, "t.{n} = (SELECT max(y.{n}) FROM {t} y)"),
    "update by an inner hidden column": _update({"c": "13"}, "EXISTS (SELECT 1 FROM {t} y WHERE y.{n} = t.id)"),
    "delete by a hidden column": _delete("{n} = 0 AND id = 1"),
    "delete by a maximum of the same table": _delete("t.{n} = (SELECT max(y.{n}) FROM {t} y) AND t.id > 3"),
    "delete by a correlated subquery": _delete(
        "EXISTS (SELECT 1 FROM {t} y WHERE y.{n} = t.{n} AND y.id = t.id AND y.id = 2)"
    ),
    "merge on a hidden column": RowStatementCase(
        statement=f"MERGE INTO {{t}} t USING {SOURCE} ON t.{{n}} = s.k AND t.id IN (3, 5) "
        "WHEN MATCHED THEN UPDATE SET v = s.w",
        rows="SELECT t.id, if(s.k IS NULL, t.v, s.w), t.c FROM {t} t "
        f"LEFT JOIN {SOURCE} ON t.{{n}} = s.k AND t.id IN (3, 5)",
    ),
    "merge with hidden columns in clauses": RowStatementCase(
        statement=f"MERGE INTO {{t}} t USING {SOURCE} ON t.id = s.k + 3 "
        "WHEN MATCHED AND t.{n} >= 0 THEN UPDATE SET c = t.{n} + s.k "
        "WHEN NOT MATCHED BY SOURCE AND {n} < 100 THEN UPDATE SET v = CAST({n} AS INT), c = t.c + 1",
        rows="SELECT t.id, if(s.k IS NULL, CAST(t.{n} AS INT), t.v), if(s.k IS NULL, t.c + 1, t.{n} + s.k) FROM {t} t "
        f"LEFT JOIN {SOURCE} ON t.id = s.k + 3",
    ),
    "merge that deletes and inserts": RowStatementCase(
        statement=f"MERGE INTO {{t}} t USING {SOURCE} ON t.{{n}} = s.k AND t.id = 4 "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, c) VALUES (s.id + 20, s.k)",
        rows=f"SELECT id, v, c FROM {{t}} t WHERE NOT EXISTS (SELECT 1 FROM {SOURCE} WHERE t.{{n}} = s.k AND t.id = 4) "
        f"UNION ALL SELECT s.id + 20, CAST(NULL AS INT), s.k FROM {SOURCE} "
        "WHERE NOT EXISTS (SELECT 1 FROM {t} t WHERE t.{n} = s.k AND t.id = 4)",
    ),
    "merge with stars": RowStatementCase(
        statement=f"MERGE INTO {{t}} t USING {STARS} ON t.{{n}} + 0 = s.v AND t.id = 5 "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        rows=f"SELECT coalesce(s.id, t.id), if(s.id IS NULL, t.v, s.v), if(s.id IS NULL, t.c, s.c) FROM {{t}} t "
        f"FULL JOIN {STARS} ON t.{{n}} + 0 = s.v AND t.id = 5",
    ),
    "merge that only inserts": RowStatementCase(
        statement=f"MERGE INTO {{t}} t USING {INSERTS} ON t.{{n}} > 1000 AND t.id = s.id "
        "WHEN NOT MATCHED AND s.id = 52 THEN INSERT *",
        rows="SELECT id, v, c FROM {t} UNION ALL SELECT 52, 300, 300L",
    ),
    "merge with several inserts": RowStatementCase(
        statement=f"MERGE INTO {{t}} t USING {SEVERAL} ON t.{{n}} > 1000 AND t.id = s.id "
        "WHEN NOT MATCHED AND s.id = 62 THEN INSERT (id) VALUES (s.id + 9) WHEN NOT MATCHED THEN INSERT *",
        rows="SELECT id, v, c FROM {t} UNION ALL SELECT 71, NULL, NULL UNION ALL SELECT 61, 1, 1L",
    ),
    "merge of the table with itself": RowStatementCase(
        statement="MERGE INTO {t} t USING {t} s ON t.{n} = s.{n} AND t.id = s.id "
        "WHEN MATCHED AND s.{n} >= 0 THEN UPDATE SET c = s.{n} + t.{n} + s.id",
        rows="SELECT id, v, 2 * {n} + id FROM {t}",
    ),
    "merge with hidden columns of a query": RowStatementCase(
        statement="MERGE INTO {t} t USING (SELECT id, {n} AS n FROM {t} WHERE id > 2) s ON t.{n} = s.n AND s.id = t.id "
        "WHEN MATCHED THEN UPDATE SET v = (SELECT CAST(count(y.{n}) AS INT) FROM {t} y WHERE y.{n} = t.{n})",
        rows="SELECT t.id, if(t.id > 2, (SELECT CAST(count(y.{n}) AS INT) FROM {t} y WHERE y.{n} = t.{n}), t.v), t.c "
        "FROM {t} t",
    ),
}


SHORT = (
    "update to and by hidden columns",
    "delete by a maximum of the same table",
    "merge with stars",
    "merge that only inserts",
)
"""Changes of the short form: one of each statement."""


def _failures(lake: SparkLake, kind: str, names: Iterable[str]) -> list[str]:
    """Run the changes on a table of the kind, by each of its hidden numbers, and return those with other rows."""
    properties, hidden = KINDS[kind]
    table = f"{lake.name}.db.t"
    lake.sql(f"CREATE TABLE {table} (id INT, v INT, c BIGINT) {properties}")
    failures = []
    for number in hidden:
        lake.sql(f"INSERT OVERWRITE {table} {ROWS}")
        for name in names:
            statement, rows = (
                text.replace("{t}", table).replace("{n}", number)
                for text in (CHANGES[name].statement, CHANGES[name].rows)
            )
            expected = sorted(lake.tuples(rows), key=str)
            lake.sql(statement)
            found = sorted(lake.tuples(f"SELECT * FROM {table}"), key=str)
            if found != expected:
                failures.append(f"{name} by {number}: {found}, not {expected}")
    return failures


def test_a_statement_of_each_kind_names_hidden_columns(lake: SparkLake) -> None:
    assert _failures(lake, "append with vectors", SHORT) == []


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_statements_that_name_hidden_columns_change_the_rows_that_a_query_finds(lake: SparkLake, kind: str) -> None:
    assert _failures(lake, kind, CHANGES) == []


def test_updates_by_hidden_columns_keep_the_ids_of_rows(lake: SparkLake) -> None:
    table = f"{lake.name}.db.t"
    lake.sql(f"CREATE TABLE {table} (id INT, s STRUCT<_ROW_ID: INT>) TBLPROPERTIES ({ROW_TRACKING})")
    lake.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, named_struct('_ROW_ID', id) FROM range(1, 5)")
    ids = f"SELECT id, s._ROW_ID, _ROW_ID, _SEQUENCE_NUMBER FROM {table} ORDER BY _ROW_ID"
    lake.sql(f"UPDATE {table} AS x SET x.s._ROW_ID = CAST(x._row_id AS INT) + 100 WHERE _Row_Id IN (1, 2)")
    assert lake.tuples(ids) == [(1, 1, 0, 1), (2, 101, 1, 2), (3, 102, 2, 2), (4, 4, 3, 1)]
    lake.sql(
        f"MERGE INTO {table} t USING (SELECT 3L AS k) s ON t._ROW_ID = s.k WHEN MATCHED THEN UPDATE SET id = t._ROW_ID"
    )
    assert lake.tuples(ids) == [(1, 1, 0, 1), (2, 101, 1, 2), (3, 102, 2, 2), (3, 4, 3, 3)]


ON_ID = "MERGE INTO {t} t USING (SELECT 1 AS id, 2 AS v) s ON t.id = s.id"


@pytest.mark.parametrize(
    ("properties", "statement", "refused"),
    [
        (ROW_TRACKING, "UPDATE {t} SET _ROW_ID = 4", "'_ROW_ID' of .*db.t can't be assigned"),
        (ROW_TRACKING, "UPDATE {t} AS v SET v._row_id = 4", "'_row_id' of .*db.t can't be assigned"),
        ("", "UPDATE {t} SET {t}.__paimon_row_index = 4", "'__paimon_row_index' of .*db.t can't be assigned"),
        (
            ROW_TRACKING,
            f"{ON_ID} WHEN MATCHED THEN UPDATE SET t._SEQUENCE_NUMBER = 1",
            "'_SEQUENCE_NUMBER' of .*db.t can't be assigned",
        ),
        (ROW_TRACKING, f"{ON_ID} WHEN NOT MATCHED THEN INSERT (id, _ROW_ID) VALUES (s.id, 7)", "can't be assigned"),
        (
            "",
            "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 1 AS id, 2 AS v) s "
            "ON t.id = s.id AND t.__paimon_row_index = 0 WHEN MATCHED THEN UPDATE SET *",
            "'__paimon_row_index' can't add columns to .*db.t.*ALTER TABLE.*list the assigned columns",
        ),
        (
            "'primary-key' = 'id', 'bucket' = '1', 'changelog-producer' = 'input'",
            "UPDATE {t} SET v = 1 WHERE __interbed_row.v = 10",
            "'__interbed_row' serves interbed itself",
        ),
    ],
)
def test_hidden_columns_are_refused_by_name_where_they_have_no_meaning(
    lake: SparkLake, properties: str, statement: str, refused: str
) -> None:
    table = f"{lake.name}.db.t"
    lake.sql(f"CREATE TABLE {table} (id INT, v INT) TBLPROPERTIES ({properties or VECTORS})")
    lake.sql(f"INSERT INTO {table} VALUES (1, 10)")
    with pytest.raises(Exception, match=refused):
        lake.sql(statement.replace("{t}", table))
    assert lake.tuples(f"SELECT * FROM {table}") == [(1, 10)]


def test_a_merge_with_listed_columns_names_hidden_columns_where_schemas_are_merged(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, v INT) TBLPROPERTIES ('write.merge-schema' = 'true')")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 10)")
    lake.sql(
        "MERGE INTO {lake}.db.t t USING (SELECT 1 AS id, 2 AS v, 3 AS more) s "
        "ON t.id = s.id AND t.__paimon_row_index = 0 WHEN MATCHED THEN UPDATE SET v = s.v"
    )
    assert lake.tuples("SELECT * FROM {lake}.db.t") == [(1, 2)]


def test_a_merge_of_a_frame_and_an_explained_statement_name_hidden_columns(lake: SparkLake) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, v INT) TBLPROPERTIES ({ROW_TRACKING})")
    lake.sql("INSERT INTO {lake}.db.t SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 10), (2, 20) AS s(id, v)")
    source = lake.frame("SELECT 7 AS id, 70 AS v, 1L AS k").alias("s")
    source.mergeInto(f"{lake.name}.db.t", expr(f"{lake.name}.db.t._ROW_ID = s.k")).whenMatched().updateAll().merge()
    assert lake.tuples("SELECT id, v, _ROW_ID FROM {lake}.db.t ORDER BY id") == [(1, 10, 0), (7, 70, 1)]
    assert "_ROW_ID" in lake.plan("UPDATE {lake}.db.t SET v = _ROW_ID WHERE _ROW_ID = 1")
    lake.spark.sql(f"UPDATE {lake.name}.db.t SET v = :v WHERE _ROW_ID = :row", args={"v": 5, "row": 0})
    assert lake.tuples("SELECT id, v, _ROW_ID FROM {lake}.db.t ORDER BY id") == [(1, 5, 0), (7, 70, 1)]
