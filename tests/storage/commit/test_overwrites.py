"""Overwrites: the files that a commit replaces, whatever other writers add meanwhile."""

from pathlib import Path

import pytest

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.snapshot.snapshot import CommitKind
from interbed.storage.scan.scan import TableScan
from tests.storage.commit.tables import (
    data_file,
    live_names,
    manifest_names,
    message,
    primary_key_table,
    quick,
    referenced_names,
)
from tests.storage.commit.test_file_store_commit import overtaken, snapshot_of


def test_an_overwrite_overtaken_by_an_append_replaces_the_appended_rows_too(tmp_path: Path) -> None:
    plain = primary_key_table(tmp_path)
    FileStoreCommit(plain, "u").commit([message(data_file())])
    store, _ = overtaken(plain, 1)
    mine = data_file()
    FileStoreCommit(store, "u", retry=quick()).overwrite([message(mine)], partition={"dt": "d1"})
    assert live_names(store) == {mine.file_name}
    assert manifest_names(store) == referenced_names(store)


def test_an_overwrite_replaces_the_partition_given(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    one, two, null = data_file(rows=1), data_file(rows=2), data_file(rows=4)
    commit = FileStoreCommit(store, "u")
    commit.commit([message(one, dt="d1"), message(two, dt="d2"), message(null, dt=None)])
    new = data_file(rows=8)
    commit.overwrite([message(new, dt="d1")], partition={"dt": "d1"})
    assert live_names(store) == {new.file_name, two.file_name, null.file_name}
    snapshot = snapshot_of(store, 2)
    assert (snapshot.commit_kind, snapshot.delta_record_count, snapshot.total_record_count) == (
        CommitKind.OVERWRITE,
        7,
        14,
    )
    commit.overwrite([], partition={"dt": None})
    assert live_names(store) == {new.file_name, two.file_name}
    with pytest.raises(InvalidInputError, match="dt=d1"):
        commit.overwrite([message(data_file(), dt="d1")], partition={"dt": "d2"})
    with pytest.raises(InvalidInputError, match="'v' is not a partition column"):
        commit.overwrite([], partition={"v": "x"})
    commit.overwrite([])
    assert live_names(store) == set()
    assert snapshot_of(store, 4).total_record_count == 0


def test_a_dynamic_overwrite_replaces_the_partitions_of_the_data(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    one, two = data_file(), data_file()
    commit = FileStoreCommit(store, "u")
    commit.commit([message(one, dt="d1"), message(two, dt="d2")])
    new = data_file()
    assert commit.overwrite([message(new, dt="d2")], dynamic=True) == [2]
    assert live_names(store) == {one.file_name, new.file_name}
    assert commit.overwrite([], dynamic=True) == []


def test_overwritten_files_that_do_not_overlap_go_to_the_top_level(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    left, right, other = data_file(0, 4), data_file(5, 9), data_file(0, 9)
    FileStoreCommit(store, "u").overwrite([message(left, right), message(other, data_file(3, 4), bucket=1)])
    plan = {e.file.file_name: e.file.level for e in TableScan(store).entries()}
    assert (plan[left.file_name], plan[right.file_name], plan[other.file_name]) == (5, 5, 0)


def test_truncating_deletes_all_rows_or_some_partitions(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    commit = FileStoreCommit(store, "u")
    assert commit.truncate() == []
    one, two, three = data_file(), data_file(), data_file()
    commit.commit([message(one, dt="d1"), message(two, dt="d2"), message(three, dt="d3")])
    assert commit.truncate([{"dt": "d1"}, {"dt": "d3"}]) == [2]
    assert live_names(store) == {two.file_name}
    assert commit.truncate() == [3]
    assert live_names(store) == set()
    assert live_names(store, 1) == {one.file_name, two.file_name, three.file_name}
