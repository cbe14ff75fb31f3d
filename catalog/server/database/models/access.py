"""The tables of access to the metastore: issued tokens, sessions of the console, roles, their members, grants, policies
of tables, delegation tokens with their master keys, and the token store of HiveServer2.

Grantees are texts, `user:ann`, as in the columns of owners. Grants refer to the rows of their objects, so that a rename
keeps them and a removal removes them. Times are seconds since the epoch, those of delegation
tokens and of the token store milliseconds.
"""

from sqlalchemy import BigInteger, Boolean, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from interbed.catalog.server.database.models.metastore import Base, RowId


class AccessTokenRow(Base):
    """A token that the server has issued: the hash of its secret, and the principal."""

    __tablename__ = "access_tokens"

    token_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    principal: Mapped[str] = mapped_column(String(256))
    groups: Mapped[str] = mapped_column(Text)
    secret_hash: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[int] = mapped_column(BigInteger)
    created_by: Mapped[str | None] = mapped_column(Text)
    expires_at: Mapped[int | None] = mapped_column(BigInteger)
    revoked_at: Mapped[int | None] = mapped_column(BigInteger)
    comment: Mapped[str | None] = mapped_column(Text)


class ConsoleSessionRow(Base):
    """A session of the console: the hash of its secret, and the token of its login."""

    __tablename__ = "console_sessions"
    __table_args__ = (
        Index("ix_console_sessions_token_id", "token_id", "created_at"),
        Index("ix_console_sessions_expires_at", "expires_at"),
    )

    secret_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    token_id: Mapped[str] = mapped_column(String(16))
    created_at: Mapped[int] = mapped_column(BigInteger)
    expires_at: Mapped[int] = mapped_column(BigInteger)


class AccessRoleRow(Base):
    """A role. The roles `admin` and `public` are built in."""

    __tablename__ = "access_roles"

    name: Mapped[str] = mapped_column(String(256), primary_key=True)
    created_by: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[int] = mapped_column(BigInteger)


class AccessMemberRow(Base):
    """A member of a role: a user, a group or another role."""

    __tablename__ = "access_members"
    __table_args__ = (Index("ix_access_members_member", "member"),)

    role: Mapped[str] = mapped_column(ForeignKey("access_roles.name", ondelete="CASCADE"), primary_key=True)
    member: Mapped[str] = mapped_column(String(300), primary_key=True)
    admin_option: Mapped[bool] = mapped_column(Boolean)
    grantor: Mapped[str | None] = mapped_column(Text)
    granted_at: Mapped[int] = mapped_column(BigInteger)


class AccessGrantRow(Base):
    """A privilege on an object for a grantee. The object is that of the one column of four that is set, none for the
    whole server; with `column_name` it is a column of the table. `through` is the grantee by whose rights the grantor
    gave it.
    """

    __tablename__ = "access_grants"
    __table_args__ = (
        Index("ix_access_grants_catalog", "catalog"),
        Index("ix_access_grants_database_id", "database_id"),
        Index("ix_access_grants_table_id", "table_id"),
        Index("ix_access_grants_function_id", "function_id"),
        Index("ix_access_grants_grantee", "grantee"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    privilege: Mapped[str] = mapped_column(String(16))
    catalog: Mapped[str | None] = mapped_column(ForeignKey("catalogs.name", ondelete="CASCADE"))
    database_id: Mapped[int | None] = mapped_column(ForeignKey("databases.id", ondelete="CASCADE"))
    table_id: Mapped[int | None] = mapped_column(ForeignKey("tables.id", ondelete="CASCADE"))
    function_id: Mapped[int | None] = mapped_column(ForeignKey("functions.id", ondelete="CASCADE"))
    grantee: Mapped[str] = mapped_column(String(300))
    grant_option: Mapped[bool] = mapped_column(Boolean)
    grantor: Mapped[str | None] = mapped_column(Text)
    through: Mapped[str | None] = mapped_column(String(300))
    granted_at: Mapped[int] = mapped_column(BigInteger)
    column_name: Mapped[str | None] = mapped_column(Text)


class AccessPolicyRow(Base):
    """A row filter or a column mask of a table. `bound` and `exempt` are JSON lists of grantees."""

    __tablename__ = "access_policies"
    __table_args__ = (UniqueConstraint("table_id", "name", name="uq_access_policies_table_id_name"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    table_id: Mapped[int] = mapped_column(ForeignKey("tables.id", ondelete="CASCADE"))
    name: Mapped[str] = mapped_column(String(128))
    kind: Mapped[str] = mapped_column(String(16))
    column_name: Mapped[str | None] = mapped_column(Text)
    expression: Mapped[str] = mapped_column(Text)
    bound: Mapped[str] = mapped_column(Text)
    exempt: Mapped[str] = mapped_column(Text)
    created_by: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[int] = mapped_column(BigInteger)


class DelegationKeyRow(Base):
    """A master key, with its secret in hexadecimal digits: the passwords of tokens follow from it."""

    __tablename__ = "delegation_keys"

    key_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    secret: Mapped[str] = mapped_column(String(128))
    created_at: Mapped[int] = mapped_column(BigInteger)
    rolls_at: Mapped[int] = mapped_column(BigInteger)


class DelegationTokenRow(Base):
    """A delegation token of the server, without its password. `groups` is a JSON list. `asks_groups` is null for tokens
    of older servers, whose groups stay.
    """

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
    asks_groups: Mapped[bool | None] = mapped_column(Boolean)


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
