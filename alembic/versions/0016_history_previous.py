"""The former names of renamed tables are in the entries of the history: their column goes.

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_column("history", "previous")


def downgrade() -> None:
    op.add_column("history", sa.Column("previous", sa.Text()))
