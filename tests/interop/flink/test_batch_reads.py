"""Flink's batch reads of tables that interbed wrote: current rows, time travel, hints, filters and lookup joins."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed.storage.table.table import Table
from tests.interop.flink.conftest import SharedLake, read
from tests.support.peers.json import comparable

FIELDS: list["pa.Field[Any]"] = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("dt", pa.string(), nullable=False),
    pa.field("n", pa.int32()),
    pa.field("name", pa.string()),
]
SCHEMA = pa.schema(FIELDS)


def rows(*values: tuple[int, str, int | None, str | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in values], schema=SCHEMA)


@pytest.fixture
def table(hive: SharedLake) -> Table:
    """Table of three snapshots, the first two tagged; the last has rows to merge and deleted rows."""
    options = {"bucket": "2", "write-only": "true"}
    hive.catalog.create_table("db.t", SCHEMA, primary_keys=["dt", "id"], partition_keys=["dt"], options=options)
    table = hive.table("t")
    table.upsert(rows((1, "x", 1, "one"), (2, "x", 2, "two"), (3, "y", 3, None)))
    table.versions.create_tag("first")
    table.upsert(rows((2, "x", 20, "twenty"), (4, "y", None, "four")))
    table.versions.create_tag("second")
    table.delete("id = 1")
    return table


def hinted(options: dict[str, str]) -> str:
    given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"SELECT * FROM t /*+ OPTIONS({given}) */"


def test_hints_read_earlier_snapshots(hive: SharedLake, table: Table) -> None:
    second = table.versions.snapshot(2)
    assert hive.flink.sql("SELECT * FROM t").comparable() == read(table).comparable()
    for options in (
        {"scan.snapshot-id": "1"},
        {"scan.tag-name": "second"},
        {"scan.timestamp-millis": str(second.time_millis)},
        {"scan.mode": "compacted-full"},
        {"incremental-between": "1,3"},
        {"incremental-between": "first,second"},
    ):
        found = hive.flink.sql(hinted(options))
        # Flink returns deletions between snapshots as such (-D); interbed's scans omit them.
        added = [row for kind, row in zip(found.kinds, found.rows, strict=True) if kind != "-D"]
        assert comparable(added, found.types) == read(table.copy(options)).comparable(), options


@pytest.mark.long
def test_statements_read_earlier_snapshots(hive: SharedLake, table: Table) -> None:
    at = hive.flink.sql("SELECT commit_time FROM `t$snapshots` WHERE snapshot_id = 1").rows[0][0]
    moment = str(pa.scalar(at, pa.timestamp("ns")).as_py())[:23]
    found = hive.flink.sql(f"SELECT * FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '{moment}'")
    assert found.comparable() == read(table, snapshot_id=1).comparable()


FILTERS = """
SELECT id FROM t WHERE dt = 'x';
-- 2
SELECT id FROM t WHERE n IS NULL AND dt = 'y';
-- 4
SELECT id FROM t WHERE n BETWEEN 3 AND 25 AND name IS NOT NULL;
-- 2
SELECT name FROM t WHERE id IN (1, 2, 3) AND name LIKE 'tw%';
-- twenty
SELECT dt, COUNT(*), SUM(n) FROM t GROUP BY dt;
-- x, 1, 20
-- y, 2, 3
SELECT COUNT(*) FROM t;
-- 3
SELECT a.id, b.name FROM t a JOIN t b ON a.id = b.id AND a.dt = b.dt WHERE a.n = 20;
-- 2, twenty
SELECT id FROM t ORDER BY id DESC LIMIT 2;
-- 4
-- 3
"""


def test_filters_joins_and_aggregates(hive: SharedLake, table: Table) -> None:
    hive.script(FILTERS)


@pytest.mark.long
def test_a_stream_is_joined_with_a_table_of_interbed(hive: SharedLake, table: Table, tmp_path: Path) -> None:
    asked: list[tuple[str, list[Any]]] = [("+I", [key, "y" if key > 2 else "x"]) for key in (1, 2, 3, 4, 5)]
    hive.flink.sql("SET 'execution.runtime-mode' = 'streaming'")
    hive.flink.changes("asked", "id BIGINT, dt STRING, at_ AS PROCTIME()", asked, tmp_path)
    found = hive.flink.sql(
        "SELECT a.id, t.name FROM asked a LEFT JOIN t FOR SYSTEM_TIME AS OF a.at_ ON a.id = t.id AND a.dt = t.dt"
    )
    assert sorted(found.rows, key=repr) == [[1, None], [2, "twenty"], [3, None], [4, "four"], [5, None]]
