"""Budgets of a process for all its clients: limits, and the memory for requests that are served at once."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
"""The longest message by default; Hive's default is 100 MB."""

LIGHT_BYTES_MAX = 16 * 1024
"""Messages up to this length are decoded without a budget: all threads together cannot hold much of them."""

HEAVY_BYTES_MIN = 256 * 1024
"""A client with such a message, or such a reply before, has a heavy request: few of them run at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeLimits:
    """The limits of a process; sizes in bytes. See the settings of the same names."""

    message_seconds: float = 60.0
    message_bytes_max: int = MESSAGE_BYTES_MAX
    partial_bytes_max: int = 256 << 20
    decoded_bytes_max: int = 512 << 20
    reply_bytes_max: int = 128 << 20

    @property
    def request_weight_max(self) -> int:
        """Memory that one request may take when it is decoded."""
        return self.decoded_bytes_max // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeFigures:
    """Resources used by the clients of a process: bytes of partial messages, of decoded requests and of unsent replies;
    requests that wait for a thread; clients dropped and requests refused since the start.
    """

    partial_bytes: int
    decoded_bytes: int
    reply_bytes: int
    waiting: int
    dropped_total: int
    refused_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFigures:
    """Streams that are open, bytes of their batches in memory; rows, bytes and refused streams since the start."""

    open: int
    memory_bytes: int
    rows_total: int
    bytes_total: int
    refused_total: int


class WeightBudget:
    """A weighted semaphore without blocking: a caller passes a function that runs when its weight is free.
    Thread-safe.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._guard = threading.Lock()
        self._taken = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def taken(self) -> int:
        """The weight that is taken now."""
        return self._taken

    def take(self, weight: int, when_free: Callable[[], None]) -> bool:
        """Take a weight and return True; if not enough is left, return False, and call `when_free` once it has been
        taken. A weight is limited to the total, so that every one is granted at some time.
        """
        weight = min(weight, self._total)
        with self._guard:
            if not self._waiting and self._taken + weight <= self._total:
                self._taken += weight
                return True
            self._waiting.append((weight, when_free))
            return False

    def take_at_once(self, weight: int) -> None:
        """Take a weight that is in use already, also beyond the total: others wait until it is released."""
        with self._guard:
            self._taken += min(weight, self._total)

    def release(self, weight: int) -> None:
        """Release a weight that was taken."""
        weight = min(weight, self._total)
        due = []
        with self._guard:
            self._taken -= weight
            while self._waiting and self._taken + self._waiting[0][0] <= self._total:
                next_weight, when_free = self._waiting.popleft()
                self._taken += next_weight
                due.append(when_free)
        for when_free in due:
            when_free()
