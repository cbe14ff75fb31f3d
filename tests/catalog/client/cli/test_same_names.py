"""Results with two columns of one name show all of them; a scan refuses a column that is requested twice."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.cli import main
from interbed.storage.base.errors import InvalidInputError

QUERIES: dict[str, tuple[str, list[str], list[list[Any]]]] = {
    "two ids of a join": (
        "SELECT o.id, o.v, p.id, p.w FROM d.o LEFT JOIN d.p ON o.id = p.id ORDER BY 1",
        ["id", "v", "id_1", "w"],
        [[1, "one", 1, "uno"], [2, "two", None, None]],
    ),
    "all columns of a join": (
        "SELECT * FROM d.o LEFT JOIN d.p ON o.id = p.id ORDER BY 1",
        ["id", "v", "id_1", "w"],
        [[1, "one", 1, "uno"], [2, "two", None, None]],
    ),
    "three of a name": ("SELECT 1 AS a, 2 AS a, 3 AS a", ["a", "a_1", "a_2"], [[1, 2, 3]]),
    "a number that is given": ("SELECT 1 AS a, 2 AS a, 3 AS a_1", ["a", "a_2", "a_1"], [[1, 2, 3]]),
    "a number before": ("SELECT 3 AS a_1, 1 AS a, 2 AS a", ["a_1", "a", "a_2"], [[3, 1, 2]]),
    "names apart by case": ('SELECT 1 AS a, 2 AS "A"', ["a", "A"], [[1, 2]]),
    "a union": ("SELECT 1 AS a, 2 AS a UNION ALL SELECT 3, 4", ["a", "a_1"], [[1, 2], [3, 4]]),
    "the same expression": ("SELECT count(*), count(*) FROM d.o", ["count_star()", "count_star()_1"], [[2, 2]]),
    "no rows": ("SELECT 1 AS a, 2 AS a WHERE false", ["a", "a_1"], []),
}


@pytest.fixture
def lake(tmp_path: Path) -> interbed.Catalog:
    lake = interbed.load_catalog(warehouse=tmp_path / "lake")
    lake.create_database("d")
    for name, column, rows in (("o", "v", [(1, "one"), (2, "two")]), ("p", "w", [(1, "uno")])):
        fields: list[pa.Field[Any]] = [pa.field("id", pa.int64(), nullable=False), pa.field(column, pa.string())]
        table = lake.create_table(f"d.{name}", pa.schema(fields), primary_keys=["id"], options={"bucket": "1"})
        table.append([{"id": number, column: text} for number, text in rows])
    return lake


def run(lake: interbed.Catalog, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["-o", f"warehouse={lake.warehouse}", *arguments])


@pytest.mark.parametrize("kind", QUERIES)
def test_every_output_format_has_all_columns(lake: interbed.Catalog, tmp_path: Path, kind: str) -> None:
    query, names, rows = QUERIES[kind]
    as_json = run(lake, "sql", query, "--json")
    found = [json.loads(line, object_pairs_hook=list) for line in as_json.output.splitlines()]
    assert found == [list(zip(names, row, strict=True)) for row in rows]
    as_csv = list(csv.reader(io.StringIO(run(lake, "sql", query, "--format", "csv").output)))
    assert as_csv == [names, *([("" if v is None else str(v)) for v in row] for row in rows)]
    file = tmp_path / "rows.parquet"
    assert run(lake, "sql", query, "--output", str(file)).exit_code == 0
    written = pq.read_table(file)
    assert written.column_names == names
    assert [list(row.values()) for row in written.to_pylist()] == rows
    shown = run(lake, "sql", query).output
    cells = [[c.strip() for c in re.split("[┃│]", line)[1:-1]] for line in shown.splitlines() if line[0] in "┃│"]
    assert cells == [names, *([("NULL" if v is None else str(v)) for v in row] for row in rows)]


def test_duckdb_numbers_duplicate_names_in_a_subquery() -> None:
    for kind in ("three of a name", "the same expression"):
        query, names, _ = QUERIES[kind]
        with duckdb.connect() as connection:
            assert connection.sql(f"SELECT * FROM ({query.removesuffix('FROM d.o')})").columns == names


ASKED: dict[str, Callable[[interbed.Catalog, list[str]], Any]] = {
    "scan": lambda lake, names: lake.get_table("d.o").scan(names),
    "get": lambda lake, names: lake.get_table("d.o").get(1, columns=names),
    "get_many": lambda lake, names: lake.get_table("d.o").get_many([1], columns=names),
    "changes": lambda lake, names: lake.get_table("d.o").changes(columns=names),
    "new_read": lambda lake, names: lake.get_table("d.o").new_read(names),
    "a projection": lambda lake, names: lake.get_table("d.o").new_read_builder().with_projection(names),
    "a projection of a stream": lambda lake, names: (
        lake.get_table("d.o").new_stream_read_builder().with_projection(names)
    ),
    "the audit log": lambda lake, names: lake.get_table("d.o$audit_log").scan(names).to_arrow(),
    "read-optimized": lambda lake, names: lake.get_table("d.o$ro").scan(names),
}


@pytest.mark.parametrize("way", ASKED)
def test_a_column_that_is_requested_twice_is_refused(lake: interbed.Catalog, way: str) -> None:
    with pytest.raises(InvalidInputError, match="The column 'id' is requested twice"):
        ASKED[way](lake, ["id", "v", "id"])
    ASKED[way](lake, ["v", "id"])


def test_commands_refuse_a_column_that_is_requested_twice(lake: interbed.Catalog) -> None:
    for arguments in (
        ("scan", "d.o", "--columns", "id,id,v"),
        ("head", "d.o", "--columns", "id", "--columns", "id"),
        ("scan", "d.o$files", "--columns", "level,level"),
        ("changes", "d.o", "--column", "v", "--column", "v"),
    ):
        result = run(lake, "table", *arguments)
        assert result.exit_code == 1, arguments
        assert "is requested twice; name it once." in result.output


def test_a_row_type_with_a_duplicate_field_is_refused(lake: interbed.Catalog) -> None:
    twice = pa.struct([("x", pa.int32()), ("x", pa.int32())])
    for kind in (twice, pa.list_(twice), pa.map_(pa.string(), twice), pa.struct([("y", twice)])):
        with pytest.raises(InvalidInputError, match=r"The column 'a' is .* which has the field 'x' twice"):
            lake.create_table("d.x", pa.schema([("a", kind)]))
