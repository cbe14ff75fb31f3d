"""How many examples Hypothesis tries: the same ones in every run, because a test that fails now and then is broken.

`make test` tries three in ten of what a test asks for, `make test-long` all of them, the first three in ten again among
them. `HYPOTHESIS_PROFILE=explore` looks for new ones.
"""

import os

from hypothesis import settings

from tests.support.shares import LONG

EXPLORING = os.environ.get("HYPOTHESIS_PROFILE") == "explore"

PART_OF_EACH_RUN = 3 / 10


def examples(number: int) -> int:
    """How many of so many examples a run tries; at least five."""
    if LONG or EXPLORING:
        return number
    return min(number, max(5, round(number * PART_OF_EACH_RUN)))


PROFILES = {
    "steady": settings(derandomize=True, deadline=None, max_examples=examples(100)),
    "explore": settings(deadline=None, print_blob=True),
}
