"""The first tables: catalogs, databases, tables, partitions, functions, locks.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
PARTITION_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "catalogs",
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("create_time", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_catalogs"),
    )
    op.create_table(
        "databases",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("catalog", sa.String(128), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_databases"),
        sa.ForeignKeyConstraint(["catalog"], ["catalogs.name"], name="fk_databases_catalog"),
        sa.UniqueConstraint("catalog", "name", name="uq_databases_catalog"),
    )
    op.create_table(
        "tables",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("database_id", ROW_ID, nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("table_type", sa.String(32), nullable=False),
        sa.Column("comment", sa.Text()),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tables"),
        sa.ForeignKeyConstraint(["database_id"], ["databases.id"], name="fk_tables_database_id"),
        sa.UniqueConstraint("database_id", "name", name="uq_tables_database_id"),
    )
    op.create_table(
        "partitions",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("table_id", ROW_ID, nullable=False),
        sa.Column("name", PARTITION_NAME, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_partitions"),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name="fk_partitions_table_id", ondelete="CASCADE"),
        sa.UniqueConstraint("table_id", "name", name="uq_partitions_table_id"),
    )
    op.create_table(
        "functions",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("database_id", ROW_ID, nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_functions"),
        sa.ForeignKeyConstraint(["database_id"], ["databases.id"], name="fk_functions_database_id"),
        sa.UniqueConstraint("database_id", "name", name="uq_functions_database_id"),
    )
    sequences = op.create_table(
        "sequences",
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_sequences"),
    )
    op.bulk_insert(sequences, [{"name": "lock", "value": 0}])
    op.create_table(
        "locks",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("requested_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("acquired_at_ms", sa.BigInteger()),
        sa.Column("heartbeat_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("heartbeat_count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_locks"),
    )
    op.create_index("ix_locks_heartbeat_at_ms", "locks", ["heartbeat_at_ms"])
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


def downgrade() -> None:
    for table in (
        "lock_components",
        "locks",
        "sequences",
        "functions",
        "partitions",
        "tables",
        "databases",
        "catalogs",
    ):
        op.drop_table(table)
