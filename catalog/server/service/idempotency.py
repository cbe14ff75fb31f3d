"""Idempotency keys: a request that a client repeats under one key is carried out once, and answered as the first time.

The key is stored in the transaction of the change, by whatever process carries it out. So after a kill both are there,
or neither is. Of two requests with one key at once, the second transaction finds the key and changes nothing. The
answer is added to the key afterwards; a request without a change stores both together. The reaper removes old keys.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from interbed.catalog.server.service.errors import MetastoreError


class KeyTakenError(MetastoreError):
    """Another request has this key: nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyClaim:
    """The claim of a request to its key. `digest` is that of its content; `owner` distinguishes it from other requests
    with the key. The time is in seconds since the epoch.
    """

    key: str
    digest: str
    claimed_at: int
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """A stored key. `answer` is None if the change was made, and its answer was not stored."""

    key: str
    digest: str
    owner: str
    answer: bytes | None


class IdempotencyKeys(Protocol):
    """Keys of requests, in a transaction."""

    def find(self, key: str) -> KeyRecord | None: ...
    def claim(self, claim: KeyClaim) -> None:
        """Store a key, unless the claim has stored it before. KeyTakenError if another request has it."""
        ...

    def finish(self, claim: KeyClaim, answer: bytes) -> None:
        """Store the answer of a claim that has its key."""
        ...

    def expire(self, before: int) -> int:
        """Remove the keys that were claimed before a time, in seconds since the epoch, and return their number."""
        ...


current_claim: ContextVar[KeyClaim | None] = ContextVar("current_claim", default=None)
"""The claim of the request that is carried out: the transaction that stores its events stores the key."""


T = TypeVar("T")

LIFETIME_SECONDS = 1800
"""The time for which clients may repeat a request."""

KEPT_SECONDS = 2 * LIFETIME_SECONDS
"""The time for which keys are stored; a request that is late by the clock of its client is still known."""


class KeyTransaction(Protocol):
    """One unit of work on a database with keys."""

    @property
    def idempotency(self) -> IdempotencyKeys: ...


class KeyRepository(Protocol):
    """Database with keys: the metastore's."""

    def read(self, work: Callable[[KeyTransaction], T]) -> T: ...
    def write(self, work: Callable[[KeyTransaction], T]) -> T: ...


class IdempotencyService:
    """The keys of requests. Safe for many threads."""

    def __init__(self, store: KeyRepository, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def find(self, key: str) -> KeyRecord | None:
        """Return the stored key, None if there is none."""
        return self._store.read(lambda transaction: transaction.idempotency.find(key))

    @contextmanager
    def claiming(self, key: str, digest: str) -> Iterator[KeyClaim]:
        """Have the changes within the block store the key. They raise KeyTakenError if another request has it."""
        claim = KeyClaim(key=key, digest=digest, claimed_at=int(self._clock()))
        token = current_claim.set(claim)
        try:
            yield claim
        finally:
            current_claim.reset(token)

    def finish(self, claim: KeyClaim, answer: bytes) -> None:
        """Store the answer, and the key if no change has stored it. KeyTakenError if another request has it."""

        def work(transaction: KeyTransaction) -> None:
            transaction.idempotency.claim(claim)
            transaction.idempotency.finish(claim, answer)

        self._store.write(work)

    def expire(self) -> int:
        """Remove old keys, and return their number."""
        before = int(self._clock()) - KEPT_SECONDS
        return self._store.write(lambda transaction: transaction.idempotency.expire(before))
