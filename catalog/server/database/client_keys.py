"""Keys of clients in SQL: those of requests that may be repeated, issued tokens, sessions of the console, and
delegation tokens with their master keys; and the token store of HiveServer2.

Numbers of delegation tokens and master keys come from sequences: a number that was removed is not given out again.
"""

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import Connection, bindparam, delete, exists, insert, select, update

from interbed.catalog.server.auth.console_sessions import SessionRecord
from interbed.catalog.server.auth.delegation.hadoop_token import TokenIdentifier
from interbed.catalog.server.auth.delegation.tokens import DelegationRecord, MasterKey
from interbed.catalog.server.auth.issued_tokens import TokenRecord
from interbed.catalog.server.database.engine import Statement, insert_statement
from interbed.catalog.server.database.models import (
    AccessTokenRow,
    ConsoleSessionRow,
    DelegationKeyRow,
    DelegationTokenRow,
    IdempotencyKeyRow,
    SequenceRow,
    StoredKeyRow,
    StoredTokenRow,
)
from interbed.catalog.server.service.idempotency import KeyClaim, KeyRecord, KeyTakenError

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


_SESSION = ConsoleSessionRow
_SESSION_COLUMNS = ("secret_hash", "token_id", "created_at", "expires_at")
_FIND_SESSION = Statement(
    select(*(getattr(_SESSION, name) for name in _SESSION_COLUMNS)).where(
        _SESSION.secret_hash == bindparam("secret_hash")
    )
)


class SqlConsoleSessions:
    """Repository of the sessions of the console."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, record: SessionRecord) -> None:
        """Store a new session."""
        values = {name: getattr(record, name) for name in _SESSION_COLUMNS}
        self._connection.execute(insert(_SESSION).values(**values))

    def find(self, secret_hash: str) -> SessionRecord | None:
        """Return a session, None if it is not stored."""
        row = _FIND_SESSION.row(self._connection, {"secret_hash": secret_hash})
        return None if row is None else SessionRecord(**dict(zip(_SESSION_COLUMNS, row, strict=True)))

    def remove(self, secret_hash: str) -> bool:
        """Remove a session, and return whether it was stored."""
        return self._connection.execute(delete(_SESSION).where(_SESSION.secret_hash == secret_hash)).rowcount == 1

    def expire(self, now: int, token_id: str, kept: int) -> int:
        """Remove the sessions that have ended, and the oldest ones of a token beyond a number; return how many."""
        ended = self._connection.execute(delete(_SESSION).where(_SESSION.expires_at <= now)).rowcount
        newest = (
            select(_SESSION.secret_hash)
            .where(_SESSION.token_id == token_id)
            .order_by(_SESSION.created_at.desc(), _SESSION.secret_hash)
        )
        others = list(self._connection.execute(newest).scalars())[kept:]
        if others:
            self._connection.execute(delete(_SESSION).where(_SESSION.secret_hash.in_(others)))
        return ended + len(others)


_TOKEN = DelegationTokenRow
_KEY = DelegationKeyRow
_IDENTIFIER = ("owner", "renewer", "real_user", "issued_at", "max_at", "key_id")
_KEY_COLUMNS = ("key_id", "secret", "created_at", "rolls_at")
_KEY_SELECTED = tuple(getattr(_KEY, name) for name in _KEY_COLUMNS)
_FIND_KEY = Statement(select(*_KEY_SELECTED).where(_KEY.key_id == bindparam("key_id")))
_NEWEST_KEY = Statement(select(*_KEY_SELECTED).order_by(_KEY.key_id.desc()).limit(1))
_NEXT = Statement(
    update(SequenceRow)
    .where(SequenceRow.name == bindparam("sequence_name"))
    .values(value=SequenceRow.value + 1)
    .returning(SequenceRow.value)
)
_ADD_STORED = insert_statement(
    StoredTokenRow,
    {"identifier": bindparam("identifier"), "token": bindparam("token")},
    StoredTokenRow.identifier,
)


class SqlDelegationTokens(SqlTokens[int, DelegationRecord]):
    """Repository of delegation tokens and their master keys."""

    __slots__ = ()

    row = DelegationTokenRow
    columns = ("sequence", *_IDENTIFIER, "renewed_until", "groups", "revoked_at", "revoked_by", "asks_groups")
    order = ("sequence",)

    def next_sequence(self) -> int:
        """Return a sequence number that no token has had."""
        return _next(self._connection, "delegation_token")

    def next_key_id(self) -> int:
        """Return an id that no master key has had."""
        return _next(self._connection, "delegation_key")

    def key(self, key_id: int) -> MasterKey | None:
        """Return a master key, None if it is not stored."""
        return _key(_FIND_KEY.row(self._connection, {"key_id": key_id}))

    def newest_key(self) -> MasterKey | None:
        """Return the newest master key, None if there is none."""
        return _key(_NEWEST_KEY.row(self._connection, {}))

    def add_key(self, key: MasterKey) -> None:
        """Store a new master key."""
        values = {name: getattr(key, name) for name in _KEY_COLUMNS}
        self._connection.execute(insert(_KEY).values({**values, "secret": key.secret.hex()}))

    def renew(self, sequence: int, until: int) -> bool:
        """Store a later end of a token that is not revoked; return whether there is one."""
        return self.change(sequence, renewed_until=until)

    def revoke(self, key: int, at: int, by: str | None = None, /) -> bool:
        """Record that a token was revoked, and the user that did so; return whether it was not revoked before."""
        return self.change(key, revoked_at=at, revoked_by=by)

    def expire(self, before: int) -> int:
        """Remove the tokens that ended before a time, and the keys that no token needs and that rolled over before it.
        Return the number of tokens.
        """
        removed = self._connection.execute(delete(_TOKEN).where(_TOKEN.renewed_until < before)).rowcount
        is_needed = exists().where(_TOKEN.key_id == _KEY.key_id)
        self._connection.execute(delete(_KEY).where(_KEY.rolls_at < before, ~is_needed))
        return removed

    def _record(self, values: dict[str, Any]) -> DelegationRecord:
        return DelegationRecord(
            identifier=TokenIdentifier(**{name: values[name] for name in ("sequence", *_IDENTIFIER)}),
            renewed_until=values["renewed_until"],
            groups=tuple(json.loads(values["groups"])),
            revoked_at=values["revoked_at"],
            revoked_by=values["revoked_by"],
            asks_groups=bool(values["asks_groups"]),
        )

    def _values(self, record: DelegationRecord) -> dict[str, Any]:
        of_identifier = {name: getattr(record.identifier, name) for name in ("sequence", *_IDENTIFIER)}
        further = {name: getattr(record, name) for name in ("renewed_until", "revoked_at", "revoked_by", "asks_groups")}
        return {**of_identifier, **further, "groups": json.dumps(list(record.groups))}


class SqlTokenStore:
    """Repository of the tokens and master keys that HiveServer2 keeps in the metastore."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add_token(self, identifier: str, token: str) -> bool:
        """Store a token; False if its identifier is taken."""
        values = {"identifier": identifier, "token": token}
        return _ADD_STORED.row(self._connection, values) is not None

    def token(self, identifier: str) -> str | None:
        """Return a token, None if it is not stored."""
        chosen = select(StoredTokenRow.token).where(StoredTokenRow.identifier == identifier)
        return self._connection.execute(chosen).scalar_one_or_none()

    def remove_token(self, identifier: str) -> bool:
        """Remove a token, and return whether it was stored."""
        chosen = delete(StoredTokenRow).where(StoredTokenRow.identifier == identifier)
        return self._connection.execute(chosen).rowcount == 1

    def identifiers(self) -> Sequence[str]:
        """Return the identifiers of all tokens, in order."""
        chosen = select(StoredTokenRow.identifier).order_by(StoredTokenRow.identifier)
        return list(self._connection.execute(chosen).scalars())

    def add_key(self, content: str) -> int:
        """Store a new master key, and return its id."""
        key_id = _next(self._connection, "stored_key")
        self._connection.execute(insert(StoredKeyRow).values(key_id=key_id, content=content))
        return key_id

    def replace_key(self, key_id: int, content: str) -> bool:
        """Replace a master key, and return whether it was stored."""
        chosen = update(StoredKeyRow).where(StoredKeyRow.key_id == key_id).values(content=content)
        return self._connection.execute(chosen).rowcount == 1

    def remove_key(self, key_id: int) -> bool:
        """Remove a master key, and return whether it was stored."""
        return self._connection.execute(delete(StoredKeyRow).where(StoredKeyRow.key_id == key_id)).rowcount == 1

    def keys(self) -> Sequence[str]:
        """Return the contents of all master keys, the oldest first."""
        return list(self._connection.execute(select(StoredKeyRow.content).order_by(StoredKeyRow.key_id)).scalars())


def _next(connection: Connection, name: str) -> int:
    row = _NEXT.row(connection, {"sequence_name": name})
    assert row is not None, "the migration has made the sequence"
    return int(row[0])


def _key(row: Sequence[Any] | None) -> MasterKey | None:
    if row is None:
        return None
    values = dict(zip(_KEY_COLUMNS, row, strict=True))
    return MasterKey(**{**values, "secret": bytes.fromhex(values["secret"])})
