"""Row filters and column masks of tables.

Revision ID: 0018
Revises: 0017
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    row_id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "access_policies",
        sa.Column("id", row_id, nullable=False),
        sa.Column("table_id", row_id, nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("column_name", sa.Text()),
        sa.Column("expression", sa.Text(), nullable=False),
        sa.Column("bound", sa.Text(), nullable=False),
        sa.Column("exempt", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name="fk_access_policies_table_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_access_policies"),
        sa.UniqueConstraint("table_id", "name", name="uq_access_policies_table_id_name"),
    )


def downgrade() -> None:
    op.drop_table("access_policies")
