"""DuckDB ignores the case of names: columns that differ in case only, and two such tables, are refused by name."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.cli import main
from interbed.storage.base.errors import NotSupportedError

_INT = pa.int32()
_ROW = pa.struct([("x", _INT), ("X", _INT)])
TABLES: dict[str, tuple[pa.DataType, str, str]] = {
    "columns": (_INT, "a", "A"),
    "fields of a ROW": (_ROW, "r.x", "r.X"),
    "fields of a ROW in an ARRAY": (pa.list_(_ROW), "r.x", "r.X"),
    "fields of a ROW in a MAP": (pa.map_(pa.string(), _ROW), "r.x", "r.X"),
    "fields of a ROW in a ROW": (pa.struct([("in", _ROW)]), "r.in.x", "r.in.X"),
}
STATEMENTS = (
    "SELECT * FROM d.c",
    'SELECT "A" FROM d.c',
    "SELECT count(*) FROM d.c",
    "SELECT 1 WHERE EXISTS (SELECT * FROM d.c)",
    "INSERT INTO d.o SELECT id FROM d.c",
    "INSERT INTO d.c (id) VALUES (1)",
    "UPDATE d.c SET id = 9",
    "DELETE FROM d.c WHERE id = 1",
    "MERGE INTO d.c USING d.o AS s ON c.id = s.id WHEN MATCHED THEN DELETE",
    "MERGE INTO d.o USING d.c AS s ON o.id = s.id WHEN MATCHED THEN DELETE",
)


@pytest.fixture
def lake(tmp_path: Path) -> interbed.Catalog:
    lake = interbed.load_catalog(warehouse=tmp_path / "lake")
    lake.create_database("d")
    lake.create_table("d.o", pa.schema([("id", _INT)])).append([{"id": 1}])
    return lake


def sql(lake: interbed.Catalog, statement: str) -> Result:
    return CliRunner().invoke(main, ["-o", f"warehouse={lake.warehouse}", "sql", statement])


def shown(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("kind", TABLES)
def test_columns_that_differ_in_case_only_are_refused(lake: interbed.Catalog, kind: str) -> None:
    column, one, other = TABLES[kind]
    parts = [("a", _INT), ("A", _INT)] if kind == "columns" else [("r", column)]
    table = lake.create_table("d.c", pa.schema([("id", _INT), *parts]))
    table.append([{"id": 1}])
    message = f"DuckDB ignores the case of names, and the table 'd.c' has '{one}' and '{other}'"
    for statement in STATEMENTS:
        result = sql(lake, statement)
        assert result.exit_code == 1, statement
        assert message in shown(result.output), (statement, result.output)
    builder = table.new_read_builder()
    splits = builder.new_scan().plan().splits()
    for make in (
        table.to_duckdb,
        lambda: table.to_duckdb("t"),
        lambda: builder.new_read().to_duckdb(splits, "t"),
    ):
        with pytest.raises(NotSupportedError, match="DuckDB ignores the case"):
            make()
    assert table.scan(["id"]).to_duckdb().fetchall() == [(1,)]
    assert table.scan().to_arrow().num_rows == table.to_polars().height == 1


def test_columns_that_differ_otherwise_are_accepted(lake: interbed.Catalog) -> None:
    both = pa.schema([("id", _INT), ("ä", _INT), ("Ä", _INT), ("r", pa.struct([("id", _INT)]))])
    table = lake.create_table("d.c", both)
    table.append([{"id": 1, "ä": 2, "Ä": 3, "r": {"id": 4}}])
    assert table.to_duckdb().select('"Ä", "ä"').fetchall() == [(3, 2)]


def test_a_json_file_with_names_that_differ_in_case_only_is_refused(lake: interbed.Catalog, tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"id": 1, "ID": 2}\n')
    result = sql(lake, f"INSERT INTO d.o SELECT id FROM '{file}'")
    assert result.exit_code == 1
    assert f"the file '{file}' has 'id' and 'ID'" in shown(result.output)


def test_tables_that_differ_in_case_only_are_read_one_at_a_time(lake: interbed.Catalog) -> None:
    lake.create_table("d.O", pa.schema([("id", _INT)])).append([{"id": 7}])
    for statement in ("SELECT * FROM d.o JOIN d.O ON true", "INSERT INTO d.o SELECT a.id FROM d.O AS a, d.o AS b"):
        result = sql(lake, statement)
        assert result.exit_code == 1
        assert "the query names both 'd.O' and 'd.o'" in shown(result.output)
    assert "7" in sql(lake, "SELECT * FROM d.O").output
    assert sql(lake, "INSERT INTO d.o SELECT id FROM d.O").exit_code == 0
