"""The command that adds a column to a table and computes its values."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.catalog.client.cli import sql_changes
from interbed.cli import main
from interbed.storage.upkeep.changed_rows import SnapshotRows
from tests.storage.table.evolving_tables import SCHEMA, catalog_with_rows, files_of, rows


@pytest.fixture
def lake(tmp_path: Path) -> interbed.Catalog:
    return catalog_with_rows(tmp_path)


def _run(lake: interbed.Catalog, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["table", "add-column", *arguments, "-o", f"warehouse={lake.warehouse}"])


def test_a_column_is_added_and_computed_in_one_commit(lake: interbed.Catalog) -> None:
    compute = ("--compute", "t.n / 4 + length(v)", "--comment", "a fourth", "--json")
    found = _run(lake, "db.t", "n-th", "DECIMAL(10, 1)", *compute)
    assert found.exit_code == 0, found.output
    assert json.loads(found.output) == {"table": "db.t", "column": "n-th", "updated": 5, "snapshot": 3}
    table = lake.get_table("db.t")
    values = table.scan(["n-th", "_ROW_ID"]).to_arrow().sort_by("_ROW_ID")["n-th"].to_pylist()
    assert values == [Decimal(text) for text in ("2.0", "4.5", "7.0", "9.5", "12.0")]
    assert table.schema.by_name["n-th"].description == "a fourth"
    assert [f.write_cols for f in files_of(table) if f.max_sequence_number == 3] == [("n-th",)] * 2
    assert table.maintenance.fsck().is_sound


def test_a_column_without_an_expression_is_null(lake: interbed.Catalog) -> None:
    plain = lake.create_table("db.p", SCHEMA)
    plain.append(rows(1))
    assert _run(lake, "db.p", "more", "INT").output == "db.p has the column more, which is null\n"
    assert lake.get_table("db.p").scan(["more"]).to_arrow().to_pylist() == [{"more": None}]


@pytest.mark.parametrize(
    ("table", "expression", "message"),
    [
        ("db.t", "nn + 1", 'column "nn" not found'),
        ("db.t", "n +", "is no SQL expression"),
        ("db.t", "n) AS x, (v", "is no SQL expression"),
        ("db.t", "(SELECT max(n) FROM db.t)", "no subquery"),
        ("db.t", "row_number() OVER ()", "no window function"),
        ("db.t", "max(n)", "no aggregate function"),
        ("db.p", "n + 1", "'data-evolution.enabled' = 'true'"),
    ],
)
def test_expressions_and_tables_that_cannot_be_computed_change_nothing(
    lake: interbed.Catalog, table: str, expression: str, message: str
) -> None:
    lake.create_table("db.p", SCHEMA)
    found = _run(lake, table, "more", "BIGINT", "--compute", expression)
    assert found.exit_code != 0
    assert message in " ".join(found.output.split())
    assert lake.get_table(table).schema.id == 0


def test_a_failed_computation_reports_that_the_column_is_null(lake: interbed.Catalog) -> None:
    found = _run(lake, "db.t", "more", "INT", "--compute", "CAST(v AS INT)")
    assert found.exit_code != 0
    assert "The column 'more' of db.t was added, and is null" in found.output
    assert "TRY_CAST" in found.output
    table = lake.get_table("db.t")
    assert table.scan(["more"]).to_arrow()["more"].null_count == 5
    assert len(table.snapshots()) == 2


def test_a_computation_that_loses_to_another_writer_is_repeated(
    lake: interbed.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    raced: list[int] = []

    class RacedSnapshotRows(SnapshotRows):
        def commit(self, **changes: object) -> int | None:
            if not raced:
                raced.append(1)
                lake.get_table("db.t").update({"n": 7}, "id = 0")
            return super().commit(**changes)  # type: ignore[arg-type]  # The arguments of the method.

    monkeypatch.setattr(sql_changes, "SnapshotRows", RacedSnapshotRows)
    assert _run(lake, "db.t", "twice", "BIGINT", "--compute", "n * 2").exit_code == 0
    table = lake.get_table("db.t")
    found = table.scan(["twice", "_ROW_ID"]).to_arrow().sort_by("_ROW_ID")["twice"].to_pylist()
    assert found == [14, 20, 40, 60, 80]
