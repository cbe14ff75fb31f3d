"""Room for work that is done at the same time: for a few pieces of any size, or for more that are small together."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class NoRoomError(Exception):
    """The room was closed before the work had begun."""


class Room:
    """Room for `count` pieces of work whatever they weigh, and for more while all of them weigh at most `weight`."""

    def __init__(self, count: int, weight: int) -> None:
        self._count = count
        self._weight = weight
        self._pieces = 0
        self._weighs = 0
        self._is_closed = False
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, weight: int) -> Iterator[None]:
        """Wait for room for work of that weight, which is done in the `with` block; raises NoRoomError once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._has_room(weight))
            if self._is_closed:
                raise NoRoomError("The work before it has failed.")
            self._pieces += 1
            self._weighs += weight
        try:
            yield
        finally:
            with self._changed:
                self._pieces -= 1
                self._weighs -= weight
                self._changed.notify_all()

    def close(self) -> None:
        """Let nothing more begin; what has begun goes on."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _has_room(self, weight: int) -> bool:
        return self._pieces < self._count or self._weighs + weight <= self._weight
