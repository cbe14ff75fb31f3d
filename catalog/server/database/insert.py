"""An INSERT that distinguishes a taken name from success without an error, alike on SQLite and PostgreSQL.

An error would end PostgreSQL's transaction; looking first would leave a gap for another server.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import DeclarativeBase

from interbed.catalog.server.database.statement import Statement


def insert_unless_taken(connection: Connection, model: type[DeclarativeBase], *returning: Any) -> Any:
    """An insert into the model's table that does nothing if a unique key is taken; it returns the given columns of
    stored rows.
    """
    return _statement(connection.dialect.name, model, returning)


def insert_statement(model: type[DeclarativeBase], values: Mapping[str, Any], *returning: Any) -> Statement:
    """The same with the columns that it fills, to be run often."""
    return Statement(
        _statement("postgresql", model, returning).values(values),
        for_sqlite=_statement("sqlite", model, returning).values(values),
    )


@lru_cache(maxsize=100)
def _statement(dialect_name: str, model: type[DeclarativeBase], returning: tuple[Any, ...]) -> Any:
    # Statements are built once: composing one takes as long as running it.
    dialect = postgresql if dialect_name == "postgresql" else sqlite
    return dialect.insert(model).on_conflict_do_nothing().returning(*returning)


def insert_or_replace(connection: Connection, model: type[DeclarativeBase]) -> Any:
    """An insert of whole rows into the model's table that replaces those with the same primary key.

    It returns the keys: so SQLAlchemy stores a list of rows by statements of many rows, and not each by its own. A list
    must have no key twice.
    """
    return _replacement(connection.dialect.name, model)


@lru_cache(maxsize=100)
def _replacement(dialect_name: str, model: type[DeclarativeBase]) -> Any:
    insert: Any = (postgresql if dialect_name == "postgresql" else sqlite).insert(model)
    columns = list(model.__table__.columns)
    keys = [column for column in columns if column.primary_key]
    values = {column.name: insert.excluded[column.name] for column in columns if not column.primary_key}
    return insert.on_conflict_do_update(index_elements=keys, set_=values).returning(*keys)
