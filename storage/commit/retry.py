"""Retry policy of commits that lost the race for a snapshot."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from interbed.storage.base.errors import CommitConflictError
from interbed.storage.commit.contention import ContentionLock
from interbed.storage.meta.options.core import CoreOptions

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Bounded exponential back-off with jitter; all times in milliseconds.

    The jitter covers three quarters of the pause, so that writers that lost to the same winner do not return together
    and lose again.
    """

    max_retries: int
    min_wait_millis: float
    max_wait_millis: float
    timeout_millis: float | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = field(default=random.random)

    @staticmethod
    def of(options: CoreOptions) -> "RetryPolicy":
        """Return the policy of a table's `commit.*` options."""
        return RetryPolicy(
            max_retries=options.commit_max_retries,
            min_wait_millis=options.commit_min_retry_wait_millis,
            max_wait_millis=options.commit_max_retry_wait_millis,
            timeout_millis=options.commit_timeout_millis,
        )

    def start(self) -> "Retries":
        """Return the retries of one commit, whose time starts now."""
        return Retries(self)

    def wait_millis(self, retry: int) -> float:
        """Return the pause before a retry, counted from 0."""
        # Cap the exponent so that a large max_retries can't overflow the float.
        longest = min(self.max_wait_millis, self.min_wait_millis * 2.0 ** min(retry, 60))
        return longest * (0.25 + 0.75 * self.random())

    def redo(self, work: Callable[[], _T]) -> _T:
        """Do the work, and repeat it after conflicts with other writers.

        Raises the last conflict when no retry is left.
        """
        retries = self.start()
        while True:
            try:
                return work()
            except CommitConflictError as conflict:
                if not retries.pause():
                    raise
                _log.info("Retry %d of a write, because of a conflict: %s", retries.count, conflict)


class Retries:
    """Counter of the retries of one commit."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._started = policy.clock()
        self.count = 0

    @property
    def elapsed_millis(self) -> float:
        """Time since the start."""
        return (self._policy.clock() - self._started) * 1000

    def take(self, queue: ContentionLock) -> bool:
        """Wait for a turn, at most for the length of a pause. Return whether the turn was taken.

        The commit may be tried without a turn.
        """
        longest = min(self._policy.max_wait_millis, queue.longest_wait_millis)
        if self._policy.timeout_millis is not None:
            longest = min(longest, self._policy.timeout_millis - self.elapsed_millis)
        return queue.take(longest / 1000)

    def pause(self, *, hurry: bool = False) -> bool:
        """Wait before the next retry. Return False, without waiting, when no retry is left or the time is over.

        `hurry` is for a writer that others wait for: its pauses do not grow.
        """
        if self.count >= self._policy.max_retries:
            return False
        wait = self._policy.wait_millis(0 if hurry else self.count)
        if self._is_over(wait):
            return False
        self.count += 1
        self._policy.sleep(wait / 1000)
        return True

    def _is_over(self, wait_millis: float) -> bool:
        timeout = self._policy.timeout_millis
        return timeout is not None and self.elapsed_millis + wait_millis > timeout
