"""Tables of failed authentications: in the memory of one process, or in memory that the workers of a server share.

Shared memory has 4 tables of ENTRIES_MAX slots of 40 bytes, 1.6 MB in all. A slot has a keyed hash of its key (16
bytes), a count, the time of the last failure and the end of the wait. Times are those of the system's monotonic clock.
A key has a set of 8 slots, of which the one that was used longest ago is replaced. The hash decides about the set, and
no client knows its key, so that a client cannot choose which entry it replaces. The memory has no name of a user and no
secret.
"""

import fcntl
import hashlib
import logging
import mmap
import os
import secrets
import struct
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

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
