"""The history of metadata: each change with its origin, from the time of this migration on.

Revision ID: 0012
Revises: 0011
"""

import time

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

SEQUENCES = sa.table("sequences", sa.column("name", sa.String), sa.column("value", sa.BigInteger))


def upgrade() -> None:
    op.create_table(
        "history",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("time_millis", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("change", sa.String(64), nullable=False),
        sa.Column("catalog", sa.String(128)),
        sa.Column("database", sa.String(128)),
        sa.Column("name", sa.String(256)),
        sa.Column("previous", sa.Text()),
        sa.Column("object_id", sa.BigInteger()),
        sa.Column("principal", sa.Text()),
        sa.Column("interface", sa.String(32), nullable=False),
        sa.Column("operation", sa.Text()),
        sa.Column("request_id", sa.Text()),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_history"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_history_name", "history", ["database", "name"])
    op.create_index("ix_history_object_id", "history", ["object_id"])
    op.bulk_insert(SEQUENCES, [{"name": "history", "value": int(time.time() * 1000)}])


def downgrade() -> None:
    op.execute(SEQUENCES.delete().where(SEQUENCES.c.name == "history"))
    op.drop_table("history")
