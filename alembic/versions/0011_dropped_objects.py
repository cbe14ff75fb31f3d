"""Objects that were dropped and can be put back, and the partitions of dropped tables.

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "dropped_objects",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("parent_id", sa.BigInteger()),
        sa.Column("catalog", sa.String(128), nullable=False),
        sa.Column("database", sa.String(128), nullable=False),
        sa.Column("name", sa.String(256)),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("dropped_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("dropped_by", sa.Text()),
        sa.Column("location", sa.Text()),
        sa.Column("aside", sa.Text()),
        sa.Column("target", sa.Text()),
        sa.Column("table_type", sa.String(32)),
        sa.Column("document", sa.Text()),
        sa.Column("attached", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_dropped_objects"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_dropped_objects_name", "dropped_objects", ["catalog", "database", "name"])
    op.create_index("ix_dropped_objects_parent_id", "dropped_objects", ["parent_id"])
    op.create_index("ix_dropped_objects_state", "dropped_objects", ["state", "expires_at"])
    op.add_column("partition_sets", sa.Column("dropped_id", sa.BigInteger()))
    op.create_index("ix_partition_sets_dropped_id", "partition_sets", ["dropped_id"])


def downgrade() -> None:
    # The directories of dropped objects stay in `.dropped` of the warehouse.
    op.drop_index("ix_partition_sets_dropped_id", "partition_sets")
    op.drop_column("partition_sets", "dropped_id")
    op.drop_table("dropped_objects")
