"""Informational constraints."""

from sqlalchemy import ForeignKey, Index, SmallInteger, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from interbed.catalog.server.database.models.base import Base, RowId


class ConstraintRow(Base):
    """A constraint of a table. A foreign key also names the table that it refers to; it goes when either table goes.
    The document holds the columns and what the client said of them.
    """

    __tablename__ = "constraints"
    __table_args__ = (
        UniqueConstraint("table_id", "name"),
        Index("ix_constraints_parent_table_id", "parent_table_id"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    table_id: Mapped[int] = mapped_column(ForeignKey("tables.id", ondelete="CASCADE"))
    parent_table_id: Mapped[int | None] = mapped_column(ForeignKey("tables.id", ondelete="CASCADE"))
    kind: Mapped[int] = mapped_column(SmallInteger)
    name: Mapped[str] = mapped_column(String(256))
    document: Mapped[str] = mapped_column(Text)
