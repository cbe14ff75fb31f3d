"""Components of locks have a catalog, the last value of each in the document. Those of older locks have null there:
their catalog is unknown, and they exclude components in any.

Revision ID: 0021
Revises: 0020
"""

import json
from collections.abc import Callable

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

LOCKS = sa.table("locks", sa.column("id", sa.BigInteger), sa.column("components", sa.Text))


def upgrade() -> None:
    _change(lambda component: [*component[:6], None])


def downgrade() -> None:
    # Older servers exclude tables of one name in all catalogs.
    _change(lambda component: component[:6])


def _change(changed: Callable[[list[object]], list[object]]) -> None:
    connection = op.get_bind()
    for lock_id, document in connection.execute(sa.select(LOCKS.c.id, LOCKS.c.components)).all():
        components = [changed(component) for component in json.loads(document)]
        statement = sa.update(LOCKS).where(LOCKS.c.id == lock_id).values(components=json.dumps(components))
        connection.execute(statement)
