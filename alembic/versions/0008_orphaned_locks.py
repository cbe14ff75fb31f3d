"""A lock knows which processes of the server have a connection that asked for or renewed it, and when the last broke.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Of locks that are there already no connection is known, so that their lease decides.
    op.add_column("locks", sa.Column("processes", sa.Text(), nullable=False, server_default=""))
    op.add_column("locks", sa.Column("orphaned_at_ms", sa.BigInteger()))


def downgrade() -> None:
    op.drop_column("locks", "orphaned_at_ms")
    op.drop_column("locks", "processes")
