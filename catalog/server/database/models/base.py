"""The declarative base of all tables of the metastore's own database."""

from sqlalchemy import BigInteger, Integer, MetaData, String, Text
from sqlalchemy.orm import DeclarativeBase

# SQLite gives out row ids by itself only for a column of exactly the type INTEGER.
RowId = BigInteger().with_variant(Integer(), "sqlite")

# SQLite keeps the declaration of the first migration: it does not hold names to a length, and changing it means a new
# table there.
TableName = String(256).with_variant(String(128), "sqlite")

# Places are compared by code points: those in a directory are a range.
PlaceText = Text().with_variant(Text(collation="C"), "postgresql")

# Constraints get predictable names, so that a migration can refer to them on every database.
_NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """The metadata that migrations are compared with."""

    metadata = MetaData(naming_convention=_NAMING)
