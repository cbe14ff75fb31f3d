"""The tables of delegation tokens: those of the server with their master keys, and the token store of HiveServer2.

Times are milliseconds since the epoch.
"""

from sqlalchemy import BigInteger, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from interbed.catalog.server.database.models.metastore import Base


class DelegationKeyRow(Base):
    """A master key, with its secret in hexadecimal digits: the passwords of tokens follow from it."""

    __tablename__ = "delegation_keys"

    key_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    secret: Mapped[str] = mapped_column(String(128))
    created_at: Mapped[int] = mapped_column(BigInteger)
    rolls_at: Mapped[int] = mapped_column(BigInteger)


class DelegationTokenRow(Base):
    """A delegation token of the server, without its password. `groups` is a JSON list."""

    __tablename__ = "delegation_tokens"

    sequence: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    owner: Mapped[str] = mapped_column(String(256))
    renewer: Mapped[str] = mapped_column(String(256))
    real_user: Mapped[str] = mapped_column(String(256))
    issued_at: Mapped[int] = mapped_column(BigInteger)
    max_at: Mapped[int] = mapped_column(BigInteger)
    key_id: Mapped[int] = mapped_column(BigInteger)
    renewed_until: Mapped[int] = mapped_column(BigInteger)
    groups: Mapped[str] = mapped_column(Text)
    revoked_at: Mapped[int | None] = mapped_column(BigInteger)
    revoked_by: Mapped[str | None] = mapped_column(Text)


class StoredTokenRow(Base):
    """A token that HiveServer2 keeps in the metastore. The metastore does not read it."""

    __tablename__ = "stored_tokens"

    identifier: Mapped[str] = mapped_column(String(1000), primary_key=True)
    token: Mapped[str] = mapped_column(Text)


class StoredKeyRow(Base):
    """A master key that HiveServer2 keeps in the metastore. The metastore does not read it."""

    __tablename__ = "stored_keys"

    key_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    content: Mapped[str] = mapped_column(Text)
