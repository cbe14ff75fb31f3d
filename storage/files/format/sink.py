"""A file object for encoders that would close what they write to: the caller closes it."""

from typing import Any


class OpenSink:
    """Passes bytes on to a file object and leaves it open."""

    closed = False

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def write(self, data: Any) -> int:
        """Write bytes; how many there were."""
        self._sink.write(data)
        return len(data)

    def tell(self) -> int:
        """Bytes written so far."""
        return int(self._sink.tell())

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        """The sink is closed by the one who opened it."""


class QuietSink(OpenSink):
    """A sink that never raises: it keeps its first error, and drops what comes after it.

    For encoders that write once more when they are destroyed, and end the process if that fails.
    """

    def __init__(self, sink: Any) -> None:
        super().__init__(sink)
        self._written = 0
        self._error: BaseException | None = None

    def write(self, data: Any) -> int:
        """Write bytes, or drop them; how many there were."""
        if self._error is None:
            try:
                super().write(data)
            except BaseException as error:  # noqa: BLE001 - what went through the encoder would end the process
                # check() raises it.
                self._error = error
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        """Bytes written so far."""
        return self._written

    def check(self) -> None:
        """Raise the error that was kept."""
        if self._error is not None:
            raise self._error
