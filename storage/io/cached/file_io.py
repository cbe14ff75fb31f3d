"""FileIO in front of an object store that caches blocks of files that never change on local disk.

A process sends one conditional request for each file, with the version (the ETag) that is cached. If that is current,
the response has no content. From then on blocks are read from the disk, and missing ones from the object store.
"""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import pyarrow as pa

from interbed.storage.io.api import FileIO, StoredEnd, VersionedFiles, WrappedFileIO, open_sized
from interbed.storage.io.cached.blocks import COUNTER, BlockFiles
from interbed.storage.io.cached.options import CacheOptions, kind_of
from interbed.storage.io.parallel import delete_together
from interbed.storage.io.prefetch.inputs import opened_from

_VERIFIED_MAX = 100_000
_HEAD = "head"
"""Number of the block that has only a note: the version of the file and its size."""

_Version = tuple[str, int]
"""Version of a file, and its size."""


class CachedFileIO(WrappedFileIO):
    """FileIO that reads cached kinds of files through the cache, and passes on the rest. Threads may share it."""

    def __init__(self, inner: FileIO, options: CacheOptions) -> None:
        super().__init__(inner)
        assert isinstance(inner, VersionedFiles)
        self._store: VersionedFiles = inner
        self._options = options
        self._blocks = BlockFiles(options.directory, options.most_bytes)
        self._lock = threading.Lock()
        # A cached kind of file never changes, so that one request per process is enough.
        self._verified: OrderedDict[str, _Version] = OrderedDict()
        self._fetching: dict[tuple[str, int], Future[memoryview]] = {}

    def read_bytes(self, path: str) -> bytes:
        if not self._is_kept(path):
            return self.inner.read_bytes(path)
        with self.open_input(path) as source:
            return bytes(source.read())

    def open_input(self, path: str) -> pa.NativeFile:
        return self.open_sized(path, None)

    def open_sized(self, path: str, size: int | None) -> pa.NativeFile:
        if not self._is_kept(path):
            return open_sized(self.inner, path, size)
        version, end = self._opened(path)
        size = version[1]
        if end is not None and end.start == 0:
            return pa.BufferReader(end.held)
        fetch = partial(self._fetched, path, version)
        start, held = (end.start, end.held) if end is not None else (size, b"")
        if size <= self._options.block_bytes and end is None:
            return pa.BufferReader(fetch(0, size) if size else b"")
        return opened_from(fetch, size, start, held, self._store.read_ahead)

    def open_output(self, path: str) -> Any:
        self._unverify([path])
        return self.inner.open_output(path)

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        self._unverify([path])
        self.inner.overwrite(path, content, durable=durable)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        self._unverify([path])
        return self.inner.delete(path, recursive=recursive)

    def delete_batch(self, paths: Sequence[str]) -> None:
        self._unverify(paths)
        delete_together(self.inner, paths)

    def delete_quietly(self, paths: Iterable[str]) -> None:
        given = list(paths)
        self._unverify(given)
        self.inner.delete_quietly(given)

    def __reduce__(self) -> tuple[Any, ...]:
        return CachedFileIO, (self.inner, self._options)

    # -- files -----------------------------------------------------------------------------------------------------

    def _is_kept(self, path: str) -> bool:
        return not self._blocks.is_off and kind_of(path) in self._options.kinds

    def _unverify(self, paths: Iterable[str]) -> None:
        with self._lock:
            for path in paths:
                self._verified.pop(path, None)

    def _opened(self, path: str) -> tuple[_Version, StoredEnd | None]:
        """Return the version of a file, and its end if a request fetched it."""
        with self._lock:
            version = self._verified.get(path)
            if version is not None:
                self._verified.move_to_end(path)
                return version, None
        known = self._known(path)
        end = self._store.end_of(path, unless=None if known is None else known[0])
        if end is None:
            assert known is not None
            version = known
        else:
            version = (end.version, end.size)
            self._keep_end(path, end)
        with self._lock:
            self._verified[path] = version
            while len(self._verified) > _VERIFIED_MAX:
                self._verified.popitem(last=False)
        return version, end

    def _known(self, path: str) -> _Version | None:
        """Return the version of a file that is cached; None without one."""
        found = self._blocks.get(_digest(path), _HEAD)
        if found is None:
            return None
        note = json.loads(found.note)
        # Another path may have the same digest.
        return (note["version"], note["size"]) if note["path"] == path else None

    def _keep_end(self, path: str, end: StoredEnd) -> None:
        note = json.dumps({"path": path, "version": end.version, "size": end.size}).encode()
        self._blocks.put(_digest(path), _HEAD, note, b"")
        block = self._options.block_bytes
        first = -(-end.start // block)
        for number in range(first, -(-end.size // block)):
            held = memoryview(end.held)[number * block - end.start : (number + 1) * block - end.start]
            self._keep(path, (end.version, end.size), number, held)

    # -- blocks ----------------------------------------------------------------------------------------------------

    def _fetched(self, path: str, version: _Version, start: int, end: int) -> memoryview:
        """Return bytes of a file, from the disk as far as they are cached."""
        block = self._options.block_bytes
        first, last = start // block, -(-end // block)
        found = {number: self._kept(path, version, number) for number in range(first, last)}
        hits = [content for content in found.values() if content is not None]
        COUNTER.add(hits=len(hits), misses=len(found) - len(hits), hit_bytes=sum(map(len, hits)))
        if len(hits) < len(found):
            missing = [number for number, content in found.items() if content is None]
            found |= self._fetch_blocks(path, version, missing)
        parts = [content for _, content in sorted(found.items()) if content is not None]
        whole = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
        return whole[start - first * block : end - first * block]

    def _fetch_blocks(self, path: str, version: _Version, numbers: Sequence[int]) -> dict[int, memoryview]:
        """Return blocks that are not cached. One request fetches consecutive blocks.

        Blocks that another thread is fetching are waited for.
        """
        mine: dict[int, Future[memoryview]] = {}
        others: dict[int, Future[memoryview]] = {}
        with self._lock:
            for number in numbers:
                running = self._fetching.get((path, number))
                if running is None:
                    mine[number] = self._fetching[path, number] = Future()
                else:
                    others[number] = running
        try:
            # Another thread may have cached one of them since the disk was read.
            for number, future in mine.items():
                kept = self._kept(path, version, number)
                if kept is not None:
                    future.set_result(kept)
            for low, high in _consecutive(number for number, future in mine.items() if not future.done()):
                for number, content in self._range(path, version, low, high):
                    mine[number].set_result(content)
                    self._keep(path, version, number, content)
        except BaseException as error:
            for future in mine.values():
                if not future.done():
                    future.set_exception(error)
            raise
        finally:
            with self._lock:
                for number in mine:
                    del self._fetching[path, number]
        # Wait only now, when no other thread waits for this one any more.
        return {number: future.result() for number, future in (mine | others).items()}

    def _range(self, path: str, version: _Version, low: int, high: int) -> Iterator[tuple[int, memoryview]]:
        block = self._options.block_bytes
        start, end = low * block, min(high * block, version[1])
        content = memoryview(self._store.range_of(path, start, end))
        if len(content) != end - start:
            raise OSError(f"the store has sent {len(content)} of {end - start} bytes")
        COUNTER.add(missed_bytes=len(content))
        for number in range(low, high):
            yield number, content[number * block - start : (number + 1) * block - start]

    def _kept(self, path: str, version: _Version, number: int) -> memoryview | None:
        found = self._blocks.get(self._name(path, version), str(number))
        size = min(self._options.block_bytes, version[1] - number * self._options.block_bytes)
        return found.content if found is not None and len(found.content) == size else None

    def _keep(self, path: str, version: _Version, number: int, content: memoryview) -> None:
        self._blocks.put(self._name(path, version), str(number), b"", content)

    def _name(self, path: str, version: _Version) -> str:
        return _digest(f"{path}\0{version[0]}\0{version[1]}\0{self._options.block_bytes}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _consecutive(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first number of each run of consecutive numbers, and the number after its last one."""
    start = end = -1
    for number in numbers:
        if number != end:
            if start >= 0:
                yield start, end
            start = number
        end = number + 1
    if start >= 0:
        yield start, end
