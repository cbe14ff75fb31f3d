"""Names of tables have up to 256 characters, as in Hive.

SQLite does not hold columns to their length, and changing one means a new table there, so that only PostgreSQL's are
changed.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op
from alembic.util import CommandError

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

LONG, SHORT = 256, 128
TABLES = sa.table("tables", sa.column("name", sa.Text))
EVENTS = sa.table("events", sa.column("table", sa.Text))


def upgrade() -> None:
    _resize(LONG)


def downgrade() -> None:
    names = TABLES.c.name
    found = op.get_bind().scalar(sa.select(sa.func.count()).select_from(TABLES).where(sa.func.length(names) > SHORT))
    if found:
        raise CommandError(
            f"the names of {found} table(s) have more than {SHORT} characters; rename or drop them first"
        )
    # The body of an event has the name in full.
    logged = EVENTS.c.table
    op.execute(sa.update(EVENTS).where(sa.func.length(logged) > SHORT).values(table=sa.func.substr(logged, 1, SHORT)))
    _resize(SHORT)


def _resize(length: int) -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("tables", "name", type_=sa.String(length))
        op.alter_column("events", "table", type_=sa.String(length))
