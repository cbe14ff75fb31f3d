"""Turns of the writers on one machine: one at a time, and with a limited length."""

from pathlib import Path

from interbed.storage.commit.contention import LocalCommitLock, RetryPolicy
from interbed.storage.commit.file_store_commit import FileStoreCommit
from tests.storage.commit.tables import data_file, message, primary_key_table


def test_one_writer_at_a_time_has_a_turn(tmp_path: Path) -> None:
    with LocalCommitLock(str(tmp_path / "turn")) as first, LocalCommitLock(str(tmp_path / "turn")) as second:
        assert first.take(0)
        assert first.take(0)
        assert not second.take(0.01)
    with LocalCommitLock(str(tmp_path / "turn")) as third:
        assert third.take(0)


def test_without_a_directory_writers_get_no_turn(tmp_path: Path) -> None:
    with LocalCommitLock(str(tmp_path / "no" / "turn")) as missing:
        assert not missing.take(1)


def test_a_writer_that_never_ends_its_turn_does_not_block_others(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    retry = RetryPolicy(max_retries=2, min_wait_millis=1, max_wait_millis=20)
    assert FileStoreCommit(store, "u").commit([message(data_file())]) == [1]
    with LocalCommitLock(store.paths.turn_on_disk) as hung:
        assert hung.take(0)
        assert FileStoreCommit(store, "u", retry=retry).commit([message(data_file())]) == [2]
