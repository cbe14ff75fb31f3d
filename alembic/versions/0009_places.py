"""The places of databases and tables as columns, so that what lies in a directory is found before it is deleted.

Revision ID: 0009
Revises: 0008
"""

import json

import sqlalchemy as sa
from alembic import op

from interbed.migrations.places_of_0009 import place_of

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

PLACE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ROWS_AT_ONCE = 1000


def upgrade() -> None:
    for table in ("databases", "tables"):
        op.add_column(table, sa.Column("place", PLACE))
        _fill(table)
        op.create_index(f"ix_{table}_place", table, ["place"])
    op.create_table(
        "linked_places",
        sa.Column("table_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("partition_name", PLACE, nullable=False),
        sa.Column("place", PLACE, nullable=False),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name="fk_linked_places_table_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("table_id", "partition_name", name="pk_linked_places"),
    )
    op.create_index("ix_linked_places_place", "linked_places", ["place"])


def downgrade() -> None:
    op.drop_table("linked_places")
    for table in ("tables", "databases"):
        op.drop_index(f"ix_{table}_place", table)
        op.drop_column(table, "place")


def _fill(name: str) -> None:
    table = sa.table(name, sa.column("id", sa.BigInteger), sa.column("document", sa.Text), sa.column("place", sa.Text))
    connection = op.get_bind()
    last = -1
    while rows := connection.execute(
        sa.select(table.c.id, table.c.document).where(table.c.id > last).order_by(table.c.id).limit(ROWS_AT_ONCE)
    ).all():
        last = rows[-1].id
        changes = [{"row": row.id, "at": place_of(_location(name, row.document))} for row in rows]
        connection.execute(
            sa.update(table).where(table.c.id == sa.bindparam("row")).values(place=sa.bindparam("at")), changes
        )


def _location(name: str, document: str) -> str | None:
    fields = json.loads(document)
    found = fields if name == "databases" else fields.get("storage") or {}
    location: str | None = found.get("location")
    return location
