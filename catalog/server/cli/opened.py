"""A server's metastore as commands of operators open it: in its database and warehouse, past the server.

The settings are those of `interbed server` from the environment and its file. Servers may be running on the database.
"""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.server.service.errors import MetastoreError

if TYPE_CHECKING:
    from interbed.catalog.server.database.session import SqlRepository
    from interbed.catalog.server.service.access.administration import AccessAdministration
    from interbed.catalog.server.service.service import Metastore


def server_options(choose: "Callable[[Metastore], Any]", work: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the server's database, warehouse and catalog to a command. Its first argument is what `choose`
    returns for the metastore.
    """

    @functools.wraps(work)
    def command(*, db: str | None, warehouse: str | None, **given: Any) -> None:
        with opened(db, warehouse) as (_, metastore):
            work(choose(metastore), **given)

    command = click.option(
        "--warehouse", metavar="LOCATION", help="The server's warehouse; that of `interbed server` by default."
    )(command)
    command = click.option(
        "--catalog", default="hive", show_default=True, metavar="NAME", help="The catalog of the metastore."
    )(command)
    return db_option(command)


db_option = click.option("--db", metavar="URL", help="The server's database; that of `interbed server` by default.")


@contextmanager
def opened(db: str | None, warehouse: str | None = None) -> "Iterator[tuple[SqlRepository, Metastore]]":
    """Yield the database and the services of a server. The command line reports errors of its settings and database."""
    # Need Thrift and SQL, which are slow to import for the help of a command.
    from interbed.catalog.client.hive.connection import current_user
    from interbed.catalog.server.database import schema
    from interbed.catalog.server.database.engine import parse_database_url
    from interbed.catalog.server.process.opening import open_metastore
    from interbed.catalog.server.service.history.entries import ChangeOrigin
    from interbed.catalog.server.settings import load

    config = os.environ.get("INTERBED_SERVER_CONFIG")
    settings = load(Path(config) if config else None, os.environ, {"db": db, "warehouse": warehouse})[0]
    origin = ChangeOrigin(principal=current_user(), operation=click.get_current_context().info_name)
    try:
        url = parse_database_url(settings.db)
        if url.get_backend_name() == "sqlite" and not os.path.exists(url.database or ""):
            # Opening it would create it.
            raise MetastoreError(f"there is no database {url.database}")
        with open_metastore(settings, lambda: origin) as (store, metastore):
            if not schema.is_current(store.engine):
                raise MetastoreError(
                    "the database is no interbed metastore's, or of another version; start `interbed server` on it once"
                )
            yield store, metastore
    except MetastoreError as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def administered(db: str | None) -> "Iterator[AccessAdministration]":
    """Yield the roles and grants of a server's database, changed in the name of the user of this process."""
    # Needs SQL, which is slow to import for the help of a command.
    from interbed.catalog.client.hive.connection import current_user
    from interbed.catalog.server.service.access.administration import AccessAdministration
    from interbed.catalog.server.service.access.builtin import BuiltinAuthorizer

    with opened(db) as (store, metastore):
        configured = metastore.access.authorizer
        # A server that does not decide by grants may get them before it does.
        authorizer = configured if isinstance(configured, BuiltinAuthorizer) else BuiltinAuthorizer(store)
        yield AccessAdministration(store, authorizer, admins=authorizer.admins, operator=current_user())
