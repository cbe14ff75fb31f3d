"""A disk that can lose its power: a LocalDisk that records which changes were synced.

The files of a PowerCutDisk are real files below its root, so that other code can read and write them. The disk also
records which bytes and names survive a power cut. Synced data survive. Of the other changes any outcome is possible:
all or nothing, the name without the content, a part of the content, or the later of two changes of a directory without
the earlier one. `image` writes one of those outcomes to another directory.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import RLock
from typing import Any

from interbed.storage.io.local import LocalDisk


@dataclass(eq=False, slots=True)
class _DiskFile:
    synced: bytes | None = None
    """Synced content; None for a file that was not synced since it was written."""
    names: int = 1
    kept: bytes = b""
    """Content of a file that has no name any more."""


@dataclass(frozen=True, slots=True)
class _EntryChange:
    """Entry that was added or (`node` None) removed; changes of one `group` survive together or not at all."""

    name: str
    node: "_Node | None"
    group: int | None = None


@dataclass(eq=False, slots=True)
class _Directory:
    now: dict[str, "_Node"] = field(default_factory=dict)
    durable: dict[str, "_Node"] = field(default_factory=dict)
    pending: list[_EntryChange] = field(default_factory=list)

    def put(self, name: str, node: "_Node", group: int | None = None) -> None:
        self.now[name] = node
        self.pending.append(_EntryChange(name, node, group))

    def take(self, name: str, group: int | None = None) -> "_Node":
        self.pending.append(_EntryChange(name, None, group))
        return self.now.pop(name)

    def sync(self) -> None:
        self.durable = dict(self.now)
        self.pending.clear()

    def sync_groups(self, groups: set[int | None]) -> None:
        for change in [each for each in self.pending if each.group in groups]:
            self.pending.remove(change)
            if change.node is None:
                self.durable.pop(change.name, None)
            else:
                self.durable[change.name] = change.node


_Node = _DiskFile | _Directory


def _directories(top: _Directory) -> Iterator[_Directory]:
    waiting = [top]
    while waiting:
        directory = waiting.pop()
        yield directory
        waiting += [node for node in directory.now.values() if isinstance(node, _Directory)]


class PowerCutDisk(LocalDisk):
    """Disk below `root`. Its initial files count as synced. `on_step` is called after each change."""

    def __init__(self, root: Path, on_step: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.root = root
        self.on_step = on_step
        self.steps = 0
        self._top = _scanned(root)
        self._groups = 0
        self._guard = RLock()

    # -- changes ---------------------------------------------------------------------------------------------------

    def open_output(self, path: str) -> Any:
        with self._guard:
            output = super().open_output(path)
            directory, name = self._place(path)
            known = directory.now.get(name)
            if isinstance(known, _DiskFile):
                known.synced = None
            else:
                directory.put(name, _DiskFile())
            self._step()
            return output

    def write_new(self, path: str, content: bytes, *, sync: bool) -> None:
        with self._guard:
            super().write_new(path, content, sync=False)
            directory, name = self._place(path)
            file = _DiskFile()
            directory.put(name, file)
            self._step()
            if sync:
                file.synced = content
                self._step()

    def link(self, source: str, target: str) -> None:
        with self._guard:
            super().link(source, target)
            file = self._node(source)
            assert isinstance(file, _DiskFile)
            file.names += 1
            directory, name = self._place(target)
            directory.put(name, file)
            self._step()

    def unlink(self, path: str) -> None:
        with self._guard:
            self._forget_name(path)
            super().unlink(path)
            directory, name = self._place(path)
            if name in directory.now:
                directory.take(name)
            self._step()

    def replace(self, source: str, target: str) -> None:
        with self._guard:
            if os.path.exists(target):
                self._forget_name(target)
            super().replace(source, target)
            (directory, name), (before, old_name) = self._place(target), self._place(source)
            directory.put(name, before.now[old_name])
            before.take(old_name)
            self._step()

    def rename_directory(self, source: str, target: str) -> None:
        with self._guard:
            super().rename_directory(source, target)
            (directory, name), (before, old_name) = self._place(target), self._place(source)
            # The journal of the file system makes a move atomic.
            self._groups += 1
            directory.put(name, before.take(old_name, self._groups), self._groups)
            self._step()

    def make_directories(self, path: str) -> None:
        with self._guard:
            if os.path.isdir(path):
                return
            self.make_directories(os.path.dirname(path))
            os.mkdir(path)
            directory, name = self._place(path)
            directory.put(name, _Directory())
            self._step()

    def remove_directory(self, path: str) -> None:
        with self._guard:
            super().remove_directory(path)
            directory, name = self._place(path)
            directory.take(name)
            self._step()

    def remove_tree(self, path: str) -> None:
        for found, _, files in os.walk(path, topdown=False):
            for name in files:
                self.unlink(f"{found}/{name}")
            self.remove_directory(found)

    # -- syncs ----------------------------------------------------------------------------------------------------

    def sync_file(self, path: str) -> bool:
        with self._guard:
            node = self._node(path)
            if isinstance(node, _DiskFile):
                node.synced = Path(path).read_bytes()
                self._step()
            return isinstance(node, _Directory)

    def sync_directory(self, path: str) -> None:
        with self._guard:
            node = self._node(path)
            if isinstance(node, _Directory):
                moves = {change.group for change in node.pending} - {None}
                node.sync()
                # The journal has both halves of a move in one transaction.
                for directory in _directories(self._top) if moves else ():
                    directory.sync_groups(moves)
                self._step()

    # -- power cuts ------------------------------------------------------------------------------------------------

    def image(self, target: Path, random: Random) -> None:
        """Write a possible state of the root after a power cut now to the new directory `target`."""
        target.mkdir()
        for name, content in self.left(random).items():
            if content is None:
                (target / name).mkdir()
            else:
                (target / name).write_bytes(content)

    def left(self, random: Random) -> dict[str, bytes | None]:
        """Return a possible state after a power cut now: file contents by path below the root, None for directories."""
        with self._guard:
            outcome, found = _CutOutcome(random), dict[str, bytes | None]()
            waiting = [("", self._top)]
            while waiting:
                above, directory = waiting.pop()
                for name, node in outcome.entries(directory).items():
                    if isinstance(node, _Directory):
                        found[above + name] = None
                        waiting.append((f"{above}{name}/", node))
                    else:
                        found[above + name] = outcome.content(node, self._content(node))
            return found

    def _content(self, file: _DiskFile) -> bytes:
        """Return the current content of the file."""
        if file.synced is not None:
            return file.synced
        path = self._path_of(file)
        return file.kept if path is None else path.read_bytes()

    def _path_of(self, wanted: _DiskFile) -> Path | None:
        if wanted.names == 0:
            return None
        waiting: list[tuple[_Directory, Path]] = [(self._top, self.root)]
        while waiting:
            directory, path = waiting.pop()
            for name, node in directory.now.items():
                if node is wanted:
                    return path / name
                if isinstance(node, _Directory):
                    waiting.append((node, path / name))
        return None

    # -- look-ups --------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        self.steps += 1
        self.on_step()

    def _forget_name(self, path: str) -> None:
        """Note that a file is about to lose a name. With its last name its content is deleted, unless it is kept."""
        node = self._node(path)
        if isinstance(node, _DiskFile):
            node.names -= 1
            if node.names == 0 and node.synced is None:
                node.kept = Path(path).read_bytes()

    def _place(self, path: str) -> tuple[_Directory, str]:
        above, name = os.path.split(path)
        node = self._node(above)
        assert isinstance(node, _Directory), f"{above} is not below {self.root}"
        return node, name

    def _node(self, path: str) -> _Node | None:
        """Return the node at the path; None for a missing path or a path outside of the root."""
        relative = os.path.relpath(path, self.root)
        node: _Node | None = self._top
        for part in [] if relative == "." else relative.split("/"):
            node = node.now.get(part) if isinstance(node, _Directory) else None
        return node


class _CutOutcome:
    """Random outcome of a power cut for changes that were not synced."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._names = random.choice(["none", "all", "all", "first", "some", "some"])
        self._contents = random.choice(["empty", "empty", "whole", "part", "any"])
        self._groups: dict[int, bool] = {}

    def entries(self, directory: _Directory) -> dict[str, _Node]:
        """Return the surviving entries of a directory."""
        left = dict(directory.durable)
        first = self._random.randint(0, len(directory.pending))
        for number, change in enumerate(directory.pending):
            if self._happened(change, number < first):
                if change.node is None:
                    left.pop(change.name, None)
                else:
                    left[change.name] = change.node
        return left

    def _happened(self, change: _EntryChange, is_first: bool) -> bool:
        if change.group is not None:
            return self._groups.setdefault(change.group, self._random.random() < 0.5)
        if self._names == "some":
            return self._random.random() < 0.5
        return self._names == "all" or (self._names == "first" and is_first)

    def content(self, file: _DiskFile, whole: bytes) -> bytes:
        """Return the surviving bytes of a file."""
        if file.synced is not None:
            return file.synced
        kind = self._random.choice(["empty", "whole", "part"]) if self._contents == "any" else self._contents
        length = {"empty": 0, "whole": len(whole), "part": self._random.randint(0, len(whole))}[kind]
        return whole[:length]


def _scanned(path: Path) -> _Directory:
    found = _Directory()
    for entry in path.iterdir():
        found.now[entry.name] = _scanned(entry) if entry.is_dir() else _DiskFile(synced=entry.read_bytes())
    found.sync()
    return found
