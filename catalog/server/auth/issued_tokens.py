"""Tokens that the server issues itself, for installations without an identity provider.

A token is `ibt_<id>_<secret>`. The secret has 256 random bits, so a plain hash protects it: no password has to be made
slow to guess. The database stores the hash. A revoked token is refused by all processes within CHECKED_SECONDS, and on
open connections soon after that (thrift/edge/authenticating.py).
"""

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from interbed.catalog.server.auth.principals import (
    GROUPS_MAX,
    AuthenticationError,
    AuthenticationUnavailableError,
    Mechanism,
    Principal,
    checked_name,
    checked_principal,
)
from interbed.catalog.server.auth.token_records import StoredTokens, TokenDatabase, TokenRecord, found_token
from interbed.catalog.server.service.errors import InvalidObjectError, MetastoreError

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
