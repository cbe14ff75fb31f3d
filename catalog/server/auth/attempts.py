"""Limits of failed authentications: by user and address, by user, and by address.

A password can be guessed, so further attempts wait after some failures: 1 second, then 2, 4 and so on, up to a limit.
An attempt that does not have to wait starts the next wait before its outcome is known, so that many at once are no way
round it. Issued tokens and JWTs cannot be guessed. Their failures count against their address alone, which then has one
verification at a time, so that it costs the server little.

No client is locked out by others. A secret that was verified within PROVEN_SECONDS is verified again whatever else has
failed, and a user that has logged in from an address waits there for failures of its own alone. An IPv6 address counts
by its first 64 bits, which one client may choose within.

The tables of failures are bounded. They are in the memory of one process, or in memory that the workers of a server
share. Shared memory has 4 tables of ENTRIES_MAX slots of 40 bytes, 1.6 MB in all. A slot has a keyed hash of its key
(16 bytes), a count, the time of the last failure and the end of the wait. Times are those of the system's monotonic
clock. A key has a set of 8 slots, of which the one that was used longest ago is replaced. The hash decides about the
set, and no client knows its key, so that a client cannot choose which entry it replaces. The memory has no name of a
user and no secret.
"""

import fcntl
import hashlib
import logging
import math
import mmap
import os
import secrets
import struct
import tempfile
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Protocol

from interbed.catalog.server.auth.principals import AuthenticationUnavailableError
from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff

logger = logging.getLogger(__name__)

ENTRIES_MAX = 10_000
"""Entries of each table; the ones that were used longest ago are forgotten first."""

TABLES = 4

LOCK_SECONDS_MAX = 0.1
"""Time that a process waits for the others. Then it continues without the lock: another process has been stopped, and a
count may get lost.
"""

AttemptKey = bytes | tuple[str, ...]
"""The hash of a secret; or an address, a user, or both."""

_SLOT = struct.Struct("=16sIxxxxdd")
_WAYS = 8
_SETS = ENTRIES_MAX // _WAYS
_FREE = bytes(16)
_BACKOFF = ExponentialBackoff(
    first_seconds=0.0002, growth=1.0, jitter=NO_JITTER, timeout_seconds=LOCK_SECONDS_MAX, pause_within_timeout=False
)


@dataclass(slots=True)
class FailureCount:
    """The failures of one key: their number, the time of the last one, and the end of the wait."""

    count: int = 0
    last_at: float = 0.0
    until: float = 0.0


class AttemptTable(Protocol):
    """Entries by key. The caller holds the lock, and puts an entry again that it has changed."""

    def __len__(self) -> int: ...

    def get(self, key: AttemptKey) -> FailureCount | None:
        """Return the entry of a key."""
        ...

    def put(self, key: AttemptKey, entry: FailureCount) -> None:
        """Keep an entry as the one that was used last; another one is forgotten if the table is full."""
        ...

    def forget(self, key: AttemptKey) -> None:
        """Forget the entry of a key."""
        ...


class AttemptMemory(Protocol):
    """The tables of a server, their lock, and the key of the hashes of secrets in them."""

    @property
    def secret(self) -> bytes:
        """The key of the hashes by which secrets are remembered."""
        ...

    @property
    def tables(self) -> tuple[AttemptTable, ...]:
        """The tables; TABLES of them."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Return the context in which the tables are used."""
        ...


class _OwnTable:
    """Entries in the memory of this process."""

    def __init__(self) -> None:
        self._entries: OrderedDict[AttemptKey, FailureCount] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: AttemptKey) -> FailureCount | None:
        return self._entries.get(key)

    def put(self, key: AttemptKey, entry: FailureCount) -> None:
        self._entries[key] = entry
        self._entries.move_to_end(key)
        if len(self._entries) > ENTRIES_MAX:
            self._entries.popitem(last=False)

    def forget(self, key: AttemptKey) -> None:
        self._entries.pop(key, None)


@dataclass(frozen=True, slots=True)
class OwnMemory:
    """Tables in the memory of this process. Safe for many threads."""

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    tables: tuple[AttemptTable, ...] = field(default_factory=lambda: tuple(_OwnTable() for _ in range(TABLES)))
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude the other threads."""
        with self._guard:
            yield


class _SharedTable:
    """Entries in shared memory, from an offset on."""

    def __init__(self, memory: mmap.mmap, offset: int, secret: bytes) -> None:
        self._memory = memory
        self._offset = offset
        self._secret = secret

    def __len__(self) -> int:
        return sum(self._slot(self._offset + number * _SLOT.size)[0] != _FREE for number in range(ENTRIES_MAX))

    def get(self, key: AttemptKey) -> FailureCount | None:
        digest, places = self._places(key)
        for place in places:
            found, count, last_at, until = self._slot(place)
            if found == digest:
                return FailureCount(count, last_at, until)
        return None

    def put(self, key: AttemptKey, entry: FailureCount) -> None:
        digest, places = self._places(key)
        slots = [(self._slot(place), place) for place in places]
        own = [place for slot, place in slots if slot[0] == digest]
        # A free slot has the time 0.
        place = own[0] if own else min(slots, key=lambda slot: slot[0][2])[1]
        count = min(entry.count, 0xFFFFFFFF)
        self._memory[place : place + _SLOT.size] = _SLOT.pack(digest, count, entry.last_at, entry.until)

    def forget(self, key: AttemptKey) -> None:
        digest, places = self._places(key)
        for place in places:
            if self._slot(place)[0] == digest:
                self._memory[place : place + _SLOT.size] = bytes(_SLOT.size)

    def _slot(self, place: int) -> tuple[bytes, int, float, float]:
        digest, count, last_at, until = _SLOT.unpack_from(self._memory, place)
        return digest, count, last_at, until

    def _places(self, key: AttemptKey) -> tuple[bytes, range]:
        """Return the hash of a key, and the offsets of the slots that may have it."""
        data = repr(key).encode("utf-8", "surrogateescape")
        digest = hashlib.blake2b(data, key=self._secret, digest_size=16).digest()
        first = self._offset + int.from_bytes(digest[:8]) % _SETS * _WAYS * _SLOT.size
        return digest, range(first, first + _WAYS * _SLOT.size, _SLOT.size)


class SharedMemory:
    """Tables that this process shares with those that it forks later. Safe for many threads and processes."""

    def __init__(self) -> None:
        self.secret = secrets.token_bytes(32)
        size = ENTRIES_MAX * _SLOT.size
        self._memory = mmap.mmap(-1, TABLES * size)
        self.tables: tuple[AttemptTable, ...] = tuple(
            _SharedTable(self._memory, number * size, self.secret) for number in range(TABLES)
        )
        # A lock of the file is one of its process, and ends with it.
        self._file, name = tempfile.mkstemp(prefix="interbed-attempts-")
        os.unlink(name)
        weakref.finalize(self, os.close, self._file)
        self._guard = threading.Lock()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude the other threads, and the other processes for as long as each of them works."""
        with self._guard:
            is_held = self._lock()
            try:
                yield
            finally:
                if is_held:
                    fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _lock(self) -> bool:
        retries = _BACKOFF.start()
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if not retries.pause():
                    logger.warning("another process holds the lock of failed authentications; one may not be counted")
                    return False
            else:
                return True


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
