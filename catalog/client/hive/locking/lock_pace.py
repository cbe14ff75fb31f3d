"""The pauses of a client that waits for a lock: none where the metastore itself waits, else by how busy it is.

While the first request in the queue sleeps between two checks, no other one is granted. Pauses that grow to 8 s, as
Paimon's do, leave the lock idle when there are many requests. A request that is withdrawn between two tries blocks no
other one, so that the lock goes to the client that tries first after its release.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

FIRST_PAUSE_SECONDS = 0.1

PAUSE_SECONDS_MAX = 2.0

CHECKS_PAUSED, REQUESTS_PAUSED = 5.0, 2.0
"""The shortest pause, in durations of the check or request before it: a busy metastore is asked less often. Checks that
meet fail, and requests that meet are served one by one.
"""

REQUEST_PAUSE_SECONDS = 0.4
"""The mean pause between two requests: of eight clients, one asks within 50 ms after a release."""


@dataclass(slots=True, kw_only=True)
class CheckPace:
    """The pauses of one request that stays in the queue. No pause is longer than `longest_seconds`.

    `server_wait_seconds` is how long the metastore itself waits in check_lock.
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
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(self._checks, 10), PAUSE_SECONDS_MAX)
        self._checks += 1
        # Clients that began together must not check together.
        return min(max(pause, CHECKS_PAUSED * check_seconds), self.longest_seconds) * (0.75 + 0.25 * self.random())


@dataclass(slots=True, kw_only=True)
class RequestPace:
    """The pauses of a client that withdraws its request and makes another one, up to `longest_seconds`."""

    longest_seconds: float
    random: Callable[[], float] = field(default=random.random)

    def pause_seconds(self, request_seconds: float) -> float:
        """The pause before the next request, after one that took `request_seconds`."""
        pause = max(REQUEST_PAUSE_SECONDS, REQUESTS_PAUSED * request_seconds) * (0.5 + self.random())
        return min(pause, self.longest_seconds)
