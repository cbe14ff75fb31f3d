"""The kinds of tables as a column, so that lists of one kind are answered from an index.

Existing rows have no kind at first: the server fills them in many short writes while it serves.

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

INDEX = "ix_tables_kind"


def upgrade() -> None:
    # Without a default the rows are not rewritten.
    op.add_column("tables", sa.Column("kind", sa.SmallInteger()))
    if op.get_bind().dialect.name == "sqlite":
        # On PostgreSQL the server builds it without a lock on writers, which it cannot do within this transaction.
        op.create_index(INDEX, "tables", ["database_id", "kind", "name", "table_type"])


def downgrade() -> None:
    op.drop_index(INDEX, "tables", if_exists=True)
    op.drop_column("tables", "kind")
