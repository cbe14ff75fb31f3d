"""How often a cache had what was asked for."""

import logging
import os
import struct
import threading
import time
import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCounts:
    """Blocks that were there (hits) or not (misses), the bytes of both, files that were thrown away because they were
    damaged, and those that made room for others.
    """

    hits: int = 0
    misses: int = 0
    hit_bytes: int = 0
    missed_bytes: int = 0
    damaged: int = 0
    evicted: int = 0

    @property
    def hit_rate(self) -> float:
        """The share of blocks that were there; 0 where none was asked for."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0


class CacheCounter:
    """Counts for all caches of the process; safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(CacheCounts.__dataclass_fields__, 0)

    def add(self, **more: int) -> None:
        """Count by the names of CacheCounts."""
        with self._lock:
            for name, count in more.items():
                self._counts[name] += count

    @property
    def counts(self) -> CacheCounts:
        """What was counted by now."""
        with self._lock:
            return CacheCounts(**self._counts)


COUNTER = CacheCounter()
"""That of the process."""


_log = logging.getLogger(__name__)

_MAGIC = b"IBC2"
_HEAD = struct.Struct("<4sII")
_TOUCH_SECONDS = 60.0
"""A file that was used within that time need not be noted again."""
_LEFT_SECONDS = 3600.0
"""An unfinished file is that of a killed process after so long."""
_LOOK_SHARE = 16
_KEPT_SHARE = 0.9
_UNFINISHED = ".tmp"


@dataclass(frozen=True, slots=True)
class Block:
    """The bytes of a block, and the note that was kept with it."""

    note: bytes
    content: memoryview


class BlockFiles:
    """The files of one directory with at most `most_bytes`; threads and processes may share it."""

    def __init__(self, directory: str, most_bytes: int, *, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._most = most_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._bytes: int | None = None
        self._since_look = 0
        self._is_off = False

    def get(self, key: str, number: str) -> Block | None:
        """The block, None where it is not there or damaged. Never raises OSError."""
        path = self._path(key, number)
        try:
            with open(path, "rb") as file:
                whole = file.read()
                used = os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return None
        except OSError as error:
            self._switch_off("read", error)
            return None
        found = _decoded(whole, _name(key, number))
        if found is None:
            COUNTER.add(damaged=1)
            _log.warning("%s is damaged, and thrown away.", path)
            self._remove(path)
            return None
        now = self._clock()
        if now - used > _TOUCH_SECONDS:
            try:
                os.utime(path, (now, now))
            except OSError as error:
                # Somebody has just let it make room, or the disk is read-only.
                _log.debug("That %s was used is not noted: %s", path, error)
        return found

    def put(self, key: str, number: str, note: bytes, content: bytes | memoryview) -> None:
        """Keep a block, in the place of one of that name; older ones make room for it. Never raises OSError."""
        size = _HEAD.size + len(note) + len(content)
        if self._is_off or size > self._most:
            return
        path = self._path(key, number)
        unfinished = f"{path}.{uuid.uuid4()}{_UNFINISHED}"
        try:
            self._make_room(size)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            checksum = zlib.crc32(_name(key, number))
            for part in (struct.pack("<I", len(note)), note, content):
                checksum = zlib.crc32(part, checksum)
            with open(unfinished, "xb") as file:
                file.write(_HEAD.pack(_MAGIC, checksum, len(note)))
                file.write(note)
                file.write(content)
            now = self._clock()
            os.utime(unfinished, (now, now))
            os.replace(unfinished, path)
        except OSError as error:
            self._remove(unfinished)
            self._switch_off("write", error)

    @property
    def is_off(self) -> bool:
        """Whether the disk has refused something, and nothing is kept any more."""
        return self._is_off

    def _path(self, key: str, number: str) -> str:
        return f"{self._directory}/{key[:2]}/{key}-{number}"

    def _make_room(self, size: int) -> None:
        with self._lock:
            if self._bytes is None or self._since_look + size > self._most // _LOOK_SHARE:
                self._look(size)
            if self._bytes is not None and self._bytes + size > self._most:
                self._look(size)
            self._bytes = (self._bytes or 0) + size
            self._since_look += size

    def _look(self, size: int) -> None:
        """See what is there, and remove what was not used for longest if `size` more would be too much."""
        found: list[tuple[float, int, str]] = []
        now = self._clock()
        for path, status in self._files():
            if path.endswith(_UNFINISHED) and now - status.st_mtime > _LEFT_SECONDS:
                self._remove(path)
            else:
                found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        if total + size > self._most:
            found.sort()
            evicted = 0
            for _, freed, path in found:
                if total + size <= self._most * _KEPT_SHARE or path.endswith(_UNFINISHED):
                    continue
                self._remove(path)
                total -= freed
                evicted += 1
            COUNTER.add(evicted=evicted)
        self._bytes = total
        self._since_look = 0

    def _files(self) -> list[tuple[str, os.stat_result]]:
        found: list[tuple[str, os.stat_result]] = []
        try:
            directories = [entry.path for entry in os.scandir(self._directory) if entry.is_dir()]
        except FileNotFoundError:
            return found
        for directory in directories:
            try:
                for entry in os.scandir(directory):
                    try:
                        found.append((entry.path, entry.stat(follow_symlinks=False)))
                    except FileNotFoundError:
                        # Another process has let it make room.
                        continue
            except FileNotFoundError:
                continue
        return found

    def _remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except OSError as error:
            _log.debug("%s is not removed, or gone already: %s", path, error)

    def _switch_off(self, action: str, error: OSError) -> None:
        if not self._is_off:
            self._is_off = True
            _log.warning(
                "Can't %s the local cache in %s, which is not used any more: %s", action, self._directory, error
            )


def _name(key: str, number: str) -> bytes:
    """What tells a block from others that lie in its place by somebody's mistake."""
    return f"{key}-{number}".encode()


def _decoded(whole: bytes, name: bytes) -> Block | None:
    if len(whole) < _HEAD.size:
        return None
    magic, checksum, length = _HEAD.unpack_from(whole)
    view = memoryview(whole)
    found = zlib.crc32(view[_HEAD.size - 4 :], zlib.crc32(name))
    if magic != _MAGIC or len(whole) < _HEAD.size + length or found != checksum:
        return None
    end = _HEAD.size + length
    return Block(bytes(view[_HEAD.size : end]), view[end:])
