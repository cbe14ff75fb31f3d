"""Commits to a store build on the snapshot that was the newest a moment ago: what others did since is noticed."""

from pathlib import Path

import pytest

from interbed.storage.base.errors import CommitFailedError, StorageAccessError
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.io.faults import Fault, FaultyFileIO
from interbed.storage.io.local import LocalFileIO
from interbed.storage.meta.file_store import FileStore
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from tests.storage.commit.tables import data_file, live_names, manifest_names, message, primary_key_table

pytestmark = pytest.mark.usefixtures("like_a_store")


def commit(store: FileStore, key: int) -> list[int]:
    return FileStoreCommit(store, f"user-{key}", new_user=True).commit([message(data_file(key, key))])


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    made = primary_key_table(tmp_path / "t")
    for key in range(4):
        commit(made, key)
    return made


def test_somebody_else_was_faster(store: FileStore) -> None:
    other = open_store(store.location)
    assert commit(other, 7) == [5]
    assert commit(other, 8) == [6]
    assert commit(store, 9) == [7]
    assert len(live_names(store)) == 7


def test_somebody_took_snapshots_back(store: FileStore) -> None:
    Table("t", open_store(store.location)).versions.rollback_to(2)
    assert commit(store, 9) == [3]
    assert len(live_names(store)) == 3


def test_a_killed_process_left_half_of_that(store: FileStore) -> None:
    # The journal is there, and nothing of what it says is done.
    faults = [Fault.parse("overwrite:*:fail-before"), Fault.parse("delete:*:fail-before")]
    broken = Table("t", open_store(store.location, FaultyFileIO(LocalFileIO(), faults)))
    with pytest.raises(StorageAccessError):
        broken.versions.rollback_to(2)
    assert (Path(store.location) / "schema" / ".journal").exists()
    assert commit(store, 9) == [3]
    assert len(live_names(store)) == 3


def test_the_table_was_made_anew(store: FileStore) -> None:
    location = store.location
    LocalFileIO().delete(location, recursive=True)
    with pytest.raises(CommitFailedError, match="was dropped"):
        commit(store, 9)
    anew = primary_key_table(location)
    with pytest.raises(CommitFailedError, match="was dropped"):
        commit(store, 9)
    for key in range(4):
        commit(anew, key)
    # There is a snapshot of the same id again; it is another table's.
    with pytest.raises(CommitFailedError, match="was dropped"):
        commit(store, 9)
    assert len(live_names(anew)) == 4


def test_a_manifest_that_was_not_written_ends_a_commit_with_nothing_left(store: FileStore) -> None:
    before = manifest_names(store)
    faulty = FaultyFileIO(LocalFileIO(), [Fault.parse("open_output:*/manifest-list-*:fail-before")])
    with pytest.raises(StorageAccessError, match="manifest-list"):
        commit(open_store(store.location, faulty), 9)
    assert manifest_names(store) == before
    assert len(live_names(store)) == 4
