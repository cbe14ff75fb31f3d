"""Commits to an object store look up the newest snapshot immediately before; changes by other writers are noticed."""

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


def test_a_commit_retries_after_another_writer_was_faster(store: FileStore) -> None:
    other = open_store(store.location)
    assert commit(other, 7) == [5]
    assert commit(other, 8) == [6]
    assert commit(store, 9) == [7]
    assert len(live_names(store)) == 7


def test_a_commit_notices_a_rollback_by_another_process(store: FileStore) -> None:
    Table("t", open_store(store.location)).versions.rollback_to(2)
    assert commit(store, 9) == [3]
    assert len(live_names(store)) == 3


def test_a_commit_notices_the_unfinished_rollback_of_a_killed_process(store: FileStore) -> None:
    # The journal is written, and none of its steps is done.
    faults = [Fault.parse("overwrite:*:fail-before"), Fault.parse("delete:*:fail-before")]
    broken = Table("t", open_store(store.location, FaultyFileIO(LocalFileIO(), faults)))
    with pytest.raises(StorageAccessError):
        broken.versions.rollback_to(2)
    assert (Path(store.location) / "schema" / ".journal").exists()
    assert commit(store, 9) == [3]
    assert len(live_names(store)) == 3


def test_a_commit_to_a_table_that_was_recreated_is_refused(store: FileStore) -> None:
    location = store.location
    LocalFileIO().delete(location, recursive=True)
    with pytest.raises(CommitFailedError, match="was dropped"):
        commit(store, 9)
    recreated = primary_key_table(location)
    with pytest.raises(CommitFailedError, match="was dropped"):
        commit(store, 9)
    for key in range(4):
        commit(recreated, key)
    # A snapshot of the same id exists again; it belongs to another table.
    with pytest.raises(CommitFailedError, match="was dropped"):
        commit(store, 9)
    assert len(live_names(recreated)) == 4


def test_a_commit_whose_manifest_cannot_be_written_leaves_no_file(store: FileStore) -> None:
    before = manifest_names(store)
    faulty = FaultyFileIO(LocalFileIO(), [Fault.parse("open_output:*/manifest-list-*:fail-before")])
    with pytest.raises(StorageAccessError, match="manifest-list"):
        commit(open_store(store.location, faulty), 9)
    assert manifest_names(store) == before
    assert len(live_names(store)) == 4
