"""MERGE INTO that writes the source's row whether it is matched or not: without a read of the target."""

import pytest

from tests.spark_ext.conftest import SparkLake
from tests.spark_ext.executions import executions_of

KEYED = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2'"
STARS = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


def _reads_target(lake: SparkLake, merge: str) -> bool:
    """Run a MERGE and return True if it reads its target."""
    plans = [execution.physicalPlanDescription() for execution in executions_of(lake, merge)]
    (plan,) = [p for p in plans if "WriteDelta" in p or "AppendData" in p]
    return "WriteDelta" in plan


def test_a_merge_of_whole_rows_by_the_key_does_not_read_the_target(lake: SparkLake) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT NOT NULL, v BIGINT, name STRING) {KEYED})")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 10, 'a'), (2, 20, 'b')")
    source = "(SELECT * FROM VALUES ('x', 2, 21), ('y', 3, 30) s(name, id, v)) s"

    assert not _reads_target(lake, f"MERGE INTO {{lake}}.db.t AS t USING {source} ON s.id = t.id {STARS}")
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(1, 10, "a"), (2, 21, "x"), (3, 30, "y")]

    same = (
        "WHEN MATCHED THEN UPDATE SET v = s.v + 1, name = 'z' "
        "WHEN NOT MATCHED THEN INSERT (id, v, name) VALUES (s.id, s.v + 1, 'z')"
    )
    assert not _reads_target(
        lake,
        f"WITH s AS (SELECT * FROM {source} WHERE id < 3) MERGE INTO {{lake}}.db.t t USING s ON t.id <=> s.id {same}",
    )
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(1, 10, "a"), (2, 22, "z"), (3, 30, "y")]


def test_a_duplicate_source_key_is_an_error_whether_the_target_has_it_or_not(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (p INT, id INT, v INT) PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'p,id')"
    )
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 1, 10)")
    files = lake.files("db.t")
    merge = (
        "MERGE INTO {{lake}}.db.t t USING (SELECT * FROM VALUES {} s(p, id, v)) s ON t.p = s.p AND t.id = s.id " + STARS
    )

    with pytest.raises(Exception, match="MERGE_CARDINALITY_VIOLATION"):
        lake.sql(merge.format("(1, 1, 11), (1, 1, 12), (2, 1, 20)"))
    assert lake.files("db.t") == files
    assert lake.tuples("SELECT * FROM {lake}.db.t") == [(1, 1, 10)]
    with pytest.raises(Exception, match="several rows with the primary key p = 1, id = 2"):
        lake.sql(merge.format("(1, 1, 11), (1, 2, 12), (1, 2, 13)"))
    assert lake.files("db.t") == files
    lake.sql(merge.format("(1, 1, 11), (1, 2, 12)"))
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(1, 1, 11), (1, 2, 12)]
    assert len(lake.files("db.t")) == len(files) + 1


@pytest.mark.parametrize(
    ("columns", "options", "on", "clauses"),
    [
        ("id INT, v INT", ")", "t.id = s.id AND t.v > 0", STARS),
        ("id INT, v INT", ")", "t.id = s.id + 0", STARS),
        ("id INT, v INT", ")", "t.v = s.v", STARS),
        ("id INT, v INT", ")", "t.id = s.id", STARS.replace("MATCHED THEN UPDATE", "MATCHED AND s.v > 0 THEN UPDATE")),
        ("id INT, v INT", ")", "t.id = s.id", STARS.replace("INSERT *", "INSERT (id) VALUES (s.id)")),
        ("id INT, v INT", ")", "t.id = s.id", STARS.replace("SET *", "SET v = t.v + s.v")),
        ("id INT, v INT", ")", "t.id = s.id", "WHEN MATCHED THEN UPDATE SET *"),
        ("id INT, v INT", ")", "t.id = s.id", f"{STARS} WHEN NOT MATCHED BY SOURCE THEN DELETE"),
        ("id INT, v INT", ", 'changelog-producer' = 'input')", "t.id = s.id", STARS),
        ("id DOUBLE, v INT", ")", "t.id = s.id", STARS),
        ("id VARCHAR(9), v INT", ")", "t.id = s.id", STARS),
        ("id INT, v INT DEFAULT 5", ")", "t.id = s.id", STARS),
    ],
)
def test_a_merge_that_requires_existing_values_reads_the_target(
    lake: SparkLake, columns: str, options: str, on: str, clauses: str
) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t ({columns}) {KEYED}{options}")
    source = "(SELECT 1 AS id, 1 AS v)"
    assert _reads_target(lake, f"MERGE INTO {{lake}}.db.t t USING {source} s ON {on} {clauses}")


@pytest.mark.parametrize("properties", ["", f"{KEYED})", f"{KEYED}, 'merge-engine' = 'partial-update')"])
def test_a_merge_writes_a_default_in_inserted_rows_only(lake: SparkLake, properties: str) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT NOT NULL, v INT DEFAULT 5, w INT) {properties}")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 10, 1)")
    source = "(SELECT id, CAST(NULL AS INT) AS v, 2 AS w FROM VALUES (1), (2) s(id))"

    lake.sql(f"MERGE INTO {{lake}}.db.t t USING {source} s ON t.id = s.id {STARS}")

    kept = 10 if "partial-update" in properties else None
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(1, kept, 2), (2, 5, 2)]
