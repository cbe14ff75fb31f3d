"""UPDATE, DELETE and MERGE INTO, DELETE of partitions, TRUNCATE TABLE."""

import pytest

from interbed import load_catalog
from interbed.storage.table.table import Table
from tests.spark_ext.conftest import SparkLake
from tests.support.pages import Page
from tests.support.sql_script import run_script

KEYED = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2'"


def _table(lake: SparkLake, name: str = "db.t") -> Table:
    return load_catalog(warehouse=str(lake.warehouse)).get_table(name)


@pytest.mark.usefixtures("usual_queries")
def test_rows_are_updated_deleted_and_merged_by_their_key(lake: SparkLake) -> None:
    run_script(
        """
        CREATE TABLE {lake}.db.t (id INT, name STRING, n BIGINT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2');
        INSERT INTO {lake}.db.t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30), (4, 'd', NULL);
        UPDATE {lake}.db.t AS x SET n = x.n + 1, name = upper(name) WHERE id IN (1, 2);
        SELECT * FROM {lake}.db.t;
-- 1, A, 11
-- 2, B, 21
-- 3, c, 30
-- 4, d, null
        DELETE FROM {lake}.db.t WHERE n > 15 AND id <> 3;
        DELETE FROM {lake}.db.t WHERE id IN (SELECT 4);
        SELECT * FROM {lake}.db.t;
-- 1, A, 11
-- 3, c, 30
        CREATE OR REPLACE TEMP VIEW s AS SELECT * FROM
          VALUES (1, 'x', 5L), (3, 'drop', 0L), (7, 'new', 7L), (8, 'no', 8L) AS s(id, name, n);
        MERGE INTO {lake}.db.t t USING s ON t.id = s.id
          WHEN MATCHED AND s.name = 'drop' THEN DELETE
          WHEN MATCHED THEN UPDATE SET t.n = t.n + s.n
          WHEN NOT MATCHED AND s.name = 'no' THEN INSERT (id) VALUES (s.id)
          WHEN NOT MATCHED THEN INSERT *;
        SELECT * FROM {lake}.db.t;
-- 1, A, 16
-- 7, new, 7
-- 8, null, null
        MERGE INTO {lake}.db.t t USING s ON t.id = s.id AND s.id = 1
          WHEN MATCHED THEN UPDATE SET *
          WHEN NOT MATCHED BY SOURCE AND t.id = 7 THEN DELETE
          WHEN NOT MATCHED BY SOURCE THEN UPDATE SET name = 'kept';
        SELECT * FROM {lake}.db.t;
-- 1, x, 5
-- 8, kept, null
        """.replace("{lake}", lake.name),
        lake.sql,
    )
    snapshots = len(_table(lake).snapshots())
    lake.sql("UPDATE {lake}.db.t SET n = 0 WHERE id = 99")
    lake.sql("DELETE FROM {lake}.db.t WHERE id = 99")
    assert len(_table(lake).snapshots()) == snapshots
    assert "columns=[id]" in lake.plan("DELETE FROM {lake}.db.t WHERE id IN (SELECT 4)")


def test_deleted_rows_are_written_whole_where_the_engine_requires_them(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id INT, v INT, s INT NOT NULL) "
        f"{KEYED}, 'sequence.field' = 's', 'changelog-producer' = 'input')"
    )
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 10, 5), (2, 20, 5), (3, 30, 5), (4, 40, 5)")
    lake.sql("DELETE FROM {lake}.db.t WHERE id = 1")
    lake.sql(
        "MERGE INTO {lake}.db.t t USING (SELECT * FROM VALUES (2, 'd'), (3, 'u') s(id, op)) s ON t.id = s.id "
        "WHEN MATCHED AND op = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET v = -1"
    )

    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(3, -1, 5), (4, 40, 5)]
    changes = _table(lake).changes(2, 3).to_arrow().sort_by("id").to_pylist()
    assert [(c["_row_kind"], c["id"], c["v"], c["s"]) for c in changes] == [
        (3, 1, 10, 5),
        (3, 2, 20, 5),
        (2, 3, -1, 5),
    ]


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ("'merge-engine' = 'first-row'", {"DELETE": "first-row", "UPDATE": "first-row", "MERGE": "first-row"}),
        (
            "'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'sum'",
            {"DELETE": "aggregation.remove-record-on-delete", "UPDATE": "aggregation", "MERGE": "aggregation"},
        ),
        (
            "'merge-engine' = 'partial-update'",
            {"DELETE": "remove-record-on-delete", "MERGE": "remove-record-on-delete"},
        ),
        (
            "'merge-engine' = 'partial-update', 'fields.g.sequence-group' = 'v', 'fields.v.aggregate-function' = 'sum'",
            {"UPDATE": "the aggregate function 'sum'", "MERGE": "the aggregate function 'sum'"},
        ),
        ("'ignore-delete' = 'true'", {"DELETE": "ignore-delete"}),
    ],
)
def test_unsupported_changes_of_an_engine_are_refused_with_the_remedy(
    lake: SparkLake, options: str, refused: dict[str, str]
) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, v INT, g INT) {KEYED}, {options})")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 10, 1), (2, 20, 1)")
    snapshots = len(_table(lake).snapshots())
    statements = {
        "DELETE": "DELETE FROM {lake}.db.t WHERE v = 10",
        "UPDATE": "UPDATE {lake}.db.t SET v = 1 WHERE v = 10",
        "MERGE": "MERGE INTO {lake}.db.t t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    }
    for statement, reason in refused.items():
        with pytest.raises(Exception, match=reason):
            lake.sql(statements[statement])
    assert lake.tuples("SELECT id, v FROM {lake}.db.t ORDER BY id") == [(1, 10), (2, 20)]
    assert len(_table(lake).snapshots()) == snapshots


@pytest.mark.parametrize(
    ("of", "new", "refused"),
    [
        ("s INT", "3", "'s' can't go from 5 to 3.*Set 's' to 5 or more"),
        ("s INT", "CAST(NULL AS INT)", "'s' can't go from 5 to null"),
        ("s DATE", "DATE '2024-01-04'", "'s' can't go from 2024-01-05 to 2024-01-04"),
        ("s STRING", "'4'", "'s' can't go from 5 to 4"),
    ],
    ids=["int", "null", "date", "string"],
)
def test_an_update_to_a_lower_sequence_is_refused(lake: SparkLake, of: str, new: str, refused: str) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, v INT, {of}) {KEYED}, 'sequence.field' = 's')")
    five = {"s INT": "5", "s DATE": "DATE '2024-01-05'", "s STRING": "'5'"}[of]
    lake.sql(f"INSERT INTO {{lake}}.db.t VALUES (1, 10, {five}), (2, 20, {five})")
    for statement in (
        f"UPDATE {{lake}}.db.t SET v = 99, s = {new} WHERE id = 1",
        f"MERGE INTO {{lake}}.db.t t USING (SELECT 1 AS id, 99 AS v, {new} AS s) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    ):
        with pytest.raises(Exception, match=rf"(?s)db\.t'.*id = 1.*{refused}"):
            lake.sql(statement)
    assert len(_table(lake).snapshots()) == 1
    lake.sql("UPDATE {lake}.db.t SET v = 98 WHERE id = 1")
    assert lake.tuples("SELECT id, v FROM {lake}.db.t ORDER BY id") == [(1, 98), (2, 20)]


def test_an_update_that_raises_a_descending_sequence_is_refused(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id INT, v INT, s INT) "
        f"{KEYED}, 'sequence.field' = 's', 'sequence.field.sort-order' = 'descending')"
    )
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 10, 5)")
    with pytest.raises(Exception, match=r"(?s)'s' can't go from 5 to 6.*Set 's' to 5 or less"):
        lake.sql("UPDATE {lake}.db.t SET v = 99, s = 6")
    lake.sql("UPDATE {lake}.db.t SET v = 99, s = 4")
    assert lake.tuples("SELECT * FROM {lake}.db.t") == [(1, 99, 4)]


def test_an_update_that_a_partial_update_would_drop_is_refused(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id INT, v INT, g INT, a INT, h INT, b INT) "
        f"{KEYED}, 'merge-engine' = 'partial-update', 'fields.g.sequence-group' = 'a', 'fields.h.sequence-group' = 'b')"
    )
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 10, 5, 50, NULL, NULL)")
    for change, refused in {
        "v = NULL": "'v' can't be set from 10 to null.*partial-update",
        "a = 51, g = 4": "'g' can't go from 5 to 4",
        "b = 7": "'b' can't be set from null to 7.*'h' is null",
        "g = NULL": "'g' can't be set from 5 to null",
    }.items():
        with pytest.raises(Exception, match=f"(?s){refused}"):
            lake.sql(f"UPDATE {{lake}}.db.t SET {change}")
    assert len(_table(lake).snapshots()) == 1
    lake.sql("UPDATE {lake}.db.t SET v = 11, a = 51, h = 1, b = 7")
    assert lake.tuples("SELECT * FROM {lake}.db.t") == [(1, 11, 5, 51, 1, 7)]
    lake.sql("MERGE INTO {lake}.db.t t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = NULL")
    assert lake.tuples("SELECT v FROM {lake}.db.t") == [(11,)]


def test_an_update_to_null_is_refused_in_a_column_with_a_default_too(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id INT, v INT DEFAULT 5, g INT DEFAULT 1, a INT DEFAULT 2) "
        f"{KEYED}, 'merge-engine' = 'partial-update', 'fields.g.sequence-group' = 'a')"
    )
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 10, 5, 50)")
    for change, column in {"v = NULL": "v", "a = 51, g = NULL": "g"}.items():
        with pytest.raises(Exception, match=f"'{column}' can't be set from"):
            lake.sql(f"UPDATE {{lake}}.db.t SET {change}")
    assert lake.tuples("SELECT * FROM {lake}.db.t") == [(1, 10, 5, 50)]


def test_engines_that_can_remove_records_do(lake: SparkLake) -> None:
    for name, options in {
        "a": "'merge-engine' = 'aggregation', 'aggregation.remove-record-on-delete' = 'true'",
        "p": "'merge-engine' = 'partial-update', 'partial-update.remove-record-on-delete' = 'true'",
    }.items():
        lake.sql(f"CREATE TABLE {{lake}}.db.{name} (id INT, v INT) {KEYED}, {options})")
        lake.sql(f"INSERT INTO {{lake}}.db.{name} VALUES (1, 10), (2, 20)")
        lake.sql(f"DELETE FROM {{lake}}.db.{name} WHERE v = 10")
        assert lake.tuples(f"SELECT * FROM {{lake}}.db.{name}") == [(2, 20)]


def test_an_invalid_statement_changes_nothing_and_leaves_no_file(lake: SparkLake) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, v INT NOT NULL) {KEYED})")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 10), (2, 20)")
    files = lake.files("db.t")
    for statement, reason in {
        "MERGE INTO {lake}.db.t t USING (SELECT 1 AS id, explode(array(1, 2)) AS v) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET *": "MERGE_CARDINALITY_VIOLATION",
        "UPDATE {lake}.db.t SET id = id + 1": "primary key column 'id' can't be updated",
        "UPDATE {lake}.db.t SET v = CAST(3000000000 AS BIGINT)": "CAST_OVERFLOW",
        "UPDATE {lake}.db.t SET v = CAST(NULL AS INT) WHERE id = 2": "NOT_NULL_ASSERT_VIOLATION",
        "DELETE FROM {lake}.db.`t$snapshots` WHERE snapshot_id = 1": r"t\$snapshots.*read only",
        "DELETE FROM {lake}.db.`t$snapshots`": r"t\$snapshots.*read only",
        "UPDATE {lake}.db.`t$snapshots` SET snapshot_id = 1": r"t\$snapshots.*read only",
    }.items():
        with pytest.raises(Exception, match=reason):
            lake.sql(statement)
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(1, 10), (2, 20)]
    assert lake.files("db.t") == files
    assert len(_table(lake).snapshots()) == 1


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_rows_of_append_tables_are_changed_by_file_and_position(lake: SparkLake, vectors: str) -> None:
    run_script(
        """
        CREATE TABLE {lake}.db.t (id INT, v STRING, p STRING) PARTITIONED BY (p)
          TBLPROPERTIES ('deletion-vectors.enabled' = '{vectors}');
        INSERT INTO {lake}.db.t VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'x'), (4, 'd', 'y'), (5, NULL, NULL);
        INSERT INTO {lake}.db.t VALUES (1, 'again', 'x');
        SELECT id, __paimon_row_index FROM {lake}.db.t WHERE id = 3 AND __paimon_file_path LIKE '%/p=x/bucket-0/%';
-- 3, 2
        DELETE FROM {lake}.db.t WHERE v = 'b' OR v IS NULL;
        UPDATE {lake}.db.t SET v = upper(v), p = 'z' WHERE id = (SELECT 1);
        SELECT * FROM {lake}.db.t;
-- 1, A, z
-- 1, AGAIN, z
-- 3, c, x
-- 4, d, y
        MERGE INTO {lake}.db.t t USING (SELECT * FROM VALUES (3, 'm'), (4, 'drop'), (6, 'n') AS s(id, v)) s
          ON t.id = s.id AND t.p IN ('x', 'y')
          WHEN MATCHED AND s.v = 'drop' THEN DELETE
          WHEN MATCHED THEN UPDATE SET v = s.v
          WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.id, s.v, 'new');
        SELECT * FROM {lake}.db.t;
-- 1, A, z
-- 1, AGAIN, z
-- 3, m, x
-- 6, n, new
        DELETE FROM {lake}.db.t WHERE id = 99;
        DELETE FROM {lake}.db.t WHERE v = 'A';
        SELECT count(*) FROM {lake}.db.t;
-- 3
        """.replace("{lake}", lake.name).replace("{vectors}", vectors),
        lake.sql,
    )
    table = _table(lake)
    assert len(table.snapshots()) == 6
    deleted = [d for s in table.new_scan().plan().splits for d in s.deletion_files]
    assert bool(deleted) == (vectors == "true")
    rows = table.scan().to_arrow().num_rows
    table.compact()
    assert table.scan().to_arrow().num_rows == rows == 3


@pytest.mark.parametrize("properties", ["", KEYED + ")"], ids=["append", "key"])
def test_values_may_be_correlated_subqueries(lake: SparkLake, properties: str) -> None:
    run_script(
        """
        CREATE TABLE {lake}.db.s (id INT, v INT);
        INSERT INTO {lake}.db.s VALUES (1, 10), (1, 11), (2, 20);
        CREATE TABLE {lake}.db.t (id INT, v INT) {properties};
        INSERT INTO {lake}.db.t VALUES (1, 0), (2, 0), (3, 0);
        UPDATE {lake}.db.t x SET v = (SELECT max(s.v) FROM {lake}.db.s s WHERE s.id = x.id) WHERE id > 1 OR v = 0;
        SELECT * FROM {lake}.db.t ORDER BY id;
-- 1, 11
-- 2, 20
-- 3, null
        UPDATE {lake}.db.t x SET v = CASE
          WHEN EXISTS (SELECT 1 FROM {lake}.db.s s WHERE s.id = x.id AND s.v > 15) THEN 1
          WHEN id IN (SELECT id FROM {lake}.db.s) THEN 2 ELSE 3 END;
        SELECT * FROM {lake}.db.t ORDER BY id;
-- 1, 2
-- 2, 1
-- 3, 3
        MERGE INTO {lake}.db.t t USING (SELECT * FROM VALUES (1), (2), (9) u(id)) u ON t.id = u.id
          WHEN MATCHED AND u.id = 1 THEN UPDATE SET v = (SELECT min(s.v) FROM {lake}.db.s s WHERE s.id = t.id)
          WHEN MATCHED THEN DELETE
          WHEN NOT MATCHED THEN
            INSERT (id, v) VALUES (u.id, (SELECT max(s.v) FROM {lake}.db.s s WHERE s.id = u.id - 8))
          WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = (SELECT -max(x.v) FROM {lake}.db.t x WHERE x.id = t.id);
        SELECT * FROM {lake}.db.t ORDER BY id;
-- 1, 10
-- 3, -3
-- 9, 11
        MERGE INTO {lake}.db.t t USING {lake}.db.s u ON t.id = u.id AND u.v = 10
          WHEN MATCHED THEN UPDATE SET v = u.v + (SELECT count(*) FROM {lake}.db.s s WHERE s.id = u.id);
        SELECT v FROM {lake}.db.t WHERE id = 1;
-- 12
        """.replace("{lake}", lake.name).replace("{properties}", properties),
        lake.sql,
    )


def test_deleting_whole_partitions_reads_no_row(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, dt STRING, h INT) PARTITIONED BY (dt, h)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 1), (4, NULL, 1)")
    assert "DeleteFromTable" in lake.plan("DELETE FROM {lake}.db.t WHERE dt = 'a' AND h > 1")

    lake.sql("DELETE FROM {lake}.db.t WHERE dt = 'a' AND h > 1")
    assert lake.tuples("SELECT id FROM {lake}.db.t ORDER BY id") == [(1,), (3,), (4,)]
    lake.sql("DELETE FROM {lake}.db.t WHERE dt IS NULL OR dt = 'zzz'")
    assert lake.tuples("SELECT id FROM {lake}.db.t ORDER BY id") == [(1,), (3,)]
    lake.sql("DELETE FROM {lake}.db.t WHERE dt = 'zzz'")
    assert [s.commit_kind.value for s in _table(lake).snapshots()] == ["APPEND", "OVERWRITE", "OVERWRITE"]
    lake.sql("TRUNCATE TABLE {lake}.db.t")
    assert lake.tuples("SELECT * FROM {lake}.db.t") == []
    lake.sql("INSERT INTO {lake}.db.t VALUES (5, 'a', 1)")
    lake.sql("DELETE FROM {lake}.db.t")
    assert lake.tuples("SELECT * FROM {lake}.db.t") == []


@pytest.mark.long
def test_the_page_on_changes_runs_as_written(lake: SparkLake) -> None:
    lake.sql("USE {lake}")
    lake.sql("CREATE DATABASE shop")

    assert Page("spark-changes.md").run_sql(lake.sql) > 15


@pytest.mark.parametrize("new", ["new", "zzz"])
def test_a_key_that_a_merge_deletes_and_inserts_has_the_inserted_row(lake: SparkLake, new: str) -> None:
    lake.sql("CREATE TABLE {lake}.db.m (id INT, p STRING, v INT) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    lake.sql("INSERT INTO {lake}.db.m VALUES (1, 'old', 1), (2, 'old', 2), (3, 'old', 3)")
    source = f"VALUES (1, '{new}', 10), (2, '{new}', 20), (4, '{new}', 40) AS s(id, p, v)"
    lake.sql(
        f"MERGE INTO {{lake}}.db.m t USING (SELECT * FROM {source}) s ON t.id = s.id AND t.p = s.p "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert sorted(lake.tuples("SELECT * FROM {lake}.db.m")) == [(1, new, 10), (2, new, 20), (4, new, 40)]


def test_a_default_that_was_set_later_is_not_written_by_changes(lake: SparkLake) -> None:
    for name, properties in (("a", ""), ("k", "TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")):
        lake.sql(f"CREATE TABLE {{lake}}.db.{name} (id INT, v INT, w INT) {properties}")
        lake.sql(f"INSERT INTO {{lake}}.db.{name} VALUES (1, NULL, 1), (2, 5, 2), (3, NULL, 3)")
        lake.sql(f"ALTER TABLE {{lake}}.db.{name} ALTER COLUMN v SET DEFAULT 7")
        lake.sql(f"DELETE FROM {{lake}}.db.{name} WHERE id = 2")
        lake.sql(f"UPDATE {{lake}}.db.{name} SET w = 30 WHERE id = 3")
        assert sorted(lake.tuples(f"SELECT * FROM {{lake}}.db.{name}")) == [(1, None, 1), (3, None, 30)], name


NEW_IDS = "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.new, s.v)"


NEW_OR_SET = f"WHEN MATCHED THEN UPDATE SET v = s.v {NEW_IDS}"


@pytest.mark.parametrize(
    ("options", "source", "clauses"),
    [
        ("'bucket'='2'", "(1, 1, 20), (4, 1, 21)", NEW_OR_SET),
        ("'bucket'='1', 'merge-engine'='partial-update'", "(1, 1, 20), (4, 1, 21)", NEW_OR_SET),
        ("'bucket'='-1'", "(7, 2, 20), (8, 2, 21)", NEW_OR_SET),
        ("'bucket'='-2'", "(7, 2, 20), (8, 2, 21)", NEW_OR_SET),
        ("'bucket'='-2'", "(7, 2, 20), (8, 2, 21)", NEW_IDS),
    ],
    ids=["update and insert", "partial update", "dynamic buckets", "postponed buckets", "inserts only"],
)
def test_a_merge_that_writes_two_rows_of_one_key_is_refused_with_the_key(
    lake: SparkLake, options: str, source: str, clauses: str
) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.m (id INT, v INT) TBLPROPERTIES ('primary-key'='id', {options})")
    lake.sql("INSERT INTO {lake}.db.m VALUES (1, 10), (3, 30)")
    lake.sql("CALL {lake}.sys.compact(table => 'db.m')")
    before, files = lake.tuples("SELECT * FROM {lake}.db.m"), lake.files("db.m")
    with pytest.raises(Exception, match=r"several rows with the primary key id = [12]\b"):
        lake.sql(
            f"MERGE INTO {{lake}}.db.m t USING (SELECT * FROM VALUES {source} s(id, new, v)) s ON t.id = s.id {clauses}"
        )
    assert lake.tuples("SELECT * FROM {lake}.db.m") == before
    assert lake.files("db.m") == files


def test_a_merge_hides_no_rows_of_a_fallback_branch(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.daily (id INT, n INT, day STRING) PARTITIONED BY (day) "
        "TBLPROPERTIES ('primary-key' = 'day,id', 'bucket' = '1')"
    )
    table = _table(lake, "db.daily")
    table.versions.create_branch("live")
    _table(lake, "db.daily$branch_live").upsert([{"id": 1, "n": 1, "day": "y"}, {"id": 2, "n": 2, "day": "y"}])
    table.upsert([{"id": 1, "n": 7, "day": "x"}])
    lake.sql("ALTER TABLE {lake}.db.daily SET TBLPROPERTIES ('scan.fallback-branch' = 'live')")
    merge = (
        "MERGE INTO {lake}.db.daily AS t USING (SELECT 1 AS id, 5 AS n, '%s' AS day) AS s "
        "ON t.id = s.id AND t.day = s.day WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT *"
    )
    reading = merge.replace("SET n = s.n", "SET n = t.n + s.n")
    rows = "SELECT day, id, n FROM {lake}.db.daily ORDER BY day, id"
    before = [("x", 1, 7), ("y", 1, 1), ("y", 2, 2)]
    inserting = merge.replace("WHEN MATCHED THEN UPDATE SET n = s.n ", "").replace("1 AS id", "3 AS id")
    for each in (merge, reading, inserting):
        with pytest.raises(Exception, match=r"partition day=y .*branch 'live'.*'scan.fallback-branch' = ''"):
            lake.sql(each % "y")
    assert [tuple(row) for row in lake.sql(rows)] == before
    lake.sql(merge % "x")
    lake.sql(reading % "z")
    lake.sql("UPDATE {lake}.db.daily SET n = n + 1 WHERE id = 1")
    lake.sql("DELETE FROM {lake}.db.daily WHERE n = 2")
    assert [tuple(row) for row in lake.sql(rows)] == [("x", 1, 6), *before[1:], ("z", 1, 6)]
    lake.sql("SET spark.interbed.{lake}.db.daily.scan.fallback-branch=")
    try:
        lake.sql(merge % "y")
    finally:
        lake.sql("RESET spark.interbed.{lake}.db.daily.scan.fallback-branch")
    assert [tuple(row) for row in lake.sql(rows)] == [("x", 1, 6), ("y", 1, 5), ("z", 1, 6)]
