"""Maintenance besides expiry: rollback to a watermark, merging of manifests, missing files, purging, hints."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.api import Catalog
from interbed.storage.base.errors import InvalidInputError, SnapshotNotFoundError
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.snapshot.snapshot import CommitKind
from interbed.storage.table.table import Table

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())))


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    return catalog


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})


def filled(table: Table, commits: int) -> Table:
    for value in range(commits):
        table.upsert(pa.table({"id": [value], "v": [value]}, schema=SCHEMA))
    return table


def rows(table: Table) -> list[int]:
    column: Any = table.scan().to_arrow()["v"]
    return sorted(column.to_pylist())


def directory(table: Table) -> Path:
    return Path(table.location.removeprefix("file:"))


def test_a_rollback_to_a_watermark_keeps_the_newest_snapshot_not_after_it(table: Table) -> None:
    for value, watermark in enumerate((10, None, 20, 30)):
        with table.new_write("user") as write:
            write.write_arrow(pa.table({"id": [value], "v": [value]}, schema=SCHEMA))
            FileStoreCommit(table.store, "user").commit(write.prepare_commit(), identifier=value, watermark=watermark)
    with pytest.raises(SnapshotNotFoundError, match="watermark of 9"):
        table.versions.rollback_to_watermark(9)
    assert table.versions.rollback_to_watermark(25).id == 3
    assert rows(table) == [0, 1, 2]


def test_a_tag_from_a_time_names_the_first_snapshot_at_or_after_it(table: Table) -> None:
    filled(table, 3)
    second = table.snapshots()[1]
    assert table.versions.create_tag_from_timestamp("t", second.time_millis).snapshot.time_millis == second.time_millis
    with pytest.raises(SnapshotNotFoundError, match="or later"):
        table.versions.create_tag_from_timestamp("u", second.time_millis + 86_400_000)


def test_manifests_are_merged_into_one_and_not_again(table: Table) -> None:
    filled(table, 4)
    before = rows(table)
    made = table.maintenance.compact_manifests()
    assert made == 5
    latest = table.snapshots()[-1]
    assert (latest.commit_kind, latest.delta_record_count) == (CommitKind.COMPACT, 0)
    assert latest.total_record_count == 4
    assert len(table.store.file_io.list(f"{table.location}/manifest")) > 0
    assert rows(table) == before
    assert table.maintenance.compact_manifests() is None
    filled(table, 1)
    assert rows(table) == before


def test_missing_files_are_removed_from_the_table(table: Table) -> None:
    filled(table, 3)
    assert table.maintenance.remove_unexisting_files() == []
    lost = sorted(directory(table).glob("bucket-0/*"), key=lambda file: file.stat().st_mtime_ns)[0]
    lost.unlink()
    assert [Path(path).name for path in table.maintenance.remove_unexisting_files(dry_run=True)] == [lost.name]
    assert len(table.snapshots()) == 3
    assert [Path(path).name for path in table.maintenance.remove_unexisting_files()] == [lost.name]
    assert rows(table) == [1, 2]


def test_a_purged_table_is_empty_and_can_be_written(table: Table) -> None:
    filled(table, 3)
    table.versions.create_tag("t")
    table.versions.create_branch("b", "t")
    table.versions.reset_consumer("c", 1)
    table.maintenance.purge_files()
    assert (table.versions.tags(), table.versions.branches(), table.versions.consumers(), rows(table)) == (
        [],
        [],
        {},
        [],
    )
    assert len(table.snapshots()) == 1
    assert list(directory(table).glob("bucket-0/*")) == []
    assert rows(filled(table, 2)) == [0, 1]


def test_the_earliest_snapshot_can_be_set_to_one_after_a_gap(table: Table) -> None:
    filled(table, 4)
    for wrong in (0, 5, 2):
        with pytest.raises(InvalidInputError):
            table.maintenance.repair_earliest_snapshot(wrong)
    (directory(table) / "snapshot" / "snapshot-2").unlink()
    with pytest.raises(InvalidInputError, match="snapshot 2 is missing"):
        table.maintenance.repair_earliest_snapshot(1)
    assert table.maintenance.repair_earliest_snapshot(3) == 1
    assert table.store.snapshots.earliest_id() == 3


def test_done_partitions_have_a_success_file_with_its_first_creation_time(catalog: Catalog) -> None:
    schema = pa.schema((("dt", pa.string()), ("n", pa.int64())))
    table = catalog.create_table("d.p", schema, partition_keys=["dt"])
    table.append(pa.table({"dt": ["a"], "n": [1]}))
    for _ in range(2):
        assert catalog.mark_partitions_done("d.p", [{"dt": "a"}]) == [{"dt": "a"}]
    assert (directory(table) / "dt=a" / "_SUCCESS").is_file()
    with pytest.raises(InvalidInputError):
        catalog.mark_partitions_done("d.p", [{"hh": "1"}])
    assert table.scan().to_arrow().num_rows == 1
