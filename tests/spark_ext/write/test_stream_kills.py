"""Streams whose whole application is killed (SIGKILL) between two steps of a micro-batch, and restarted.

The kills are at each of STEPS, one run after another.
"""

import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.storage.table.table import Table
from interbed.storage.version.orphans import named_files
from tests.support.spark.killed import run_killed

STEPS = (
    "create_exclusive:*/log/snapshot/.write-*:kill-before",
    "create_exclusive:*/log/snapshot/.write-*:kill-after",
    "open_output:*/log/bucket-0/*:kill-before",
    "exists:*/log/snapshot/.write-*:kill-before",
    "overwrite:*/log/epoch/*:kill-before",
    "overwrite:*/log/epoch/*:kill-after",
    "open_output:*/log/manifest/*:kill-after",
    # Files are written, but not committed.
    "create_exclusive:*/log/snapshot/snapshot-1:kill-before",
    # A commit was made but neither recorded nor reported to Spark.
    "create_exclusive:*/sums/snapshot/snapshot-2:kill-after",
    # An overwrite was made but neither recorded nor reported to Spark.
    "create_exclusive:*/counts/snapshot/snapshot-1:kill-after",
    "overwrite:*/log/epoch/*:kill-after:1",
    "delete_quietly:*/log/snapshot/.write-*:kill-before",
    "delete_quietly:*/log/snapshot/.write-*:kill-after",
    "overwrite:*/s/consumer/*:kill-before",
    "overwrite:*/s/consumer/*:kill-after",
    "overwrite:*/counts/epoch/*:kill-after",
)


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Table]:
    catalog = load_catalog(warehouse=str(tmp_path / "lake"))
    catalog.create_database("db")
    rows = pa.schema([("id", pa.int64()), ("p", pa.int64())])
    counts = pa.schema([("p", pa.int64()), ("n", pa.int64())])
    sums = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())))
    adding = {"bucket": "1", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    return {
        "s": catalog.create_table("db.s", rows),
        "log": catalog.create_table("db.log", rows),
        # A duplicate row would count twice.
        "sums": catalog.create_table("db.sums", sums, primary_keys=["id"], options=adding),
        "counts": catalog.create_table("db.counts", counts),
    }


@pytest.mark.long
def test_killed_streams_lose_and_duplicate_nothing(tables: dict[str, Table], tmp_path: Path) -> None:
    written = _write(tables["s"], 0, files=2)
    for step in STEPS:
        assert _run(tmp_path, step) == -signal.SIGKILL, step
        # The source continues while no stream reads it.
        written = _write(tables["s"], written, files=1)
    assert _run(tmp_path, None) == 0

    ids = list(range(written))
    logged: Any = tables["log"].scan().to_arrow()["id"]
    assert sorted(logged.to_pylist()) == ids
    assert sorted(map(tuple, _rows(tables["sums"]))) == [(i, 1) for i in ids]
    by_rest = [(p, len([i for i in ids if i % 3 == p])) for p in range(3)]
    assert sorted(map(tuple, _rows(tables["counts"]))) == by_rest
    for name in ("log", "sums", "counts"):
        table = tables[name]
        epochs = [s.commit_identifier for s in table.snapshots() if s.commit_kind != "COMPACT"]
        assert epochs == sorted(set(epochs)), name
        files = {str(f) for f in Path(table.location, "bucket-0").iterdir()}
        assert files <= set(named_files(table.store)), name
        assert not list(Path(table.location, "snapshot").glob(".write-*"))
    assert list(tables["s"].versions.consumers()) == ["program"]


def _write(table: Table, first: int, *, files: int) -> int:
    for number in range(files):
        ids = range(first + 4 * number, first + 4 * number + 4)
        table.append(pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([i % 3 for i in ids], pa.int64())}))
    return first + 4 * files


def _rows(table: Table) -> list[list[object]]:
    return [list(row.values()) for row in table.scan().to_arrow().to_pylist()]


def _run(path: Path, fault: str | None) -> int:
    places = (str(path / n) for n in ("lake", "checkpoints", "pids"))
    return run_killed(path, "stream_program.py", *places, fault=fault)
