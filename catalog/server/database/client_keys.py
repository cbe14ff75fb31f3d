"""Keys of clients in SQL: those of requests that may be repeated, and issued tokens."""

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from interbed.catalog.server.auth.token_records import TokenRecord
from interbed.catalog.server.database.models import AccessTokenRow, IdempotencyKeyRow
from interbed.catalog.server.database.statement import Statement, insert_statement
from interbed.catalog.server.service.requests.idempotency import KeyClaim, KeyRecord, KeyTakenError

K = TypeVar("K")
R = TypeVar("R")

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


class SqlTokens(Generic[K, R]):
    """Repository of issued tokens of one kind. A subclass has their table, its columns, of which the first is the key,
    and the order in which they were issued.
    """

    __slots__ = ("_connection",)

    row: ClassVar[Any]
    columns: ClassVar[Sequence[str]]
    order: ClassVar[Sequence[str]]
    found: ClassVar[Statement]

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __init_subclass__(cls) -> None:
        """Build the statement that is executed at each verification."""
        key = cls.columns[0]
        chosen = select(*cls._selected()).where(getattr(cls.row, key) == bindparam(key))
        cls.found = Statement(chosen)

    def add(self, record: R) -> None:
        """Store a new token."""
        self._connection.execute(insert(self.row).values(**self._values(record)))

    def find(self, key: K, /) -> R | None:
        """Return a token, None if it is not stored."""
        row = self.found.row(self._connection, {self.columns[0]: key})
        return None if row is None else self._record(dict(zip(self.columns, row, strict=True)))

    def all(self) -> Sequence[R]:
        """Return all tokens, the oldest first."""
        order = [getattr(self.row, name) for name in self.order]
        rows = self._connection.execute(select(*self._selected()).order_by(*order)).all()
        return [self._record(dict(zip(self.columns, row, strict=True))) for row in rows]

    def change(self, key: K, **values: object) -> bool:
        """Store values of a token that is not revoked, and return whether there is one."""
        row = self.row
        is_valid = (getattr(row, self.columns[0]) == key, row.revoked_at.is_(None))
        return self._connection.execute(update(row).where(*is_valid).values(**values)).rowcount == 1

    @classmethod
    def _selected(cls) -> list[Any]:
        return [getattr(cls.row, name) for name in cls.columns]

    def _record(self, values: dict[str, Any]) -> R:
        raise NotImplementedError

    def _values(self, record: R) -> dict[str, Any]:
        raise NotImplementedError


class SqlAccessTokens(SqlTokens[str, TokenRecord]):
    """Repository of the bearer tokens."""

    __slots__ = ()

    row = AccessTokenRow
    columns = (
        *("token_id", "principal", "groups", "secret_hash", "created_at", "created_by", "expires_at", "revoked_at"),
        "comment",
    )
    order = ("created_at", "token_id")

    def revoke(self, key: str, at: int, /) -> bool:
        """Record that a token was revoked, and return whether it was not revoked before."""
        return self.change(key, revoked_at=at)

    def _record(self, values: dict[str, Any]) -> TokenRecord:
        return TokenRecord(**{**values, "groups": tuple(json.loads(values["groups"]))})

    def _values(self, record: TokenRecord) -> dict[str, Any]:
        values = {name: getattr(record, name) for name in self.columns}
        return {**values, "groups": json.dumps(list(record.groups))}
