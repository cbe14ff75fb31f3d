"""Privileges on columns of tables.

Revision ID: 0020
Revises: 0019
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("access_grants", sa.Column("column_name", sa.Text()))


def downgrade() -> None:
    # Without the column they would be grants on whole tables.
    op.execute(sa.text("DELETE FROM access_grants WHERE column_name IS NOT NULL"))
    op.drop_column("access_grants", "column_name")
