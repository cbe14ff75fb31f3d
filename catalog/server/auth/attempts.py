"""Limits of failed authentications: by user and address, by user, and by address.

A password can be guessed, so further attempts wait after some failures: 1 second, then 2, 4 and so on, up to a limit.
An attempt that does not have to wait starts the next wait before its outcome is known, so that many at once are no way
round it. Issued tokens and JWTs cannot be guessed. Their failures count against their address alone, which then has
one verification at a time, so that it costs the server little.

No client is locked out by others. A secret that was verified within PROVEN_SECONDS is verified again whatever else has
failed, and a user that has logged in from an address waits there for failures of its own alone. The tables are bounded,
and the workers of a server share them (attempt_tables.py). An IPv6 address counts by its first 64 bits, which one
client may choose within.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

from interbed.catalog.server.auth.attempt_tables import (
    AttemptKey,
    AttemptMemory,
    AttemptTable,
    FailureCount,
    OwnMemory,
)
from interbed.catalog.server.auth.principals import AuthenticationUnavailableError

FORGOTTEN_SECONDS = 900.0
"""Time without a failure after which an entry is forgotten."""

PROVEN_SECONDS = 86_400.0
"""Time for which a verified secret is exempt."""

_DOUBLINGS_MAX = 30


class TooManyAttemptsError(AuthenticationUnavailableError):
    """The credentials are not verified now, because too many were wrong before. `retry_seconds` is the wait."""

    def __init__(self, what: str, retry_seconds: float) -> None:
        self.retry_seconds = max(1, math.ceil(retry_seconds))
        super().__init__(f"Too many failed authentications {what}: wait {self.retry_seconds} s")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLimits:
    """Failures after which attempts wait, 0 for no limit, and the longest wait."""

    user_failures_max: int = 10
    """Of one user from one address."""
    address_failures_max: int = 100
    """Of one address, and of one user from all addresses."""
    wait_seconds_max: float = 60.0


class _FailureTable:
    """Failures by key. The caller holds the lock."""

    def __init__(self, entries: AttemptTable, failures_max: int, wait_seconds_max: float) -> None:
        self._entries = entries
        self._failures_max = failures_max
        self._wait_seconds_max = wait_seconds_max

    def __len__(self) -> int:
        return len(self._entries)

    def wait(self, key: tuple[str, ...], now: float) -> float:
        """Return the seconds until an attempt is permitted, 0 for one that is."""
        found = self._present(key, now)
        return 0.0 if found is None else max(0.0, found.until - now)

    def is_exceeded(self, key: tuple[str, ...], now: float) -> bool:
        """Return whether a key has more failures than are free."""
        found = self._present(key, now)
        return found is not None and self._is_limited(found)

    def begin(self, key: tuple[str, ...], now: float) -> None:
        """Start the wait after an attempt, if the key has more failures than are free."""
        found = self._present(key, now)
        if found is not None and self._is_limited(found):
            found.until = now + self._seconds(found)
            self._entries.put(key, found)

    def add(self, key: tuple[str, ...], now: float) -> None:
        """Record a failure of a key."""
        if not self._failures_max:
            return
        found = self._present(key, now) or FailureCount()
        found.count += 1
        found.last_at = now
        if self._is_limited(found):
            found.until = max(found.until, now + self._seconds(found))
        self._entries.put(key, found)

    def forget(self, key: tuple[str, ...]) -> None:
        """Forget the failures of a key."""
        self._entries.forget(key)

    def _present(self, key: tuple[str, ...], now: float) -> FailureCount | None:
        found = self._entries.get(key)
        if found is not None and now - found.last_at >= FORGOTTEN_SECONDS and now >= found.until:
            self._entries.forget(key)
            return None
        return found

    def _is_limited(self, found: FailureCount) -> bool:
        return 0 < self._failures_max <= found.count

    def _seconds(self, found: FailureCount) -> float:
        doublings = min(found.count - self._failures_max, _DOUBLINGS_MAX)
        return min(self._wait_seconds_max, float(2**doublings))


class FailedAttempts:
    """The failed authentications of a server. Safe for many threads; does no I/O.

    `memory` has its tables: those of this process, or those that the workers share.
    """

    def __init__(
        self,
        limits: AttemptLimits | None = None,
        *,
        memory: AttemptMemory | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = limits if limits is not None else AttemptLimits()
        self._clock = clock
        self._memory = memory if memory is not None else OwnMemory()
        pairs, users, addresses, self._proven = self._memory.tables
        self._pairs = _FailureTable(pairs, limits.user_failures_max, limits.wait_seconds_max)
        self._users = _FailureTable(users, limits.address_failures_max, limits.wait_seconds_max)
        self._addresses = _FailureTable(addresses, limits.address_failures_max, limits.wait_seconds_max)

    @property
    def secret(self) -> bytes:
        """The key of the hashes by which secrets are remembered, the same for all that share the memory."""
        return self._memory.secret

    @property
    def size(self) -> int:
        """Number of all entries."""
        return len(self._pairs) + len(self._users) + len(self._addresses) + len(self._proven)

    def begin(self, address: str | None, user: str, secret: bytes) -> None:
        """Begin to verify a password; `secret` is the hash by which it is remembered. TooManyAttemptsError."""
        now = self._clock()
        pair, place, name = _pair(address, user), _place(address), (user,)
        with self._memory.locked():
            if self._is_proven(secret, now):
                return
            tables = [(self._pairs, pair, f"of the user {user!a:.80} from this address")]
            if not self._is_proven(pair, now):
                tables.append((self._users, name, f"of the user {user!a:.80}"))
                if place is not None:
                    tables.append((self._addresses, place, "from this address"))
            for table, key, what in tables:
                wait = table.wait(key, now)
                if wait > 0:
                    raise TooManyAttemptsError(what, wait)
            for table, key, _ in tables:
                table.begin(key, now)

    def failed(self, address: str | None, user: str | None) -> None:
        """Record a failure, that of a token without a user."""
        now, place = self._clock(), _place(address)
        with self._memory.locked():
            if user is not None:
                self._pairs.add(_pair(address, user), now)
                self._users.add((user,), now)
            if place is not None:
                self._addresses.add(place, now)

    def succeeded(self, address: str | None, user: str | None, secret: bytes) -> None:
        """Record a verified secret, which ends the wait of its user at its address."""
        now = self._clock()
        with self._memory.locked():
            self._prove(secret, now)
            if user is not None:
                self._pairs.forget(_pair(address, user))
                self._prove(_pair(address, user), now)

    def is_limited(self, address: str | None, secret: bytes) -> bool:
        """Return whether verifications for an address are made one at a time; not those of a proven secret."""
        now, place = self._clock(), _place(address)
        with self._memory.locked():
            if place is None or not self._addresses.is_exceeded(place, now):
                return False
            return not self._is_proven(secret, now)

    def is_proven(self, secret: bytes) -> bool:
        """Return whether a secret was verified within PROVEN_SECONDS."""
        with self._memory.locked():
            return self._is_proven(secret, self._clock())

    def _is_proven(self, key: AttemptKey, now: float) -> bool:
        found = self._proven.get(key)
        return found is not None and now < found.until

    def _prove(self, key: AttemptKey, now: float) -> None:
        self._proven.put(key, FailureCount(last_at=now, until=now + PROVEN_SECONDS))


def address_of(peer: str) -> str:
    """Return the address of a peer `host:port`, as failures are counted by it."""
    host = peer.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        found = ip_address(host)
    except ValueError:
        return host
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ip_network((found, 64), strict=False))


def _pair(address: str | None, user: str) -> tuple[str, ...]:
    return ("" if address is None else address, user)


def _place(address: str | None) -> tuple[str, ...] | None:
    return None if address is None else (address,)
