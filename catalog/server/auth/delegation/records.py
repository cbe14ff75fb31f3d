"""Delegation tokens and master keys as they are stored, and their repository.

Times are milliseconds since the epoch, as in the identifiers of tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from interbed.catalog.server.auth.delegation.hadoop_token import TokenIdentifier
from interbed.catalog.server.auth.token_records import StoredTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterKey:
    """A key that makes the passwords of tokens. Tokens are issued by it until `rolls_at`."""

    key_id: int
    secret: bytes = field(repr=False)
    created_at: int
    rolls_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationRecord:
    """An issued token. `groups` are those of its owner. It is accepted until `renewed_until`."""

    identifier: TokenIdentifier
    renewed_until: int
    groups: Sequence[str] = ()
    revoked_at: int | None = None
    revoked_by: str | None = None

    @property
    def token_id(self) -> str:
        """The name of the token in lists and logs: its sequence number."""
        return str(self.identifier.sequence)

    def problem(self, now: int) -> str | None:
        """Return why the token is not accepted at a time, None if it is."""
        if self.revoked_at is not None:
            return "it was cancelled"
        if now >= self.identifier.max_at:
            return "its maximum lifetime is over"
        if now >= self.renewed_until:
            return "it has expired: it was not renewed in time"
        return None

    def to_json(self) -> dict[str, object]:
        """Return the record for people and programs, with times in seconds, and names as those of issued tokens."""
        return {
            "id": self.token_id,
            "kind": "delegation-token",
            "principal": self.identifier.owner,
            "groups": list(self.groups),
            "created_at": self.identifier.issued_at // 1000,
            "created_by": self.identifier.real_user or self.identifier.owner,
            "expires_at": self.renewed_until // 1000,
            "max_at": self.identifier.max_at // 1000,
            "renewer": self.identifier.renewer or None,
            "key_id": self.identifier.key_id,
            "revoked_at": None if self.revoked_at is None else self.revoked_at // 1000,
            "revoked_by": self.revoked_by,
        }


class DelegationTokens(StoredTokens[int, DelegationRecord], Protocol):
    """Issued delegation tokens by their sequence numbers, and their master keys, in a transaction."""

    def next_sequence(self) -> int:
        """Return a sequence number that no token has had."""
        ...

    def next_key_id(self) -> int:
        """Return an id that no master key has had."""
        ...

    def key(self, key_id: int) -> MasterKey | None: ...
    def newest_key(self) -> MasterKey | None: ...
    def add_key(self, key: MasterKey) -> None: ...
    def renew(self, sequence: int, until: int) -> bool:
        """Store a later end of a token that is not revoked; return whether there is one."""
        ...

    def revoke(self, key: int, at: int, by: str | None = None, /) -> bool:
        """Record that a token was revoked, and the user that did so; return whether it was not revoked before."""
        ...

    def expire(self, before: int) -> int:
        """Remove the tokens that ended before a time, and the keys that no token needs and that rolled over before it.
        Return the number of tokens.
        """
        ...
