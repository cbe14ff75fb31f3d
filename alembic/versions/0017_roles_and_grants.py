"""Roles, their members and grants; the owners of databases, tables and functions as columns.

Revision ID: 0017
Revises: 0016
"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_INDEXES = {
    "databases": ["owner"],
    "tables": ["owner", "database_id"],
    "functions": ["owner", "database_id"],
}
_BUILT_IN = ("admin", "public")

ROWS_AT_ONCE = 1000
OWNER_CHARACTERS_MAX = 256


def upgrade() -> None:
    op.create_table(
        "access_roles",
        sa.Column("name", sa.String(256), nullable=False),
        sa.Column("created_by", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_access_roles"),
    )
    for name in _BUILT_IN:
        op.execute(f"INSERT INTO access_roles (name, created_at) VALUES ('{name}', 0)")
    op.create_table(
        "access_members",
        sa.Column("role", sa.String(256), nullable=False),
        sa.Column("member", sa.String(300), nullable=False),
        sa.Column("admin_option", sa.Boolean(), nullable=False),
        sa.Column("grantor", sa.Text()),
        sa.Column("granted_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["role"], ["access_roles.name"], name="fk_access_members_role", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("role", "member", name="pk_access_members"),
    )
    op.create_index("ix_access_members_member", "access_members", ["member"])
    row_id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "access_grants",
        sa.Column("id", row_id, nullable=False),
        sa.Column("privilege", sa.String(16), nullable=False),
        sa.Column("catalog", sa.String(128)),
        sa.Column("database_id", row_id),
        sa.Column("table_id", row_id),
        sa.Column("function_id", row_id),
        sa.Column("grantee", sa.String(300), nullable=False),
        sa.Column("grant_option", sa.Boolean(), nullable=False),
        sa.Column("grantor", sa.Text()),
        sa.Column("through", sa.String(300)),
        sa.Column("granted_at", sa.BigInteger(), nullable=False),
        *(
            sa.ForeignKeyConstraint([column], [target], name=f"fk_access_grants_{column}", ondelete="CASCADE")
            for column, target in (
                ("catalog", "catalogs.name"),
                ("database_id", "databases.id"),
                ("table_id", "tables.id"),
                ("function_id", "functions.id"),
            )
        ),
        sa.PrimaryKeyConstraint("id", name="pk_access_grants"),
    )
    for column in ("catalog", "database_id", "table_id", "function_id", "grantee"):
        op.create_index(f"ix_access_grants_{column}", "access_grants", [column])
    op.execute("INSERT INTO sequences (name, value) VALUES ('access', 0)")
    for table in _INDEXES:
        op.add_column(table, sa.Column("owner", sa.Text()))
        _fill(table)
        op.create_index(f"ix_{table}_owner", table, _INDEXES[table])


def downgrade() -> None:
    for table in _INDEXES:
        op.drop_index(f"ix_{table}_owner", table)
        op.drop_column(table, "owner")
    op.execute("DELETE FROM sequences WHERE name = 'access'")
    for table in ("access_grants", "access_members", "access_roles"):
        op.drop_table(table)


def _fill(name: str) -> None:
    table = sa.table(name, sa.column("id", sa.BigInteger), sa.column("document", sa.Text), sa.column("owner", sa.Text))
    connection = op.get_bind()
    last = -1
    while rows := connection.execute(
        sa.select(table.c.id, table.c.document).where(table.c.id > last).order_by(table.c.id).limit(ROWS_AT_ONCE)
    ).all():
        last = rows[-1].id
        owners = [(row.id, _owner(json.loads(row.document))) for row in rows]
        changes = [{"row": number, "key": owner} for number, owner in owners if owner is not None]
        if changes:
            connection.execute(
                sa.update(table).where(table.c.id == sa.bindparam("row")).values(owner=sa.bindparam("key")), changes
            )


def _owner(fields: dict[str, Any]) -> str | None:
    """Return the owner of an object as text; None for one that no principal can be."""
    if "owner" in fields:
        name, kind = fields["owner"], (fields.get("extra") or {}).get("ownerType")
    else:
        name, kind = fields.get("owner_name"), fields.get("owner_type")
    if not name or len(name) > OWNER_CHARACTERS_MAX or not name.isprintable() or name != name.strip():
        return None
    known = {None: f"user:{name}", 1: f"user:{name}", 2: f"role:{name.lower()}", 3: f"group:{name}"}
    return known.get(kind)
