"""Published tables in DuckDB and ClickHouse, read as the page docs/readers.md describes."""

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.table.table import Table
from tests.iceberg.publish.readers import read_by_others
from tests.iceberg.publish.tables import VECTORS, lake
from tests.support.pages import Page
from tests.support.tally import Tally

PAGE = Page("readers.md")
ENGINES = {"duckdb": "iceberg_scan('{}')", "clickhouse": "icebergLocal('{}/')"}

DAY = dt.date(2024, 1, 1)
MOMENT = pa.timestamp("us")

ROWS = pa.table(
    {
        "id": pa.array(range(1, 9), pa.int64()),
        "s": ["a", None, "ä", "", "b", "c", "d", "e"],
        "day": pa.array([dt.date(2024, 2, 29), None, dt.date(1969, 12, 31), dt.date(1, 1, 1), *[DAY] * 4]),
        "n": pa.array([Decimal("1.25"), None, Decimal("-9.99"), *[Decimal("0.00")] * 5], pa.decimal128(9, 2)),
        "moment": pa.array([dt.datetime(2024, 1, 1, 1, 2, 3, 456789), None, *[dt.datetime(1969, 1, 1)] * 6], MOMENT),
        "b": pa.array([True, None, False, True, True, True, False, False]),
        "x": pa.array([0.5, None, -0.25, 1e300, 1.0, 2.0, 3.0, 4.0]),
        "p": ["x", "x", "y", None, "y", "x", "x", "y"],
    }
)

KINDS: Mapping[str, dict[str, Any]] = {
    "append": {},
    "partitioned": {"partition_keys": ["p"]},
    "keyed": {"primary_keys": ["id"], "options": {"bucket": "1"}},
    "keyed and partitioned": {"primary_keys": ["id", "day"], "partition_keys": ["day"], "options": {"bucket": "1"}},
    "vectors": {"primary_keys": ["id"], "options": {"bucket": "1", **VECTORS}},
    "vectors of an append table": {"options": VECTORS},
}
REFUSED = {("clickhouse", "vectors of an append table")}


def made(warehouse: Path, name: str, kind: Mapping[str, Any], storage: str) -> Table:
    """Create a table of the kind with deleted, updated and inserted rows."""
    options = {"metadata.iceberg.storage": storage, **kind.get("options", {})}
    rows = ROWS
    if "day" in kind.get("primary_keys", ()):
        rows = rows.filter(pa.compute.is_valid(rows["day"]))
    table = lake(warehouse).create_table_as(f"db.{name}", rows, **{**kind, "options": options})
    table.compact(full=True)
    table.delete("id = 5")
    if kind.get("primary_keys"):
        table.upsert(rows.slice(0, 1).set_column(1, "s", pa.array(["new"])))
    if VECTORS.keys() - options.keys():
        table.compact(full=True)
    return table


@pytest.mark.sample(1)
@pytest.mark.parametrize("storage", ["table-location", "hadoop-catalog"])
def test_duckdb_and_clickhouse_read_the_rows_that_interbed_reads(tmp_path: Path, storage: str, tally: Tally) -> None:
    tables = {kind: made(tmp_path, f"t{n}", arguments, storage) for n, (kind, arguments) in enumerate(KINDS.items())}
    columns = "id, s, day, CAST(n * 100 AS BIGINT), CAST(moment AS VARCHAR), CAST(b AS INTEGER), x, p"
    tried: list[tuple[str, str]] = []
    above = {"table-location": f"{tmp_path}/db.db", "hadoop-catalog": f"{tmp_path}/iceberg/db"}[storage]
    for number in range(len(tables)):
        for engine, scan in ENGINES.items():
            where = scan.format(f"{above}/t{number}")
            varchar = "VARCHAR" if engine == "duckdb" else "Nullable(String)"
            wanted = columns.replace("VARCHAR", varchar)
            if engine == "clickhouse":
                wanted = wanted.replace("BIGINT", "Nullable(Int64)").replace("INTEGER", "Nullable(Int8)")
            tried.append((engine, f"SELECT {wanted} FROM {where} ORDER BY id"))
    answers = iter(read_by_others(tried))
    for kind, table in tables.items():
        expected = [_texts(row) for row in sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])]
        for engine in ENGINES:
            rows, error = next(answers)
            if (engine, kind) in REFUSED or (engine, storage) == ("clickhouse", "hadoop-catalog"):
                assert rows is None, (engine, kind)
                assert "BAD_ARGUMENTS" in str(error) or "FILE_DOESNT_EXIST" in str(error)
            else:
                assert error is None, (engine, kind, error)
                assert [_normal(row) for row in rows] == expected, (engine, kind)
            tally("published tables read by DuckDB and ClickHouse", 1)


@pytest.mark.long
def test_the_statements_of_the_page_run(tmp_path: Path) -> None:
    items = pa.table({"id": [1, 2, 3], "amount": [5, 6, 7]})
    catalog = interbed.load_catalog(warehouse=f"{tmp_path}/lake")
    catalog.create_database("shop")
    table = catalog.create_table_as("shop.items", items, options={"metadata.iceberg.storage": "table-location"})
    path = f"{tmp_path}/lake/shop.db/items"
    assert PAGE.run_python(items=path) == 3
    found = [line for block in PAGE.blocks("sql") for line in block.splitlines() if line.startswith("SELECT")]
    here = [line.replace("/tmp/lake/shop.db/items", path).rstrip(";") for line in found]
    statements = [("duckdb" if "iceberg_scan" in line else "clickhouse", line) for line in here]
    assert [rows for rows, _ in read_by_others(statements)] == [[["3", "18"]], [["3", "18"]]]
    assert table.scan().to_arrow().num_rows == 3


def _texts(row: Mapping[str, Any]) -> list[Any]:
    number, moment, flag = row["n"], row["moment"], row["b"]
    return [
        str(row["id"]),
        row["s"],
        None if row["day"] is None else str(row["day"]),
        None if number is None else str(int(number * 100)),
        None if moment is None else moment.isoformat(" "),
        None if flag is None else str(int(flag)),
        None if row["x"] is None else float(row["x"]),
        row["p"],
    ]


def _normal(row: Sequence[str | None]) -> list[Any]:
    """Return a row with the timestamp and the fraction normalized over all engines."""
    moment, fraction = row[4], row[6]
    return [
        *row[:4],
        None if moment is None else dt.datetime.fromisoformat(moment).isoformat(" "),
        row[5],
        None if fraction is None else float(fraction),
        row[7],
    ]
