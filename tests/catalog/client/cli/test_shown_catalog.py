"""SHOW and DESCRIBE of `interbed sql` read interbed's catalog; statements that read DuckDB's own
catalog are refused.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.cli import main


@pytest.fixture
def lake(tmp_path: Path) -> interbed.Catalog:
    lake = interbed.load_catalog(warehouse=tmp_path / "lake")
    for database in ("d", "e", "main"):
        lake.create_database(database)
    fields: list[pa.Field[Any]] = [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("v", pa.decimal128(5, 2), metadata={"description": "an amount"}),
    ]
    for name in ("d.t", "d.u", "main.t"):
        lake.create_table(name, pa.schema(fields), primary_keys=["id"], options={"bucket": "1"})
    return lake


def sql(lake: interbed.Catalog, statement: str, *more: str) -> Result:
    return CliRunner().invoke(main, ["-o", f"warehouse={lake.warehouse}", "sql", statement, *more])


TABLES = [{"database": "d", "name": "t"}, {"database": "d", "name": "u"}, {"database": "main", "name": "t"}]
COLUMNS = [
    {"column_name": "id", "column_type": "BIGINT", "null": "NO", "key": "PRI", "default": None, "extra": None},
    {
        "column_name": "v",
        "column_type": "DECIMAL(5, 2)",
        "null": "YES",
        "key": None,
        "default": None,
        "extra": "an amount",
    },
]
SHOWN: dict[str, list[dict[str, Any]]] = {
    "SHOW TABLES": TABLES,
    "show all tables;": TABLES,
    "SHOW TABLES FROM d": [{"name": "t"}, {"name": "u"}],
    "SHOW TABLES FROM e": [],
    "SHOW DATABASES": [{"database_name": "d"}, {"database_name": "e"}, {"database_name": "main"}],
    "SHOW SCHEMAS": [{"database_name": "d"}, {"database_name": "e"}, {"database_name": "main"}],
    "DESCRIBE d.t": COLUMNS,
    "describe main.t": COLUMNS,
    "SHOW d.t": COLUMNS,
    "SELECT count(*) AS n FROM main.t": [{"n": 0}],
    "SELECT count(*) AS n FROM duckdb_functions() WHERE false": [{"n": 0}],
}
REFUSED = {
    "SHOW VARIABLES": "SHOW VARIABLES, which reads DuckDB's own catalog",
    "SELECT * FROM (SHOW TABLES)": "SHOW within a query",
    "SELECT * FROM information_schema.tables": "information_schema.tables",
    "SELECT (SELECT count(*) FROM information_schema.columns)": "information_schema.columns",
    "DESCRIBE information_schema.tables": "information_schema.tables",
    "SELECT * FROM pg_catalog.pg_class": "pg_catalog.pg_class",
    "FROM pg_tables": "pg_tables",
    "SELECT * FROM sqlite_master": "sqlite_master",
    "FROM duckdb_tables": "duckdb_tables",
    "SELECT * FROM duckdb_tables()": "duckdb_tables()",
    "FROM pragma_table_info('d.t')": "pragma_table_info()",
    "INSERT INTO d.t (id) SELECT count(*) FROM duckdb_columns()": "duckdb_columns()",
    "SHOW TABLES FROM nowhere": "nowhere",
    "DESCRIBE d.x": "There is no table 'd.x'",
    "DESCRIBE t": "The table 't' lacks its database",
    "SHOW t": "The table 't' lacks its database",
    "SHOW TABLES FROM a.b": "The catalog is named by --catalog a",
    "PRAGMA table_info('d.t')": "not PRAGMA",
    "CALL duckdb_tables()": "not CALL",
}


@pytest.mark.parametrize("statement", SHOWN)
def test_show_and_describe_read_the_catalog(lake: interbed.Catalog, statement: str) -> None:
    result = sql(lake, statement, "--json")
    assert result.exit_code == 0, result.output
    assert [json.loads(line) for line in result.output.splitlines()] == SHOWN[statement]


@pytest.mark.parametrize("statement", REFUSED)
def test_the_catalog_of_duckdb_is_refused(lake: interbed.Catalog, statement: str) -> None:
    result = sql(lake, statement)
    assert result.exit_code == 1, result.output
    assert REFUSED[statement] in " ".join(result.output.split())


def test_a_query_is_described_and_summarized_by_duckdb(lake: interbed.Catalog) -> None:
    assert "id + 1" in sql(lake, "DESCRIBE SELECT id + 1 FROM d.t").output
    assert "column_name" in sql(lake, "SUMMARIZE d.t").output
    assert "WITH" not in sql(lake, "WITH pg_x AS (SELECT 1) SELECT * FROM pg_x").output
