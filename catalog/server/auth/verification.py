"""Verifications of credentials that need the database or another server: on a few threads, with a short queue.

The clients are unknown until then, so the queue is bounded. An address with too many failures has one place in it
(attempts.py). Secrets that were verified before have places of their own, so that a flood of unknown ones does not end
the connections of authenticated clients.
"""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from interbed.catalog.server.auth.attempts import TooManyAttemptsError
from interbed.catalog.server.auth.authentication import Authentication
from interbed.catalog.server.auth.principals import AuthenticationUnavailableError, Credentials

T = TypeVar("T")

THREADS = 2
WAITING_MAX = 64
"""Verifications that wait or run; a further one is refused."""

PROVEN_MAX = 64
"""Further places for secrets that were verified before."""

RETRY_SECONDS = 1.0


class VerificationQueue:
    """The verifications of one port. Safe for many threads."""

    def __init__(self, authentication: Authentication | None, name: str) -> None:
        self._authentication = authentication
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=name)
        self._guard = threading.Lock()
        self._waiting = 0
        self._of_limited: Counter[str | None] = Counter()

    def submit(self, work: Callable[[], T], credentials: Credentials | None = None) -> "Future[T]":
        """Run a verification on a thread; that of credentials has the limits of their address.

        AuthenticationUnavailableError if there is no place in the queue.
        """
        is_proven, limited = self._limits(credentials)
        with self._guard:
            if self._waiting >= WAITING_MAX + (PROVEN_MAX if is_proven else 0):
                raise AuthenticationUnavailableError("Too many clients wait to be authenticated")
            if limited is not None:
                if self._of_limited[limited]:
                    raise TooManyAttemptsError("from this address", RETRY_SECONDS)
                self._of_limited[limited] += 1
            self._waiting += 1
        try:
            verified = self._threads.submit(work)
        except RuntimeError as error:
            self._ended(limited, None)
            raise AuthenticationUnavailableError("The server stops") from error
        verified.add_done_callback(partial(self._ended, limited))
        return verified

    def close(self) -> None:
        """End the threads; what waits is cancelled."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _limits(self, credentials: Credentials | None) -> tuple[bool, str | None]:
        """Return whether the secret was verified before, and the address whose verifications are made one at a time."""
        if self._authentication is None or credentials is None:
            return False, None
        if self._authentication.is_proven(credentials):
            return True, None
        return False, credentials.address if self._authentication.is_limited(credentials) else None

    def _ended(self, limited: str | None, verified: "Future[Any] | None") -> None:
        with self._guard:
            self._waiting -= 1
            if limited is not None:
                self._of_limited[limited] -= 1
                if not self._of_limited[limited]:
                    del self._of_limited[limited]
