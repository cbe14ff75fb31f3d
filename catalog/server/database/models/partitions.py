"""Partitions: a set for each table that has any, the storage descriptors that they share, and a row for each."""

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from interbed.catalog.server.database.models.base import Base, PlaceText, RowId

# Names and values are ordered by code points, as Hive orders them, whatever the collation of the database.
OrderedText = Text().with_variant(Text(collation="C"), "postgresql")

KEY_COLUMNS = 4
"""Partition keys that have a column and an index; those of further keys stand together in one column."""


class PartitionSetRow(Base):
    """The partitions of one table. `location` is what their locations are relative to: renaming a table changes this
    row alone. A set whose table was dropped has none, and is emptied bit by bit. `place` is the location as it is
    compared with others.
    """

    __tablename__ = "partition_sets"
    __table_args__ = (UniqueConstraint("table_id"), Index("ix_partition_sets_place", "place"))

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    table_id: Mapped[int | None] = mapped_column(ForeignKey("tables.id", ondelete="SET NULL"))
    location: Mapped[str | None] = mapped_column(Text)
    place: Mapped[str | None] = mapped_column(PlaceText)


class PartitionStorageRow(Base):
    """A storage descriptor without its location; partitions of a set that have the same one share it."""

    __tablename__ = "partition_storages"
    __table_args__ = (UniqueConstraint("set_id", "digest"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    set_id: Mapped[int] = mapped_column(ForeignKey("partition_sets.id"))
    digest: Mapped[str] = mapped_column(String(64))
    document: Mapped[str] = mapped_column(Text)


class PartitionRow(Base):
    """A partition; `name` is `key=value/…` with escaped values, which is unique and what listings are ordered by.

    `key_0` … are the search forms of the first values (service/filters/tree.py), `more_keys` is a JSON list of the
    others'. `location` is absent for the directory of this name below the set's, begins with `./` if it is another
    one below the set's, and is a location of its own otherwise; only then there is a `place`, by which it is compared
    with others. `value_list` is a JSON list of the values if the name does not contain them.
    """

    __tablename__ = "partitions"
    __table_args__ = (
        UniqueConstraint("set_id", "name"),
        # Each key has an index that begins with it and holds the others: a filter on several keys is answered from
        # whichever of its keys is compared with one value, without a look at the rows.
        Index("ix_partitions_key_0", "set_id", "key_0", "key_1", "key_2", "key_3"),
        *(
            Index(
                f"ix_partitions_key_{number}",
                "set_id",
                f"key_{number}",
                *(f"key_{other}" for other in range(KEY_COLUMNS) if other != number),
                sqlite_where=text(f"key_{number} IS NOT NULL"),
                postgresql_where=text(f"key_{number} IS NOT NULL"),
            )
            for number in range(1, KEY_COLUMNS)
        ),
        Index(
            "ix_partitions_location",
            "set_id",
            sqlite_where=text("location IS NOT NULL"),
            postgresql_where=text("location IS NOT NULL"),
        ),
        Index(
            "ix_partitions_place",
            "place",
            "set_id",
            sqlite_where=text("place IS NOT NULL"),
            postgresql_where=text("place IS NOT NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    set_id: Mapped[int] = mapped_column(ForeignKey("partition_sets.id"))
    storage_id: Mapped[int | None] = mapped_column(BigInteger)
    name: Mapped[str] = mapped_column(OrderedText)
    key_0: Mapped[str] = mapped_column(OrderedText)
    key_1: Mapped[str | None] = mapped_column(OrderedText)
    key_2: Mapped[str | None] = mapped_column(OrderedText)
    key_3: Mapped[str | None] = mapped_column(OrderedText)
    more_keys: Mapped[str | None] = mapped_column(Text)
    value_list: Mapped[str | None] = mapped_column(Text)
    location: Mapped[str | None] = mapped_column(Text)
    place: Mapped[str | None] = mapped_column(PlaceText)
    create_time: Mapped[int] = mapped_column(BigInteger)
    last_access_time: Mapped[int] = mapped_column(BigInteger)
    parameters: Mapped[str | None] = mapped_column(Text)


class PartitionMarkRow(Base):
    """An event that a client said to have happened to a partition, which need not exist."""

    __tablename__ = "partition_marks"

    table_id: Mapped[int] = mapped_column(ForeignKey("tables.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(OrderedText, primary_key=True)
    event_type: Mapped[int] = mapped_column(primary_key=True)
