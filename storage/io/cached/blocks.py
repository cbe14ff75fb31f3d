"""Blocks of cached files on local disk, with checksums and LRU eviction, and counts of hits and misses.

A file `<2 characters>/<key>-<number>` holds a magic number, a CRC-32, the length of a note, the note, and the block.
Its modification time is about that of its last use.
"""

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
    """Blocks that were cached (hits) or not (misses), the bytes of both, and the files that were deleted because they
    were damaged, or evicted.
    """

    hits: int = 0
    misses: int = 0
    hit_bytes: int = 0
    missed_bytes: int = 0
    damaged: int = 0
    evicted: int = 0

    @property
    def hit_rate(self) -> float:
        """Share of hits; 0 before the first read."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0


class CacheCounter:
    """Counter of all caches of the process; safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(CacheCounts.__dataclass_fields__, 0)

    def add(self, **more: int) -> None:
        """Add to counts, by the names of CacheCounts."""
        with self._lock:
            for name, count in more.items():
                self._counts[name] += count

    @property
    def counts(self) -> CacheCounts:
        """Counts since the start of the process."""
        with self._lock:
            return CacheCounts(**self._counts)


COUNTER = CacheCounter()
"""Counter of this process."""


_log = logging.getLogger(__name__)

_MAGIC = b"IBC2"
_HEAD = struct.Struct("<4sII")
_TOUCH_SECONDS = 60.0
"""Precision of the time of the last use."""
_ABANDONED_SECONDS = 3600.0
"""Age after which an unfinished file belongs to a killed process."""
_SCAN_SHARE = 16
_KEPT_SHARE = 0.9
_UNFINISHED = ".tmp"


@dataclass(frozen=True, slots=True)
class Block:
    """Content of a block, and the note beside it."""

    note: bytes
    content: memoryview


class BlockFiles:
    """Files of one directory with at most `most_bytes`; threads and processes may share it."""

    def __init__(self, directory: str, most_bytes: int, *, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._most = most_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._bytes: int | None = None
        self._since_scan = 0
        self._is_off = False

    def get(self, key: str, number: str) -> Block | None:
        """Return the block; None where it is missing or damaged. Never raises OSError."""
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
            _log.warning("Deleting %s from the local cache: it is damaged.", path)
            self._remove(path)
            return None
        now = self._clock()
        if now - used > _TOUCH_SECONDS:
            try:
                os.utime(path, (now, now))
            except OSError as error:
                # Another process has evicted it, or the disk is read-only.
                _log.debug("Can't record the use of %s: %s", path, error)
        return found

    def put(self, key: str, number: str, note: bytes, content: bytes | memoryview) -> None:
        """Store a block, or replace it; older blocks may be evicted. Never raises OSError."""
        size = _HEAD.size + len(note) + len(content)
        if self._is_off or size > self._most:
            return
        path = self._path(key, number)
        unfinished = f"{path}.{uuid.uuid4()}{_UNFINISHED}"
        try:
            self._reserve(size)
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
        """Whether the cache is off after an error of the disk."""
        return self._is_off

    def _path(self, key: str, number: str) -> str:
        return f"{self._directory}/{key[:2]}/{key}-{number}"

    def _reserve(self, size: int) -> None:
        with self._lock:
            if self._bytes is None or self._since_scan + size > self._most // _SCAN_SHARE:
                self._scan(size)
            if self._bytes is not None and self._bytes + size > self._most:
                self._scan(size)
            self._bytes = (self._bytes or 0) + size
            self._since_scan += size

    def _scan(self, size: int) -> None:
        """List the files, and evict the least recently used ones if `size` more bytes would be too many."""
        found: list[tuple[float, int, str]] = []
        now = self._clock()
        for path, status in self._files():
            if path.endswith(_UNFINISHED) and now - status.st_mtime > _ABANDONED_SECONDS:
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
        self._since_scan = 0

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
                        # Another process has evicted it.
                        continue
            except FileNotFoundError:
                continue
        return found

    def _remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except OSError as error:
            _log.debug("Can't delete %s, or it was deleted already: %s", path, error)

    def _switch_off(self, action: str, error: OSError) -> None:
        if not self._is_off:
            self._is_off = True
            _log.warning("Can't %s the local cache in %s; it is off from now on: %s", action, self._directory, error)


def _name(key: str, number: str) -> bytes:
    """Return the identity of a block, part of its checksum, so that a misplaced file is recognised."""
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
