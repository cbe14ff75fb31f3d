"""`interbed ingest verify`: equal tables, and missing, extra or different rows."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed.catalog.client.api import Catalog
from interbed.ingest.flow.changes import SourceTable
from interbed.ingest.sources.postgres.snapshot import PostgresTable
from interbed.ingest.tables import comparison
from interbed.ingest.tables.comparison import RowComparison, row_bytes
from interbed.ingest.tables.table_sink import TableSettings
from interbed.storage.base.errors import InvalidInputError
from tests.ingest.shop import lake
from tests.ingest.sources.postgres.database import Database
from tests.support.waits import at_most

WIDE = """
    CREATE TABLE orders (
        id int, part text, n numeric(10, 2), x float8, at timestamptz, on_day date, raw bytea, tags text[], yes bool,
        PRIMARY KEY (id, part)
    )
"""
ROWS = """
    INSERT INTO orders SELECT i, 'p' || i % 3, i / 7.0, CASE i % 5 WHEN 0 THEN 'NaN' ELSE i / 3.0 END,
        '2024-01-01'::timestamptz + i * interval '1 minute', '2024-01-01'::date + i, decode(md5(i::text), 'hex'),
        CASE i % 4 WHEN 0 THEN NULL ELSE ARRAY['a', NULL, i::text] END, i % 2 = 0
    FROM generate_series(1, 500) i
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lake(tmp_path)


def compared(database: Database, catalog: Catalog, name: str = "orders", **more: Any) -> comparison.TableComparison:
    wait = more.pop("wait", lambda: None)
    source = PostgresTable(database.url, SourceTable("public", name), **more)
    return RowComparison(catalog.get_table(f"shop.{name}"), source.changes).run(wait)


def test_rows_of_all_types_are_equal_and_each_difference_is_found(database: Database, catalog: Catalog) -> None:
    database.execute(WIDE, ROWS)
    database.read(catalog)
    found = compared(database, catalog)
    assert (found.is_equal, found.rows, found.source_rows, found.ranges) == (True, 500, 500, 0)
    assert list(found.columns) == ["id", "part", "n", "x", "at", "on_day", "raw", "tags", "yes"]
    database.execute(
        "UPDATE orders SET tags[2] = '' WHERE id = 5",
        "UPDATE orders SET x = '-0' WHERE id = 6",
        "DELETE FROM orders WHERE id = 7",
        "INSERT INTO orders (id, part) VALUES (0, '')",
    )
    found = compared(database, catalog)
    assert (found.missing, found.left_over, found.different) == (1, 1, 2)
    shown = {(row.lake or row.source or {})["id"]: row for row in found.differences}
    assert (shown[7].source, shown[0].lake) == (None, None)
    assert shown[5].lake is not None
    assert shown[5].source is not None
    assert (shown[5].lake["tags"], shown[5].source["tags"]) == (["a", None, "5"], ["a", "", "5"])
    database.read(catalog)
    assert compared(database, catalog).is_equal


def test_rows_that_change_during_the_comparison_are_ignored(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, v int)", "INSERT INTO orders VALUES (1, 1), (2, 2)")
    database.read(catalog)
    database.execute("UPDATE orders SET v = 3 WHERE id = 1")
    assert compared(database, catalog, wait=lambda: database.read(catalog)).is_equal


def test_rows_without_a_key_are_counted(database: Database, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "ROWS_MOST", 2)
    database.execute("CREATE TABLE log (n int)", "ALTER TABLE log REPLICA IDENTITY FULL")
    database.execute("INSERT INTO log VALUES (1), (1), (2), (NULL)")
    database.read(catalog, tables=TableSettings())
    assert compared(database, catalog, "log").is_equal
    database.execute("INSERT INTO log VALUES (1), (3)", "DELETE FROM log WHERE n IS NULL")
    found = compared(database, catalog, "log")
    assert (found.missing, found.left_over, found.different, found.ranges) == (2, 1, 0, 3)


def test_columns_of_one_side_are_ignored_except_keys(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, v int)", "INSERT INTO orders VALUES (1, 1)")
    database.read(catalog)
    database.execute("ALTER TABLE orders ADD COLUMN w int DEFAULT 5")
    found = compared(database, catalog)
    assert (found.is_equal, found.source_only, list(found.columns)) == (True, ["w"], ["id", "v"])
    assert compared(database, catalog, condition="id > 1").left_over == 1
    database.execute("ALTER TABLE orders RENAME id TO no")
    with pytest.raises(InvalidInputError, match="the source lacks the column 'id' of its key"):
        compared(database, catalog)
    with pytest.raises(InvalidInputError, match=r"There is no table public\.nothing in "):
        list(PostgresTable(database.url, SourceTable("public", "nothing")).changes())


@pytest.mark.long
def test_the_command_reports_the_differences(database: Database, catalog: Catalog, tmp_path: Path) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, v text)", "INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    database.read(catalog)
    command = [sys.executable, "-m", "interbed.cli", "ingest", "verify", "-o", f"warehouse={tmp_path}", "--wait", "0 s"]
    command += ["--url", database.url, "--table", "shop.orders", "--source", "orders"]

    def run(*more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*command, *more], capture_output=True, text=True, check=False, timeout=at_most(60))

    assert (run().returncode, run().stdout.splitlines()[-1]) == (0, "all rows are the same")
    database.execute("UPDATE orders SET v = E'\\n' WHERE id = 2")
    done = run()
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == [
        "missing: 0, left over: 0, different: 1",
        '  source  {"id": 2, "v": "\\n"}',
        '  table   {"id": 2, "v": "b"}',
    ]
    found = json.loads(run("--json").stdout)
    assert (found["equal"], found["different"], found["rows"]) == (False, 1, 2)


def test_encoded_rows_differ_where_a_value_differs() -> None:
    texts = [None, "", "-", "0", "1:", "a", "a:1", "b"]
    rows = [(one, other) for one in texts for other in texts]
    batch = pa.RecordBatch.from_pylist([{"a": one, "b": other} for one, other in rows])
    assert len(set(row_bytes(batch, ["a", "b"]).to_pylist())) == len(rows)
