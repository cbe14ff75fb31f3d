"""One test suite for every kind of FileIO, and for every object store that one of them supports."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs as pafs

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.io.api import (
    HDFS_CAPABILITIES,
    LOCAL_CAPABILITIES,
    OBJECT_STORE_CAPABILITIES,
    FileIO,
    FileSystemCapabilities,
    Latency,
    WrappedFileIO,
)
from interbed.storage.io.faults import FaultyFileIO
from interbed.storage.io.file_lock import DirectoryLock
from interbed.storage.io.parallel import PendingFiles, is_link
from interbed.storage.io.prefetch.inputs import SharedInputs
from interbed.storage.io.pyarrow_files import PyarrowFileIO
from interbed.storage.io.resolve import file_io_for
from interbed.storage.io.stores.file_io import ObjectStoreFileIO
from tests.support.servers.google_store import running_google
from tests.support.servers.http_servers import (
    AZURITE_ACCOUNT,
    running_azurite,
    running_s3,
    running_s3mock,
    running_s3proxy,
)
from tests.support.waits import at_most

BUCKET = "lake"
EXCLUSIVE = {
    "local": True,
    "memory": True,
    "hdfs": True,
    "pyarrow on moto": False,
    "moto": True,
    "s3mock": True,
    # S3Proxy ignores `If-None-Match` where the store behind it has no conditional puts.
    "s3proxy": False,
    "azurite": True,
    "google": True,
}
"""Whether files are created exclusively without a lock, as two puts of one object show."""

CAPABILITIES = {"local": LOCAL_CAPABILITIES, "hdfs": HDFS_CAPABILITIES}
"""Capabilities of the kinds that are no object stores."""

IN_TWO_STEPS = {"memory", "s3mock"}
"""Stores that check whether an object exists and then write it, in two steps.

In 40 rounds, 16 threads put one object into S3Mock 4.6; in 19 rounds, more than one of them was reported as its
creator.
"""

STARTED: dict[str, Callable[[str], AbstractContextManager[dict[str, str]]]] = {
    "moto": running_s3,
    "s3mock": running_s3mock,
    "s3proxy": running_s3proxy,
    "azurite": running_azurite,
    "google": running_google,
}
KINDS = ["local", "memory", "hdfs", "pyarrow on moto", "moto", "s3mock", "s3proxy"]
KINDS_AND_LONG = [*KINDS, *(pytest.param(kind, marks=pytest.mark.long) for kind in ("azurite", "google"))]


@pytest.fixture(scope="module", params=KINDS_AND_LONG)
def opened(request: pytest.FixtureRequest) -> Iterator[tuple[str, FileIO, str]]:
    """A kind, its FileIO, and a directory for all tests."""
    kind: str = request.param
    if kind == "hdfs":
        yield kind, *file_io_for(f"{request.getfixturevalue('hdfs').uri}/root")
        return
    server = STARTED.get(kind.rpartition(" ")[2])
    if server is None:
        yield kind, *file_io_for("memory://lake/root" if kind == "memory" else "/")
        return
    with server(BUCKET) as options:
        if kind.startswith("pyarrow"):
            filesystem = pafs.S3FileSystem(
                access_key="a",
                secret_key="b",
                region="us-east-1",
                endpoint_override=options["s3.endpoint"],
            )
            yield kind, PyarrowFileIO(filesystem, scheme="s3"), f"s3://{BUCKET}/root"
            return
        if kind == "azurite":
            io, root = file_io_for(f"abfss://{BUCKET}@{AZURITE_ACCOUNT}.dfs.core.windows.net/root", options)
        else:
            io, root = file_io_for(f"{'gs' if kind == 'google' else 's3a'}://{BUCKET}/root", options)
        assert isinstance(io, ObjectStoreFileIO)
        yield kind, io, root


@pytest.fixture
def place(opened: tuple[str, FileIO, str], tmp_path: Path) -> tuple[FileIO, str]:
    kind, io, root = opened
    return io, str(tmp_path) if kind == "local" else f"{root}/{uuid.uuid4()}"


def put(io: FileIO, path: str, content: bytes) -> None:
    with io.open_output(path) as out:
        out.write(content)


@pytest.mark.sample(3)
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


def test_exclusive_creation_is_detected_for_each_kind(opened: tuple[str, FileIO, str]) -> None:
    kind, io, _ = opened
    assert io.exclusive_create is EXCLUSIVE[kind]


def test_one_of_16_threads_creates_the_file(opened: tuple[str, FileIO, str], place: tuple[FileIO, str]) -> None:
    io, root = place
    if not EXCLUSIVE[opened[0]] or opened[0] in IN_TWO_STEPS:
        # A writer holds a lock there, so the threads run one after the other.
        assert [io.create_exclusive(f"{root}/s/snapshot-1", b"same") for _ in range(2)] == [True, False]
        return
    # The contents are the same, so they do not identify a winner.
    won: list[bool] = []
    together = threading.Barrier(16)

    def create() -> None:
        together.wait(timeout=at_most(60))
        won.append(io.create_exclusive(f"{root}/s/snapshot-1", b"same"))

    threads = [threading.Thread(target=create) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False] * 15 + [True]
    assert [s.name for s in io.list(f"{root}/s")] == ["snapshot-1"]


def test_an_empty_directory_can_be_made_and_deleted(place: tuple[FileIO, str]) -> None:
    io, root = place
    io.make_directories(f"{root}/shop.db")
    io.make_directories(f"{root}/shop.db")
    assert io.exists(f"{root}/shop.db")
    assert io.list(f"{root}/shop.db") == []
    assert [(s.name, s.is_directory) for s in io.list(root)] == [("shop.db", True)]
    assert io.delete(f"{root}/shop.db")
    assert not io.exists(f"{root}/shop.db")


def test_a_large_file_can_be_read_from_any_position(place: tuple[FileIO, str]) -> None:
    io, root = place
    content = bytes(range(256)) * 48 * 1024
    put(io, f"{root}/large", content)
    assert io.size(f"{root}/large") == len(content)
    with io.open_input(f"{root}/large") as source:
        assert source.size() == len(content)
        for start, count in ((0, 10), (len(content) - 8, 8), (5_000_000, 3_000_000), (11_400_000, 600_000), (7, 0)):
            source.seek(start)
            assert source.read(count) == content[start : start + count]
            assert source.tell() == start + count
        source.seek(2_000_001)
        assert source.read(100) == content[2_000_001:2_000_101]
        source.seek(0)
        assert source.read() == content
        assert source.read() == b""


@pytest.mark.parametrize("name", ["day=a%2Fb", "it's ö+&=#?[]~*", "a b"])
def test_names_are_taken_literally(place: tuple[FileIO, str], name: str) -> None:
    io, root = place
    put(io, f"{root}/{name}/{name}", b"1")
    assert [s.path for s in io.list(root)] == [f"{root}/{name}"]
    assert [s.path for s in io.list(f"{root}/{name}")] == [f"{root}/{name}/{name}"]
    assert io.read_bytes(f"{root}/{name}/{name}") == b"1"
    assert io.delete(f"{root}/{name}/{name}")


def test_arrow_buffers_and_memory_views_can_be_written(place: tuple[FileIO, str]) -> None:
    io, root = place
    with io.open_output(f"{root}/x") as out:
        out.write(pa.py_buffer(b"abc"))
        out.write(memoryview(b"def"))
        assert out.tell() == 6
    assert io.read_bytes(f"{root}/x") == b"abcdef"


def test_many_files_are_deleted_although_some_are_missing(place: tuple[FileIO, str]) -> None:
    io, root = place
    for n in range(5):
        put(io, f"{root}/d/{n}", b"1")
    io.delete_quietly(f"{root}/d/{n}" for n in (0, 7, 1, 2, 8))
    assert sorted(s.name for s in io.list(f"{root}/d")) == ["3", "4"]
    assert io.delete(f"{root}/d", recursive=True)
    assert not io.exists(f"{root}/d")


def test_overwriting_replaces_the_content(place: tuple[FileIO, str]) -> None:
    io, root = place
    io.overwrite(f"{root}/s/LATEST", b"1")
    io.overwrite(f"{root}/s/LATEST", b"22")
    assert io.read_bytes(f"{root}/s/LATEST") == b"22"


def test_missing_files_are_reported_as_missing(place: tuple[FileIO, str]) -> None:
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


def test_a_directory_can_be_renamed(opened: tuple[str, FileIO, str], place: tuple[FileIO, str]) -> None:
    io, root = place
    put(io, f"{root}/db.db/t/schema/schema-0", b"{}")
    if opened[0].startswith("pyarrow"):
        # Arrow moves only single objects of S3, and its error says so.
        with pytest.raises(StorageAccessError, match="Can't rename"):
            io.rename(f"{root}/db.db/t", f"{root}/db.db/u")
        return
    assert io.rename(f"{root}/db.db/t", f"{root}/db.db/u")
    assert io.read_bytes(f"{root}/db.db/u/schema/schema-0") == b"{}"
    put(io, f"{root}/db.db/v/schema/schema-0", b"{}")
    assert not io.rename(f"{root}/db.db/v", f"{root}/db.db/u")


@pytest.mark.parametrize("opened", ["local", "hdfs"], indirect=True)
def test_a_path_below_a_file_is_refused_by_name(place: tuple[FileIO, str]) -> None:
    io, root = place
    put(io, f"{root}/file", b"x")
    with pytest.raises(StorageAccessError, match="file/snapshot/snapshot-1"):
        io.create_exclusive(f"{root}/file/snapshot/snapshot-1", b"")
    assert not io.exists(f"{root}/file/snapshot")


# -- capabilities ------------------------------------------------------------------------------------------------------


def test_a_file_system_has_the_capabilities_of_its_kind(opened: tuple[str, FileIO, str]) -> None:
    kind, io, _ = opened
    assert io.capabilities == CAPABILITIES.get(kind, OBJECT_STORE_CAPABILITIES)


@pytest.mark.parametrize("opened", ["local", "moto"], indirect=True)
def test_a_wrapped_file_io_has_the_capabilities_of_the_inner_one(opened: tuple[str, FileIO, str]) -> None:
    _, io, _ = opened
    pending = PendingFiles(io, 1)
    pending.finish()
    for outer in (WrappedFileIO(io), FaultyFileIO(io), SharedInputs(io), pending):
        assert isinstance(outer, FileIO)
        assert outer.capabilities is io.capabilities


@pytest.mark.parametrize("kind", [LOCAL_CAPABILITIES, HDFS_CAPABILITIES, OBJECT_STORE_CAPABILITIES])
def test_capabilities_follow_from_others(kind: FileSystemCapabilities) -> None:
    assert kind.slow_requests is (kind.latency is Latency.REMOTE)
    assert kind.exclusive_rename is (kind is LOCAL_CAPABILITIES)
    # An object store that responds late may carry out a request after its error was reported.
    assert kind.exact_results is not kind.slow_requests


def test_empty_directories_are_kept_where_directories_exist(place: tuple[FileIO, str]) -> None:
    io, root = place
    put(io, f"{root}/t/bucket-0/data-1", b"1")
    assert io.delete(f"{root}/t/bucket-0/data-1")
    if io.capabilities.directories:
        assert [s.name for s in io.list(f"{root}/t")] == ["bucket-0"]
        assert io.delete(f"{root}/t/bucket-0")
        assert io.exists(f"{root}/t")
    elif isinstance(io, ObjectStoreFileIO):
        # For other kinds it is undefined: pyarrow leaves a marker for each directory that was created.
        assert not io.exists(f"{root}/t")


def test_an_atomic_rename_of_directories_has_one_winner(place: tuple[FileIO, str]) -> None:
    io, root = place
    if not io.capabilities.atomic_rename:
        return
    for number in range(8):
        put(io, f"{root}/{number}/schema-0", str(number).encode())
    won: list[int] = []
    together = threading.Barrier(8)

    def rename(number: int) -> None:
        together.wait(timeout=at_most(60))
        if io.rename(f"{root}/{number}", f"{root}/taken"):
            won.append(number)

    threads = [threading.Thread(target=rename, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = won
    assert io.read_bytes(f"{root}/taken/schema-0") == str(winner).encode()
    assert sorted(s.name for s in io.list(root)) == sorted({*map(str, range(8)), "taken"} - {str(winner)})


@pytest.mark.parametrize("opened", ["local"], indirect=True)
def test_links_are_recognized_and_directories_locked_where_supported(place: tuple[FileIO, str]) -> None:
    io, root = place
    put(io, f"{root}/t/data-1", b"1")
    assert io.capabilities.links
    Path(root, "link").symlink_to(Path(root, "t"))
    assert {s.name: s.is_link for s in io.list(root)} == {"t": False, "link": True}
    assert (is_link(io, f"{root}/link"), is_link(io, f"{root}/t")) == (True, False)
    assert io.capabilities.file_locks
    with DirectoryLock(f"{root}/t") as lock, DirectoryLock(f"{root}/t") as second:
        assert lock.take(0)
        assert not second.take(0)


def test_where_calls_are_durable_on_return_sync_does_nothing(place: tuple[FileIO, str]) -> None:
    io, root = place
    if io.capabilities.durable_on_return:
        # Another file system has no such paths, and would refuse them.
        io.sync(["elsewhere://no/such", f"{root}/no"])
    io.sync([f"{root}/no"])
