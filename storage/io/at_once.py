"""Requests to a store that are on the way at the same time, and writes that nobody has to wait for yet.

A request to a store is waiting above all, so that many at once take as long as one. A local file system answers
without delay: there they are made one after the other, by the thread that asks.
"""

import os
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from interbed.storage.io.api import FileIO, write_file

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_T = TypeVar("_T")
_S = TypeVar("_S")

REQUESTS_AT_ONCE = 32
"""Of one process, for small files; a store's client has connections for them."""

_pool: "tuple[int, ThreadPoolExecutor] | None" = None
_guard = Lock()


def asked_at_once(file_io: FileIO, steps: Sequence[Callable[[], _T]]) -> list[_T]:
    """What the steps return, in their order; the first error of them, in that order, after all have come to an end.

    Each step is a few requests to the store, and asks for nothing at once itself.
    """
    if len(steps) < 2 or not file_io.capabilities.slow_requests:
        return [step() for step in steps]
    from concurrent.futures import wait

    futures = [_requests().submit(step) for step in steps]
    wait(futures)
    return [future.result() for future in futures]


def both(file_io: FileIO, first: Callable[[], _T], second: Callable[[], _S]) -> tuple[_T, _S]:
    """What the two return; errors as of `asked_at_once`. The thread that asks does the first, which may ask more."""
    if not file_io.capabilities.slow_requests:
        return first(), second()
    from concurrent.futures import wait

    future = _requests().submit(second)
    try:
        found = first()
    finally:
        wait([future])
    return found, future.result()


def begun(step: Callable[[], _T]) -> "Future[_T]":
    """Have a thread take a step, which is a few requests to a store and asks for nothing at once itself."""
    return _requests().submit(step)


class PendingWrites:
    """New files, written whole; those in a store while their writer goes on. Not for use by several threads."""

    def __init__(self, file_io: FileIO) -> None:
        self._file_io = file_io
        self._futures: list[Future[Any]] = []

    def write(self, path: str, content: bytes) -> None:
        """Write the file, or begin to; raises StorageAccessError where it is written at once."""
        if self._file_io.capabilities.slow_requests:
            self._futures.append(_requests().submit(write_file, self._file_io, path, content))
        else:
            write_file(self._file_io, path, content)

    def finish(self) -> None:
        """Wait until all are there; the error of the first one that could not be written."""
        if not self._futures:
            return
        from concurrent.futures import wait

        futures, self._futures = self._futures, []
        wait(futures)
        for future in futures:
            future.result()

    def settle(self) -> None:
        """Wait until nothing is on its way any more, whatever became of it."""
        if self._futures:
            from concurrent.futures import wait

            wait(self._futures)


def _requests() -> "ThreadPoolExecutor":
    """The threads of this process; those of one that it was forked from have stayed there."""
    from concurrent.futures import ThreadPoolExecutor

    global _pool
    with _guard:
        if _pool is None or _pool[0] != os.getpid():
            _pool = (os.getpid(), ThreadPoolExecutor(REQUESTS_AT_ONCE, thread_name_prefix="interbed-request"))
        return _pool[1]
