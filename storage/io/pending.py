"""Files of a store whose last bytes are sent while their writer goes on with the next one."""

import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Self

from interbed.storage.io.ahead.needs import open_sized
from interbed.storage.io.api import FileIO, give_up, write_errors
from interbed.storage.io.wrapped import WrappedFileIO

if TYPE_CHECKING:
    import pyarrow as pa


class PendingFiles(WrappedFileIO):
    """A FileIO whose outputs are closed by threads; threads may share it, and its user ends it by `finish` or `settle`.

    A file is there, whole, once `finish` has returned; whoever reads or deletes it earlier waits for it. At most
    `at_once` of them are being closed: who closes one more waits until there is room.
    """

    def __init__(self, inner: FileIO, at_once: int) -> None:
        super().__init__(inner)
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="interbed-pending")
        self._room = threading.Semaphore(at_once)
        self._lock = threading.Lock()
        self._pending: dict[str, Future[None]] = {}

    def finish(self) -> None:
        """Wait for all files; raises StorageAccessError for the first one that is not there, and names it."""
        self.settle()
        for future in self._pending.values():
            future.result()

    def settle(self) -> None:
        """Wait until nothing is on its way any more, whatever became of it."""
        self._threads.shutdown()

    def open_output(self, path: str) -> "PendingOutput":
        """See FileIO; the file appears some time after it is closed."""
        return PendingOutput(self, path, self.inner.open_output(path))

    def close_later(self, path: str, output: Any) -> None:
        """Have a thread close the output."""
        self._room.acquire()
        with self._lock:
            self._pending[path] = self._threads.submit(self._close, path, output)

    def _close(self, path: str, output: Any) -> None:
        try:
            # Nobody else knows by now which file it was.
            with write_errors(path):
                output.close()
        finally:
            self._room.release()

    def _wait(self, paths: Iterable[str]) -> None:
        with self._lock:
            pending = [self._pending[path] for path in paths if path in self._pending]
        wait(pending)

    # -- whoever asks for such a file waits for it --------------------------------------------------------------------

    def read_bytes(self, path: str) -> bytes:
        """See FileIO."""
        self._wait([path])
        return self.inner.read_bytes(path)

    def open_input(self, path: str) -> "pa.NativeFile":
        """See FileIO."""
        return self.open_sized(path, None)

    def open_sized(self, path: str, size: int | None) -> "pa.NativeFile":
        """See OpensSized."""
        self._wait([path])
        return open_sized(self.inner, path, size)

    def exists(self, path: str) -> bool:
        """See FileIO."""
        self._wait([path])
        return self.inner.exists(path)

    def size(self, path: str) -> int:
        """See FileIO."""
        self._wait([path])
        return self.inner.size(path)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """See FileIO."""
        self._wait(list(self._pending) if recursive else [path])
        return self.inner.delete(path, recursive=recursive)

    def delete_quietly(self, paths: Iterable[str]) -> None:
        """See FileIO."""
        listed = list(paths)
        self._wait(listed)
        self.inner.delete_quietly(listed)


class PendingOutput:
    """An output that a thread closes."""

    def __init__(self, files: PendingFiles, path: str, output: Any) -> None:
        self._files = files
        self._path = path
        self._output = output
        self.closed = False

    def write(self, content: Any) -> Any:
        """See the output."""
        return self._output.write(content)

    def tell(self) -> int:
        """Bytes written so far."""
        return int(self._output.tell())

    def close(self) -> None:
        """Begin to close it."""
        if not self.closed:
            self.closed = True
            self._files.close_later(self._path, self._output)

    def abort(self) -> None:
        """Close it, and let no file appear; never raises OSError."""
        if not self.closed:
            self.closed = True
            give_up(self._output)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if error is None:
            self.close()
        else:
            self.abort()
