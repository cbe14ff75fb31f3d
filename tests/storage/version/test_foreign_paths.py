"""Metadata of an untrusted writer never make an expiry or a removal of orphans delete files outside of the table."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.paths import TablePaths
from interbed.storage.table.table import Table
from interbed.storage.version.references import own_paths
from interbed.storage.write.commit_message import CommitMessage
from tests.support.hostile_names import LEADING_OUT
from tests.support.tally import Tally

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with a row, and a foreign file next to its warehouse."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "mine.parquet").write_text("mine")
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path / "lake"))
    catalog.create_database("d")
    made = catalog.create_table("d.t", ROWS.schema)
    made.append(ROWS)
    return made


def commit_and_forget(table: Table, change: Callable[[Any], Any]) -> None:
    """Commit a file with changed metadata, replace it, and expire the snapshots that name it."""
    with table.new_write("foreign") as write:
        write.write_arrow(ROWS)
        messages = write.prepare_commit()
    changed: list[CommitMessage] = [
        replace(m, data=replace(m.data, new_files=tuple(map(change, m.data.new_files)))) for m in messages
    ]
    FileStoreCommit(table.store, "foreign").commit(changed)
    table.new_batch_write_builder().new_commit().truncate_table()
    table.append(ROWS)
    with suppress(CorruptFileError):
        # Files that cannot be judged are kept.
        table.maintenance.expire_snapshots(retain_max=1, retain_min=1)


def test_a_file_that_a_manifest_places_elsewhere_is_kept(table: Table, tmp_path: Path) -> None:
    foreign = tmp_path / "precious" / "mine.parquet"
    commit_and_forget(table, lambda file: replace(file, external_path=f"file:{foreign}"))
    assert foreign.read_text() == "mine"


def test_a_file_whose_name_leads_elsewhere_is_kept(table: Table, tmp_path: Path) -> None:
    foreign = tmp_path / "precious" / "mine.parquet"
    with pytest.raises(CorruptFileError, match="can't be the name of a file"):
        commit_and_forget(table, lambda file: replace(file, file_name="../../../../precious/mine.parquet"))
    assert foreign.read_text() == "mine"


def test_a_file_behind_a_symbolic_link_of_a_bucket_is_kept(table: Table, tmp_path: Path) -> None:
    (moved := Path(table.location) / "bucket-0").rename(tmp_path / "moved")
    moved.symlink_to(tmp_path / "moved")
    before = sorted(os.listdir(tmp_path / "moved"))
    table.new_batch_write_builder().new_commit().truncate_table()
    table.append(ROWS)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert set(before) <= set(os.listdir(tmp_path / "moved"))


def test_only_paths_below_the_tables_own_directories_are_deleted(table: Table, tally: Tally) -> None:
    own = [f"{table.location}/manifest/manifest-1", f"{table.location}/bucket-0/data-1.parquet"]
    foreign = [f"{table.location}/bucket-0/{name}/x" for name in LEADING_OUT if ".." in name.split("/")]
    foreign += ["/etc/passwd", table.location, f"{table.location}x/y", f"{table.location}/..", f"{table.location}/"]
    assert own_paths(table.store, [*own, *foreign]) == own
    tally("paths outside of a table in its metadata", len(foreign))


def test_no_name_in_metadata_is_a_path_elsewhere(tally: Tally) -> None:
    paths = TablePaths("/lake/d.db/t")
    names = [name for name in LEADING_OUT if "/" in name or "\x00" in name or name == ".."]
    for name in names:
        for path_of in (paths.manifest, paths.index, paths.statistics):
            with pytest.raises(CorruptFileError, match="can't be the name of a file"):
                path_of(name)
    tally("names of metadata files that lead elsewhere", 3 * len(names))
