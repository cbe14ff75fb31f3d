"""Writes that change the schema (`write.merge-schema`), and writes whose rows have a row kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interbed import load_catalog
from interbed.storage.table.table import Table
from tests.spark_ext.conftest import SparkLake
from tests.support.waits import at_most

MERGE = "write.merge-schema"
KEYED = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"


def _table(lake: SparkLake, name: str = "db.t") -> Table:
    return load_catalog(warehouse=str(lake.warehouse)).get_table(name)


@pytest.fixture
def merging(lake: SparkLake) -> Iterator[None]:
    """A session that merges schemas."""
    lake.spark.conf.set(f"spark.paimon.{MERGE}", "true")
    yield
    lake.spark.conf.unset(f"spark.paimon.{MERGE}")


def test_frames_add_columns_and_nested_fields_and_widen_types(lake: SparkLake) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, v INT, s STRUCT<a: INT>, l ARRAY<STRUCT<x: INT>>) {KEYED}")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 1, struct(1), array(struct(1)))")
    name = f"{lake.name}.db.t"
    rows = lake.spark.sql(
        "SELECT 5000000000 AS v, 'x' AS n, 2 AS id, named_struct('b', 'y') AS s, array(named_struct('z', 7)) AS l"
    )
    with pytest.raises(Exception, match="INSERT_COLUMN_ARITY_MISMATCH"):
        rows.writeTo(name).append()

    rows.writeTo(name).option(MERGE, "true").append()
    assert lake.tuples("SELECT id, v, s.a, s.b, n, l[0].x, l[0].z FROM {lake}.db.t ORDER BY id") == [
        (1, 1, 1, None, None, 1, None),
        (2, 5_000_000_000, None, "y", "x", None, 7),
    ]
    more = lake.spark.sql("SELECT 3 AS id, CAST(1.5 AS DOUBLE) AS d")
    more.write.option(MERGE, "true").mode("append").saveAsTable(name)
    more.withColumnRenamed("d", "e").write.format("interbed").option(MERGE, "true").mode("append").save(
        _table(lake).location
    )
    assert lake.tuples("SELECT id, v, n, d, e FROM {lake}.db.t WHERE id = 3") == [(3, None, None, None, 1.5)]
    assert [f.name for f in _table(lake).fields] == ["id", "v", "s", "l", "n", "d", "e"]


@pytest.mark.usefixtures("merging")
def test_statements_merge_by_name_and_not_by_position(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (a INT, b STRING, p INT) PARTITIONED BY (p)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, '1', 1), (2, '2', 2)")
    lake.sql("INSERT INTO {lake}.db.t BY NAME SELECT 3 AS a, '3' AS b, 3 AS c, 1 AS P")
    lake.sql("INSERT INTO {lake}.db.t BY NAME SELECT a + 10 AS a, p, 'self' AS e FROM {lake}.db.t WHERE p = 2")
    lake.sql("EXPLAIN INSERT INTO {lake}.db.t BY NAME SELECT 1 AS explained")
    with pytest.raises(Exception, match="INSERT_COLUMN_ARITY_MISMATCH"):
        lake.sql("INSERT INTO {lake}.db.t VALUES (1, '1', 1, 2, 'e', 6)")
    lake.spark.sql("SELECT 9 AS a, 1 AS p, true AS f").writeTo(f"{lake.name}.db.t").overwritePartitions()

    assert lake.tuples("SELECT a, b, p, c, e, f FROM {lake}.db.t ORDER BY a") == [
        (2, "2", 2, None, None, None),
        (9, None, 1, None, None, True),
        (12, None, 2, None, "self", None),
    ]
    assert _table(lake).field_names == ["a", "b", "p", "c", "e", "f"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("1L AS id, 1 AS new", r"'id' is INT, the rows have BIGINT for it: the type of a primary key .* Cast"),
        ("1 AS id, 1.5D AS l, 1 AS new", r"'l' is BIGINT, the rows have DOUBLE .* 'write.merge-schema.explicit-cast'"),
        ("1 AS id, array(1) AS s, 1 AS new", r"'s' is ROW, the rows have ARRAY"),
        ("1 AS id, 1 AS new, NULL AS untyped", r"'untyped' has the Spark type 'void'"),
    ],
)
def test_incompatible_schemas_change_nothing(lake: SparkLake, columns: str, message: str) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, l BIGINT, s STRUCT<a: INT>) {KEYED}")

    with pytest.raises(Exception, match=message):
        lake.spark.sql(f"SELECT {columns}").writeTo(f"{lake.name}.db.t").option(MERGE, "true").append()
    assert _table(lake).schema.id == 0


def test_a_merge_adds_columns_of_its_source(lake: SparkLake) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, v INT, w INT) {KEYED}")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 1, 1)")
    merge = (
        "INTO {{lake}}.db.t t USING (SELECT * FROM VALUES {rows}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    lake.sql("MERGE WITH SCHEMA EVOLUTION " + merge.format(rows="(1, 5000000000, 'x'), (2, 2, 'y') AS s(id, v, n)"))
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(1, 5_000_000_000, 1, "x"), (2, 2, None, "y")]

    lake.sql(f"ALTER TABLE {{lake}}.db.t SET TBLPROPERTIES ('{MERGE}' = 'true')")
    lake.sql("MERGE " + merge.format(rows="(2, 'z', true), (3, 'c', false) AS s(id, n, b)"))
    assert lake.tuples("SELECT id, v, n, b FROM {lake}.db.t ORDER BY id") == [
        (1, 5_000_000_000, "x", None),
        (2, 2, "z", True),
        (3, None, "c", False),
    ]


def test_rows_carry_their_row_kind(lake: SparkLake, tmp_path: Path) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, v STRING) {KEYED}")
    lake.sql("CREATE TABLE {lake}.db.log (id INT, v STRING)")
    lake.sql("CREATE TABLE {lake}.db.s (id INT, v STRING, _row_kind STRING, extra INT)")
    name = f"{lake.name}.db.t"
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")

    kinds = "VALUES (1, 'A', 2Y), (2, 'b', 3Y), (4, 'd', 0Y) AS c(id, v, _row_kind_)"
    lake.spark.sql(f"SELECT _row_kind_, v, id FROM {kinds}").writeTo(name).append()
    lake.sql("INSERT INTO {lake}.db.t BY NAME SELECT 3 AS id, 'c' AS v, '-D' AS rowkind")
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(1, "A"), (4, "d")]

    lake.sql("INSERT INTO {lake}.db.s VALUES (4, 'd', '-D', 1), (5, 'e', '+I', 2)")
    stream = lake.spark.readStream.table(f"{lake.name}.db.s").writeStream.option(MERGE, "true")
    query = stream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).toTable(name)
    assert query.awaitTermination(at_most(300))
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(1, "A", None), (5, "e", 2)]

    for column, message in (("'x' AS _row_kind", "takes .I, -U, .U and -D"), ("3 AS rowkind", "rows by a filter")):
        with pytest.raises(Exception, match=message):
            lake.sql(f"INSERT INTO {{lake}}.db.log BY NAME SELECT 1 AS id, 'a' AS v, {column}")
    assert lake.tuples("SELECT * FROM {lake}.db.log") == []
