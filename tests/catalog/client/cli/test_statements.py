"""INSERT, UPDATE, DELETE and MERGE by `interbed sql` on every kind of table, compared with DuckDB's own tables."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.catalog.client.cli import sql_changes
from interbed.cli import main
from interbed.storage.meta.schema.change import SetOption
from interbed.storage.upkeep.changed_rows import SnapshotRows
from tests.support.tally import Tally

KINDS: dict[str, list[str]] = {
    "keyed": ["--primary-key", "id", "--option", "bucket=2"],
    "keyed with vectors": ["--primary-key", "id", "--option", "bucket=1", "--option", "deletion-vectors.enabled=true"],
    "keyed partitioned": ["--primary-key", "id,dt", "--partition-key", "dt", "--option", "bucket=1"],
    "dynamic buckets": ["--primary-key", "id", "--option", "bucket=-1"],
    "append": [],
    "append with vectors": ["--option", "deletion-vectors.enabled=true"],
    "append partitioned": ["--partition-key", "dt"],
    "append with buckets": ["--option", "bucket=2", "--option", "bucket-key=id"],
}
COLUMNS = ["id INT NOT NULL", "name STRING", "amount DOUBLE", "d DATE", "dt STRING NOT NULL"]
ROWS = (
    "(1, 'a', 1.5, DATE '2024-01-01', 'x'), (2, 'b', 2.5, NULL, 'x'), (3, NULL, 3.5, DATE '2026-05-06', 'y'), "
    "(4, 'it''s', NULL, DATE '1999-12-31', 'y')"
)
STATEMENTS = [
    "DELETE FROM s.t WHERE id = 2",
    "delete from s.t as o where o.amount > 2 and o.name is null",
    "DELETE FROM s.t WHERE t.name = 'it''s' OR t.name = 'where t.x'",
    "DELETE FROM s.t WHERE d >= '2024-01-01';",
    "DELETE FROM s.t",
    "DELETE FROM s.t WHERE id > 100",
    "UPDATE s.t SET amount = amount * 2, name = upper(name) WHERE id <= 3",
    "UPDATE s.t AS o SET amount = o.id, d = '2030-01-01' WHERE o.dt = 'x'",
    "UPDATE s.t SET name = NULL",
    "UPDATE s.t SET amount = (SELECT max(n) FROM (VALUES (7), (9)) AS v(n) WHERE n < 9) WHERE id IN (1, 4)",
    "UPDATE s.t SET amount = 1 WHERE id = 99",
    "INSERT INTO s.t VALUES (10, 'n', 5, '2024-02-29', 'z')",
    "INSERT INTO s.t (dt, id) SELECT 'w', i FROM range(20, 23) AS r(i)",
    "INSERT INTO s.t BY NAME SELECT 'w' AS dt, 30 AS id, 1.25 AS amount",
    "INSERT INTO s.t SELECT id + 50, name, amount, d, dt FROM s.t WHERE name IS NOT NULL",
    "INSERT INTO s.t SELECT * FROM s.t WHERE false",
    """MERGE INTO s.t AS t USING (VALUES (1, 'new'), (2, 'gone'), (9, 'in')) AS s(id, name) ON t.id = s.id
       WHEN MATCHED AND s.name = 'gone' THEN DELETE
       WHEN MATCHED THEN UPDATE SET name = s.name, amount = t.amount + 1
       WHEN NOT MATCHED THEN INSERT (id, name, dt) VALUES (s.id, s.name, 'x')""",
    """MERGE INTO s.t USING (SELECT 3 AS id) AS s ON t.id = s.id AND t.dt = 'y'
       WHEN NOT MATCHED BY SOURCE AND t.dt = 'x' THEN UPDATE SET name = 'alone'
       WHEN NOT MATCHED BY SOURCE THEN DELETE""",
    """MERGE INTO s.t USING (SELECT id + 3 AS id, 'm' AS name, 0.5 AS amount, d, dt FROM s.t) AS s
       ON t.id = s.id AND t.dt = s.dt
       WHEN NOT MATCHED AND s.id > 5
       THEN INSERT (id, name, amount, d, dt) VALUES (s.id, s.name, s.amount, s.d, s.dt)""",
    """MERGE INTO s.t USING (SELECT * FROM s.t) AS s ON t.id = s.id AND t.dt = s.dt
       WHEN MATCHED AND s.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE""",
]


@pytest.fixture
def lake(tmp_path: Path) -> interbed.Catalog:
    """Open a catalog with the database `s`."""
    catalog = interbed.load_catalog(warehouse=tmp_path / "lake")
    catalog.create_database("s")
    return catalog


def run(lake: interbed.Catalog, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "-o", f"warehouse={lake.warehouse}"])


def sql(lake: interbed.Catalog, statement: str) -> dict[str, Any]:
    found = run(lake, "sql", statement, "--json")
    assert found.exit_code == 0, (statement, found.output, found.exception)
    changed: dict[str, Any] = json.loads(found.output)
    return changed


def make(lake: interbed.Catalog, kind: str) -> interbed.Table:
    columns = [word for column in COLUMNS for word in ("--column", column)]
    made = run(lake, "table", "create", "s.t", *columns, *KINDS[kind])
    assert made.exit_code == 0, made.output
    assert sql(lake, f"INSERT INTO s.t VALUES {ROWS}")["inserted"] == 4
    return lake.get_table("s.t")


def rows(table: interbed.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.scan().to_arrow().to_pylist()), key=repr)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", list(KINDS))
def test_statements_have_the_same_effect_as_in_duckdb(lake: interbed.Catalog, kind: str, tally: Tally) -> None:
    table = make(lake, kind)
    for statement in STATEMENTS:
        with duckdb.connect() as other:
            other.execute("CREATE SCHEMA s")
            other.execute("CREATE TABLE s.t (id INT, name VARCHAR, amount DOUBLE, d DATE, dt VARCHAR)")
            other.execute(f"INSERT INTO s.t VALUES {ROWS}")
            expected = other.execute(statement).fetchone()
            wanted = sorted(other.execute("SELECT * FROM s.t").fetchall(), key=repr)
        before = table.latest_snapshot()
        changed = sql(lake, statement)
        assert rows(table) == wanted, (kind, statement)
        assert expected is not None
        assert changed["inserted"] + changed["updated"] + changed["deleted"] == expected[0], (kind, statement, changed)
        newest = table.latest_snapshot()
        assert changed["snapshot"] == (newest.id if newest != before and newest else None), (kind, statement)
        table.truncate()
        sql(lake, f"INSERT INTO s.t VALUES {ROWS}")
    tally("statements times kinds of tables", len(STATEMENTS))


def test_the_result_has_the_number_of_rows_and_the_snapshot(lake: interbed.Catalog) -> None:
    make(lake, "keyed")
    for statement, said in (
        ("UPDATE s.t SET amount = 0 WHERE id < 3", "s.t: 2 rows updated: snapshot 2\n"),
        ("DELETE FROM s.t WHERE id = 1", "s.t: 1 row deleted: snapshot 3\n"),
        ("DELETE FROM s.t WHERE id = 1", "s.t: 0 rows deleted: no new snapshot\n"),
        (
            "MERGE INTO s.t USING (SELECT 2 AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
            "s.t: 0 rows inserted, 0 rows updated, 1 row deleted: snapshot 4\n",
        ),
    ):
        assert run(lake, "sql", statement).output == said


REFUSED = [
    ("UPDATE s.t SET id = 5", "can't set 'id', a column of the primary key"),
    ("UPDATE s.t SET amount = row_number() OVER ()", "no window function"),
    ("UPDATE s.t SET nmae = 'x'", "has no column 'nmae'; it has id, name, amount, d, dt. Did you mean 'name'?"),
    ("UPDATE s.t SET amount = 'two'", "'two' is not a value of type DOUBLE"),
    ("UPDATE s.t SET d = 5", "The column 'd'"),
    ("UPDATE s.t SET dt = NULL", "admits no nulls"),
    ("UPDATE s.t SET amount = 1 WHERE d >= 5", "'d'"),
    ("UPDATE s.t SET amount = 1 WHERE upper(name) = 'A'", "The filter is not a condition"),
    ("UPDATE s.t SET amount = 1 RETURNING *", "does not carry out an UPDATE with RETURNING"),
    ("UPDATE s.t SET amount = o.x FROM s.o WHERE true", "does not carry out an UPDATE with FROM"),
    ("DELETE FROM s.t USING s.o WHERE t.id = o.id", "does not carry out a DELETE with USING"),
    ("WITH x AS (SELECT 1) DELETE FROM s.t WHERE id = 1", "with WITH"),
    ("DELETE FROM t WHERE id = 1", "The table 't' lacks its database; write DATABASE.t."),
    ("DELETE FROM s.tt WHERE id = 1", "There is no table 's.tt'"),
    ('DELETE FROM s."t$files"', "is a system table"),
    ("DELETE FROM c.s.t WHERE id = 1", "The catalog is named by --catalog c"),
    ("INSERT INTO s.t VALUES (1, 'a')", "has 2 values for 5 columns"),
    ("INSERT INTO s.t (id, id) VALUES (1, 2)", "column"),
    ("INSERT INTO s.t (id, dt, amount) VALUES (1, 'x', '1,5')", "'1,5' is not a value of type DOUBLE"),
    ("INSERT INTO s.t (id, dt) VALUES (2147483648, 'x')", "2147483648"),
    ("INSERT INTO s.t (name) VALUES ('x')", "'id'"),
    ("INSERT OR REPLACE INTO s.t VALUES (1, 'a', 1, NULL, 'x')", "does not carry out an INSERT with ALTERNATIVE"),
    ("INSERT INTO s.t VALUES (1, 'a', 1, NULL, 'x') ON CONFLICT DO NOTHING", "with CONFLICT"),
    ("MERGE INTO s.t USING (VALUES (1), (1)) AS s(id) ON t.id = s.id WHEN MATCHED THEN DELETE", "several rows"),
    ("MERGE INTO s.t USING (SELECT 1 AS id) AS s ON true WHEN MATCHED THEN UPDATE SET id = 7", "primary key"),
    ("MERGE INTO s.t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE", "lacks the column 'name'"),
    (
        "MERGE INTO s.t USING (VALUES (1, 1), (9, 1)) AS s(id, new) ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = 'm' WHEN NOT MATCHED THEN INSERT (id, dt) VALUES (s.new, 'x')",
        "several rows with the primary key id = 1 into s.t",
    ),
    (
        "MERGE INTO s.t USING (VALUES (9, 'x'), (9, 'y')) AS s(id, dt) ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, dt) VALUES (s.id, s.dt)",
        "several rows with the primary key id = 9 into s.t",
    ),
    (
        "MERGE INTO s.t USING (SELECT 9 AS id) AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (dt) VALUES ('x')",
        "'id'",
    ),
    ("DROP TABLE s.t", "carries out SELECT, INSERT INTO, UPDATE, DELETE FROM and MERGE INTO, not DROP"),
    ("CREATE TABLE s.u (id INT)", "not CREATE"),
    ("TRUNCATE s.t", "not TRUNCATE"),
    ("ALTER TABLE s.t ADD COLUMN x INT", "not ALTER"),
    ("COPY s.t TO 'x.csv'", "not COPY"),
    ("SELECT 1; DELETE FROM s.t", "takes one statement, not 2 statements"),
    ("UPDATE s.t SET", "The statement is no SQL"),
    ("DELETE s.t", "The statement is no SQL"),
]


@pytest.mark.sample(10)
@pytest.mark.parametrize(("statement", "message"), REFUSED)
def test_unsupported_statements_are_refused_by_name(lake: interbed.Catalog, statement: str, message: str) -> None:
    table = make(lake, "keyed")
    refused = run(lake, "sql", statement)
    assert (refused.exit_code, isinstance(refused.exception, SystemExit)) == (1, True), refused.output
    assert message in refused.output.replace("\n", " "), refused.output
    assert table.scan().count() == 4


@pytest.mark.parametrize("kind", ["keyed", "append", "append with vectors"])
def test_a_statement_runs_again_after_losing_to_another_writer(
    lake: interbed.Catalog, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(lake, kind)
    raced: list[int] = []

    class RacedSnapshotRows(SnapshotRows):
        """Rows whose first commit loses to a commit of another writer between read and commit."""

        def commit(self, **changes: Any) -> int | None:
            if not raced:
                raced.append(1)
                new = {"id": [7], "name": ["late"], "amount": [7.0], "d": [None], "dt": ["x"]}
                lake.get_table("s.t").append(pa.table(new, schema=table.arrow_schema))
            return super().commit(**changes)

    monkeypatch.setattr(sql_changes, "SnapshotRows", RacedSnapshotRows)
    assert sql(lake, "UPDATE s.t SET amount = amount + 1 WHERE dt = 'x'")["updated"] == 3
    assert sorted(row[2] for row in rows(table) if row[4] == "x") == [2.5, 3.5, 8.0]


def test_tables_whose_merge_engine_allows_no_changes_refuse_them(lake: interbed.Catalog) -> None:
    options = ("merge-engine=aggregation", "fields.n.aggregate-function=sum", "bucket=1")
    words = [word for option in options for word in ("--option", option)]
    columns = ["--column", "id INT NOT NULL", "--column", "n INT", "--primary-key", "id"]
    assert run(lake, "table", "create", "s.a", *columns, *words).exit_code == 0
    for statement in ("UPDATE s.a SET n = 1", "DELETE FROM s.a WHERE id = 1"):
        refused = run(lake, "sql", statement)
        said = refused.output.replace("\n", " ")
        assert (refused.exit_code, "is not possible: 'merge-engine' = 'aggregation'" in said) == (1, True), said


def test_updates_of_columns_with_aggregate_functions_are_refused(lake: interbed.Catalog) -> None:
    columns = [pa.field("id", pa.int64(), nullable=False), *(pa.field(name, pa.int64()) for name in ("g", "n", "c"))]
    options = {
        "bucket": "1",
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "n",
        "fields.n.aggregate-function": "sum",
    }
    table = lake.create_table("s.p", pa.schema(columns), primary_keys=["id"], options=options)
    table.upsert([{"id": 1, "g": 1, "n": 5, "c": 0}])
    match = "MERGE INTO s.p t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET c = 1"
    for statement in ("UPDATE s.p SET c = 1", "UPDATE s.p SET n = 3 WHERE id = 1", match):
        refused = run(lake, "sql", statement)
        said = refused.output.replace("\n", " ")
        assert (refused.exit_code, "the column 'n' has the aggregate function 'sum'" in said) == (1, True), said
    assert table.to_arrow().to_pylist() == [{"id": 1, "g": 1, "n": 5, "c": 0}]


@pytest.mark.parametrize("kind", ["append partitioned", "keyed partitioned"])
def test_statements_hide_no_rows_of_a_fallback_branch(tmp_path: Path, kind: str) -> None:
    options = ["-o", f"warehouse=file:{tmp_path}"]
    table = ["id INT NOT NULL", "v INT", "dt STRING NOT NULL"]
    catalog = interbed.load_catalog("lake", warehouse=f"file:{tmp_path}")
    catalog.create_database("s")
    columns = [each for name in table for each in ("--column", name)]
    made = CliRunner().invoke(main, ["table", *options, "create", "s.t", *columns, *KINDS[kind]])
    assert made.exit_code == 0, made.output
    catalog.get_table("s.t").versions.create_branch("live")
    catalog.get_table("s.t$branch_live").append([{"id": 1, "v": 1, "dt": "y"}])
    catalog.get_table("s.t").append([{"id": 1, "v": 1, "dt": "x"}])
    catalog.alter_table("s.t", SetOption("scan.fallback-branch", "live"))
    before = catalog.get_table("s.t").to_arrow().to_pylist()

    def run(statement: str) -> Result:
        return CliRunner().invoke(main, ["sql", *options, statement])

    merge = (
        "MERGE INTO s.t AS t USING (SELECT 2 AS id, 5 AS v, 'y' AS dt) AS s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, v, dt) VALUES (s.id, s.v, s.dt)"
    )
    moving = [] if kind.startswith("keyed") else ["UPDATE s.t SET dt = 'y'"]
    for statement in (merge, *moving):
        result = run(statement)
        assert result.exit_code == 1
        assert "the partition dt=y" in " ".join(result.output.split())
        assert catalog.get_table("s.t").to_arrow().to_pylist() == before
    assert run("UPDATE s.t SET v = v + 1").exit_code == 0
    assert run("DELETE FROM s.t WHERE v = 1").exit_code == 0
    assert sorted(row["v"] for row in catalog.get_table("s.t").to_arrow().to_pylist()) == [1, 2]
    assert run("INSERT INTO s.t VALUES (3, 3, 'y')").exit_code == 0
    assert sorted(row["v"] for row in catalog.get_table("s.t").to_arrow().to_pylist()) == [2, 3]
