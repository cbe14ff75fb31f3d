"""A FileIO over a local directory that is as slow as a remote object store.

It waits instead of working: neither a store nor its client takes processor time beside the measured code, as a store on
the same machine does (tests/support/servers/paced_proxy.py).
"""

import io
import math
import os
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from interbed.storage.io.api import OBJECT_STORE_CAPABILITIES, FileStatus, ReadAhead, WrappedFileIO
from interbed.storage.io.local import LocalFileIO
from interbed.storage.io.prefetch.inputs import opened_by_ranges
from interbed.storage.io.stores.writes import PART_BYTES, PARTS_AT_ONCE

_T = TypeVar("_T")


class PacedFiles(WrappedFileIO):
    """FileIO in which each request takes `latency_seconds` and each stream transfers `bytes_per_second`.

    `place` is the URI of the directory `root`. Opening, read-ahead and multipart uploads make the same requests as an
    object store. Opened files are recorded.
    """

    def __init__(
        self, place: str, root: Path, *, latency_seconds: float = 0.0, bytes_per_second: float = math.inf
    ) -> None:
        super().__init__(LocalFileIO())
        self.opened: list[str] = []
        self.inputs: list[pa.NativeFile] = []
        self.scheme = "s3"
        self.capabilities = OBJECT_STORE_CAPABILITIES
        self.read_ahead: ReadAhead = ReadAhead()
        self._place = place
        self.root = root
        self._latency = latency_seconds
        self._pace = bytes_per_second

    def wait(self, size: int = 0) -> None:
        """Wait as long as a request of `size` bytes takes."""
        time.sleep(self._latency + size / self._pace)

    def read_bytes(self, path: str) -> bytes:
        found = self.inner.read_bytes(self._local(path))
        self.wait(len(found))
        return found

    def open_input(self, path: str) -> pa.NativeFile:
        return self.open_sized(path, None)

    def open_sized(self, path: str, size: int | None) -> pa.NativeFile:
        """See SizedOpening.open_sized; a given size saves a request."""
        local = self._local(path)
        self.opened.append(path)
        if size is None:
            self.wait()
        size = os.stat(local).st_size

        def fetch(start: int, end: int) -> bytes:
            self.wait(end - start)
            with open(local, "rb", buffering=0) as source:
                return os.pread(source.fileno(), end - start, start)

        self.inputs.append(opened_by_ranges(fetch, size, self.read_ahead))
        return self.inputs[-1]

    def ending(self, path: str) -> None:
        """Hook that is called before a closed file appears; an exception keeps the file from appearing."""

    def open_output(self, path: str) -> Any:
        return _PacedUpload(self, path, Path(self._local(path)), Path(f"{self.root}.sent") / uuid.uuid4().hex)

    def create_exclusive(self, path: str, content: bytes) -> bool:
        return self._asked(lambda: self.inner.create_exclusive(self._local(path), content), len(content))

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        self._asked(lambda: self.inner.overwrite(self._local(path), content, durable=False), len(content))

    def sync(self, paths: Iterable[str]) -> None:
        """Do nothing: an acknowledged write to a store is durable."""

    def exists(self, path: str) -> bool:
        return self._asked(lambda: self.inner.exists(self._local(path)))

    def size(self, path: str) -> int:
        return self._asked(lambda: self.inner.size(self._local(path)))

    def list(self, path: str) -> list[FileStatus]:
        """List the directory in one request."""
        found = self._asked(lambda: self.inner.list(self._local(path)))
        return [replace(each, path=self._far(each.path)) for each in found]

    def make_directories(self, path: str) -> None:
        """Do nothing: a store has no directories."""

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        return self._asked(lambda: self.inner.delete(self._local(path), recursive=recursive))

    def delete_quietly(self, paths: Iterable[str]) -> None:
        self._asked(lambda: self.inner.delete_quietly([self._local(path) for path in paths]))

    def rename(self, source: str, target: str) -> bool:
        return self._asked(lambda: self.inner.rename(self._local(source), self._local(target)))

    def _asked(self, work: Callable[[], _T], size: int = 0) -> _T:
        self.wait(size)
        return work()

    def _local(self, path: str) -> str:
        assert path.startswith(self._place), path
        return f"{self.root}{path.removeprefix(self._place)}"

    def _far(self, path: str) -> str:
        return f"{self._place}{path.removeprefix(str(self.root))}"


class _PacedUpload(io.RawIOBase):
    """Multipart upload that sends some of its parts at the same time while the file is written."""

    def __init__(self, files: PacedFiles, name: str, path: Path, sent: Path) -> None:
        self._files = files
        self._name = name
        self._path = path
        self._sent = sent
        sent.parent.mkdir(exist_ok=True)
        self._file = sent.open("wb")
        self._threads = ThreadPoolExecutor(PARTS_AT_ONCE)
        self._parts: list[Future[None]] = []
        self._size = 0
        self._held = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, content: Any) -> int:
        size = len(content)
        self._size += size
        self._file.write(content)
        self._held += size
        while self._held >= PART_BYTES:
            self._send(PART_BYTES)
            self._held -= PART_BYTES
        return size

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._files.ending(self._name)
        except BaseException:
            self.abort()
            raise
        self._send(self._held)
        for part in self._parts:
            part.result()
        if len(self._parts) > 1:
            # The request that begins the upload is sent while the first part is being filled.
            self._files.wait()
        self._end()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._sent.replace(self._path)

    def abort(self) -> None:
        """Close the upload without creating a file."""
        if not self.closed:
            self._end()
            self._sent.unlink()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def _end(self) -> None:
        self._threads.shutdown()
        self._file.close()
        super().close()

    def _send(self, size: int) -> None:
        if len(self._parts) >= PARTS_AT_ONCE:
            self._parts[-PARTS_AT_ONCE].result()
        self._parts.append(self._threads.submit(self._files.wait, size))
