"""Tables for processes that are killed or run out of disk space, and checks of the tables afterwards."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import interbed
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.row.kind import RowKind
from interbed.storage.meta.manifest.entry import EMPTY_ROW
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from tests.storage.write.lsm_process import rows
from tests.support.unmeasured import unmeasured_environment
from tests.support.waits import at_most

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = at_most(240)
LOOKUP = {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"}
Rows = dict[int, str]


def create(warehouse: Path, **options: str) -> Table:
    """Create a table (id BIGINT, v STRING) with one bucket."""
    catalog = interbed.load_catalog("test", warehouse=f"file:{warehouse}")
    catalog.create_database("db", ignore_if_exists=True)
    columns: list[Any] = [pa.field("id", pa.int64(), nullable=False), ("v", pa.string())]
    schema = pa.schema(columns)
    return catalog.create_table("db.t", schema, primary_keys=["id"], options={"bucket": "1", **options})


def reopened(table: Table) -> Table:
    """Return the table as another process sees it."""
    return Table(table.name, open_store(table.location))


def start(table: Table, work: str, number: int, *arguments: str, temporary: Path) -> "subprocess.Popen[str]":
    """Run tests.storage.write.lsm_process on the table; `temporary` is where its temporary files go."""
    temporary.mkdir(exist_ok=True)
    # A limit of the size of files would be one of coverage's file as well.
    environment = unmeasured_environment() if "--limit" in arguments else os.environ
    return subprocess.Popen(
        [sys.executable, "-m", "tests.storage.write.lsm_process", table.location, work, str(number), *arguments],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": ":".join(p for p in sys.path if p), "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Return the exit code and the output of the process, including errors of the interpreter."""
    try:
        output, errors = process.communicate(timeout=DEADLINE_SECONDS)
    finally:
        process.kill()
        process.wait()
    return process.returncode, output + errors


def written(*numbers: int) -> Rows:
    """Return the rows that result from writing `rows` of these numbers in order; later rows replace earlier ones."""
    found: Rows = {}
    for number in numbers:
        found |= values(rows(number))
    return found


def values(data: pa.Table) -> Rows:
    """Return the rows by key."""
    ids: Any = data["id"]
    texts: Any = data["v"]
    return dict(zip(ids.to_pylist(), texts.to_pylist(), strict=True))


def state(table: Table, snapshot_id: int | None = None) -> Rows:
    """Return the rows of the newest or of a given snapshot."""
    return values(table.scan(snapshot_id=snapshot_id).to_arrow())


def replayed(table: Table, snapshot_id: int) -> Rows:
    """Return the rows that result from replaying the changelog up to a snapshot. Fails for a change that does not fit
    the changes before it.
    """
    found: Rows = {}
    changes = table.changes(to_snapshot=snapshot_id).to_arrow().to_pydict()
    for key, value, kind in zip(changes["id"], changes["v"], changes["_row_kind"], strict=True):
        if kind in (RowKind.UPDATE_BEFORE, RowKind.DELETE):
            assert found.pop(key) == value
        else:
            assert key not in found
            found[key] = value
    return found


def check_every_snapshot(table: Table) -> None:
    """Check that every snapshot is readable and equals the changelog up to it (for the lookup changelog)."""
    for snapshot in table.snapshots():
        assert state(table, snapshot.id) == replayed(table, snapshot.id)


def files_of(table: Table) -> set[Path]:
    """Return all files of the table that are not hidden."""
    return {p for p in Path(table.location).rglob("*") if p.is_file() and not p.name.startswith(".")}


def sorted_runs(table: Table) -> int:
    """Return the number of sorted runs of the only bucket."""
    files = restore_buckets(table.store).files(BucketId(EMPTY_ROW, 0))
    return sum(f.level == 0 for f in files) + len({f.level for f in files if f.level > 0})
