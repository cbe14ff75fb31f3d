"""A file of HDFS that is written under its hidden name."""

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from hdfs_native import FileWriter

WRITE_BYTES = 1 << 20
"""How much is collected before it is sent: each write goes through Python, Rust and the network once."""


class HdfsSteps(Protocol):
    """What an open file asks of the file system that it is of."""

    def discard(self, staged: str) -> None:
        """Delete a hidden file that is not to get its name."""
        ...

    def finish(self, staged: str, path: str) -> None:
        """Give a file that was written under its hidden name its own, which may be taken."""
        ...

    def write_error(self, path: str, error: Exception) -> OSError:
        """What went wrong while an open file was written."""
        ...


class HdfsOutput(io.RawIOBase):
    """A file that is being written under its hidden name."""

    def __init__(self, home: HdfsSteps, path: str, staged: str, writer: "FileWriter") -> None:
        self._home = home
        self._path = path
        self._staged = staged
        self._writer = writer
        self._position = 0
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, content: Any) -> int:
        if self.closed:
            raise ValueError("write to closed file")
        given = bytes(content)
        self._pending.append(given)
        self._pending_bytes += len(given)
        self._position += len(given)
        if self._pending_bytes >= WRITE_BYTES:
            self._send()
        return len(given)

    def close(self) -> None:
        """Send the rest and give the file its name; after an error there is none."""
        if self.closed:
            return
        super().close()
        try:
            self._send()
            self._step(self._writer.close)
            self._home.finish(self._staged, self._path)
        except BaseException:
            self._home.discard(self._staged)
            raise

    def abort(self) -> None:
        """Close it without a file."""
        if not self.closed:
            super().close()
            self._home.discard(self._staged)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # Whoever lets go of it without closing it did not finish.
        self.abort()

    def _send(self) -> None:
        if self._pending:
            content = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
            self._pending, self._pending_bytes = [], 0
            self._step(lambda: self._writer.write(content))

    def _step(self, step: Callable[[], object]) -> None:
        try:
            step()
        except (OSError, RuntimeError) as error:
            raise self._home.write_error(self._path, error) from error
