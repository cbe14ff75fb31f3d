"""Sessions of the console: a browser's secret, which counts as the token of its login for as long as that is accepted.

A browser keeps the secret in a cookie. The database has the hash of it, with the id of the token, so that all servers
of a database know the session, and a logout ends it on all of them. The secret has 256 random bits: a plain hash
protects it, as that of a token. It is no token: no other interface accepts it.

A session has the principal and the groups of its token, as stored now. It ends with its token, with the logout, and
after SESSION_SECONDS. All processes look it up again after CHECKED_SECONDS.
"""

import hashlib
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from interbed.catalog.server.auth.issued_tokens import (
    CHECKED_SECONDS,
    KeptVerifications,
    StoredTokens,
    TokenDatabase,
    TokenRecord,
)
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    Mechanism,
    Principal,
)
from interbed.catalog.server.service.errors import MetastoreError

SESSION_SECONDS = 8 * 3600
"""The longest time of a session."""

SESSIONS_MAX = 100
"""Sessions of one token; a further one ends the oldest."""

_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session as it is stored. `secret_hash` is the SHA-256 of the secret, in hexadecimal digits. Times are in
    seconds since the epoch.
    """

    secret_hash: str
    token_id: str
    created_at: int
    expires_at: int


class StoredSessions(Protocol):
    """Sessions by the hashes of their secrets, in a transaction."""

    def add(self, record: SessionRecord) -> None: ...
    def find(self, secret_hash: str) -> SessionRecord | None: ...
    def remove(self, secret_hash: str) -> bool: ...
    def expire(self, now: int, token_id: str, kept: int) -> int:
        """Remove the sessions that have ended, and the oldest ones of a token beyond a number; return how many."""
        ...


class SessionTransaction(Protocol):
    """One unit of work on a database with tokens and sessions."""

    @property
    def access_tokens(self) -> StoredTokens[str, TokenRecord]: ...
    @property
    def console_sessions(self) -> StoredSessions: ...


def new_secret() -> str:
    """Return a random secret of 256 bits."""
    return secrets.token_urlsafe(32)


def is_secret_form(text: str) -> bool:
    """Return whether a text has the form of a secret."""
    return _SECRET.fullmatch(text) is not None


class ConsoleSessions:
    """Begins, verifies and ends sessions. Safe for many threads."""

    def __init__(self, store: TokenDatabase[SessionTransaction], *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._kept: KeptVerifications[str] = KeptVerifications(clock)

    def begin(self, principal: Principal) -> str:
        """Begin a session of the principal of an issued token, and return its secret. AuthenticationError if the token
        is not accepted any more, MetastoreError.
        """
        token_id = principal.token_id
        if principal.mechanism is not Mechanism.TOKEN or token_id is None:
            raise AuthenticationError("A session of the console begins with a token of this server")
        secret, now = new_secret(), self._clock()

        def work(transaction: SessionTransaction) -> None:
            token = _accepted(transaction, token_id, now)
            end = int(now) + SESSION_SECONDS
            record = SessionRecord(
                secret_hash=_hash(secret),
                token_id=token_id,
                created_at=int(now),
                expires_at=end if token.expires_at is None else min(end, token.expires_at),
            )
            transaction.console_sessions.expire(int(now), token_id, SESSIONS_MAX - 1)
            transaction.console_sessions.add(record)

        self._store.write(work)
        return secret

    def known(self, secret: str) -> Principal | None:
        """Return the principal of a session if that needs no I/O, None otherwise. AuthenticationError."""
        found = self._kept.find(_hash(secret))
        return None if found is None else found[0]

    def verify(self, secret: str) -> Principal:
        """Return the principal of a session as of now; may do I/O. AuthenticationError if it has ended."""
        key = _hash(secret)
        found = self._kept.find(key)
        if found is not None:
            return found[0]
        # Before the look at the database: a revocation right after it counts from its own time.
        now = self._clock()

        def work(transaction: SessionTransaction) -> tuple[SessionRecord, TokenRecord] | None:
            session = transaction.console_sessions.find(key)
            if session is None or now >= session.expires_at:
                return None
            return session, _accepted(transaction, session.token_id, now)

        try:
            stored = self._store.read(work)
        except MetastoreError as error:
            raise AuthenticationUnavailableError("The server cannot look up sessions at present") from error
        if stored is None:
            raise AuthenticationError("The session has ended, or is none of this server")
        session, token = stored
        principal = Principal(
            name=token.principal,
            mechanism=Mechanism.TOKEN,
            groups=frozenset(token.groups),
            token_id=token.token_id,
        )
        self._kept.keep(key, principal, min(now + CHECKED_SECONDS, session.expires_at))
        return principal

    def end(self, secret: str) -> bool:
        """End a session, and return whether there was one. MetastoreError."""
        key = _hash(secret)
        ended = self._store.write(lambda transaction: transaction.console_sessions.remove(key))
        self._kept.forget(key)
        return ended


def _accepted(transaction: SessionTransaction, token_id: str, now: float) -> TokenRecord:
    """Return the token of an id. AuthenticationError if it is not accepted any more."""
    token = transaction.access_tokens.find(token_id)
    problem = "it is unknown" if token is None else token.problem(now)
    if token is None or problem is not None:
        raise AuthenticationError(f"The token {token_id} is not accepted: {problem}")
    return token


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
