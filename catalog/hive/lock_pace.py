"""When a waiting lock is checked again: soon by the one whose turn is next, seldom by those far behind.

Nobody else may go while the first in the queue sleeps, so that a pause that grows with the time waited, as Paimon's
up to 8 s, leaves the lock idle when many wait, and has more of them wait. Here the pause grows with the number of
locks ahead: with n that wait, a metastore gets about 20·ln(n) requests a second.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

FIRST_PAUSE_SECONDS = 0.05
"""The pause of the one that is next, and what each lock ahead adds."""

PAUSE_SECONDS_MAX = 2.0

UNCHECKED_SECONDS_MAX = 5.0
"""A waiting lock is checked after this time at the latest, because a check renews its lease, too."""


@dataclass(slots=True, kw_only=True)
class CheckPace:
    """The pauses of one lock that waits. `server_wait_seconds` is how long the metastore itself waits in check_lock;
    `ahead` is the number of locks ahead where it is known. No pause is longer than `longest_seconds`.
    """

    longest_seconds: float
    server_wait_seconds: float = 0.0
    ahead: int | None = None
    random: Callable[[], float] = field(default=random.random)
    _unknown: int = 0

    def pause_seconds(self, check_seconds: float) -> float:
        """The pause before the next step, after a check that took so long."""
        if self.server_wait_seconds and check_seconds >= self.server_wait_seconds / 2:
            # The metastore has waited, and has the lock's place in the queue in mind.
            return 0.0
        if self.ahead is None:
            pause = FIRST_PAUSE_SECONDS * 2.0 ** min(self._unknown, 10)
            self._unknown += 1
        else:
            pause = FIRST_PAUSE_SECONDS * max(self.ahead, 1)
        # Those that began together must not go on together.
        return min(pause, PAUSE_SECONDS_MAX, self.longest_seconds) * (0.75 + 0.25 * self.random())

    def is_check_due(self, unchecked_seconds: float) -> bool:
        """Whether to check the lock now, rather than to look for its place in the queue."""
        return self.ahead is None or self.ahead <= 1 or unchecked_seconds >= UNCHECKED_SECONDS_MAX
