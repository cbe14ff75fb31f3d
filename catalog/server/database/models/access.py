"""The tables of access to the metastore: issued tokens, roles, their members, grants, and policies of tables.

Grantees are texts, `user:ann`, as in the columns of owners. Grants refer to the rows of their objects, so that a rename
keeps them and a removal removes them. Times are seconds since the epoch.
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
