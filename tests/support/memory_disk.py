"""Temporary files of a run in memory: a commit waits for the disk several times, and tests make thousands of commits.

A run of `make test` has its temporary directory in a file system of the machine's memory,
`/dev/shm/interbed-<process>`, if that has room and runs programs. TMPDIR names it, so that servers and other child
processes of tests use it, too. A TMPDIR of the caller stays. The directory is deleted at the end of the run; after a
failure, at the start of the next one. Long tests keep the disk: they write more, and real disks are tested by them.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

MEMORY = Path("/dev/shm")
PREFIX = "interbed-"

LEAST_FREE_BYTES = 4 << 30
"""Free memory that a run asks for; it needs less than one GiB."""


class MemoryDirectory:
    """Temporary directory of one run. The process that creates it deletes it when it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._owner = os.getpid()
        self.kept = False

    def remove(self) -> None:
        """Delete the directory, unless it is kept or this is a child process."""
        if not self.kept and os.getpid() == self._owner:
            shutil.rmtree(self._path, ignore_errors=True)


def use_memory(memory: Path = MEMORY, least_free: int = LEAST_FREE_BYTES) -> MemoryDirectory | None:
    """Move the temporary files of this process and its children to memory; None if they stay where they are."""
    if os.environ.get("TMPDIR") or not has_room(memory, least_free):
        return None
    remove_abandoned(memory, is_running)
    path = memory / f"{PREFIX}{os.getpid()}"
    # A PostgreSQL of root runs as another user, which passes through the directory.
    path.mkdir()
    path.chmod(0o711)
    os.environ["TMPDIR"] = str(path)
    # The module keeps the directory that it has found before.
    tempfile.tempdir = None
    directory = MemoryDirectory(path)
    atexit.register(directory.remove)
    return directory


def has_room(memory: Path, least_free: int) -> bool:
    """Return whether the directory exists, can be written, runs programs and has enough bytes free."""
    if not os.access(memory, os.W_OK | os.X_OK):
        return False
    found = os.statvfs(memory)
    # Python names the flag on Linux only, where the directory is.
    runs_programs = not found.f_flag & getattr(os, "ST_NOEXEC", 0)
    return runs_programs and found.f_bavail * found.f_frsize >= least_free


def remove_abandoned(memory: Path, alive: Callable[[int], bool]) -> None:
    """Delete the directories of processes that have ended."""
    for path in memory.glob(f"{PREFIX}*"):
        number = path.name.removeprefix(PREFIX)
        if number.isascii() and number.isdigit() and not alive(int(number)):
            shutil.rmtree(path, ignore_errors=True)


def is_running(process: int) -> bool:
    """Return whether a process exists, of any user."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
