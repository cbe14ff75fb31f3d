"""Locks of the operating system on files and directories."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interbed.storage.io.file_lock import DirectoryLock, FileLock
from tests.support.waits import at_most

_HOLDER = """
import os, sys
from interbed.storage.io.file_lock import DirectoryLock
lock = DirectoryLock(sys.argv[1])
print(lock.take(0.0), flush=True)
sys.stdin.read()
"""
_FORKING = """
import os, sys
from interbed.storage.io.file_lock import FileLock
lock = FileLock(sys.argv[1], create=True)
assert lock.take(0.0)
reader, writer = os.pipe()
child = os.fork()
if not child:
    os.close(writer)
    os.read(reader, 1)
    os._exit(0)
lock.release()
print(FileLock(sys.argv[1]).take(0.0), flush=True)
os.write(writer, b"x")
os.waitpid(child, 0)
"""


def test_a_directory_is_locked_by_one_object_at_a_time(tmp_path: Path) -> None:
    first, second = DirectoryLock(str(tmp_path)), DirectoryLock(str(tmp_path))
    assert first.take(0.0)
    assert first.is_held
    assert not second.take(0.0)
    first.release()
    assert second.take(0.0)
    second.release()
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_directory_follows_its_rename(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    with DirectoryLock(str(before)) as lock:
        assert lock.take(0.0)
        before.rename(after)
        assert not DirectoryLock(str(after)).take(0.0)
        before.mkdir()
        with DirectoryLock(str(before)) as another:
            assert another.take(0.0)


def test_a_directory_that_was_replaced_meanwhile_is_not_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "table"
    directory.mkdir()

    def replace(lock: FileLock, timeout_seconds: float) -> bool:
        taken = original(lock, timeout_seconds)
        directory.rename(tmp_path / "moved")
        return taken

    original = FileLock.take
    monkeypatch.setattr(FileLock, "take", replace)
    lock = DirectoryLock(str(directory))
    assert not lock.take(0.0)
    assert not lock.is_held


def test_a_directory_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DirectoryLock(str(tmp_path / "missing")).take(0.0)


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "True"
        lock = DirectoryLock(str(tmp_path))
        assert not lock.take(0.0)
        holder.kill()
        holder.wait(timeout=at_most(30))
        assert lock.take(0.0)
        lock.release()


def test_a_process_forked_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    result = subprocess.run(
        [sys.executable, "-c", _FORKING, path], capture_output=True, text=True, timeout=at_most(60), check=False
    )
    assert (result.stdout.strip(), result.stderr) == ("True", "")
    assert os.path.exists(path)
