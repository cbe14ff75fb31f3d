"""Tokens that the server has issued.

Revision ID: 0015
Revises: 0014
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "access_tokens",
        sa.Column("token_id", sa.String(16), nullable=False),
        sa.Column("principal", sa.String(256), nullable=False),
        sa.Column("groups", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text()),
        sa.Column("expires_at", sa.BigInteger()),
        sa.Column("revoked_at", sa.BigInteger()),
        sa.Column("comment", sa.Text()),
        sa.PrimaryKeyConstraint("token_id", name="pk_access_tokens"),
    )


def downgrade() -> None:
    op.drop_table("access_tokens")
