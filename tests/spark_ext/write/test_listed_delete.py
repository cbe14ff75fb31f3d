"""DELETE of the keys that a subquery lists: it deletes the same rows without a read of the target."""

import pyarrow as pa
import pytest

import interbed
from interbed import Table
from tests.spark_ext.conftest import SparkLake
from tests.spark_ext.executions import executions_of

KEYED = "TBLPROPERTIES ('primary-key' = '{}', 'bucket' = '2'"


def _table(lake: SparkLake) -> Table:
    return interbed.load_catalog(warehouse=f"file:{lake.warehouse}").get_table("db.t")


def _reads_target(lake: SparkLake, delete: str) -> bool:
    """Run a DELETE and return True if it reads its target."""
    plans = [execution.physicalPlanDescription() for execution in executions_of(lake, delete)]
    (plan,) = [p for p in plans if "WriteDelta" in p]
    return f"interbed {lake.name}.db.t (" in plan


@pytest.mark.parametrize("options", ["", ", 'changelog-producer' = 'lookup'", ", 'deletion-vectors.enabled' = 'true'"])
def test_keys_of_a_subquery_are_deleted_without_a_read_of_the_target(lake: SparkLake, options: str) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT NOT NULL, v BIGINT, s STRING) {KEYED.format('id')}{options})")
    lake.sql("INSERT INTO {lake}.db.t SELECT id, id * 10, 's' FROM range(6)")
    lake.sql("CREATE TABLE {lake}.db.gone (i INT, j INT) TBLPROPERTIES ('bucket' = '-1')")
    # An existing key, a repeated one, a missing one, and null.
    lake.sql("INSERT INTO {lake}.db.gone VALUES (1, 0), (3, 0), (3, 0), (77, 0), (NULL, 0), (5, 1)")

    assert not _reads_target(lake, "DELETE FROM {lake}.db.t WHERE id IN (SELECT i FROM {lake}.db.gone WHERE j = 0)")
    assert lake.tuples("SELECT id, v FROM {lake}.db.t ORDER BY id") == [(0, 0), (2, 20), (4, 40), (5, 50)]
    assert lake.tuples("SELECT count(*) FROM {lake}.db.t") == [(4,)]
    if "lookup" in options:
        changes = _table(lake).changes(mode="changelog").to_arrow().to_pylist()
        assert sorted((row["id"], row["v"]) for row in changes if row["_row_kind"] == 3) == [(1, 10), (3, 30)]
    # The key may be inserted again.
    lake.sql("INSERT INTO {lake}.db.t VALUES (77, 7, 'x'), (3, 3, 'x')")
    assert lake.tuples("SELECT id FROM {lake}.db.t ORDER BY id") == [(0,), (2,), (3,), (4,), (5,), (77,)]
    lake.sql("CALL {lake}.sys.compact('db.t')")
    assert lake.tuples("SELECT id FROM {lake}.db.t ORDER BY id") == [(0,), (2,), (3,), (4,), (5,), (77,)]


def test_keys_of_several_columns_are_listed_together(lake: SparkLake) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (a INT, b STRING, v INT) {KEYED.format('a,b')})")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'x', 1), (1, 'y', 2), (2, 'x', 3), (2, 'y', 4)")
    source = "(SELECT * FROM VALUES ('y', 1), ('x', 2), (NULL, 2), ('x', NULL) s(n, m))"

    assert not _reads_target(lake, f"DELETE FROM {{lake}}.db.t AS t WHERE (b, t.a) IN (SELECT n, m FROM {source})")
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY v") == [(1, "x", 1), (2, "y", 4)]


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("columns", "options", "condition"),
    [
        ("id INT, v INT", "", "id IN (SELECT id FROM gone) AND v > 0"),
        ("id INT, v INT", "", "id NOT IN (SELECT id FROM gone)"),
        ("id INT, v INT", "", "v IN (SELECT id FROM gone)"),
        ("id INT, v INT", "", "id + 0 IN (SELECT id FROM gone)"),
        ("id INT, v INT", "", "id IN (SELECT CAST(id AS BIGINT) FROM gone)"),
        ("id INT, v INT", "", "id IN (SELECT id FROM gone WHERE gone.id = v)"),
        ("id INT, v INT", "", "id IN (SELECT id FROM {lake}.db.t WHERE v > 0)"),
        ("id INT, v INT", "", "id IN (SELECT id FROM gone WHERE id = (SELECT max(id) FROM {lake}.db.t))"),
        ("id INT, v INT NOT NULL", "", "id IN (SELECT id FROM gone)"),
        ("id INT, v INT", ", 'changelog-producer' = 'input'", "id IN (SELECT id FROM gone)"),
        ("id INT, v INT", ", 'sequence.field' = 'v'", "id IN (SELECT id FROM gone)"),
        ("id INT, v INT", ", 'bucket' = '-1'", "id IN (SELECT id FROM gone)"),
        ("id DOUBLE, v INT", "", "id IN (SELECT CAST(id AS DOUBLE) FROM gone)"),
        ("id INT, v INT", "p", "(v, id) IN (SELECT 1, id FROM gone)"),
    ],
)
def test_a_delete_that_requires_existing_values_reads_the_target(
    lake: SparkLake, columns: str, options: str, condition: str
) -> None:
    partitioned = options == "p"
    key, parted = ("v,id", "PARTITIONED BY (v)") if partitioned else ("id", "")
    given = KEYED.format(key).replace(", 'bucket' = '2'", "" if "bucket" in options else ", 'bucket' = '2'")
    lake.sql(f"CREATE TABLE {{lake}}.db.t ({columns}) {parted} {given}{'' if partitioned else options})")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 1), (2, 1)")
    lake.spark.createDataFrame(pa.table({"id": pa.array([1], pa.int32())})).createOrReplaceTempView("gone")
    try:
        assert _reads_target(lake, "DELETE FROM {lake}.db.t WHERE " + condition)
    finally:
        lake.spark.catalog.dropTempView("gone")
