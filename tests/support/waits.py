"""Waits of tests: their upper bounds, scaled by one setting, and polling for states that signal no event.

A test waits for an event and gives up after a bound. INTERBED_TEST_WAIT_FACTOR multiplies all bounds: on a machine that
is four times slower, 4 keeps the tests from giving up too early. It changes no time that a test measures or sets.
"""

import os
import time
from collections.abc import Callable
from typing import TypeVar

FACTOR_VARIABLE = "INTERBED_TEST_WAIT_FACTOR"
FACTOR = float(os.environ.get(FACTOR_VARIABLE, "1"))

POLL_SECONDS = 0.01

Seconds = TypeVar("Seconds", int, float)


def at_most(seconds: Seconds) -> Seconds:
    """Return the bound of a wait in seconds, for this machine."""
    return type(seconds)(seconds * FACTOR)


def past_millisecond() -> int:
    """Return the time in milliseconds once that millisecond is over: what happens later has a later time."""
    begun = int(time.time() * 1000)
    while int(time.time() * 1000) <= begun:
        pass
    return begun


def wait_until(
    condition: Callable[[], bool],
    what: str | Callable[[], object] = "the condition holds",
    seconds: float | None = None,
) -> None:
    """Poll until the condition holds. Raises AssertionError with `what` after `seconds`, by default `at_most(60.0)`.

    It is for states that signal no event: of another process, of a file, of a server behind its protocol. `what` names
    the state, or returns it with what was found instead.
    """
    bound = at_most(60.0) if seconds is None else seconds
    deadline = time.monotonic() + bound
    while not condition():
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {bound:.0f} s: {what() if callable(what) else what}")
        time.sleep(POLL_SECONDS)
