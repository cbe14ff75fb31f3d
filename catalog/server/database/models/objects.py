"""Catalogs, databases, tables and functions, and the places of their directories (directories/locations.py)."""

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from interbed.catalog.server.database.models.base import Base, PlaceText, RowId, TableName


class CatalogRow(Base):
    """A space of databases."""

    __tablename__ = "catalogs"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    description: Mapped[str | None] = mapped_column(Text)
    location: Mapped[str] = mapped_column(Text)
    create_time: Mapped[int] = mapped_column(BigInteger, default=0)
    parameters: Mapped[str | None] = mapped_column(Text)


class DatabaseRow(Base):
    """A database; the document holds parameters, description, owner and locations."""

    __tablename__ = "databases"
    __table_args__ = (UniqueConstraint("catalog", "name"), Index("ix_databases_place", "place"))

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    catalog: Mapped[str] = mapped_column(ForeignKey("catalogs.name"))
    name: Mapped[str] = mapped_column(String(128))
    document: Mapped[str] = mapped_column(Text)
    place: Mapped[str | None] = mapped_column(PlaceText)


class TableRow(Base):
    """A table or view; the document holds its columns, storage and parameters."""

    __tablename__ = "tables"
    __table_args__ = (UniqueConstraint("database_id", "name"), Index("ix_tables_place", "place"))

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    database_id: Mapped[int] = mapped_column(ForeignKey("databases.id"))
    name: Mapped[str] = mapped_column(TableName)
    table_type: Mapped[str] = mapped_column(String(32))
    comment: Mapped[str | None] = mapped_column(Text)
    document: Mapped[str] = mapped_column(Text)
    place: Mapped[str | None] = mapped_column(PlaceText)


class LinkedPlaceRow(Base):
    """Where the location of a table, or of one of its partitions, leads by links, if that is another place."""

    __tablename__ = "linked_places"
    __table_args__ = (Index("ix_linked_places_place", "place"),)

    table_id: Mapped[int] = mapped_column(ForeignKey("tables.id", ondelete="CASCADE"), primary_key=True)
    partition_name: Mapped[str] = mapped_column(PlaceText, primary_key=True)
    place: Mapped[str] = mapped_column(PlaceText)


class FunctionRow(Base):
    """A user-defined function."""

    __tablename__ = "functions"
    __table_args__ = (UniqueConstraint("database_id", "name"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    database_id: Mapped[int] = mapped_column(ForeignKey("databases.id"))
    name: Mapped[str] = mapped_column(String(128))
    document: Mapped[str] = mapped_column(Text)
