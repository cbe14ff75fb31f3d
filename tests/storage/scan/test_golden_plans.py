"""Plans of tables that Java Paimon wrote: exactly its files, and at least its raw splits."""

import pytest

from interbed.storage.scan.scan import TableScan
from interbed.storage.table.opening import open_store
from tests.golden.load import TABLE_NAMES, expected, table_path


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_a_plan_lists_the_same_files_as_javas(name: str) -> None:
    java = expected(name)
    store = open_store(str(table_path(name)))
    plan = TableScan(store).plan()
    ours = {
        f.file_name: (split.bucket_path, split.bucket, f.row_count, f.level, f.min_sequence_number, f.file_size)
        for split in plan.splits
        for f in split.files
    }
    parent = str(table_path(name).parent)
    theirs = {
        f["file_name"]: (
            f"{parent}/{split['bucket_path']}",
            split["bucket"],
            f["row_count"],
            f["level"],
            f["min_sequence_number"],
            f["file_size"],
        )
        for split in java["plan"]
        for f in split["files"]
    }
    assert ours == theirs
    assert len([f for s in plan.splits for f in s.files]) == len(ours)
    raw = {f.file_name for s in plan.splits if s.raw_convertible for f in s.files}
    assert {f["file_name"] for s in java["plan"] if s["raw_convertible"] for f in s["files"]} <= raw


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_snapshot_of_java_can_be_planned(name: str) -> None:
    store = open_store(str(table_path(name)))
    snapshots = expected(name)["snapshots"]
    assert store.snapshots.ids() == [s["id"] for s in snapshots]
    for known in snapshots:
        snapshot = store.snapshots.snapshot(known["id"])
        assert (snapshot.commit_kind, snapshot.total_record_count) == (known["kind"], known["total_record_count"])
        plan = TableScan(store, snapshot_id=known["id"]).plan()
        assert sum(s.row_count for s in plan.splits) == known["total_record_count"]
