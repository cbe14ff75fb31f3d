"""Values of Parquet files that Arrow or DuckDB would change are written as they are stored, or refused by name."""

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.catalog.client.cli.forms import file_rows
from interbed.cli import main
from interbed.storage.files.format.hybrid_calendar import TimeUnit, unit_of
from tests.support.tally import Tally

FAR = [datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(1, 1, 1), None, datetime(2024, 5, 6, 7, 8, 9, 1)]
FINE = [1_234_567_891_234_567_891, -1, None, 0]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> interbed.Catalog:
    monkeypatch.chdir(tmp_path)
    lake = interbed.load_catalog(warehouse=tmp_path / "lake")
    lake.create_database("s")
    return lake


def run(lake: interbed.Catalog, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["-o", f"warehouse={lake.warehouse}", *arguments])


def table_of(kind: pa.DataType, lake: interbed.Catalog, name: str = "s.t") -> interbed.Table:
    return lake.create_table(name, pa.schema([("id", pa.int64()), ("x", kind)]))


def old_file(name: str, values: list[Any], kind: pa.DataType) -> None:
    """Write a file as Spark does by default: its timestamps are INT96."""
    rows = pa.table({"id": range(len(values)), "x": pa.array(values, kind)})
    pq.write_table(rows, name, use_deprecated_int96_timestamps=True)


def numbers(table: interbed.Table) -> list[Any]:
    return [value for _, value in sorted(zip(*map(pa.ChunkedArray.to_pylist, plain(table)), strict=True))]


def plain(table: interbed.Table) -> list[Any]:
    found = table.scan().to_arrow()
    times: Any = found.column("x")
    return [found.column("id"), times.cast(pa.int64()) if pa.types.is_timestamp(times.type) else times]


WAYS: dict[str, Callable[[interbed.Catalog], Result]] = {
    "import": lambda lake: run(lake, "table", "import", "s.t", "f.parquet"),
    "insert": lambda lake: run(lake, "sql", "INSERT INTO s.t SELECT * FROM 'f.parquet'"),
    "insert by alias": lambda lake: run(lake, "sql", "INSERT INTO s.t SELECT f.id, f.x FROM 'f.parquet' AS f"),
    "merge": lambda lake: run(
        lake, "sql", "MERGE INTO s.t USING 'f.parquet' AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_old_timestamps_are_written_with_their_day_and_all_digits(
    lake: interbed.Catalog, way: str, tally: Tally
) -> None:
    fine = table_of(pa.timestamp("ns"), lake)
    old_file("f.parquet", FINE, pa.timestamp("ns"))
    result = WAYS[way](lake)
    assert result.exit_code == 0, result.output
    assert numbers(fine) == FINE
    lake.drop_table("s.t")
    far = table_of(pa.timestamp("us"), lake)
    old_file("f.parquet", FAR, pa.timestamp("us"))
    result = WAYS[way](lake)
    assert result.exit_code == 0, result.output
    assert [row["x"] for row in far.scan().to_arrow().sort_by("id").to_pylist()] == FAR
    tally("ways to write old timestamps", 1)


def test_a_table_that_is_created_from_old_timestamps_holds_them(lake: interbed.Catalog) -> None:
    for name, values, kind in (("s.far", FAR, "TIMESTAMP(6)"), ("s.near", FAR[2:], "TIMESTAMP(9)")):
        old_file("f.parquet", values, pa.timestamp("us"))
        assert run(lake, "table", "create", name, "--from", "f.parquet").exit_code == 0
        assert run(lake, "table", "import", name, "f.parquet").exit_code == 0
        table = lake.get_table(name)
        assert str(table.fields[1].type) == kind
        found = table.scan().to_arrow().sort_by("id").column("x").cast(pa.timestamp("us"))
        assert found.to_pylist() == values


@pytest.mark.parametrize(
    ("source", "is_read"),
    [
        ("read_parquet('f.parquet')", False),
        ("parquet_scan('f.parquet')", False),
        ("read_parquet(['new.parquet', 'f.parquet'])", False),
        ("read_parquet('f.parquet', filename = true)", False),
        ("'*.parquet'", False),
        ("(SELECT * FROM 'f.parquet')", True),
        ("read_parquet('new.parquet')", True),
        ("'new.parquet'", True),
    ],
)
def test_several_files_are_refused_if_duckdb_loses_digits_of_one(
    lake: interbed.Catalog, source: str, is_read: bool
) -> None:
    table = table_of(pa.timestamp("ns"), lake)
    old_file("f.parquet", FINE, pa.timestamp("ns"))
    pq.write_table(pa.table({"id": range(4), "x": pa.array(FINE, pa.timestamp("ns"))}), "new.parquet")
    result = run(lake, "sql", f"INSERT INTO s.t SELECT id, x FROM {source}")
    if is_read:
        assert result.exit_code == 0, result.output
        assert numbers(table) == FINE
        return
    assert result.exit_code == 1
    assert "The column 'x' of the file f.parquet is INT96, of which DuckDB loses digits" in result.output
    assert table.count() == 0


def test_decimals_beyond_38_digits_are_refused_by_sql_and_imported(lake: interbed.Catalog) -> None:
    table = table_of(pa.decimal128(38, 2), lake)
    value = Decimal("1234567890123456789.10")
    pq.write_table(pa.table({"id": [0], "x": pa.array([value], pa.decimal256(50, 2))}), "f.parquet")
    for way in ("insert", "merge"):
        result = WAYS[way](lake)
        assert (result.exit_code, table.count()) == (1, 0)
        assert "The column 'x' of the file f.parquet is DECIMAL(50, 2), of which DuckDB loses digits" in result.output
    assert WAYS["import"](lake).exit_code == 0
    assert numbers(table) == [value]


KINDS: dict[pa.DataType, list[Any]] = {
    pa.timestamp("ns"): FINE,
    pa.timestamp("ns", "UTC"): FINE,
    pa.timestamp("us"): [2**52, -(2**52)],
    pa.int64(): [2**53 + 1, -(2**63)],
    pa.decimal128(38, 2): [Decimal("123456789012345678901234567890123456.78")],
    pa.float64(): [0.1, 5e-324, float("inf")],
    pa.float32(): [0.5, 1e-45],
    pa.string(): ["", " a ", "\U0001f600"],
    pa.binary(): [b"", b"\xff\\x41"],
    pa.date32(): [2_932_896, -719_162],
    pa.time32("ms"): [86_399_999, 0],
    pa.bool_(): [True, False],
}


@pytest.mark.parametrize("old", [False, True])
def test_sql_and_import_write_the_same_values(lake: interbed.Catalog, old: bool) -> None:
    columns: dict[str, Any] = {"id": pa.array(range(5))}
    for number, (kind, values) in enumerate(KINDS.items()):
        plain: Any = pa.array([*values, *[None] * (5 - len(values))], kind)
        columns[f"x{number}"] = plain
        columns[f"l{number}"] = pa.ListArray.from_arrays(list(range(6)), plain)
        columns[f"r{number}"] = pa.StructArray.from_arrays([plain], names=["a"])
    rows = pa.table(columns)
    table = lake.create_table("s.t", rows.schema)
    pq.write_table(rows, "f.parquet", use_deprecated_int96_timestamps=old)
    for way in ("import", "insert"):
        result = WAYS[way](lake)
        assert result.exit_code == 0, (way, result.output)
        found = table.scan().to_arrow().sort_by("id")
        assert found.cast(rows.schema).combine_chunks().equals(rows), way
        table.truncate()


def test_a_statement_looks_at_the_timestamps_of_a_file_once(
    lake: interbed.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    def counted(path: str) -> TimeUnit:
        looks.append(path)
        return unit_of(path)

    monkeypatch.setattr(file_rows, "unit_of", counted)
    old_file("f.parquet", FINE, pa.timestamp("ns"))
    table_of(pa.timestamp("ns"), lake)
    joined = "INSERT INTO s.t SELECT a.id, b.x FROM 'f.parquet' a JOIN 'f.parquet' b USING (id)"
    assert run(lake, "sql", joined).exit_code == 0
    assert looks == ["f.parquet"]
    # A file that has changed is looked at again.
    old_file("f.parquet", FAR, pa.timestamp("us"))
    table_of(pa.timestamp("us"), lake, "s.u")
    assert run(lake, "table", "import", "s.u", "f.parquet").exit_code == 0
    assert looks == ["f.parquet", "f.parquet"]


def by_sql(query: str) -> Callable[[interbed.Catalog], Result]:
    return lambda lake: run(lake, "sql", query)


BY_FUNCTION = {
    "insert of several": by_sql("INSERT INTO s.t FROM read_parquet(['f.parquet'])"),
    "merge of several": by_sql(
        "MERGE INTO s.t USING (FROM parquet_scan('*.parquet')) AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    ),
}
QUERIES = {
    "a file": by_sql("SELECT x FROM 'f.parquet'"),
    "a pattern": by_sql("SELECT x FROM '*.parquet' AS p"),
    "a function": by_sql(
        "WITH f AS (FROM read_parquet(['f.parquet'], union_by_name = true)) SELECT max(x) AS x FROM f"
    ),
    "a subquery": by_sql("SELECT (SELECT x FROM parquet_scan('f.parquet')) AS x"),
}
SPARK = {"org.apache.spark.version": "4.1.4", "org.apache.spark.legacyDateTime": ""}


def day_file(day: date, writer: dict[str, str]) -> None:
    rows = pa.table({"id": [1], "x": pa.array([day], pa.date32())})
    pq.write_table(rows.replace_schema_metadata(writer), "f.parquet")


@pytest.mark.parametrize("way", [*WAYS, *BY_FUNCTION])
def test_days_of_the_hybrid_calendar_are_refused_by_name_and_newer_ones_are_written(
    lake: interbed.Catalog, way: str
) -> None:
    table = table_of(pa.date32(), lake)
    for day, is_written in ((date(1500, 3, 11), False), (date(1582, 10, 15), True)):
        day_file(day, SPARK)
        result = {**WAYS, **BY_FUNCTION}[way](lake)
        if is_written:
            assert result.exit_code == 0, result.output
            assert numbers(table) == [day]
        else:
            assert (result.exit_code, table.count()) == (1, 0)
            assert "by the hybrid calendar of Spark 2 and Hive" in result.output


@pytest.mark.parametrize("query", QUERIES)
def test_queries_show_no_other_day_of_the_hybrid_calendar(lake: interbed.Catalog, query: str) -> None:
    day_file(date(1500, 3, 11), SPARK)
    refused = QUERIES[query](lake)
    assert refused.exit_code == 1
    assert "column 'x' of the file f.parquet has days before 1582-10-15" in " ".join(refused.output.split())
    for day, writer in ((date(1582, 10, 15), SPARK), (date(1500, 3, 11), {})):
        day_file(day, writer)
        shown = QUERIES[query](lake)
        assert (shown.exit_code, day.isoformat() in shown.output) == (0, True), shown.output
