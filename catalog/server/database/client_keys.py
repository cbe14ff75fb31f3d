"""Keys of clients in SQL: those of requests that may be repeated, and issued tokens."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, update

from interbed.catalog.server.auth.token_records import TokenRecord
from interbed.catalog.server.database.models import AccessTokenRow, IdempotencyKeyRow
from interbed.catalog.server.database.statement import Statement, insert_statement
from interbed.catalog.server.service.requests.idempotency import KeyClaim, KeyRecord, KeyTakenError

_ROW = IdempotencyKeyRow
_COLUMNS = ("key", "digest", "owner", "claimed_at")
_INSERT = insert_statement(_ROW, {column: bindparam(column) for column in _COLUMNS}, _ROW.key)


class SqlIdempotencyKeys:
    """Repository of the keys of requests."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, key: str) -> KeyRecord | None:
        """Return a key, None if it is not stored."""
        row = self._connection.execute(
            select(_ROW.key, _ROW.digest, _ROW.owner, _ROW.answer).where(_ROW.key == key)
        ).one_or_none()
        return None if row is None else KeyRecord(key=row.key, digest=row.digest, owner=row.owner, answer=row.answer)

    def claim(self, claim: KeyClaim) -> None:
        """Store a key, unless the claim has stored it before. KeyTakenError if another request has it."""
        values = {
            "key": claim.key,
            "digest": claim.digest,
            "owner": claim.owner,
            "claimed_at": claim.claimed_at,
        }
        if _INSERT.row(self._connection, values) is not None:
            return
        known = self.find(claim.key)
        if known is None or known.owner != claim.owner:
            raise KeyTakenError(f"Another request has the idempotency key {claim.key}")

    def finish(self, claim: KeyClaim, answer: bytes) -> None:
        """Store the answer of a claim that has its key."""
        self._connection.execute(
            update(_ROW).where(_ROW.key == claim.key, _ROW.owner == claim.owner).values(answer=answer)
        )

    def expire(self, before: int) -> int:
        """Remove the keys that were claimed before a time, in seconds since the epoch, and return their number."""
        return self._connection.execute(delete(_ROW).where(_ROW.claimed_at < before)).rowcount


_TOKEN = AccessTokenRow
_TOKEN_COLUMNS = (
    "token_id",
    "principal",
    "groups",
    "secret_hash",
    "created_at",
    "created_by",
    "expires_at",
    "revoked_at",
    "comment",
)
_TOKEN_SELECTED = tuple(getattr(_TOKEN, name) for name in _TOKEN_COLUMNS)
_INSERT_TOKEN = insert_statement(_TOKEN, {column: bindparam(column) for column in _TOKEN_COLUMNS}, _TOKEN.token_id)
_FIND_TOKEN = Statement(select(*_TOKEN_SELECTED).where(_TOKEN.token_id == bindparam("token_id")))


class SqlAccessTokens:
    """Repository of the issued tokens."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, record: TokenRecord) -> None:
        """Store a new issued token."""
        values = {name: getattr(record, name) for name in _TOKEN_COLUMNS}
        added = _INSERT_TOKEN.row(self._connection, {**values, "groups": json.dumps(list(record.groups))})
        assert added is not None, "ids are random"

    def find(self, token_id: str) -> TokenRecord | None:
        """Return a token, None if it is not stored."""
        row = _FIND_TOKEN.row(self._connection, {"token_id": token_id})
        return None if row is None else _record(row)

    def all(self) -> Sequence[TokenRecord]:
        """Return all tokens, the oldest first."""
        found = self._connection.execute(select(*_TOKEN_SELECTED).order_by(_TOKEN.created_at, _TOKEN.token_id)).all()
        return [_record(row) for row in found]

    def revoke(self, token_id: str, at: int) -> bool:
        """Record that a token was revoked, and return whether it was valid until then."""
        changed = self._connection.execute(
            update(_TOKEN).where(_TOKEN.token_id == token_id, _TOKEN.revoked_at.is_(None)).values(revoked_at=at)
        )
        return changed.rowcount == 1


def _record(row: Sequence[Any]) -> TokenRecord:
    values = dict(zip(_TOKEN_COLUMNS, row, strict=True))
    return TokenRecord(**{**values, "groups": tuple(json.loads(values["groups"]))})
