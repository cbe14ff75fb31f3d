"""Rows in Polars, DuckDB and notebooks: engines read the columns that they need, and no files that filters exclude."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import interbed
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.predicate.grammar import parse_filter
from interbed.storage.read import query
from interbed.storage.read.duckdb_scan import RowsDataset, predicate_of
from interbed.storage.read.polars_scan import translated
from interbed.storage.scan.starting_point import sees_whole_snapshot

SCHEMA = pa.schema(
    (
        ("id", pa.int64()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("dec", pa.decimal128(6, 2)),
        ("b", pa.bool_()),
    )
)
NAN = float("nan")


def row(i: int) -> dict[str, Any]:
    return {
        "id": i,
        "s": None if i % 7 == 6 else "xyz"[i % 3] + "\"\\'"[i % 3],
        "f": NAN if i == 5 else i / 2,
        "g": NAN if i == 4 else i / 10,
        "d": dt.date(2026, 1, 1 + i),
        "ts": dt.datetime(2026, 1, 1, i),
        "dec": Decimal(i) / 4,
        "b": None if i == 3 else i % 2 == 0,
    }


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> interbed.Table:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path_factory.mktemp("lake")))
    catalog.create_database("shop")
    made = catalog.create_table("shop.t", SCHEMA)
    for start in range(0, 20, 5):
        made.append([row(i) for i in range(start, start + 5)])
    return made


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Record the columns and files of the scans."""
    found: list[tuple[Any, Any]] = []
    reader = query.Scan.to_arrow_batch_reader

    def noted(scan: query.Scan) -> pa.RecordBatchReader:
        found.append((scan.columns, sum(len(split.files) for split in scan.plan.splits)))
        return reader(scan)

    monkeypatch.setattr(query.Scan, "to_arrow_batch_reader", noted)
    return found


# -- Polars ------------------------------------------------------------------------------------------------------------

X, F = pl.col("id"), pl.col("f")
EXPRESSIONS = [
    (X > 16, 1),
    (X == 3, 1),
    (X <= 3, 1),
    ((X < 2) | (X == 19), 2),
    (X.is_in([1, 2, 19]), 2),
    (X.is_between(5, 9), 1),
    (X.is_between(5, 10, closed="left"), 1),
    (~(X == 3), 4),
    (X + 1 > 16, 4),
    ((X > 16) & (X % 2 == 0), 1),
    (X > 16.5, 4),
    (pl.col("s") == 'x"', 4),
    (pl.col("s").str.starts_with("y"), 4),
    (pl.col("s").is_null(), 4),
    (pl.col("s").is_not_null() & (X < 5), 1),
    (pl.col("d") >= dt.date(2026, 1, 18), 1),
    (pl.col("ts") < dt.datetime(2026, 1, 1, 3), 1),
    (pl.col("dec") == Decimal("4.75"), 4),
    (pl.col("b"), 4),
    (F > 8.5, 4),
    (F == 2.0, 1),
    (F < 2.5, 2),
    (F != 2.0, 4),
    (F.is_nan(), 4),
    (F == NAN, 4),
    (F.is_in([1.5, NAN]), 4),
    (pl.col("g") == 0.1, 4),
    (pl.col("g") >= 1.8, 4),
]


@pytest.mark.parametrize(("expression", "files"), EXPRESSIONS, ids=lambda e: str(e))
def test_a_lazy_frame_has_the_same_rows_as_an_eager_one(
    table: interbed.Table, read: list[tuple[Any, Any]], expression: pl.Expr, files: int
) -> None:
    frame = table.to_polars()
    read.clear()
    expected = frame.filter(expression).sort("id")
    assert table.to_polars(lazy=True).filter(expression).collect().sort("id").equals(expected)
    assert read[-1][1] <= files
    assert (
        table.to_polars(lazy=True)
        .filter(expression)
        .select("s", "id")
        .collect()
        .sort("id")
        .equals(expected.select("s", "id"))
    )


def test_a_lazy_frame_reads_the_columns_and_rows_that_it_needs(
    table: interbed.Table, read: list[tuple[Any, Any]]
) -> None:
    lazy = table.to_polars(lazy=True)
    assert lazy.collect_schema() == table.to_polars().schema
    read.clear()
    assert lazy.filter(X > 16).select(pl.col("f").sum()).collect().item() == sum(i / 2 for i in range(17, 20))
    assert [(sorted(columns), files) for columns, files in read] == [(["f", "id"], 1)]
    assert lazy.head(3).collect().height == 3
    assert lazy.head(3).filter(X > 100).collect().height == 0
    assert lazy.filter(X > 16).head(1).collect().height == 1
    assert lazy.filter(X > 100).collect().shape == (0, 8)
    assert lazy.select(pl.len()).collect().item() == 20


def test_a_lazy_frame_of_a_scan_has_only_its_rows(table: interbed.Table) -> None:
    scan = table.scan(columns=["id", "s"], filter="id >= 10")
    assert sorted(scan.to_polars(lazy=True).filter(X < 12).collect()["id"]) == [10, 11]
    first = table.scan(limit=4)
    ids = set(first.to_arrow()["id"].to_pylist())
    assert set(first.to_polars(lazy=True).filter(X >= 0).collect()["id"]) == ids
    assert first.to_polars(lazy=True).filter(X > 100).collect().height == 0


def test_a_lazy_frame_shows_one_snapshot(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("shop")
    table = catalog.create_table("shop.t", pa.schema([("id", pa.int64())]))
    table.append([{"id": 1}])
    lazy, relation = table.to_polars(lazy=True), table.to_duckdb()
    table.append([{"id": 2}])
    assert lazy.collect()["id"].to_list() == [1]
    assert relation.fetchall() == [(1,)]
    changes = table.changes()
    assert changes.to_polars(lazy=True).filter(X == 2).select("_row_kind").collect().height == 1
    assert changes.to_duckdb().filter("id = 2").project("id").fetchall() == [(2,)]


SCAN_OPTIONS: Sequence[tuple[Mapping[str, str], Sequence[int]]] = [
    ({}, (1, 2, 3, 4)),
    ({"scan.snapshot-id": "2"}, (1, 2, 3)),
    ({"scan.tag-name": "first"}, (1, 2)),
    ({"scan.version": "2"}, (1, 2, 3)),
    ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1"}, (1, 2)),
    ({"scan.mode": "compacted-full"}, (1, 2)),
    ({"scan.mode": "latest"}, (1, 2, 3, 4)),
    ({"scan.creation-time-millis": "1"}, (1, 2, 3, 4)),
    ({"scan.file-creation-time-millis": "9" * 14}, ()),
    ({"incremental-between": "1,3"}, (3, 4)),
    ({"incremental-between": "0,1"}, (1, 2)),
    ({"incremental-between": "first,last", "incremental-between-scan-mode": "diff"}, (3, 4)),
    ({"incremental-between-timestamp": f"0,{'9' * 14}"}, (1, 2, 3, 4)),
]


@pytest.mark.parametrize(("options", "ids"), SCAN_OPTIONS, ids=str)
def test_scan_options_mean_the_same_for_every_reader(
    tmp_path: Path, options: Mapping[str, str], ids: Sequence[int]
) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("shop")
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])
    table = catalog.create_table("shop.t", columns, primary_keys=["id"], options={"bucket": "1"})
    table.upsert([{"id": 1, "v": 1}, {"id": 2, "v": 2}])
    table.versions.create_tag("first")
    if options.get("scan.mode") == "compacted-full":
        table.compact()
    table.upsert([{"id": 3, "v": 3}])
    table.upsert([{"id": 4, "v": 4}])
    table.versions.create_tag("last")
    copy = table.copy(options)
    lazy, relation, stream = copy.to_polars(lazy=True), copy.to_duckdb(), copy.scan(filter="id > 0")
    of_stream = stream.to_duckdb()
    builder = copy.new_read_builder()
    found: dict[str, Callable[[], Any]] = {
        "to_arrow": lambda: copy.to_arrow()["id"].to_pylist(),
        "to_pandas": lambda: list(copy.to_pandas()["id"]),
        "to_polars": lambda: copy.to_polars()["id"].to_list(),
        "lazy frame": lambda: lazy.collect()["id"].to_list(),
        "lazy frame, filtered": lambda: lazy.filter(pl.col("v") > 0).collect()["id"].to_list(),
        "relation": lambda: [row[0] for row in relation.fetchall()],
        "relation, filtered": lambda: [row[0] for row in relation.filter("v > 0").fetchall()],
        "relation of a scan": lambda: [row[0] for row in of_stream.fetchall()],
        "scan": lambda: stream.to_arrow()["id"].to_pylist(),
        "keys": lambda: copy.scan(filter="id in (1, 2, 3, 4)").to_arrow()["id"].to_pylist(),
        "builder": lambda: builder.new_read().to_arrow(builder.new_scan().plan().splits())["id"].to_pylist(),
    }
    if sees_whole_snapshot(copy.store):
        found["get_many"] = lambda: copy.get_many([1, 2, 3, 4])["id"].to_pylist()
        found["get"] = lambda: [i for i in (1, 2, 3, 4) if copy.get(i) is not None]
    else:
        with pytest.raises(NotSupportedError, match="use scan with a filter on the key"):
            copy.get(1)
    assert copy.count() == copy.scan().count() == len(ids)
    assert {name: sorted(read()) for name, read in found.items()} == dict.fromkeys(found, sorted(ids))
    # Later rows are no rows of what was opened before.
    table.upsert([{"id": 5, "v": 5}])
    assert sorted(lazy.collect()["id"].to_list()) == sorted(row[0] for row in relation.fetchall()) == sorted(ids)


def test_unsupported_polars_expressions_are_not_pushed_down(table: interbed.Table) -> None:
    fields = table.schema.fields
    assert translated(X.cast(pl.String) == "3", fields) is None
    assert translated(pl.col("no_such") == 3, fields) is None
    assert translated((X == 3) & (X % 2 == 0), fields) == parse_filter("id = 3", fields)
    assert translated((X == 3) | (X % 2 == 0), fields) is None


# -- DuckDB ------------------------------------------------------------------------------------------------------------

CONDITIONS = [
    ("id > 16", 1),
    ("id = 3 or id = 19", 2),
    ("id in (1, 2, 19)", 2),
    ("id between 5 and 9", 1),
    ("id <> 3", 4),
    ("id + 1 > 16", 4),
    ("s = 'x\"'", 4),
    ("s = 'y\\'", 4),
    ("s = 'z''' and id < 5", 1),
    ("s in ('x\"', 'z''')", 4),
    ("s like 'y%'", 4),
    ("s is null", 4),
    ("s is not null and id > 16", 1),
    ("d >= date '2026-01-18'", 1),
    ("ts < timestamp '2026-01-01 03:00:00'", 1),
    ("dec = 4.75", 1),
    ("dec > 4.5", 1),
    ("b", 4),
    ("not b", 4),
    ("f > 8.5", 4),
    ("f = 2", 1),
    ("f < 2.5", 4),
    ("f = 'nan'::double", 4),
    ("g = 0.1::float", 4),
]


@pytest.mark.parametrize(("condition", "files"), CONDITIONS)
def test_a_relation_has_the_same_rows_as_a_table_in_memory(
    table: interbed.Table, read: list[tuple[Any, Any]], condition: str, files: int
) -> None:
    memory = duckdb.connect().from_arrow(table.to_arrow())
    expected = memory.filter(condition).order("id").fetchall()
    read.clear()
    assert repr(table.to_duckdb().filter(condition).order("id").fetchall()) == repr(expected)
    assert read[-1][1] <= files


def test_a_relation_reads_the_columns_that_it_needs(table: interbed.Table, read: list[tuple[Any, Any]]) -> None:
    relation = table.to_duckdb()
    assert relation.columns == SCHEMA.names
    read.clear()
    assert relation.filter("id > 16").aggregate("sum(f)").fetchall() == [(sum(i / 2 for i in range(17, 20)),)]
    assert [(sorted(columns), files) for columns, files in read] == [(["f", "id"], 1)]
    connection = duckdb.connect()
    assert table.to_duckdb("t", connection) is connection
    assert connection.execute("select count(*) from t").fetchall() == [(20,)]
    assert connection.execute("select id from t where id < 3 order by id desc limit 1").fetchall() == [(2,)]
    scan = table.scan(columns=["id"], filter="id >= 10", limit=5)
    assert scan.to_duckdb().aggregate("count(*)").fetchall() == [(5,)]


def test_a_filter_that_cannot_be_pushed_down_is_still_applied(table: interbed.Table) -> None:
    scan = table.scan()
    rows = RowsDataset(scan.schema, table.schema.fields, scan._narrowed)
    odd = pc.utf8_length(pc.field("s")) == 2
    assert predicate_of(odd, rows.schema, table.schema.fields) is None
    assert rows.scanner(columns=["id"], filter=odd).to_table().num_rows == 18
    assert rows.scanner(columns=["id"], filter=pc.field("id") > 16).to_table()["id"].to_pylist() == [17, 18, 19]
    for refused in (rows.get_fragments, rows.replace_schema, rows.filter):
        with pytest.raises(NotSupportedError, match="for DuckDB"):
            refused(None)


# -- streams and notebooks ---------------------------------------------------------------------------------------------


def test_tables_and_scans_export_arrow_streams(table: interbed.Table) -> None:
    assert pa.table(table).num_rows == 20
    assert pa.table(table.scan(columns=["id"], filter="id < 3"))["id"].to_pylist() == [0, 1, 2]
    assert pl.DataFrame(table.scan(columns=["id"])).shape == (20, 1)
    relation = table.scan(columns=["id"])
    assert duckdb.connect().sql("select max(id) from relation").fetchall() == [(19,)]
    assert relation.count() == table.count() == 20
    assert table.to_pandas().shape == (20, 8)


def test_tables_and_scans_have_representations_for_terminals_and_notebooks(
    tmp_path: Path, table: interbed.Table
) -> None:
    assert repr(table).startswith("Table('shop.t', ")
    long = table.scan(columns=SCHEMA.names, filter=" or ".join(f"id = {i}" for i in range(99)), limit=3)
    assert repr(long).endswith("; limit 3)")
    assert len(repr(long)) < 160 + len(table.location)
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    assert repr(catalog) == f"FileSystemCatalog('lake', {str(tmp_path)!r})"
    catalog.create_database("shop")
    evil = catalog.create_table("shop.e", pa.schema((("<b>", pa.string()), ("n", pa.int64()))))
    evil.append([{"<b>": "<script>" + "a" * 100, "n": i} for i in range(30)])
    shown = evil.scan()._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;aaa" in shown
    assert "&lt;b&gt;" in shown
    assert shown.count("<tr>") == 21
    assert "…</p>" in shown
    facts = evil._repr_html_()
    assert "<b>" not in facts
    assert "&lt;b&gt;" in facts
    assert "1, 30 records" in facts


def test_comparisons_of_timestamps_with_other_units_are_left_to_polars(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    column = pl.col("v")
    units: tuple[Any, ...] = ("ms", "us", "ns")
    for unit, per_second in zip(units, (10**3, 10**6, 10**9), strict=True):
        table = catalog.create_table(f"d.{unit}", pa.schema([("v", pa.timestamp(unit))]))
        for ticks in ((1709164800 * per_second, 1709164800 * per_second + 1), (-1, 0, 1)):
            table.append(pa.table({"v": pa.array(ticks, pa.int64()).cast(pa.timestamp(unit))}))
        eager, lazy = table.to_polars(), table.to_polars(lazy=True)
        for value in (dt.datetime(2024, 2, 29), dt.datetime(1970, 1, 1, 0, 0, 0, 1)):
            literals: list[Any] = [value, *(pl.lit(value, pl.Datetime(u)) for u in units)]
            made = [f for one in literals for f in (column == one, column <= one, one < column)]
            made += [column.is_in(pl.Series([value], dtype=pl.Datetime(unit))), column.is_between(value, value)]
            for expression in made:
                found = lazy.filter(expression).collect().height
                assert found == eager.filter(expression).height, (unit, str(expression))
