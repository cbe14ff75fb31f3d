"""Locations and directories of a warehouse."""

from pathlib import Path

import pytest

from interbed.catalog.server.service import warehouse
from interbed.catalog.server.service.errors import InvalidOperationError, MetastoreError
from interbed.catalog.server.service.tables.pointers import read_bounded
from interbed.catalog.server.service.warehouse import (
    Warehouse,
    contains,
    delete_directory,
    empty_directory,
    make_directories,
    make_directory,
    normalized_location,
    remove_empty_directory,
    rename_directory,
    same_location,
)
from interbed.storage.base.errors import SyncFailedError
from interbed.storage.io.api import WrappedFileIO
from interbed.storage.io.local import LocalDisk
from interbed.storage.io.resolve import file_io_for


def test_local_locations_are_stored_absolute_with_their_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for location in ("w", "./w/", "file:w", "file:./w", f"{tmp_path}/w", f"file:{tmp_path}/w", f"file://{tmp_path}/w/"):
        assert normalized_location(location) == f"file:{tmp_path}/w"
    assert normalized_location("s3a://bucket/path/") == "s3a://bucket/path"


def test_databases_lie_below_the_root_and_default_is_the_root() -> None:
    root = Warehouse("file:/w")
    assert root.database_location("default") == "file:/w"
    assert root.database_location("sales") == "file:/w/sales.db"
    assert [root.is_protected(each) for each in ("file:/w", "/", "file:///w/", "file:/w/t")] == [True] * 3 + [False]


@pytest.mark.parametrize("content", [b"who", b"", b"wholewhole"])
def test_a_file_that_is_not_read_whole_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    class OtherReads(WrappedFileIO):
        def read_bytes(self, path: str) -> bytes:
            return content

    (tmp_path / "list.avro").write_bytes(b"whole")
    location = f"file:{tmp_path}/list.avro"
    assert read_bounded(location, "cannot read it") == b"whole"
    file_io, path = file_io_for(location)
    monkeypatch.setattr(warehouse, "file_io_for", lambda location: (OtherReads(file_io), path))
    with pytest.raises(MetastoreError, match=f"cannot read it: {len(content)} of its 5 bytes were read"):
        read_bounded(location, "cannot read it")


def test_locations_are_compared_by_the_directory_that_they_name() -> None:
    assert same_location("file:/a/b", "file:///a//b/")
    assert same_location("/a/b", "file:/a/b")
    assert not same_location("file:/a/b", "file:/a/bc")
    assert not same_location(None, None)
    assert contains("file:/a", "/a/b")
    assert not contains("file:/a", "/ab")


def test_directories_are_created_renamed_emptied_and_deleted(tmp_path: Path) -> None:
    old, new = f"file:{tmp_path}/a %41/t", f"file:{tmp_path}/a %41/u"
    assert make_directory(old)
    assert not make_directory(old)
    assert (tmp_path / "a %41" / "t").is_dir()
    assert rename_directory(old, new)
    assert not rename_directory(old, f"{old}2")
    make_directory(old)
    with pytest.raises(InvalidOperationError, match="already exists"):
        rename_directory(old, new)
    (tmp_path / "a %41" / "u" / "p").mkdir()
    (tmp_path / "a %41" / "u" / "f").write_text("x")
    remove_empty_directory(new)
    empty_directory(new)
    assert list((tmp_path / "a %41" / "u").iterdir()) == []
    delete_directory(new)
    delete_directory(new)
    assert not (tmp_path / "a %41" / "u").exists()
    empty_directory(new)


def test_a_file_in_the_way_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MetastoreError, match=f"{tmp_path}/file/t is not a directory"):
        make_directory(f"file:{tmp_path}/file/t")


def test_object_stores_need_no_directories_and_unknown_file_systems_are_refused() -> None:
    assert not make_directory("s3a://bucket/t")
    with pytest.raises(MetastoreError, match="cannot open the file system of nosuch://host/t"):
        make_directory("nosuch://host/t")


class _SyncRecorder(LocalDisk):
    """Disk that records the synced directories, and fails if `refuses` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []
        self.refuses = False

    def sync_directory(self, path: str) -> None:
        if self.refuses:
            raise SyncFailedError(f"Can't sync {path}.")
        self.synced.append(path)
        super().sync_directory(path)


def test_created_and_renamed_directories_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = _SyncRecorder()
    monkeypatch.setattr(warehouse, "LOCAL_DISK", disk)
    made = tmp_path / "a" / "b"
    assert make_directory(f"file:{made}")
    assert {str(made.parent), str(tmp_path)} <= set(disk.synced)
    (tmp_path / "c").mkdir()
    disk.synced.clear()
    assert rename_directory(f"file:{made}", f"file:{tmp_path}/c/d")
    assert {str(made.parent), f"{tmp_path}/c"} <= set(disk.synced)
    disk.refuses = True
    with pytest.raises(MetastoreError, match="for good"):
        rename_directory(f"file:{tmp_path}/c/d", f"file:{made}")
    with pytest.raises(MetastoreError, match="for good"):
        make_directory(f"file:{tmp_path}/e")


def test_many_directories_with_one_parent_need_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = _SyncRecorder()
    monkeypatch.setattr(warehouse, "LOCAL_DISK", disk)
    (tmp_path / "t" / "p=1").mkdir(parents=True)
    wanted = [f"file:{tmp_path}/t/p={number}" for number in range(50)]
    made: list[str] = []
    make_directories(wanted, made)
    assert made == [each for each in wanted if not each.endswith("p=1")]
    assert disk.synced.count(f"{tmp_path}/t") == 1
    assert not any("p=" in path for path in disk.synced)
    (tmp_path / "u").mkdir()
    (tmp_path / "u" / "p=7").touch()
    made.clear()
    with pytest.raises(MetastoreError, match="p=7 is not a directory"):
        make_directories([f"file:{tmp_path}/u/p={number}" for number in range(9)], made)
    assert made == [f"file:{tmp_path}/u/p={number}" for number in range(7)]
