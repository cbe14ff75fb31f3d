"""The notification log, single values, and directory moves that have begun."""

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from interbed.catalog.server.database.models.base import Base, RowId, TableName


class EventRow(Base):
    """One change of metadata. The body is JSON packed with zlib; `previous` is what a renamed table was called before,
    as `catalog.database.table`.
    """

    __tablename__ = "events"
    __table_args__ = (Index("ix_events_time", "time"),)

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    time: Mapped[int] = mapped_column(BigInteger)
    type: Mapped[str] = mapped_column(String(64))
    catalog: Mapped[str | None] = mapped_column(String(128))
    database: Mapped[str | None] = mapped_column(String(128))
    table: Mapped[str | None] = mapped_column(TableName)
    previous: Mapped[str | None] = mapped_column(Text)
    body: Mapped[bytes] = mapped_column(LargeBinary)


class PropertyRow(Base):
    """A single value of the whole metastore, for instance its identity."""

    __tablename__ = "properties"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    value: Mapped[str] = mapped_column(Text)


class MoveRow(Base):
    """A directory that is about to be renamed together with a table or a partition; gone once both have happened."""

    __tablename__ = "moves"
    __table_args__ = (Index("ix_moves_table_id", "table_id"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    table_id: Mapped[int] = mapped_column(ForeignKey("tables.id", ondelete="CASCADE"))
    partition_name: Mapped[str | None] = mapped_column(Text)
    old_location: Mapped[str] = mapped_column(Text)
    new_location: Mapped[str] = mapped_column(Text)
