"""Number of examples that Hypothesis tries. Every run tries the same examples, because a flaky test is a broken test.

`make test` tries 20 % of the number that a test asks for, `make test-long` all of them, including those 20 %.
`HYPOTHESIS_PROFILE=explore` searches for new examples.
"""

import os

from hypothesis import HealthCheck, settings

from tests.support.shares import LONG

EXPLORING = os.environ.get("HYPOTHESIS_PROFILE") == "explore"

PART_OF_EACH_RUN = 2 / 10


def examples(number: int) -> int:
    """Return the number of examples of a run for a test that asks for `number`; at least five."""
    if LONG or EXPLORING:
        return number
    return min(number, max(5, round(number * PART_OF_EACH_RUN)))


# Under coverage, or on a busy machine, examples are made slowly, whatever their strategy.
_SLOW = [HealthCheck.too_slow]
PROFILES = {
    "steady": settings(derandomize=True, deadline=None, max_examples=examples(100), suppress_health_check=_SLOW),
    "explore": settings(deadline=None, print_blob=True, suppress_health_check=_SLOW),
}
