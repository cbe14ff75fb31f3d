"""Tokens that the server issues itself, for installations without an identity provider and for its own optimizer; how
issued tokens are stored, and the verifications of secrets that a process keeps.

Bearer tokens and delegation tokens (delegation/) are stored and revoked alike: `StoredTokens` is the repository of one
kind in a transaction, `TokenDatabase` the database of both.

A bearer token is `ibt_<id>_<secret>`. The secret has 256 random bits, so a plain hash protects it: no password has to
be made slow to guess. The database stores the hash. A revoked token is refused by all processes within CHECKED_SECONDS,
and on open connections soon after that (thrift/edge/authenticating.py).

The token of the optimizer beside the server is made when the server starts. The processes of the server have it in
memory, and the optimizer gets it on its standard input; it is on no disk and no command line. It is accepted on a port
of its own on loopback, and nothing else is accepted there.
"""

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from interbed.catalog.server.auth.principals import (
    GROUPS_MAX,
    OPTIMIZER,
    AuthenticationError,
    AuthenticationUnavailableError,
    Credentials,
    Mechanism,
    Principal,
    checked_name,
    checked_principal,
)
from interbed.catalog.server.service.errors import InvalidObjectError, MetastoreError, NoSuchObjectError

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


PREFIX = "ibt_"
"""The beginning of issued tokens, which distinguishes them from JWTs and lets scanners for secrets find them."""

CHECKED_SECONDS = 0.5
"""Time for which a process uses its last look at a token in the database."""

_TOKEN = re.compile(r"ibt_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_REFUSED = "The token is not valid"


class TokenTransaction(Protocol):
    """One unit of work on a database with tokens."""

    @property
    def access_tokens(self) -> StoredTokens[str, TokenRecord]: ...


class TokenService:
    """Issues, verifies and revokes tokens. Safe for many threads."""

    def __init__(self, store: TokenDatabase[TokenTransaction], *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def create(
        self,
        principal: str,
        *,
        groups: Sequence[str] = (),
        seconds: float | None = None,
        comment: str | None = None,
        created_by: str | None = None,
    ) -> tuple[str, TokenRecord]:
        """Issue a token for a principal, and return it with its record. The token cannot be shown again.

        `seconds` is its lifetime, None for ever. InvalidObjectError for names that no principal may have.
        """
        try:
            checked_principal(principal, f"The principal {principal!r}")
            for group in groups:
                checked_name(group, f"The group {group!r}")
        except AuthenticationError as error:
            raise InvalidObjectError(str(error)) from error
        if len(groups) > GROUPS_MAX:
            raise InvalidObjectError(f"A token may have {GROUPS_MAX} groups")
        if seconds is not None and seconds < 1:
            raise InvalidObjectError("The lifetime of a token is at least a second")
        now = self._clock()
        token_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        record = TokenRecord(
            token_id=token_id,
            principal=principal,
            groups=tuple(dict.fromkeys(groups)),
            secret_hash=_hash(secret),
            created_at=int(now),
            created_by=created_by,
            expires_at=None if seconds is None else int(now + seconds),
            comment=comment,
        )
        self._store.write(lambda transaction: transaction.access_tokens.add(record))
        return f"{PREFIX}{token_id}_{secret}", record

    def all(self) -> Sequence[TokenRecord]:
        """Return all tokens, the oldest first."""
        return self._store.read(lambda transaction: transaction.access_tokens.all())

    def revoke(self, token_id: str) -> bool:
        """Revoke a token, and return whether it was not revoked before. NoSuchObjectError for an unknown one."""

        def work(transaction: TokenTransaction) -> bool:
            found_token(transaction.access_tokens, token_id, "token")
            return transaction.access_tokens.revoke(token_id, int(self._clock()))

        return self._store.write(work)

    def verify(self, token: str) -> tuple[Principal, float]:
        """Return the principal of a token, and the time until which the answer may be kept. AuthenticationError."""
        parts = _TOKEN.fullmatch(token)
        if parts is None:
            raise AuthenticationError(_REFUSED)
        token_id, secret = parts.groups()
        # Before the look at the database: a revocation right after it counts from its own time.
        now = self._clock()
        try:
            record = self._store.read(lambda transaction: transaction.access_tokens.find(token_id))
        except MetastoreError as error:
            raise AuthenticationUnavailableError("The server cannot look up tokens at present") from error
        # An unknown token takes the same steps as a known one with another secret.
        stored = _NO_HASH if record is None else record.secret_hash
        if not hmac.compare_digest(stored, _hash(secret)) or record is None:
            raise AuthenticationError(_REFUSED)
        problem = record.problem(now)
        if problem is not None:
            raise AuthenticationError(f"The token {token_id} is not accepted: {problem}")
        principal = Principal(
            name=record.principal, mechanism=Mechanism.TOKEN, groups=frozenset(record.groups), token_id=token_id
        )
        until = now + CHECKED_SECONDS
        return principal, until if record.expires_at is None else min(until, record.expires_at)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


_NO_HASH = _hash("")
"""The hash that the secret of an unknown token is compared with."""


class OptimizerIdentity:
    """Authentication by one token. Safe for many threads, and shared by processes that are forked."""

    def __init__(self) -> None:
        self._token = secrets.token_urlsafe(32)

    def __repr__(self) -> str:
        return "OptimizerIdentity()"

    @property
    def user(self) -> str:
        """The name of the principal."""
        return OPTIMIZER

    @property
    def token(self) -> str:
        """The secret of the identity."""
        return self._token

    def known(self, credentials: Credentials) -> Principal | None:
        """Return the principal. AuthenticationError for other credentials."""
        given = (credentials.password or "").encode()
        if credentials.user != OPTIMIZER or not hmac.compare_digest(given, self._token.encode()):
            raise AuthenticationError("This port is for the optimizer beside the server alone")
        return Principal(name=OPTIMIZER, mechanism=Mechanism.OPTIMIZER)

    def authenticate(self, credentials: Credentials) -> Principal:
        """Return the principal. AuthenticationError for other credentials."""
        found = self.known(credentials)
        assert found is not None
        return found
