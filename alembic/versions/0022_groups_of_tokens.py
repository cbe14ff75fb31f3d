"""Delegation tokens whose owner's groups are those of the directory of users, which is asked again. Those of older
servers have null there: their groups stay.

Revision ID: 0022
Revises: 0021
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("delegation_tokens", sa.Column("asks_groups", sa.Boolean()))


def downgrade() -> None:
    op.drop_column("delegation_tokens", "asks_groups")
