"""How Alembic reaches the metastore's database: over the connection of a server that starts, or by a url from the
command line.

This folder has no __init__.py on purpose: as a package named alembic it would hide the library of that name.
"""

from alembic import context
from sqlalchemy import Connection

from interbed.catalog.server.database.engine import open_engine
from interbed.catalog.server.database.models import Base


def run_migrations() -> None:
    """Run the migrations in one transaction, on the caller's connection if there is one."""
    connection = context.config.attributes.get("connection")
    if connection is not None:
        _run_on(connection)
        return
    url = context.get_x_argument(as_dictionary=True).get("url")
    if url is None:
        raise SystemExit("name the database: alembic -x url=sqlite:///file.db …")
    engine = open_engine(url)
    try:
        with engine.execution_options(interbed_write=True).connect() as own_connection, own_connection.begin():
            _run_on(own_connection)
    finally:
        engine.dispose()


def _run_on(connection: Connection) -> None:
    # SQLite cannot alter most of a table in place; batch mode copies it.
    context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
    context.run_migrations()


run_migrations()
