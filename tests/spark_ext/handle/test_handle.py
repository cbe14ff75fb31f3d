"""Table handles of the JVM: a missing file is reported by whether the snapshot of the handle still exists."""

from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.read.reader import planned
from interbed.storage.base.errors import FileGoneError, SnapshotGoneError


@pytest.fixture
def first(tmp_path: Path) -> TableHandle:
    """A table handle for the first snapshot, which has expired; the second one exists."""
    with interbed.load_catalog("lake", warehouse=str(tmp_path)) as catalog:
        catalog.create_database("db")
        table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
        for number in range(2):
            table.append(pa.table({"id": [number]}))
        table.versions.create_tag("kept", 1)
        table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
        return TableHandle(
            catalog="lake",
            catalog_options={},
            database="db",
            table="t",
            location=table.location,
            schema_json=table.schema.to_json(),
            snapshot_id=1,
        )


def test_a_snapshot_that_a_tag_retains_is_read(first: TableHandle) -> None:
    _, plan = planned(first, None)
    assert sum(split.row_count for split in plan.splits) == 1
    # A file that is missing then did not expire, and reading again would not help.
    with pytest.raises(FileGoneError), first.being_read():
        raise FileGoneError("bucket-0/data-1.parquet")


def test_an_expired_snapshot_is_reported(first: TableHandle) -> None:
    first.open().versions.delete_tag("kept")
    with pytest.raises(SnapshotGoneError, match=r"Snapshot 1 of 'db\.t' expired"):
        planned(first, None)
