"""Issued tokens in SQL."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from interbed.catalog.server.auth.token_records import TokenRecord
from interbed.catalog.server.database.models import AccessTokenRow
from interbed.catalog.server.database.statement import Statement, insert_statement

_ROW = AccessTokenRow
_COLUMNS = (
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
_SELECTED = tuple(getattr(_ROW, name) for name in _COLUMNS)
_INSERT = insert_statement(_ROW, {column: bindparam(column) for column in _COLUMNS}, _ROW.token_id)
_FIND = Statement(select(*_SELECTED).where(_ROW.token_id == bindparam("token_id")))


class SqlAccessTokens:
    """Issued tokens."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, record: TokenRecord) -> None:
        """Store a token."""
        values = {name: getattr(record, name) for name in _COLUMNS}
        added = _INSERT.row(self._connection, {**values, "groups": json.dumps(list(record.groups))})
        assert added is not None, "ids are random"

    def find(self, token_id: str) -> TokenRecord | None:
        """Return a token, None if it is not stored."""
        row = _FIND.row(self._connection, {"token_id": token_id})
        return None if row is None else _record(row)

    def all(self) -> Sequence[TokenRecord]:
        """Return all tokens, the oldest first."""
        found = self._connection.execute(select(*_SELECTED).order_by(_ROW.created_at, _ROW.token_id)).all()
        return [_record(row) for row in found]

    def revoke(self, token_id: str, at: int) -> bool:
        """Record that a token was revoked, and return whether it was valid until then."""
        changed = self._connection.execute(
            update(_ROW).where(_ROW.token_id == token_id, _ROW.revoked_at.is_(None)).values(revoked_at=at)
        )
        return changed.rowcount == 1


def _record(row: Sequence[Any]) -> TokenRecord:
    values = dict(zip(_COLUMNS, row, strict=True))
    return TokenRecord(**{**values, "groups": tuple(json.loads(values["groups"]))})
