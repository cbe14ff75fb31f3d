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
