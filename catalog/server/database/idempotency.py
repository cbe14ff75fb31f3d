"""Idempotency keys in SQL."""

from sqlalchemy import Connection, bindparam, delete, select, update

from interbed.catalog.server.database.models import IdempotencyKeyRow
from interbed.catalog.server.database.statement import insert_statement
from interbed.catalog.server.service.requests.keys import KeyClaim, KeyRecord, KeyTakenError

_ROW = IdempotencyKeyRow
_COLUMNS = ("key", "digest", "owner", "claimed_at")
_INSERT = insert_statement(_ROW, {column: bindparam(column) for column in _COLUMNS}, _ROW.key)


class SqlIdempotencyKeys:
    """Keys of requests."""

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
