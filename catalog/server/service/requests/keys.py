"""Idempotency keys: values, and their repository."""

import uuid
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

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
