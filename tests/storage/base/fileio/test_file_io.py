"""One suite of behaviours for every kind of FileIO."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.resolve import file_io_for


@pytest.fixture(params=["local", "memory", "hdfs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileIO, str]:
    locations = {
        "local": lambda: str(tmp_path),
        "memory": lambda: f"memory://lake-{uuid.uuid4()}/root",
        "hdfs": lambda: f"{request.getfixturevalue('hdfs').uri}/{uuid.uuid4()}/root",
    }
    return file_io_for(locations[request.param]())


def put(io: FileIO, path: str, content: bytes) -> None:
    with io.open_output(path) as out:
        out.write(content)


def test_a_written_file_can_be_read_sized_and_listed(place: tuple[FileIO, str]) -> None:
    io, root = place
    put(io, f"{root}/a/b/data-1", b"hello")
    assert io.read_bytes(f"{root}/a/b/data-1") == b"hello"
    assert io.size(f"{root}/a/b/data-1") == 5
    with io.open_input(f"{root}/a/b/data-1") as source:
        assert source.read() == b"hello"
    (status,) = io.list(f"{root}/a/b")
    assert (status.name, status.path, status.size, status.is_directory) == (
        "data-1",
        f"{root}/a/b/data-1",
        5,
        False,
    )
    assert [s.is_directory for s in io.list(f"{root}/a")] == [True]


def test_an_empty_file_can_be_opened(place: tuple[FileIO, str]) -> None:
    io, root = place
    put(io, f"{root}/empty", b"")
    with io.open_input(f"{root}/empty") as source:
        assert source.read() == b""


def test_exclusive_creation_never_overwrites(place: tuple[FileIO, str]) -> None:
    io, root = place
    assert io.create_exclusive(f"{root}/s/snapshot-1", b"first")
    assert not io.create_exclusive(f"{root}/s/snapshot-1", b"second")
    assert io.read_bytes(f"{root}/s/snapshot-1") == b"first"
    assert [s.name for s in io.list(f"{root}/s")] == ["snapshot-1"]


def test_overwriting_replaces_the_content(place: tuple[FileIO, str]) -> None:
    io, root = place
    io.overwrite(f"{root}/s/LATEST", b"1")
    io.overwrite(f"{root}/s/LATEST", b"22")
    assert io.read_bytes(f"{root}/s/LATEST") == b"22"


def test_what_is_missing_is_reported_as_missing(place: tuple[FileIO, str]) -> None:
    io, root = place
    assert not io.exists(f"{root}/no")
    assert io.list(f"{root}/no") == []
    assert not io.delete(f"{root}/no")
    missing: list[Callable[[str], object]] = [io.read_bytes, io.open_input, io.size]
    for operation in missing:
        with pytest.raises(FileNotFoundError):
            operation(f"{root}/no")
    io.delete_quietly([f"{root}/no"])


def test_deleting_a_directory_needs_recursive(place: tuple[FileIO, str]) -> None:
    io, root = place
    put(io, f"{root}/d/x", b"1")
    with pytest.raises(StorageAccessError):
        io.delete(f"{root}/d")
    assert io.delete(f"{root}/d", recursive=True)
    assert not io.exists(f"{root}/d")


def test_renaming_never_overwrites(place: tuple[FileIO, str]) -> None:
    io, root = place
    put(io, f"{root}/a", b"a")
    put(io, f"{root}/b", b"b")
    assert not io.rename(f"{root}/a", f"{root}/b")
    assert not io.rename(f"{root}/no", f"{root}/c")
    assert io.rename(f"{root}/a", f"{root}/c")
    assert io.read_bytes(f"{root}/c") == b"a"
    assert io.read_bytes(f"{root}/b") == b"b"
    assert not io.exists(f"{root}/a")


def test_a_directory_can_be_renamed(place: tuple[FileIO, str]) -> None:
    io, root = place
    put(io, f"{root}/db.db/t/schema/schema-0", b"{}")
    assert io.rename(f"{root}/db.db/t", f"{root}/db.db/u")
    assert io.read_bytes(f"{root}/db.db/u/schema/schema-0") == b"{}"
    put(io, f"{root}/db.db/v/schema/schema-0", b"{}")
    assert not io.rename(f"{root}/db.db/v", f"{root}/db.db/u")


@pytest.mark.parametrize("place", ["local", "hdfs"], indirect=True)
def test_a_path_below_a_file_is_refused_by_name(place: tuple[FileIO, str]) -> None:
    io, root = place
    put(io, f"{root}/file", b"x")
    with pytest.raises(StorageAccessError, match="file/snapshot/snapshot-1"):
        io.create_exclusive(f"{root}/file/snapshot/snapshot-1", b"")
    assert not io.exists(f"{root}/file/snapshot")
