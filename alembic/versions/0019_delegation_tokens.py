"""Delegation tokens with their master keys, and the token store of HiveServer2.

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "delegation_keys",
        sa.Column("key_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("secret", sa.String(128), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("rolls_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key_id", name="pk_delegation_keys"),
    )
    op.create_table(
        "delegation_tokens",
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("owner", sa.String(256), nullable=False),
        sa.Column("renewer", sa.String(256), nullable=False),
        sa.Column("real_user", sa.String(256), nullable=False),
        sa.Column("issued_at", sa.BigInteger(), nullable=False),
        sa.Column("max_at", sa.BigInteger(), nullable=False),
        sa.Column("key_id", sa.BigInteger(), nullable=False),
        sa.Column("renewed_until", sa.BigInteger(), nullable=False),
        sa.Column("groups", sa.Text(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger()),
        sa.Column("revoked_by", sa.Text()),
        sa.PrimaryKeyConstraint("sequence", name="pk_delegation_tokens"),
    )
    op.create_table(
        "stored_tokens",
        sa.Column("identifier", sa.String(1000), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("identifier", name="pk_stored_tokens"),
    )
    op.create_table(
        "stored_keys",
        sa.Column("key_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key_id", name="pk_stored_keys"),
    )
    for name in ("delegation_token", "delegation_key", "stored_key"):
        op.execute(f"INSERT INTO sequences (name, value) VALUES ('{name}', 0)")


def downgrade() -> None:
    op.execute("DELETE FROM sequences WHERE name IN ('delegation_token', 'delegation_key', 'stored_key')")
    for table in ("stored_keys", "stored_tokens", "delegation_tokens", "delegation_keys"):
        op.drop_table(table)
