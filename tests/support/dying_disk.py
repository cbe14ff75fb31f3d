"""A disk whose process dies before one of its steps: a LocalDisk that counts what changes it.

Steps are what a system call does: a file is created, filled, linked, replaced, removed, a directory made. Reads are
none, because a process that dies before a read leaves what it left before.
"""

import os
from pathlib import Path
from threading import Lock
from typing import Any, cast

import interbed
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.io.api import FileIO
from interbed.storage.io.local import LocalDisk, LocalFileIO


class Killed(BaseException):
    """The end of a process: nothing catches it, and nothing that runs later reaches the file system."""


class DyingDisk(LocalDisk):
    """The disk of a process that dies before a step: of that number, counted from 0, or the first one of that kind
    (`link`) of a file whose name begins so (`link snapshot-`). None for one that lives.
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
        # It is there without content until its writer gets to the next step.
        self._step("write", path)
        return output

    def write_new(self, path: str, content: bytes, *, sync: bool) -> None:
        _check_directory(path)
        self._step("create", path)
        with open(path, "xb") as file:
            # A part of the content is there before all of it is.
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
        """Nothing: what a killed process has written stays."""

    def sync_names(self, directories: Any) -> None:
        """Nothing, too."""

    def _step(self, what: str, path: str) -> None:
        with self._guard:
            wanted = self._dies_before
            if isinstance(wanted, str):
                self._is_dead |= f"{what} {os.path.basename(path)}".startswith(wanted)
            else:
                self._is_dead |= wanted is not None and len(self.steps) >= wanted
            if self._is_dead:
                raise Killed(f"before {what} {path}")
            self.steps.append(f"{what} {path}")


def opened(warehouse: Path, disk: DyingDisk | None = None) -> FileSystemCatalog:
    """The catalog of a new process, on a disk that lives unless another is given."""
    catalog = interbed.load_catalog("lake", warehouse=str(warehouse))
    assert isinstance(catalog, FileSystemCatalog)
    catalog._file_io = cast(FileIO, LocalFileIO(DyingDisk() if disk is None else disk))
    return catalog


def _check_directory(path: str) -> None:
    """Raise what the system does for a file in a directory that is not there, which is no step."""
    os.stat(os.path.dirname(path))
