"""Exponential back-off: the one way in which interbed waits between two attempts of the same work.

An ExponentialBackoff has the bounds; a RetryLoop counts the retries of one piece of work:

    retries = BACKOFF.start("the commit to t", _log)
    while True:
        try:
            return work()
        except ConflictError as error:
            if not retries.pause(error):
                raise

Every loop ends by a number of retries or by a timeout, or its caller has another end for it. Clock, sleep and random
numbers are arguments, so that tests wait for nothing.
"""

import logging
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

NO_JITTER = (1.0, 1.0)

_EXPONENT_MAX = 60
"""A longer exponent could overflow a float, and reaches every bound."""


def _sleep(seconds: float) -> None:
    time.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialBackoff:
    """Bounds of the pauses between attempts; all times in seconds.

    The pause before retry n, counted from 0, is `first_seconds * growth ** n`, at most `longest_seconds`, times a
    random factor within `jitter`: callers that failed together must not collide again.
    """

    first_seconds: float
    longest_seconds: float = math.inf
    growth: float = 2.0
    jitter: tuple[float, float] = (0.5, 1.0)
    retries: int | None = None
    """Retries after the first attempt; None for as many as fit into the timeout."""
    timeout_seconds: float | None = None
    """Time since the start after which there is no retry; None without such a limit."""
    pause_within_timeout: bool = True
    """Whether a pause has to end before the timeout. Otherwise it only has to begin before."""
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    sleep: Callable[[float], object] = field(default=_sleep, repr=False)
    random: Callable[[], float] = field(default=random.random, repr=False)

    def longest_pause_seconds(self, retry: int) -> float:
        """Return the pause before a retry, counted from 0, without jitter."""
        return min(self.longest_seconds, self.first_seconds * self.growth ** min(retry, _EXPONENT_MAX))

    def pause_seconds(self, retry: int) -> float:
        """Return a random pause before a retry, counted from 0."""
        low, high = self.jitter
        return self.longest_pause_seconds(retry) * (low + (high - low) * self.random())

    def start(
        self, what: str = "", log: logging.Logger | None = None, level: int = logging.INFO, *, count: int = 0
    ) -> "RetryLoop":
        """Return the retries of one piece of work, whose time starts now.

        Each retry is logged with `what`, which names the work, unless the caller logs it and passes no `log`. `count`
        is the number of retries that were made before.
        """
        return RetryLoop(self, what, log, level, count)


class RetryLoop:
    """Counter of the retries of one piece of work; not for use by several threads."""

    def __init__(
        self,
        backoff: ExponentialBackoff,
        what: str = "",
        log: logging.Logger | None = None,
        level: int = logging.INFO,
        count: int = 0,
    ) -> None:
        self.backoff = backoff
        self.count = count
        self._what = what
        self._log = log
        self._level = level
        self._started = backoff.clock()

    @property
    def elapsed_seconds(self) -> float:
        """Time since the start."""
        return self.backoff.clock() - self._started

    @property
    def is_exhausted(self) -> bool:
        """Whether no retry is left, or the timeout is over: a failure of the present attempt is final."""
        backoff = self.backoff
        return (backoff.retries is not None and self.count >= backoff.retries) or (
            backoff.timeout_seconds is not None and self.elapsed_seconds >= backoff.timeout_seconds
        )

    def pause(self, reason: object = None, *, hurry: bool = False) -> bool:
        """Wait before the next retry. Return False, without waiting, when there is none.

        The log names the `reason`. `hurry` is for work that others wait for: its pauses do not grow.
        """
        backoff = self.backoff
        seconds = backoff.pause_seconds(0 if hurry else self.count)
        if self.is_exhausted or self._passes_timeout(seconds):
            return False
        self.count += 1
        if self._log is not None:
            of_all = "" if backoff.retries is None else f" of {backoff.retries}"
            text = "Retry %d%s of %s in %.2f s, because of: %s"
            self._log.log(self._level, text, self.count, of_all, self._what, seconds, reason)
        backoff.sleep(seconds)
        return True

    def reset(self) -> None:
        """Count from 0 again, after progress. The time goes on."""
        self.count = 0

    def _passes_timeout(self, seconds: float) -> bool:
        timeout = self.backoff.timeout_seconds
        return timeout is not None and self.backoff.pause_within_timeout and self.elapsed_seconds + seconds > timeout


def doubled(first: int, retry: int, most: int) -> int:
    """Return the pause before a retry, counted from 0, of work that is scheduled by whole milliseconds."""
    return min(first << min(retry, _EXPONENT_MAX), most)
