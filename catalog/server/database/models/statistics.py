"""Statistics of columns, of tables and of partitions."""

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from interbed.catalog.server.database.models.base import Base


class TableStatisticsRow(Base):
    """What is known of a table's column; the document holds the numbers. Each engine has its own."""

    __tablename__ = "table_statistics"

    table_id: Mapped[int] = mapped_column(ForeignKey("tables.id", ondelete="CASCADE"), primary_key=True)
    engine: Mapped[str] = mapped_column(String(128), primary_key=True)
    column_name: Mapped[str] = mapped_column(Text, primary_key=True)
    column_type: Mapped[str] = mapped_column(Text)
    analyzed_at: Mapped[int] = mapped_column(BigInteger)
    document: Mapped[str] = mapped_column(Text)


class PartitionStatisticsRow(Base):
    """The same of a partition's column."""

    __tablename__ = "partition_statistics"
    __table_args__ = (Index("ix_partition_statistics_set_id", "set_id"),)

    partition_id: Mapped[int] = mapped_column(ForeignKey("partitions.id", ondelete="CASCADE"), primary_key=True)
    engine: Mapped[str] = mapped_column(String(128), primary_key=True)
    column_name: Mapped[str] = mapped_column(Text, primary_key=True)
    set_id: Mapped[int] = mapped_column(BigInteger)
    column_type: Mapped[str] = mapped_column(Text)
    analyzed_at: Mapped[int] = mapped_column(BigInteger)
    document: Mapped[str] = mapped_column(Text)
