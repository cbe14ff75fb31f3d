"""Retry policy of commits that lost the race for a snapshot."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from interbed.storage.base.backoff import ExponentialBackoff, RetryLoop
from interbed.storage.base.errors import CommitConflictError
from interbed.storage.commit.contention import ContentionLock
from interbed.storage.meta.options.core import CoreOptions

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Back-off of a table's commits, as its options say it; all times in milliseconds."""

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

    @property
    def backoff(self) -> ExponentialBackoff:
        """The same in seconds.

        The jitter covers three quarters of the pause, so that writers that lost to the same winner do not return
        together and lose again.
        """
        return ExponentialBackoff(
            first_seconds=self.min_wait_millis / 1000,
            longest_seconds=self.max_wait_millis / 1000,
            jitter=(0.25, 1.0),
            retries=self.max_retries,
            timeout_seconds=None if self.timeout_millis is None else self.timeout_millis / 1000,
            clock=self.clock,
            sleep=self.sleep,
            random=self.random,
        )

    def start(self) -> "CommitRetries":
        """Return the retries of one commit, whose time starts now."""
        return CommitRetries(self.backoff)

    def redo(self, work: Callable[[], _T]) -> _T:
        """Do the work, and repeat it after conflicts with other writers.

        Raises the last conflict when no retry is left.
        """
        retries = self.backoff.start("the write", _log)
        while True:
            try:
                return work()
            except CommitConflictError as conflict:
                if not retries.pause(conflict):
                    raise


class CommitRetries(RetryLoop):
    """Retries of one commit, which may wait for a lock before each attempt."""

    def take(self, queue: ContentionLock) -> bool:
        """Wait for a turn, at most for the length of a pause. Return whether the turn was taken.

        The commit may be tried without a turn.
        """
        longest = min(self.backoff.longest_seconds, queue.longest_wait_millis / 1000)
        if self.backoff.timeout_seconds is not None:
            longest = min(longest, self.backoff.timeout_seconds - self.elapsed_seconds)
        return queue.take(longest)
