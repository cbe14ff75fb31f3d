"""When a waiting lock is checked again: at once where the metastore itself waits for it, else after pauses that grow.

Nobody else may go while the first in the queue sleeps. A pause that grows to 8 s, as Paimon's, leaves the lock idle
when many wait, and has more of them wait.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

FIRST_PAUSE_SECONDS = 0.1

PAUSE_SECONDS_MAX = 2.0


@dataclass(slots=True, kw_only=True)
class CheckPace:
    """The pauses of one lock that waits. `server_wait_seconds` is how long the metastore itself waits in check_lock.
    No pause is longer than `longest_seconds`.
    """

    longest_seconds: float
    server_wait_seconds: float = 0.0
    random: Callable[[], float] = field(default=random.random)
    _checks: int = 0

    def pause_seconds(self, check_seconds: float) -> float:
        """The pause before the next check, after one that took `check_seconds`."""
        if self.server_wait_seconds and check_seconds >= self.server_wait_seconds / 2:
            # The metastore has waited, and grants locks in the order of their requests.
            return 0.0
        pause = FIRST_PAUSE_SECONDS * 2.0 ** min(self._checks, 10)
        self._checks += 1
        # Waiting clients that began together must not check together.
        return min(pause, PAUSE_SECONDS_MAX, self.longest_seconds) * (0.75 + 0.25 * self.random())
