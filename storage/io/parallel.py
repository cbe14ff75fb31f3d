"""Parallel requests to a remote file system: small reads, deletions of many files, and writes that finish while their
writer continues.

A request to a remote file system is mostly waiting, so that many in parallel take as long as one. On a local file
system the calling thread does the same work step by step. Only the local file system has symbolic links. No deletion
follows one below a warehouse.
"""

import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.io.api import FileIO, WrappedFileIO, abort_output, open_sized, write_errors, write_file

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    import pyarrow as pa

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
_S = TypeVar("_S")

PARALLEL_REQUESTS = 32
"""Most parallel requests of one process for small files."""

_pool: "tuple[int, ThreadPoolExecutor] | None" = None
_guard = threading.Lock()


def in_parallel(file_io: FileIO, steps: Sequence[Callable[[], _T]]) -> list[_T]:
    """Return the results of the steps, in their order, after all have ended; raises the first error in that order.

    Each step sends a few requests, and no parallel ones itself.
    """
    if len(steps) < 2 or not file_io.capabilities.slow_requests:
        return [step() for step in steps]
    from concurrent.futures import wait

    futures = [_requests().submit(step) for step in steps]
    wait(futures)
    return [future.result() for future in futures]


def both(file_io: FileIO, first: Callable[[], _T], second: Callable[[], _S]) -> tuple[_T, _S]:
    """Return the results of two steps; errors as of `in_parallel`. The first one may send parallel requests itself."""
    if not file_io.capabilities.slow_requests:
        return first(), second()
    from concurrent.futures import wait

    future = _requests().submit(second)
    try:
        found = first()
    finally:
        wait([future])
    return found, future.result()


def in_background(step: Callable[[], _T]) -> "Future[_T]":
    """Run a step in a thread. It sends a few requests, and no parallel ones itself."""
    return _requests().submit(step)


class PendingWrites:
    """New small files, which on a remote file system are written while their writer continues; for one thread."""

    def __init__(self, file_io: FileIO) -> None:
        self._file_io = file_io
        self._futures: list[Future[Any]] = []

    def write(self, path: str, content: bytes) -> None:
        """Write the file, or begin to; raises StorageAccessError where it is written immediately."""
        if self._file_io.capabilities.slow_requests:
            self._futures.append(_requests().submit(write_file, self._file_io, path, content))
        else:
            write_file(self._file_io, path, content)

    def finish(self) -> None:
        """Wait until all files are written; raises the error of the first one that could not be."""
        if not self._futures:
            return
        from concurrent.futures import wait

        futures, self._futures = self._futures, []
        wait(futures)
        for future in futures:
            future.result()

    def settle(self) -> None:
        """Wait until all writes have ended, and ignore their errors."""
        if self._futures:
            from concurrent.futures import wait

            wait(self._futures)


def _requests() -> "ThreadPoolExecutor":
    """Return the threads of this process. A forked process needs its own."""
    from concurrent.futures import ThreadPoolExecutor

    global _pool
    with _guard:
        if _pool is None or _pool[0] != os.getpid():
            _pool = (os.getpid(), ThreadPoolExecutor(PARALLEL_REQUESTS, thread_name_prefix="interbed-request"))
        return _pool[1]


class PendingFiles(WrappedFileIO):
    """FileIO whose outputs are closed by threads; threads may share it. Its user ends it by `finish` or `settle`.

    A file is complete when `finish` has returned; a call that reads or deletes it earlier waits for it. At most
    `at_once` outputs are being closed: closing one more waits for one of them.
    """

    def __init__(self, inner: FileIO, at_once: int) -> None:
        from concurrent.futures import ThreadPoolExecutor

        super().__init__(inner)
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="interbed-pending")
        self._slots = threading.Semaphore(at_once)
        self._lock = threading.Lock()
        self._pending: dict[str, Future[None]] = {}

    def finish(self) -> None:
        """Wait for all files; raises StorageAccessError, which names the first one that was not written."""
        self.settle()
        for future in self._pending.values():
            future.result()

    def settle(self) -> None:
        """Wait until all writes have ended, and ignore their errors."""
        self._threads.shutdown()

    def open_output(self, path: str) -> "PendingOutput":
        """Return an output whose file appears some time after it is closed."""
        return PendingOutput(self, path, self.inner.open_output(path))

    def close_later(self, path: str, output: Any) -> None:
        """Let a thread close the output."""
        self._slots.acquire()
        with self._lock:
            self._pending[path] = self._threads.submit(self._close, path, output)

    def _close(self, path: str, output: Any) -> None:
        try:
            # The writer has continued, so the error has to name the file.
            with write_errors(path):
                output.close()
        finally:
            self._slots.release()

    def _wait(self, paths: Iterable[str]) -> None:
        with self._lock:
            pending = [self._pending[path] for path in paths if path in self._pending]
        if pending:
            from concurrent.futures import wait

            wait(pending)

    # -- calls that wait for a file -----------------------------------------------------------------------------------

    def read_bytes(self, path: str) -> bytes:
        self._wait([path])
        return self.inner.read_bytes(path)

    def open_input(self, path: str) -> "pa.NativeFile":
        return self.open_sized(path, None)

    def open_sized(self, path: str, size: int | None) -> "pa.NativeFile":
        self._wait([path])
        return open_sized(self.inner, path, size)

    def exists(self, path: str) -> bool:
        self._wait([path])
        return self.inner.exists(path)

    def size(self, path: str) -> int:
        self._wait([path])
        return self.inner.size(path)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        self._wait(list(self._pending) if recursive else [path])
        return self.inner.delete(path, recursive=recursive)

    def delete_quietly(self, paths: Iterable[str]) -> None:
        listed = list(paths)
        self._wait(listed)
        self.inner.delete_quietly(listed)


class PendingOutput:
    """Output that a thread closes."""

    def __init__(self, files: PendingFiles, path: str, output: Any) -> None:
        self._files = files
        self._path = path
        self._output = output
        self.closed = False

    def write(self, content: Any) -> Any:
        return self._output.write(content)

    def tell(self) -> int:
        """Return the bytes written so far."""
        return int(self._output.tell())

    def close(self) -> None:
        """Begin to close the output."""
        if not self.closed:
            self.closed = True
            self._files.close_later(self._path, self._output)

    def abort(self) -> None:
        """Close it without creating a file; never raises OSError."""
        if not self.closed:
            self.closed = True
            abort_output(self._output)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if error is None:
            self.close()
        else:
            self.abort()


def is_link(file_io: FileIO, path: str) -> bool:
    """Return whether the path itself is a symbolic link."""
    return file_io.capabilities.links and os.path.islink(path.rstrip("/"))


def link_above(file_io: FileIO, path: str, root: str) -> str | None:
    """Return the first link among the directories between `root` and the path, both excluded; None without one."""
    if not file_io.capabilities.links or not path.startswith(f"{root.rstrip('/')}/"):
        return None
    at = root.rstrip("/")
    for part in path.removeprefix(f"{at}/").split("/")[:-1]:
        at = f"{at}/{part}"
        if os.path.islink(at):
            return at
    return None


BATCH = 1000
"""Most files that one request of S3 deletes; other object stores divide them further."""


@runtime_checkable
class BatchDeletion(Protocol):
    """FileIO that deletes many files by one request."""

    def delete_batch(self, paths: Sequence[str]) -> None:
        """Delete at most BATCH files, which may or may not exist; after an error it is not known which are deleted."""
        ...


_ROOT = re.compile(r"/*|[A-Za-z][A-Za-z0-9+.\-]*:/*[^/]*/*")
"""Root of the local file system, or of a remote one: its bucket, container or host."""


def check_deletable(path: str) -> None:
    """Raise StorageAccessError for a path that is never deleted: a root, a bucket, a relative path, one with `..`."""
    if _ROOT.fullmatch(path) or not (path.startswith("/") or "://" in path):
        raise StorageAccessError(f"{path!r} is not deleted: it is a root, or no whole path. Name what is below it.")
    if ".." in path and ".." in path.split("/"):
        raise StorageAccessError(f"{path!r} is not deleted: it leads to a directory above by '..'. Name it directly.")


def delete_files(file_io: FileIO, paths: Iterable[str]) -> dict[str, OSError]:
    """Delete files that may or may not exist; return the errors, which are logged, by the file that was not deleted."""

    def tried(path: str) -> OSError | None:
        try:
            file_io.delete(path)
        except OSError as error:
            return error
        return None

    given = _one_by_one(file_io, list(paths))
    outcomes = in_parallel(file_io, [partial(tried, path) for path in given])
    left = {path: error for path, error in zip(given, outcomes, strict=True) if error is not None}
    for path, error in left.items():
        _log.warning("Left %s behind: %s", path, error)
    return left


def _one_by_one(file_io: FileIO, paths: list[str]) -> list[str]:
    """Delete files in batches where the FileIO can; return the files that have to be deleted one by one."""
    if not isinstance(file_io, BatchDeletion):
        return paths
    left: list[str] = []
    for first in range(0, len(paths), BATCH):
        some = paths[first : first + BATCH]
        try:
            file_io.delete_batch(some)
        except OSError as error:
            _log.info(
                "%s and %d more are deleted one by one, because deleting them together failed: %s",
                some[0],
                len(some) - 1,
                error,
            )
            left += some
    return left


def delete_together(file_io: FileIO, paths: Sequence[str]) -> None:
    """Delete at most BATCH files like BatchDeletion; one by one where the FileIO can't delete them by one request."""
    if isinstance(file_io, BatchDeletion):
        file_io.delete_batch(paths)
        return
    for path in paths:
        file_io.delete(path)


def delete_one_by_one(delete: Callable[[str], object], paths: Iterable[str]) -> None:
    """Delete files that may or may not exist, one after the other; failures are logged, never raised."""
    for path in paths:
        try:
            delete(path)
        except OSError as error:
            _log.warning("Left %s behind: %s", path, error)


def delete_all_files(file_io: FileIO, paths: Iterable[str]) -> None:
    """Delete files that may or may not exist.

    Raises StorageAccessError, which names the first file that was not deleted and the number of others, at the end.
    """
    left = delete_files(file_io, paths)
    for path, error in left.items():
        more = f" So it is with {len(left) - 1} other files." if len(left) > 1 else ""
        raise StorageAccessError(f"{path} was not deleted: {error}{more}") from error
