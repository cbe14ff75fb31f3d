"""Durability of LocalFileIO's operations, and the errors when syncing fails."""

import errno
import os
import pickle
import random
import shutil
from pathlib import Path

import pytest

from interbed.storage.base.errors import SyncFailedError
from interbed.storage.io.local import LocalDisk, LocalFileIO
from tests.support.power_cut import PowerCutDisk

OUTCOMES = 60


class PowerCutMachine:
    """A FileIO below `lake`, and the files that may survive a power cut."""

    def __init__(self, tmp_path: Path) -> None:
        self.lake = tmp_path / "lake"
        self.lake.mkdir()
        self.disk = PowerCutDisk(self.lake)
        self.files = LocalFileIO(self.disk)

    def path(self, name: str) -> str:
        return str(self.lake / name)

    def outcomes(self) -> set[tuple[tuple[str, bytes], ...]]:
        """Return each set of files and contents that a power cut at this moment may leave."""
        found = set()
        for seed in range(OUTCOMES):
            left = self.disk.left(random.Random(seed))
            found.add(tuple(sorted((name, content) for name, content in left.items() if content is not None)))
        return found


@pytest.fixture
def machine(tmp_path: Path) -> PowerCutMachine:
    return PowerCutMachine(tmp_path)


def test_an_unsynced_file_may_be_empty_torn_complete_or_missing(machine: PowerCutMachine) -> None:
    with machine.files.open_output(machine.path("a/b/f")) as output:
        output.write(b"0123456789")
    outcomes = machine.outcomes()
    assert {(), (("a/b/f", b""),), (("a/b/f", b"0123456789"),)} <= outcomes
    assert any(outcome and 0 < len(outcome[0][1]) < 10 for outcome in outcomes)


def test_a_synced_file_survives_with_the_new_directories_above_it(machine: PowerCutMachine) -> None:
    for name in ("a/b/f", "a/c/g"):
        with machine.files.open_output(machine.path(name)) as output:
            output.write(name.encode())
    machine.files.sync([machine.path("a/b/f"), machine.path("a/c/g")])
    assert machine.outcomes() == {(("a/b/f", b"a/b/f"), ("a/c/g", b"a/c/g"))}


def test_exclusively_created_and_replaced_files_are_durable(machine: PowerCutMachine) -> None:
    assert machine.files.create_exclusive(machine.path("t/snapshot/snapshot-1"), b"one")
    machine.files.overwrite(machine.path("t/tag/tag-a"), b"first")
    machine.files.overwrite(machine.path("t/tag/tag-a"), b"second")
    assert machine.outcomes() == {(("t/snapshot/snapshot-1", b"one"), ("t/tag/tag-a", b"second"))}


def test_a_hint_may_be_lost(machine: PowerCutMachine) -> None:
    machine.files.overwrite(machine.path("LATEST"), b"17", durable=False)
    named = {dict(outcome).get("LATEST") for outcome in machine.outcomes()}
    assert {None, b"", b"17"} <= named


def test_replacing_a_file_leaves_the_old_or_the_new_content(machine: PowerCutMachine) -> None:
    seen: set[bytes | None] = set()
    machine.files.overwrite(machine.path("note"), b"before")
    machine.disk.on_step = lambda: seen.update(dict(outcome).get("note") for outcome in machine.outcomes())
    machine.files.overwrite(machine.path("note"), b"after")
    assert seen == {b"before", b"after"}


def test_a_file_or_directory_exists_at_each_moment_of_its_rename(machine: PowerCutMachine) -> None:
    machine.files.create_exclusive(machine.path("one/f"), b"file")
    machine.files.create_exclusive(machine.path("d/g"), b"directory")
    seen: set[tuple[tuple[str, bytes], ...]] = set()
    machine.disk.on_step = lambda: seen.update(machine.outcomes())
    assert machine.files.rename(machine.path("one/f"), machine.path("two/f"))
    assert machine.files.rename(machine.path("d"), machine.path("three/d"))
    for outcome in seen:
        contents = [content for _, content in outcome]
        assert b"file" in contents
        assert b"directory" in contents
    machine.disk.on_step = lambda: None
    (left,) = {tuple(o for o in outcome if "/." not in o[0]) for outcome in machine.outcomes()}
    assert left == (("three/d/g", b"directory"), ("two/f", b"file"))


def test_syncing_a_deleted_file_makes_the_deletion_durable(machine: PowerCutMachine) -> None:
    machine.files.create_exclusive(machine.path("t/f"), b"x")
    machine.files.delete_quietly([machine.path("t/f")])
    assert (("t/f", b"x"),) in {tuple(o for o in outcome if "/." not in o[0]) for outcome in machine.outcomes()}
    machine.files.sync([machine.path("t/f"), machine.path("no/such/directory/g")])
    assert machine.outcomes() == {()}


def test_a_deletion_is_durable(machine: PowerCutMachine) -> None:
    machine.files.create_exclusive(machine.path("t/f"), b"x")
    machine.files.create_exclusive(machine.path("u/v/g"), b"y")
    assert machine.files.delete(machine.path("t/f"))
    assert machine.files.delete(machine.path("u/"), recursive=True)
    assert machine.outcomes() == {()}


def test_a_recreated_directory_is_synced_again(machine: PowerCutMachine) -> None:
    for _ in range(3):
        machine.files.create_exclusive(machine.path("db/t/f"), b"x")
        assert all(("db/t/f", b"x") in outcome for outcome in machine.outcomes())
        machine.files.delete(machine.path("db"), recursive=True)


def test_durable_directories_are_not_synced_again(tmp_path: Path) -> None:
    synced: list[str] = []

    class CountingDisk(LocalDisk):
        def sync_directory(self, path: str) -> None:
            synced.append(path)
            super().sync_directory(path)

    directory = tmp_path / "db" / "t"
    directory.mkdir(parents=True)
    # The directories were changed some time ago.
    for path in (directory, directory.parent, tmp_path):
        os.utime(path, (1, 1))
    files = LocalFileIO(CountingDisk())
    files.create_exclusive(f"{directory}/f", b"x")
    assert synced[:3] == [str(directory), str(directory.parent), str(tmp_path)]
    synced.clear()
    files.create_exclusive(f"{directory}/g", b"x")
    assert str(directory.parent) not in synced
    assert str(tmp_path) not in synced
    # Another process drops the table and recreates it, perhaps with the same inode number.
    shutil.rmtree(directory)
    directory.mkdir()
    files.create_exclusive(f"{directory}/f", b"x")
    assert str(directory.parent) in synced
    assert str(tmp_path) not in synced


def test_a_directory_that_may_change_within_the_tick_of_its_clock_is_synced_again(tmp_path: Path) -> None:
    synced: list[str] = []
    age_nanos = [0]

    class CountingDisk(LocalDisk):
        def sync_directory(self, path: str) -> None:
            synced.append(path)
            super().sync_directory(path)

    directory = tmp_path / "t"
    directory.mkdir()
    os.utime(tmp_path, (1, 1))
    files = LocalFileIO(CountingDisk(lambda: tmp_path.stat().st_mtime_ns + age_nanos[0]))
    for number, (age, expected) in enumerate([(0, True), (50_000_000, True), (200_000_000, True), (0, False)]):
        age_nanos[0] = age
        synced.clear()
        files.create_exclusive(f"{directory}/{number}", b"x")
        assert (str(tmp_path) in synced) is expected, number


class UnsyncableDisk(LocalDisk):
    """A disk that fails to sync files or directories."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def sync_directory(self, path: str) -> None:
        if self.what == "directory":
            raise SyncFailedError(f"Can't sync {path}.") from OSError(errno.EIO, "input/output error")
        super().sync_directory(path)

    def sync_file(self, path: str) -> bool:
        if self.what == "file":
            raise SyncFailedError(f"Can't sync {path}.")
        return super().sync_file(path)


def test_a_writer_gets_an_error_when_the_name_of_its_file_cannot_be_synced(tmp_path: Path) -> None:
    files = LocalFileIO(UnsyncableDisk("directory"))
    for write in (
        lambda: files.create_exclusive(f"{tmp_path}/a", b"x"),
        lambda: files.overwrite(f"{tmp_path}/b", b"x"),
        lambda: files.sync([f"{tmp_path}/a"]),
        lambda: files.rename(f"{tmp_path}/a", f"{tmp_path}/c"),
    ):
        with pytest.raises(SyncFailedError, match=str(tmp_path)):
            write()


def test_a_file_system_that_cannot_sync_directories_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EINVAL, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    assert LocalFileIO().create_exclusive(f"{tmp_path}/a", b"x")


def test_without_sync_nothing_is_synced(tmp_path: Path) -> None:
    class ForbiddenDisk(LocalDisk):
        def sync(self, paths: object) -> None:
            raise AssertionError(paths)

        def sync_names(self, directories: object) -> None:
            raise AssertionError(directories)

        def _sync_descriptor(self, descriptor: int, path: str) -> None:
            raise AssertionError(path)

    files = LocalFileIO(ForbiddenDisk()).with_sync(False)
    files.create_exclusive(f"{tmp_path}/a", b"x")
    files.overwrite(f"{tmp_path}/b", b"x")
    files.rename(f"{tmp_path}/a", f"{tmp_path}/c")
    files.sync([f"{tmp_path}/c"])
    assert files.with_sync(False) is files
    assert pickle.loads(pickle.dumps(LocalFileIO().with_sync(False))).with_sync(False) is not LocalFileIO()
