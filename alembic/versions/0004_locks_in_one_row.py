"""A lock is one row: what it covers as a document, and the database and table that it is found by.

Revision ID: 0004
Revises: 0003
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

LOCKS = sa.table(
    "locks",
    sa.column("id", sa.BigInteger),
    sa.column("database_name", sa.Text),
    sa.column("table_name", sa.Text),
    sa.column("components", sa.Text),
)
COMPONENTS = sa.table(
    "lock_components",
    sa.column("lock_id", sa.BigInteger),
    sa.column("ordinal", sa.Integer),
    sa.column("type", sa.SmallInteger),
    sa.column("level", sa.SmallInteger),
    sa.column("database_name", sa.Text),
    sa.column("table_name", sa.Text),
    sa.column("partition_name", sa.Text),
    sa.column("operation", sa.Integer),
)


def upgrade() -> None:
    op.drop_index("ix_locks_heartbeat_at_ms", "locks")
    op.add_column("locks", sa.Column("database_name", sa.Text()))
    op.add_column("locks", sa.Column("table_name", sa.Text()))
    op.add_column("locks", sa.Column("components", sa.Text(), nullable=False, server_default="[]"))
    connection = op.get_bind()
    documents: dict[int, list[list[object]]] = {}
    for row in connection.execute(sa.select(COMPONENTS).order_by(COMPONENTS.c.lock_id, COMPONENTS.c.ordinal)):
        documents.setdefault(row.lock_id, []).append(
            [row.type, row.level, row.database_name, row.table_name, row.partition_name, row.operation]
        )
    for lock_id, components in documents.items():
        databases = {component[2] for component in components}
        tables = {(component[2], component[3]) for component in components}
        connection.execute(
            sa.update(LOCKS)
            .where(LOCKS.c.id == lock_id)
            .values(
                database_name=components[0][2] if len(databases) == 1 else None,
                table_name=components[0][3] if len(tables) == 1 else None,
                components=json.dumps(components),
            )
        )
    op.create_index("ix_locks_database_name", "locks", ["database_name", "table_name"])
    op.drop_table("lock_components")
    op.execute("INSERT INTO sequences (name, value) VALUES ('lock_expired', 0)")


def downgrade() -> None:
    op.execute("DELETE FROM sequences WHERE name = 'lock_expired'")
    op.create_table(
        "lock_components",
        sa.Column("lock_id", sa.BigInteger(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("type", sa.SmallInteger(), nullable=False),
        sa.Column("level", sa.SmallInteger(), nullable=False),
        sa.Column("database_name", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text()),
        sa.Column("partition_name", sa.Text()),
        sa.Column("operation", sa.Integer()),
        sa.PrimaryKeyConstraint("lock_id", "ordinal", name="pk_lock_components"),
        sa.ForeignKeyConstraint(["lock_id"], ["locks.id"], name="fk_lock_components_lock_id", ondelete="CASCADE"),
    )
    op.create_index("ix_lock_components_database_name", "lock_components", ["database_name"])
    connection = op.get_bind()
    names = ("type", "level", "database_name", "table_name", "partition_name", "operation")
    rows = [
        {"lock_id": row.id, "ordinal": ordinal, **dict(zip(names, component, strict=True))}
        for row in connection.execute(sa.select(LOCKS.c.id, LOCKS.c.components)).all()
        for ordinal, component in enumerate(json.loads(row.components))
    ]
    if rows:
        connection.execute(sa.insert(COMPONENTS), rows)
    op.drop_index("ix_locks_database_name", "locks")
    for column in ("components", "table_name", "database_name"):
        op.drop_column("locks", column)
    op.create_index("ix_locks_heartbeat_at_ms", "locks", ["heartbeat_at_ms"])
