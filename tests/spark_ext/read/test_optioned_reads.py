"""Several reads of one table with different options in one statement: each has its own rows."""

import pytest

from interbed import load_catalog
from tests.spark_ext.conftest import SparkLake

CHANGES = "(SELECT id FROM paimon_incremental_query('{lake}.db.t', '2', '3'))"
FIRST = "(SELECT id FROM {lake}.db.t WITH ('scan.snapshot-id' = '1'))"


@pytest.fixture(params=["", "'primary-key' = 'id', 'bucket' = '1'"], ids=["append", "keys"])
def three(request: pytest.FixtureRequest, lake: SparkLake) -> SparkLake:
    """A catalog whose table `db.t` has a row more in each of three snapshots."""
    options = f"TBLPROPERTIES ({request.param})" if request.param else ""
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT NOT NULL, v STRING) {options}")
    for number in (1, 2, 3):
        lake.sql(f"INSERT INTO {{lake}}.db.t VALUES ({number}, 'v')")
    return lake


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("query", "ids"),
    [
        (f"SELECT id FROM {{lake}}.db.t WHERE id NOT IN {CHANGES}", [1, 2]),
        (f"{CHANGES} UNION ALL SELECT id FROM {{lake}}.db.t", [1, 2, 3, 3]),
        (f"{CHANGES} UNION ALL SELECT id FROM paimon_incremental_query('{{lake}}.db.t', '1', '2')", [2, 3]),
        (f"SELECT id FROM {{lake}}.db.t UNION ALL {FIRST}", [1, 1, 2, 3]),
        (f"{FIRST} UNION ALL SELECT id FROM {{lake}}.db.t WITH ('scan.snapshot-id' = '2')", [1, 1, 2]),
        (f"WITH first AS {FIRST} SELECT id FROM {{lake}}.db.t WHERE id NOT IN (SELECT id FROM first)", [2, 3]),
        (f"SELECT id FROM {{lake}}.db.t VERSION AS OF 2 WHERE id NOT IN {FIRST}", [2]),
    ],
)
def test_each_read_of_a_statement_has_its_own_options(three: SparkLake, query: str, ids: list[int]) -> None:
    assert sorted(row.id for row in three.sql(query)) == ids


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        (
            f"INSERT INTO {{lake}}.db.t SELECT id + 10, 'new' FROM {CHANGES}",
            [(1, "v"), (2, "v"), (3, "v"), (13, "new")],
        ),
        (f"UPDATE {{lake}}.db.t SET v = 'new' WHERE id IN {CHANGES}", [(1, "v"), (2, "v"), (3, "new")]),
        (f"DELETE FROM {{lake}}.db.t WHERE id IN {FIRST}", [(2, "v"), (3, "v")]),
        (
            f"MERGE INTO {{lake}}.db.t t USING {CHANGES} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'new'",
            [(1, "v"), (2, "v"), (3, "new")],
        ),
    ],
)
def test_a_statement_changes_rows_by_another_read_of_its_table(
    three: SparkLake, statement: str, rows: list[tuple[int, str]]
) -> None:
    three.sql(statement)

    assert three.tuples("SELECT id, v FROM {lake}.db.t ORDER BY id") == rows


def test_views_keep_the_options_of_their_reads(three: SparkLake) -> None:
    three.sql(f"CREATE OR REPLACE TEMP VIEW first_rows AS {FIRST}")

    query = "SELECT id FROM first_rows UNION ALL SELECT id FROM {lake}.db.t"
    assert sorted(row.id for row in three.sql(query)) == [1, 1, 2, 3]
    three.sql("DROP VIEW first_rows")


def test_the_option_of_a_branch_reads_the_newest_rows_of_the_branch(three: SparkLake) -> None:
    table = load_catalog(warehouse=str(three.warehouse)).get_table("db.t")
    table.versions.create_tag("base")
    table.versions.create_branch("b", "base")
    three.sql("INSERT INTO {lake}.db.`t$branch_b` VALUES (4, 'v')")

    read = three.spark.read.option("branch", "b")
    assert read.table(f"{three.name}.db.t").count() == 4
    assert three.tuples("SELECT count(*) FROM {lake}.db.t") == [(3,)]
    three.sql("ALTER TABLE {lake}.db.t ADD COLUMN more INT")
    with pytest.raises(Exception, match=r"other columns .* Name `t\$branch_b`"):
        three.spark.read.option("branch", "b").table(f"{three.name}.db.t").count()
    with pytest.raises(Exception, match=r"other columns .* Name `t\$branch_b`"):
        three.frame("SELECT 5 AS id, 'w' AS v, 1 AS more").writeTo(f"{three.name}.db.t").option("branch", "b").append()


def test_the_option_of_a_branch_writes_to_the_branch(three: SparkLake) -> None:
    table = load_catalog(warehouse=str(three.warehouse)).get_table("db.t")
    table.versions.create_branch("b")
    rows = three.frame("SELECT 5 AS id, 'w' AS v")
    rows.writeTo(f"{three.name}.db.t").option("branch", "b").append()

    assert three.tuples("SELECT * FROM {lake}.db.`t$branch_b`") == [(5, "w")]
    with pytest.raises(Exception, match="There is no branch 'none'"):
        rows.writeTo(f"{three.name}.db.t").option("branch", "none").append()
    assert three.tuples("SELECT count(*) FROM {lake}.db.t") == [(3,)]


def test_the_option_of_another_branch_than_the_named_one_is_refused(three: SparkLake) -> None:
    table = load_catalog(warehouse=str(three.warehouse)).get_table("db.t")
    for name in ("b", "c"):
        table.versions.create_branch(name)
    rows, of_branch = three.frame("SELECT 5 AS id, 'w' AS v"), f"{three.name}.db.`t$branch_b`"
    contradicts = r"'branch' = '\w+' contradicts the name `t\$branch_b`"

    for other in ("c", "main"):
        with pytest.raises(Exception, match=contradicts):
            rows.writeTo(of_branch).option("branch", other).append()
        with pytest.raises(Exception, match=contradicts):
            three.spark.read.option("branch", other).table(of_branch).count()
    rows.writeTo(of_branch).option("branch", "b").append()
    assert three.spark.read.option("branch", "b").table(of_branch).count() == 1
    assert three.tuples("SELECT count(*) FROM {lake}.db.`t$branch_c`") == [(0,)]
