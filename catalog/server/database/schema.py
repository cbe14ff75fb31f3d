"""The database's schema: migration when a server starts, and by hand to any revision.

The migrations are Alembic's and are installed with the package as interbed/migrations. Several servers may start at
once on one database: the first takes a lock and migrates, the others find nothing left to do.
"""

import logging
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from interbed.catalog.server.database.engine import DatabaseError
from interbed.catalog.server.database.kinds import build_index

logger = logging.getLogger(__name__)

_POSTGRES_LOCK = 0x1E7E_4BED
"""Number of the advisory lock under which servers migrate: arbitrary, but never changed."""


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Bring the database to a revision. DatabaseError if it cannot be reached, or if a newer interbed has
    migrated it.
    """
    _migrate(engine, revision, up=True)
    if revision == "head":
        build_index(engine)


def downgrade(engine: Engine, revision: str) -> None:
    """Downgrade the database to an earlier revision, `base` for an empty one. The content of newer tables is lost."""
    _migrate(engine, revision, up=False)


def current_revision(engine: Engine) -> str | None:
    """Return the revision of the database; None if it has no tables of interbed."""
    with engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def is_current(engine: Engine) -> bool:
    """Return whether the database is at the revision of this version of interbed. DatabaseError if it cannot be
    reached.
    """
    try:
        return current_revision(engine) == latest_revision()
    except SQLAlchemyError as error:
        raise _unusable(engine, error) from error


def latest_revision() -> str:
    """Return the revision that this version of interbed requires: that of the last migration, the prefix of its file
    name.
    """
    return max(path.name for path in (migrations_directory() / "versions").glob("[0-9]*_*.py")).partition("_")[0]


def migrations_directory() -> Path:
    """Return the directory of the migrations: in the installed package, or behind its link in a checkout."""
    return Path(__file__).parents[3] / "migrations"


def _migrate(engine: Engine, revision: str, *, up: bool) -> None:
    if up and revision == "head" and is_current(engine):
        return
    # A server without a pending migration, which is almost every one, starts without Alembic: that saves a tenth of the
    # time until it listens.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(migrations_directory()).replace("%", "%%"))
    try:
        with engine.execution_options(interbed_write=True).connect() as connection, connection.begin():
            _exclude_others(connection)
            config.attributes["connection"] = connection
            if up:
                command.upgrade(config, revision)
            else:
                command.downgrade(config, revision)
    except CommandError as error:
        raise DatabaseError(f"the metastore's database does not fit this version of interbed: {error}") from error
    except SQLAlchemyError as error:
        raise _unusable(engine, error) from error


def _unusable(engine: Engine, error: SQLAlchemyError) -> DatabaseError:
    cause = getattr(error, "orig", None) or error
    return DatabaseError(f"the metastore's database {engine.url!s} cannot be used: {cause}")


def _exclude_others(connection: Connection) -> None:
    # SQLite's writers exclude each other anyway. This lock is released with the transaction.
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_POSTGRES_LOCK})")
