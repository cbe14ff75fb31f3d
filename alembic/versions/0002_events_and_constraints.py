"""Notification events, informational constraints, single values, and directory moves that have begun.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.String(64), nullable=False),
        sa.Column("catalog", sa.String(128)),
        sa.Column("database", sa.String(128)),
        sa.Column("table", sa.String(128)),
        sa.Column("previous", sa.Text()),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
    )
    op.create_index("ix_events_time", "events", ["time"])
    op.create_table(
        "properties",
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_properties"),
    )
    op.create_table(
        "moves",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("table_id", ROW_ID, nullable=False),
        sa.Column("partition_name", sa.Text()),
        sa.Column("old_location", sa.Text(), nullable=False),
        sa.Column("new_location", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_moves"),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name="fk_moves_table_id", ondelete="CASCADE"),
    )
    op.create_index("ix_moves_table_id", "moves", ["table_id"])
    op.create_table(
        "constraints",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("table_id", ROW_ID, nullable=False),
        sa.Column("parent_table_id", ROW_ID),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("name", sa.String(256), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_constraints"),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name="fk_constraints_table_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["parent_table_id"], ["tables.id"], name="fk_constraints_parent_table_id", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("table_id", "name", name="uq_constraints_table_id"),
    )
    op.create_index("ix_constraints_parent_table_id", "constraints", ["parent_table_id"])
    op.add_column("catalogs", sa.Column("parameters", sa.Text()))
    op.execute("INSERT INTO sequences (name, value) VALUES ('event', 0)")


def downgrade() -> None:
    op.drop_column("catalogs", "parameters")
    op.execute("DELETE FROM sequences WHERE name = 'event'")
    for table in ("constraints", "moves", "properties", "events"):
        op.drop_table(table)
