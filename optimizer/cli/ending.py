"""How a process of the optimizer is told to end: by signals, or by the end of its standard input."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def told_to_end(stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT call `stop` while the block runs; a second one ends the process as it would without."""
    before: dict[int, Any] = {}

    def note(_: int, __: object) -> None:
        for each, handler in before.items():
            signal.signal(each, handler)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.signal(number, note)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def stop_with_stdin(stop: Callable[[], None]) -> None:
    """Call `stop` when standard input ends: whoever started this process is gone."""

    def wait() -> None:
        # Not by way of sys.stdin, whose lock the end of the interpreter would wait for.
        while os.read(0, 4096):
            pass
        stop()

    threading.Thread(target=wait, name="optimizer-stdin", daemon=True).start()
