"""Idempotency keys: a request that a client repeats under one key is carried out once, and answered as the first time.

The key is stored in the transaction of the change, by whatever process carries it out. So after a kill both are there,
or neither is. Of two requests with one key at once, the second transaction finds the key and changes nothing. The
answer is added to the key afterwards; a request without a change stores both together. The reaper removes old keys.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from interbed.catalog.server.service.requests.keys import IdempotencyKeys, KeyClaim, KeyRecord, current_claim

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
