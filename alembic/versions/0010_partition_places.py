"""The places of partitions as columns, so that those in a directory are found by an index before it is deleted.

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op

from interbed.migrations.places_of_0009 import place_of

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

PLACE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ROWS_AT_ONCE = 1000
TABLES = {"partition_sets": "location IS NOT NULL", "partitions": "location IS NOT NULL AND location NOT LIKE './%'"}


def upgrade() -> None:
    for table, located in TABLES.items():
        op.add_column(table, sa.Column("place", PLACE))
        _fill(table, located)
    op.create_index("ix_partition_sets_place", "partition_sets", ["place"])
    placed = sa.text("place IS NOT NULL")
    op.create_index(
        "ix_partitions_place", "partitions", ["place", "set_id"], sqlite_where=placed, postgresql_where=placed
    )


def downgrade() -> None:
    for table in TABLES:
        op.drop_index(f"ix_{table}_place", table)
        op.drop_column(table, "place")


def _fill(name: str, located: str) -> None:
    table = sa.table(name, sa.column("id", sa.BigInteger), sa.column("location", sa.Text), sa.column("place", sa.Text))
    connection = op.get_bind()
    last = -1
    while rows := connection.execute(
        sa.select(table.c.id, table.c.location)
        .where(table.c.id > last, sa.text(located))
        .order_by(table.c.id)
        .limit(ROWS_AT_ONCE)
    ).all():
        last = rows[-1].id
        changes = [{"row": row.id, "at": place_of(row.location)} for row in rows]
        connection.execute(
            sa.update(table).where(table.c.id == sa.bindparam("row")).values(place=sa.bindparam("at")), changes
        )
