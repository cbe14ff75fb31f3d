"""When a waiting lock is checked again: soon by the one whose turn is next, seldom where many wait.

Nobody else may go while the first in the queue sleeps, so that a pause that grows with the time waited, as Paimon's
up to 8 s, leaves the lock idle when many wait, and has more of them wait. Here a pause is a multiple of the time that
the check took: a metastore that is busy, or has to repeat a check because two have met, is asked less. Who has waited
for long also looks now and then how many locks are ahead, and pauses longer for each. It seldom does, because in Hive
such a look meets the rows that all others write, and its metastore repeats it.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.1, 2.0

CHECKS_PAUSED = 10.0
"""A pause in times of the check before it."""

SECONDS_PER_LOCK_AHEAD = 0.05

FIRST_LOOK_SECONDS, LOOK_SECONDS = 3.0, 5.0
"""When a lock that waits looks first for its place in the queue, and the time between two looks."""


@dataclass(slots=True, kw_only=True)
class CheckPace:
    """The pauses of one lock that waits. `server_wait_seconds` is how long the metastore itself waits in check_lock; no
    pause is longer than `longest_seconds`. `ahead` is the number of locks ahead, as far as is known.
    """

    longest_seconds: float
    server_wait_seconds: float = 0.0
    ahead: int = 0
    random: Callable[[], float] = field(default=random.random)

    def pause_seconds(self, check_seconds: float) -> float:
        """The pause after a check that took so long."""
        if self.server_wait_seconds and check_seconds >= self.server_wait_seconds / 2:
            # The metastore has waited, and knows the lock's place in the queue.
            return 0.0
        pause = max(PAUSE_SECONDS_MIN, CHECKS_PAUSED * check_seconds, SECONDS_PER_LOCK_AHEAD * self.ahead)
        # Those that began together must not go on together.
        return min(pause, PAUSE_SECONDS_MAX, self.longest_seconds) * (0.75 + 0.25 * self.random())

    def is_look_due(self, waited_seconds: float, unlooked_seconds: float) -> bool:
        """Whether to look for the place in the queue, so long after the request and after the last look."""
        return not self.server_wait_seconds and (
            waited_seconds >= FIRST_LOOK_SECONDS and unlooked_seconds >= LOOK_SECONDS
        )
