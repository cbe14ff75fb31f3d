"""Names of tables in statements of `interbed sql`, in subqueries too, are resolved as DuckDB resolves them."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.cli import main

ROWS = [(1, 10), (2, 20), (3, None)]
STATEMENTS = [
    "UPDATE d.t SET n = (SELECT max(id) FROM d.t)",
    "UPDATE d.t SET n = (SELECT sum(o.n) FROM d.o AS o WHERE o.id <> t.id) WHERE id < 3",
    "UPDATE d.t SET n = (SELECT n FROM d.o WHERE d.o.id = d.t.id) + 1",
    "UPDATE d.t SET n = CASE WHEN id IN (SELECT id FROM d.o WHERE n > 10) THEN 0 ELSE n END",
    "UPDATE d.t SET n = d.t.n + 1",
    "UPDATE d.t SET n = 5 WHERE d.t.id = 1 OR t.id = 3",
    'UPDATE d.t SET n = 5 WHERE "d"."t"."id" = 1',
    "DELETE FROM d.t WHERE d.t.id = 1",
    "MERGE INTO d.t USING d.o AS s ON d.t.id = s.id WHEN MATCHED AND d.t.n > 10 THEN UPDATE SET n = d.t.n + s.n",
    "MERGE INTO d.t USING (SELECT 9 AS id) AS s ON d.t.id = s.id WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 1)",
]


@pytest.fixture
def lake(tmp_path: Path) -> interbed.Catalog:
    lake = interbed.load_catalog(warehouse=tmp_path / "lake")
    lake.create_database("d")
    for name in ("t", "o"):
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())])
        table = lake.create_table(f"d.{name}", schema, primary_keys=["id"], options={"bucket": "1"})
        table.append([{"id": number, "n": n} for number, n in ROWS])
    return lake


def sql(lake: interbed.Catalog, statement: str) -> Result:
    return CliRunner().invoke(main, ["-o", f"warehouse={lake.warehouse}", "sql", statement, "--json"])


@pytest.mark.parametrize("statement", STATEMENTS)
def test_table_names_are_resolved_as_in_duckdb(lake: interbed.Catalog, statement: str) -> None:
    with duckdb.connect() as other:
        other.execute("CREATE SCHEMA d")
        for name in ("t", "o"):
            other.execute(f"CREATE TABLE d.{name} (id BIGINT, n BIGINT)")
            other.executemany(f"INSERT INTO d.{name} VALUES (?, ?)", ROWS)
        other.execute(statement)
        expected = sorted(other.execute("SELECT id, n FROM d.t").fetchall())
    result = sql(lake, statement)
    assert result.exit_code == 0, result.output
    assert sorted(tuple(row.values()) for row in lake.get_table("d.t").scan().to_arrow().to_pylist()) == expected


def test_a_table_without_its_database_is_refused_by_name(lake: interbed.Catalog) -> None:
    result = sql(lake, "UPDATE d.t SET n = (SELECT max(n) FROM o)")
    assert result.exit_code == 1
    assert "The table 'o' lacks its database; write DATABASE.o." in result.output
    assert "There is no table 'd.x'" in sql(lake, "UPDATE d.t SET n = (SELECT max(n) FROM d.x)").output


def test_a_merge_of_rows_with_the_same_key_is_refused(lake: interbed.Catalog) -> None:
    source = "(SELECT * FROM (VALUES (7, 1), (7, 2), (8, 3)) AS v(id, n))"
    result = sql(lake, f"MERGE INTO d.t USING {source} AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    assert result.exit_code != 0
    assert "several rows with the primary key id = 7" in result.output
    assert lake.get_table("d.t").scan().count() == len(ROWS)
