"""Upper bounds of waits in tests, scaled by one setting.

A test waits for an event and gives up after a bound. INTERBED_TEST_WAIT_FACTOR multiplies all bounds: on a machine that
is four times slower, 4 keeps the tests from giving up too early. It changes no time that a test measures or sets.
"""

import os
from typing import TypeVar

FACTOR_VARIABLE = "INTERBED_TEST_WAIT_FACTOR"
FACTOR = float(os.environ.get(FACTOR_VARIABLE, "1"))


Seconds = TypeVar("Seconds", int, float)


def at_most(seconds: Seconds) -> Seconds:
    """Return the bound of a wait in seconds, for this machine."""
    return type(seconds)(seconds * FACTOR)
