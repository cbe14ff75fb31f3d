"""A condition selects the same rows in every statement of `interbed sql`, in any time zone of the machine."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import interbed
from interbed.cli import main
from tests.support.waits import at_most

_NOON = "TIMESTAMP '2024-07-01 12:00:00'"


@pytest.fixture
def lake(tmp_path: Path) -> interbed.Catalog:
    lake = interbed.load_catalog(warehouse=tmp_path / "lake")
    lake.create_database("d")
    fields: list[pa.Field[Any]] = [pa.field("id", pa.int64(), nullable=False), pa.field("z", pa.timestamp("us", "UTC"))]
    lake.create_table("d.t", pa.schema([*fields, pa.field("s", pa.string())]), options={"bucket": "-1"})
    return lake


def in_tokyo(lake: interbed.Catalog, statement: str) -> str:
    command = [sys.executable, "-c", "from interbed.cli import main; main()", "-o", f"warehouse={lake.warehouse}"]
    done = subprocess.run(
        [*command, "sql", statement, "--json"],
        env={**os.environ, "TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        check=True,
        timeout=at_most(120),
    )
    return done.stdout


def test_every_statement_runs_in_utc(lake: interbed.Catalog) -> None:
    in_tokyo(lake, f"INSERT INTO d.t (id, z) SELECT 1, {_NOON}")
    assert lake.get_table("d.t").scan().to_arrow()["z"].to_pylist() == [datetime(2024, 7, 1, 12, tzinfo=UTC)]
    assert json.loads(in_tokyo(lake, f"SELECT id, z FROM d.t WHERE z = {_NOON}")) == {
        "id": 1,
        "z": "2024-07-01 12:00:00+00:00",
    }
    merge = (
        f"MERGE INTO d.t USING (SELECT 2 AS id, {_NOON} AS z) AS s ON t.z = s.z "
        "WHEN NOT MATCHED THEN INSERT (id, z) VALUES (s.id, s.z)"
    )
    assert json.loads(in_tokyo(lake, merge))["inserted"] == 0
    assert json.loads(in_tokyo(lake, f"DELETE FROM d.t WHERE z = {_NOON}"))["deleted"] == 1


def test_a_change_refuses_a_backslash_in_like(lake: interbed.Catalog) -> None:
    lake.get_table("d.t").append([{"id": 1, "s": "a%"}])
    for condition in (
        r"s LIKE 'a\%'",
        r"NOT s LIKE 'a\%'",
        r"s NOT LIKE '%\%'",
        r"id = 1 AND (s LIKE 'b' OR s LIKE '\\')",
    ):
        for statement in ("DELETE FROM d.t WHERE", "UPDATE d.t SET s = 'x' WHERE"):
            found = CliRunner().invoke(main, ["-o", f"warehouse={lake.warehouse}", "sql", f"{statement} {condition}"])
            assert found.exit_code == 1, condition
            assert "a backslash of LIKE" in " ".join(found.output.split())
    ways = CliRunner().invoke(main, ["-o", f"warehouse={lake.warehouse}", "sql", "DELETE FROM d.t WHERE s LIKE 'a%'"])
    assert ways.exit_code == 0, ways.output
