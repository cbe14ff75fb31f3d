"""Tokens that the server has issued, and the verifications of secrets that a process keeps.

Bearer tokens (issued_tokens.py) and delegation tokens (delegation/) are stored and revoked alike: `StoredTokens` is the
repository of one kind in a transaction, `TokenDatabase` the database of both.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from interbed.catalog.server.auth.principals import AuthenticationError, Principal
from interbed.catalog.server.service.errors import NoSuchObjectError

K = TypeVar("K", contravariant=True)
R = TypeVar("R")
T = TypeVar("T")
TransactionT = TypeVar("TransactionT", covariant=True)

KEPT_MAX = 10_000
"""Secrets of which a process keeps the verification, for each mechanism that keeps some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """An issued token as it is stored. `secret_hash` is the SHA-256 of the secret, in hexadecimal digits; the secret
    itself is not stored. Times are in seconds since the epoch; a token without `expires_at` does not expire.
    """

    token_id: str
    principal: str
    groups: Sequence[str]
    secret_hash: str
    created_at: int
    created_by: str | None = None
    expires_at: int | None = None
    revoked_at: int | None = None
    comment: str | None = None

    def problem(self, now: float) -> str | None:
        """Return why the token is not accepted at a time, None if it is."""
        if self.revoked_at is not None:
            return "it was revoked"
        if self.expires_at is not None and now >= self.expires_at:
            return "it has expired"
        return None

    def to_json(self) -> dict[str, object]:
        """Return the record for people and programs, without the hash."""
        return {
            "id": self.token_id,
            "kind": "token",
            "principal": self.principal,
            "groups": list(self.groups),
            "created_at": self.created_at,
            "created_by": self.created_by,
            "expires_at": self.expires_at,
            "revoked_at": self.revoked_at,
            "comment": self.comment,
        }


class StoredTokens(Protocol[K, R]):
    """Issued tokens of one kind by their keys, in a transaction."""

    def add(self, record: R) -> None: ...
    def find(self, key: K, /) -> R | None: ...
    def all(self) -> Sequence[R]:
        """Return all tokens, the oldest first."""
        ...

    def revoke(self, key: K, at: int, /) -> bool:
        """Record that a token was revoked, and return whether it was not revoked before."""
        ...


class TokenDatabase(Protocol[TransactionT]):
    """Database with tokens: the metastore's. A transaction has the tokens of some kinds."""

    def read(self, work: Callable[[TransactionT], T]) -> T: ...
    def write(self, work: Callable[[TransactionT], T]) -> T: ...


def found_token(tokens: StoredTokens[K, R], key: K, kind: str) -> R:
    """Return the token of a key. NoSuchObjectError for an unknown one."""
    found = tokens.find(key)
    if found is None:
        raise NoSuchObjectError(f"There is no {kind} {key}; `interbed metastore token list` shows all")
    return found


KeyT = TypeVar("KeyT")


class KeptVerifications(Generic[KeyT]):
    """The results of verifications, each until a time, by what was verified. Safe for many threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._kept: OrderedDict[KeyT, tuple[Principal | AuthenticationError, float]] = OrderedDict()

    def find(self, key: KeyT) -> tuple[Principal, float] | None:
        """Return the principal and the time until which it may be kept, None if that has passed or there is none.
        AuthenticationError for what was refused.
        """
        with self._guard:
            found = self._kept.get(key)
            if found is None or self._clock() >= found[1]:
                return None
            self._kept.move_to_end(key)
        result, until = found
        if isinstance(result, AuthenticationError):
            # An error is raised once: it gathers tracebacks.
            raise AuthenticationError(str(result))
        return result, until

    def keep(self, key: KeyT, result: Principal | AuthenticationError, until: float) -> None:
        """Keep a result, and forget the least recently used one of more than KEPT_MAX."""
        with self._guard:
            self._kept[key] = (result, until)
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)

    def forget(self, key: KeyT) -> None:
        """Forget a result: the next request is verified."""
        with self._guard:
            self._kept.pop(key, None)
