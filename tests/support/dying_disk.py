"""A disk whose process dies before one of its steps: a LocalDisk that counts the operations that change it.

A step is one system call: a file is created, filled, linked, replaced or removed, or a directory is made. Reads are not
steps, because a process that dies before a read leaves the same state as one that dies after it.
"""

import os
from pathlib import Path
from threading import Lock
from typing import Any, cast

import interbed
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.io.api import FileIO
from interbed.storage.io.local import LocalDisk, LocalFileIO


class SimulatedKill(BaseException):
    """Simulated end of a process: no handler catches it, and code that runs later does not reach the file system."""


class DyingDisk(LocalDisk):
    """Disk of a process that dies before a step. The step is a number counted from 0, or a text: the kind (`link`) of
    the first step, optionally with the beginning of its file name (`link snapshot-`). None for a process that lives.
    """

    def __init__(self, dies_before: int | str | None = None) -> None:
        super().__init__()
        self.steps: list[str] = []
        self._dies_before = dies_before
        self._is_dead = False
        self._guard = Lock()

    def open_output(self, path: str) -> Any:
        _check_directory(path)
        self._step("create", path)
        output = super().open_output(path)
        # The file exists without content until the next step of its writer.
        self._step("write", path)
        return output

    def write_new(self, path: str, content: bytes, *, sync: bool) -> None:
        _check_directory(path)
        self._step("create", path)
        with open(path, "xb") as file:
            # A part of the content is written before the rest.
            file.write(content[: len(content) // 2])
            file.flush()
            self._step("write", path)
            file.write(content[len(content) // 2 :])

    def link(self, source: str, target: str) -> None:
        self._step("link", target)
        super().link(source, target)

    def unlink(self, path: str) -> None:
        self._step("unlink", path)
        super().unlink(path)

    def replace(self, source: str, target: str) -> None:
        self._step("replace", target)
        super().replace(source, target)

    def rename_directory(self, source: str, target: str) -> None:
        self._step("rename", target)
        super().rename_directory(source, target)

    def make_directories(self, path: str) -> None:
        if not os.path.isdir(path):
            self._step("make", path)
        super().make_directories(path)

    def remove_directory(self, path: str) -> None:
        self._step("remove", path)
        super().remove_directory(path)

    def remove_tree(self, path: str) -> None:
        for found, _, files in os.walk(path, topdown=False):
            for name in sorted(files):
                self.unlink(f"{found}/{name}")
            self.remove_directory(found)

    def sync(self, paths: Any) -> None:
        """Do nothing: data written by a killed process remain."""

    def sync_names(self, directories: Any) -> None:
        """Do nothing: names created by a killed process remain."""

    def _step(self, what: str, path: str) -> None:
        with self._guard:
            wanted = self._dies_before
            if isinstance(wanted, str):
                self._is_dead |= f"{what} {os.path.basename(path)}".startswith(wanted)
            else:
                self._is_dead |= wanted is not None and len(self.steps) >= wanted
            if self._is_dead:
                raise SimulatedKill(f"before {what} {path}")
            self.steps.append(f"{what} {path}")


def opened(warehouse: Path, disk: DyingDisk | None = None) -> FileSystemCatalog:
    """Return the catalog of a new process, on a disk that does not die unless another disk is given."""
    catalog = interbed.load_catalog("lake", warehouse=str(warehouse))
    assert isinstance(catalog, FileSystemCatalog)
    catalog._file_io = cast(FileIO, LocalFileIO(DyingDisk() if disk is None else disk))
    return catalog


def _check_directory(path: str) -> None:
    """Raise the error of the system for a file in a missing directory; this is no step."""
    os.stat(os.path.dirname(path))
