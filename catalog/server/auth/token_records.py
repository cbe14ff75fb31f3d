"""Tokens that the server has issued: values, and their repository."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


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


class AccessTokens(Protocol):
    """Issued tokens, in a transaction."""

    def add(self, record: TokenRecord) -> None: ...
    def find(self, token_id: str) -> TokenRecord | None: ...
    def all(self) -> Sequence[TokenRecord]:
        """Return all tokens, the oldest first."""
        ...

    def revoke(self, token_id: str, at: int) -> bool:
        """Record that a token was revoked, and return whether it was valid until then."""
        ...
