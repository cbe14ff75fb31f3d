"""Scheduled queries with their executions, and statistics of runs.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "scheduled_queries",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("namespace", sa.String(256), nullable=False),
        sa.Column("name", sa.String(256), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("schedule", sa.Text()),
        sa.Column("user_name", sa.Text()),
        sa.Column("query", sa.Text()),
        sa.Column("next_execution", sa.BigInteger()),
        sa.Column("active_execution", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_scheduled_queries"),
        sa.UniqueConstraint("namespace", "name", name="uq_scheduled_queries_namespace"),
    )
    op.create_index("ix_scheduled_queries_due", "scheduled_queries", ["namespace", "next_execution"])
    op.create_table(
        "scheduled_executions",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("query_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("started", sa.BigInteger(), nullable=False),
        sa.Column("updated", sa.BigInteger()),
        sa.Column("ended", sa.BigInteger()),
        sa.Column("executor_query_id", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_scheduled_executions"),
        sa.ForeignKeyConstraint(
            ["query_id"], ["scheduled_queries.id"], name="fk_scheduled_executions_query_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_scheduled_executions_query_id", "scheduled_executions", ["query_id"])
    op.create_index("ix_scheduled_executions_updated", "scheduled_executions", ["updated"])
    op.create_index("ix_scheduled_executions_started", "scheduled_executions", ["started"])
    op.create_table(
        "runtime_statistics",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("create_time", sa.BigInteger(), nullable=False),
        sa.Column("weight", sa.Integer(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runtime_statistics"),
    )
    op.create_index("ix_runtime_statistics_create_time", "runtime_statistics", ["create_time"])


def downgrade() -> None:
    op.drop_table("runtime_statistics")
    op.drop_table("scheduled_executions")
    op.drop_table("scheduled_queries")
