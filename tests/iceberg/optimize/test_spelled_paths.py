"""Maintenance deletes no file that the metadata names by another spelling of its path."""

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import interbed

ROWS = pa.table({"id": pa.array([1], pa.int64())})
OLD = 1_000_000_000

SPELLINGS: dict[str, Callable[[Path], str]] = {
    "uri": lambda path: f"file://{path}",
    "plain": str,
    "one slash": lambda path: f"file:{path}",
    "four slashes": lambda path: f"file:///{path}",
    "capitals": lambda path: f"FILE://{path}",
    "above": lambda path: f"{path.parent}/x/../{path.name}",
    "above in a uri": lambda path: f"file://{path.parent}/x/../{path.name}",
    "same": lambda path: f"file://{path.parent}/./{path.name}",
    "double": lambda path: f"file://{path.parent}//{path.name}",
}


def read(catalog: SqlCatalog) -> list[int | None]:
    """Return the ids of the table, all of which are 1."""
    return interbed.IcebergTable("n.t", catalog.load_table("n.t")).scan().to_arrow()["id"].to_pylist()


def make_old(folder: Path) -> None:
    for path in folder.rglob("*"):
        os.utime(path, (OLD, OLD))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_orphans_are_found_and_nothing_else_at_each_spelling_of_the_location(
    theirs: SqlCatalog, tmp_path: Path, spelling: str
) -> None:
    folder = tmp_path / "here"
    table = theirs.create_table("n.t", ROWS.schema, location=SPELLINGS[spelling](folder))
    for _ in range(2):
        table.append(ROWS)
    (folder / "data" / "lost.parquet").write_bytes(b"x")
    make_old(folder)
    removed = interbed.IcebergTable("n.t", theirs.load_table("n.t")).remove_orphan_files()
    assert [Path(path).name for path in removed.paths] == ["lost.parquet"]
    assert read(theirs) == [1, 1]


def test_files_behind_a_link_are_kept_with_a_warning(
    theirs: SqlCatalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    table = theirs.create_table("n.t", ROWS.schema, location=f"file://{tmp_path}/link/t")
    table.append(ROWS)
    with table.transaction() as change:
        change.set_properties({"write.data.path": f"file://{tmp_path}/real/t/data"})
    theirs.load_table("n.t").append(ROWS)
    (tmp_path / "real" / "t" / "data" / "lost.parquet").write_bytes(b"x")
    make_old(tmp_path / "real")
    removed = interbed.IcebergTable("n.t", theirs.load_table("n.t")).remove_orphan_files()
    assert [Path(path).name for path in removed.paths] == ["lost.parquet"]
    assert "Kept 1 files" in caplog.text
    assert f"its metadata name {tmp_path}/real/t/data/" in caplog.text
    assert read(theirs) == [1, 1]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_expiry_keeps_a_file_that_a_newer_snapshot_names_by_another_spelling(
    theirs: SqlCatalog, tmp_path: Path, spelling: str
) -> None:
    folder = tmp_path / "here"
    table = theirs.create_table("n.t", ROWS.schema, location=f"file://{folder}")
    table.append(ROWS)
    table.delete("id = 1")
    [file] = (folder / "data").rglob("*.parquet")
    (folder / "data" / "x").mkdir()
    table.add_files([SPELLINGS[spelling](file)])
    expired = interbed.IcebergTable("n.t", table).expire_snapshots(older_than=2**62, retain_last=1)
    assert (len(expired.snapshots), expired.data_files) == (2, 0)
    assert read(theirs) == [1]
