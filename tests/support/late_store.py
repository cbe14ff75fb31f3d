"""A FileIO with eventually consistent listings and stale hint files.

Listings lack new files and show deleted files for a while. The files LATEST and EARLIEST have an older content, or are
missing. Reads, look-ups and creations by path are consistent, as in object stores whose listings lag behind. "A while"
is counted in operations, so that runs with the same seed are similar.
"""

import random
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from interbed.storage.io.api import OBJECT_STORE_CAPABILITIES, FileIO, FileStatus

HINTS = ("LATEST", "EARLIEST")
LATE_MAX = 60
"""Operations until a listing shows a change."""
OLD_VERSIONS = 4


class LateStore:
    """FileIO around another one; threads may share it. `late` counts the stale listings and the stale hints."""

    def __init__(self, inner: FileIO, chance: random.Random) -> None:
        self.scheme = "late"
        self.capabilities = OBJECT_STORE_CAPABILITIES
        self.exclusive_create = inner.exclusive_create
        self.late = 0
        self.is_late = True
        self._inner = inner
        self._chance = chance
        self._guard = threading.Lock()
        self._now = 0
        self._appear: dict[str, int] = {}
        self._vanish: dict[str, tuple[int, FileStatus]] = {}
        self._hints: dict[str, list[bytes]] = {}

    def read_bytes(self, path: str) -> bytes:
        self._step()
        if path.rpartition("/")[2] in HINTS and self.is_late:
            with self._guard:
                versions = self._hints.get(path, [])
                choice = self._chance.randrange(OLD_VERSIONS + 2)
                if choice > OLD_VERSIONS:
                    self.late += 1
                    raise FileNotFoundError(path)
                if 0 < choice < len(versions):
                    self.late += 1
                    return versions[-1 - choice]
        return self._inner.read_bytes(path)

    def open_input(self, path: str) -> Any:
        self._step()
        return self._inner.open_input(path)

    def open_output(self, path: str) -> Any:
        self._note_new(path)
        return self._inner.open_output(path)

    def create_exclusive(self, path: str, content: bytes) -> bool:
        self._note_new(path)
        return self._inner.create_exclusive(path, content)

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        self._note_new(path)
        with self._guard:
            if path.rpartition("/")[2] in HINTS:
                self._hints.setdefault(path, []).append(content)
        self._inner.overwrite(path, content, durable=durable)

    def sync(self, paths: Iterable[str]) -> None:
        self._inner.sync(paths)

    def exists(self, path: str) -> bool:
        self._step()
        return self._inner.exists(path)

    def size(self, path: str) -> int:
        self._step()
        return self._inner.size(path)

    def list(self, path: str) -> list[FileStatus]:
        """Return a listing that may be out of date."""
        now = self._step()
        entries = {status.path: status for status in self._inner.list(path)}
        if not self.is_late:
            return list(entries.values())
        with self._guard:
            hidden = [each for each in entries if self._appear.get(each, 0) > now]
            ghosts = [
                status
                for each, (until, status) in self._vanish.items()
                if until > now and each not in entries and each.rpartition("/")[0] == path
            ]
            self.late += bool(hidden or ghosts)
        return [status for each, status in entries.items() if each not in hidden] + ghosts

    def make_directories(self, path: str) -> None:
        self._inner.make_directories(path)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        self._note_gone(path)
        return self._inner.delete(path, recursive=recursive)

    def delete_quietly(self, paths: Iterable[str]) -> None:
        given = list(paths)
        for path in given:
            self._note_gone(path)
        self._inner.delete_quietly(given)

    def rename(self, source: str, target: str) -> bool:
        self._step()
        return self._inner.rename(source, target)

    def _step(self) -> int:
        with self._guard:
            self._now += 1
            return self._now

    def _note_new(self, path: str) -> None:
        now = self._step()
        with self._guard:
            # A replaced file was listed before.
            self._appear.setdefault(path, now + self._chance.randrange(LATE_MAX))
            self._vanish.pop(path, None)

    def _note_gone(self, path: str) -> None:
        now = self._step()
        status = FileStatus(path=path, name=path.rpartition("/")[2], is_directory=False, size=0, modified_millis=None)
        try:
            status = replace(status, size=self._inner.size(path))
        except OSError:
            return
        with self._guard:
            self._vanish[path] = (now + self._chance.randrange(LATE_MAX), status)
            self._appear.pop(path, None)
