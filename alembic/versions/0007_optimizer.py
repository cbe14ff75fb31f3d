"""The optimizer's journal: who schedules, tables, processes with their tasks, workers, groups, requests.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.String(512).with_variant(sa.String(512, collation="C"), "postgresql")


def upgrade() -> None:
    lease = op.create_table(
        "optimizer_lease",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("holder", NAME, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("until_millis", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_optimizer_lease"),
    )
    op.bulk_insert(lease, [{"id": 1, "holder": "", "number": 0, "until_millis": 0}])
    op.create_table(
        "optimizer_tables",
        sa.Column("name", NAME, nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("score", sa.BigInteger()),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_optimizer_tables"),
    )
    op.create_table(
        "optimizer_processes",
        sa.Column("id", NAME, nullable=False),
        sa.Column("table_name", NAME, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("created_millis", sa.BigInteger(), nullable=False),
        sa.Column("ended_millis", sa.BigInteger()),
        sa.Column("tasks", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("bytes_in", sa.BigInteger(), nullable=False),
        sa.Column("bytes_out", sa.BigInteger(), nullable=False),
        sa.Column("files_in", sa.BigInteger(), nullable=False),
        sa.Column("files_out", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_optimizer_processes"),
    )
    op.create_index("ix_optimizer_processes_table_name", "optimizer_processes", ["table_name", "created_millis"])
    op.create_index("ix_optimizer_processes_created", "optimizer_processes", ["created_millis"])
    op.create_index("ix_optimizer_processes_ended", "optimizer_processes", ["ended_millis"])
    op.create_index("ix_optimizer_processes_state", "optimizer_processes", ["state"])
    op.create_table(
        "optimizer_tasks",
        sa.Column("process_id", NAME, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("result", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("process_id", "number", name="pk_optimizer_tasks"),
    )
    for table in ("optimizer_workers", "optimizer_groups"):
        op.create_table(
            table,
            sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
            sa.Column("document", sa.Text(), nullable=False),
            sa.PrimaryKeyConstraint("position", name=f"pk_{table}"),
        )
    op.create_table(
        "optimizer_requests",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("table_name", NAME, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("work", sa.String(32)),
        sa.PrimaryKeyConstraint("id", name="pk_optimizer_requests"),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    for table in (
        "optimizer_requests",
        "optimizer_groups",
        "optimizer_workers",
        "optimizer_tasks",
        "optimizer_processes",
        "optimizer_tables",
        "optimizer_lease",
    ):
        op.drop_table(table)
