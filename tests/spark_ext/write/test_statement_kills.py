"""Statements whose whole application is killed (SIGKILL): the table is as before or as after the statement.

Only orphans that remove_orphan_files deletes are left. `make test` kills at some steps, `make test-long` kills each
statement at each of STEPS.
"""

import signal
import time
from pathlib import Path

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.catalog.client.api import Catalog
from interbed.storage.table.table import Table
from interbed.storage.version.orphans import named_files, remove_orphan_files
from tests.support.shares import each_run
from tests.support.spark.killed import run_killed

BEFORE = [(1, "a"), (2, "b"), (3, "c")]
SOURCE = "(SELECT 3 AS id, 'C' AS v UNION ALL SELECT 4, 'd')"
STATEMENTS = {
    "update": ("UPDATE lake.db.t SET v = 'z' WHERE id < 3", [(1, "z"), (2, "z"), (3, "c")]),
    "delete": ("DELETE FROM lake.db.t WHERE v = 'b'", [(1, "a"), (3, "c")]),
    "merge": (
        f"MERGE INTO lake.db.t t USING {SOURCE} s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
        [(1, "a"), (2, "b"), (3, "C"), (4, "d")],
    ),
    "overwrite": ("INSERT OVERWRITE lake.db.t VALUES (9, 'n')", [(9, "n")]),
    "compact": ("CALL lake.sys.compact(table => 'db.t')", BEFORE),
    "replace": ("CREATE OR REPLACE TABLE lake.db.t AS SELECT 9 AS id, 'n' AS v", [(9, "n")]),
    "create": ("CREATE TABLE lake.db.made AS SELECT id, v FROM lake.db.t", BEFORE),
}
STEPS = (
    "create_exclusive:*/snapshot/.write-*:kill-before",
    "create_exclusive:*/snapshot/.write-*:kill-after",
    "open_output:*/bucket-0/data-*:kill-before",
    "open_output:*/bucket-0/data-*:kill-after",
    "exists:*/snapshot/.write-*:kill-before",
    "create_exclusive:*/schema/schema-*:kill-before",
    "create_exclusive:*/schema/schema-*:kill-after",
    "open_output:*/manifest/manifest-*:kill-after",
    "create_exclusive:*/snapshot/snapshot-*:kill-before",
    "create_exclusive:*/snapshot/snapshot-*:kill-after",
    "delete_quietly:*/snapshot/.write-*:kill-before",
    "delete_quietly:*/snapshot/.write-*:kill-after",
)
COLUMNS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
DEFAULT = [("merge", "create_exclusive:*/snapshot/snapshot-*:kill-before")]
ALL = [(name, step) for name in STATEMENTS for step in STEPS]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A catalog with the append table `db.t` of three files."""
    return _catalog(tmp_path, {})


def _catalog(tmp_path: Path, options: dict[str, str]) -> Catalog:
    catalog = load_catalog(warehouse=str(tmp_path / "lake"))
    catalog.create_database("db")
    columns = pa.schema((("id", pa.int32()), ("v", pa.string())))
    table = catalog.create_table("db.t", columns, options=options)
    for number, text in BEFORE:
        table.append(pa.table({"id": [number], "v": [text]}, schema=columns))
    return catalog


def _rows(table: Table) -> list[tuple[int, str]]:
    return sorted((row["id"], row["v"]) for row in table.scan().to_arrow().to_pylist())


def _run(path: Path, statement: str, *, fault: str) -> int:
    arguments = ("local[1]", str(path / "lake"), str(path / "pids"), statement)
    return run_killed(path, "statement_program.py", *arguments, fault=fault)


def _only_orphans_are_left(table: Table) -> None:
    rows, tomorrow = _rows(table), time.time() + 2 * 86_400
    remove_orphan_files(table.store, clock=lambda: tomorrow)
    files = {str(f) for f in Path(table.location).rglob("bucket-*/*")}
    assert files <= set(named_files(table.store))
    assert not list(Path(table.location, "snapshot").glob(".write-*"))
    assert _rows(table) == rows


@pytest.mark.long
@pytest.mark.parametrize(("name", "step"), each_run(ALL, lambda case: case in DEFAULT))
def test_a_statement_whose_driver_is_killed_is_atomic(catalog: Catalog, tmp_path: Path, name: str, step: str) -> None:
    statement, after = STATEMENTS[name]

    code = _run(tmp_path, statement, fault=step)

    # Not every statement has every step.
    assert code == -signal.SIGKILL or (code == 0 and (name, step) not in DEFAULT)
    if name == "create":
        # In a file system a new table is empty for a moment between the creation of its schema and its rows.
        found = _rows(catalog.get_table("db.made")) if catalog.table_exists("db.made") else []
        assert found in ([after] if code == 0 else [[], after])
    else:
        assert _rows(catalog.get_table("db.t")) in ([after] if code == 0 else [BEFORE, after])
    _only_orphans_are_left(catalog.get_table("db.t"))
    # The table stays usable: another process runs the same statement.
    table = catalog.get_table("db.t")
    table.append(pa.table({"id": [100], "v": ["next"]}, schema=table.arrow_schema))
    assert (100, "next") in _rows(catalog.get_table("db.t"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "step"), each_run([(n, s) for n in ("update", "merge") for s in STEPS], lambda _: False)
)
def test_a_change_of_columns_whose_driver_is_killed_is_atomic(tmp_path: Path, name: str, step: str) -> None:
    catalog = _catalog(tmp_path, COLUMNS)
    statement, after = STATEMENTS[name]

    code = _run(tmp_path, statement, fault=step)

    assert code in (-signal.SIGKILL, 0)
    table = catalog.get_table("db.t")
    assert _rows(table) in ([after] if code == 0 else [BEFORE, after])
    _only_orphans_are_left(table)
    table.update({"v": "next"}, "id = 1")
    assert (1, "next") in _rows(table)
    assert table.maintenance.fsck().is_sound
