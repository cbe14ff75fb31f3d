"""Indexes are added to files that were written without them."""

from pathlib import Path

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.storage.base.errors import CommitConflictError, NotSupportedError
from interbed.storage.meta.schema.change import RemoveOption, SetOption
from interbed.storage.scan.scan import TableScan
from interbed.storage.table.table import Table

ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "name": [f"n{i}" for i in range(100)], "p": ["a", "b"] * 50})


def make(tmp_path: Path, **options: str) -> Table:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", ROWS.schema, partition_keys=["p"], options=options)
    table.append(ROWS)
    return table


def indexed(table: Table, kind: str | None, threshold: str = "1 mb") -> Table:
    catalog = load_catalog(warehouse=table.location.rpartition("/db.db")[0])
    change: RemoveOption | SetOption = RemoveOption("file-index.bloom-filter.columns")
    if kind is not None:
        change = SetOption(f"file-index.{kind}.columns", "name")
    catalog.alter_table("db.t", [change, SetOption("file-index.in-manifest-threshold", threshold)])
    return catalog.get_table("db.t")


def files_left(table: Table) -> int:
    return table.scan(filter="name = 'n7'").plan.statistics.files_planned


@pytest.mark.parametrize("threshold", ["1 mb", "1 b"])
def test_old_files_gain_and_lose_indexes_by_a_rewrite(tmp_path: Path, threshold: str) -> None:
    table = indexed(make(tmp_path), "bloom-filter", threshold)
    done = table.maintenance.rewrite_file_index()

    assert (done.partitions, done.files, done.snapshot_id) == (2, 2, 2)
    assert table.latest_snapshot().commit_kind.value == "COMPACT"  # type: ignore[union-attr]
    assert table.scan().to_arrow().sort_by("id").equals(ROWS)
    assert table.maintenance.rewrite_file_index().snapshot_id is None
    if threshold == "1 mb":
        assert table.scan(filter="name = 'n7'").to_arrow()["id"].to_pylist() == [7]
        assert files_left(table) == 1
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert table.scan().to_arrow().num_rows == 100
    bare = indexed(table, None)
    assert bare.maintenance.rewrite_file_index().files == 2
    assert bare.scan(filter="name = 'n7'").to_arrow()["id"].to_pylist() == [7]


def test_only_the_partitions_that_a_filter_selects_are_indexed(tmp_path: Path) -> None:
    table = indexed(make(tmp_path), "bitmap")

    assert table.maintenance.rewrite_file_index(partitions="p = 'a'").partitions == 1
    assert table.maintenance.rewrite_file_index().partitions == 1


def test_deleted_rows_stay_deleted(tmp_path: Path) -> None:
    table = make(tmp_path, **{"deletion-vectors.enabled": "true"})
    table.delete("id < 10")
    table = indexed(table, "bitmap")

    assert table.maintenance.rewrite_file_index().files == 2
    assert table.scan().to_arrow().num_rows == 90
    assert table.scan(filter="name = 'n7'").to_arrow().num_rows == 0
    assert table.scan(filter="name = 'n17'").to_arrow()["id"].to_pylist() == [17]


def test_a_file_that_another_writer_replaces_is_a_conflict_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = indexed(make(tmp_path), "bloom-filter", "1 b")
    entries = TableScan.entries

    def then_rewritten(scan: TableScan) -> object:
        found = entries(scan)
        monkeypatch.undo()
        table.append(ROWS)
        table.compact()
        return found

    monkeypatch.setattr(TableScan, "entries", then_rewritten)
    with pytest.raises(CommitConflictError):
        table.maintenance.rewrite_file_index()
    assert table.scan().to_arrow().num_rows == 200
    assert table.scan(snapshot_id=1).to_arrow().num_rows == 100
    assert not [f for f in Path(table.location).rglob("*.index") if "bucket-0" in str(f) and "-" not in f.name]


def test_a_table_with_a_key_gets_bloom_filters_only(tmp_path: Path) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    keyed = catalog.create_table("db.t", ROWS.schema, primary_keys=["id"], options={"bucket": "1"})
    keyed.upsert(ROWS)
    assert indexed(keyed, "bloom-filter").maintenance.rewrite_file_index().files == 1
    with pytest.raises(NotSupportedError, match="compact the table in full"):
        indexed(keyed, "bitmap").maintenance.rewrite_file_index()
