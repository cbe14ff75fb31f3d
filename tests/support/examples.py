"""Number of examples that Hypothesis tries. Every run tries the same examples, because a flaky test is a broken test.

`make test` tries 20 % of the number that a test asks for, `make test-long` all of them, including those 20 %.
`HYPOTHESIS_PROFILE=explore` searches for new examples.

Hypothesis also tries the literals of the modules that are imported. Those depend on the tests that the process has
collected, and on each change of a literal. Only `explore` takes them.
"""

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.support.shares import LONG

EXPLORING = os.environ.get("HYPOTHESIS_PROFILE") == "explore"

PART_OF_EACH_RUN = 2 / 10


def examples(number: int) -> int:
    """Return the number of examples of a run for a test that asks for `number`; at least five."""
    if LONG or EXPLORING:
        return number
    return min(number, max(5, round(number * PART_OF_EACH_RUN)))


NO_CONSTANTS = providers._local_constants
"""Literals of no module: what Hypothesis begins with."""

# Under coverage, or on a busy machine, examples are made slowly, whatever their strategy.
_SLOW = [HealthCheck.too_slow]
PROFILES = {
    "steady": settings(derandomize=True, deadline=None, max_examples=examples(100), suppress_health_check=_SLOW),
    "explore": settings(deadline=None, print_blob=True, suppress_health_check=_SLOW),
}


def keep_examples_steady() -> None:
    """Keep the literals of imported modules out of the examples; Hypothesis has no setting for that."""
    assert callable(providers._get_local_constants), "Hypothesis collects the literals in another place"
    providers._get_local_constants = lambda: NO_CONSTANTS
