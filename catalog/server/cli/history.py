"""`interbed metastore history | restore`: the changes of a server's metadata, and tables put back to an older entry.

Times are ISO 8601 (`2026-11-29T12:00:00.250Z`; UTC without an offset) or seconds since the epoch. A state at a time
includes the changes of that millisecond.

`interbed metastore dropped | undrop | purge`: the dropped objects of a server.

All of these commands open the metastore in its database and warehouse directly, past the server, and so do those that
use `opened` from here. The settings are those of `interbed server` from the environment and its file. Servers may be
running on the database.
"""

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.server.service.errors import MetastoreError
from interbed.storage.base.terminal import print_columns, print_line

if TYPE_CHECKING:
    from interbed.catalog.server.database.session import SqlRepository
    from interbed.catalog.server.service.access.administration import AccessAdministration
    from interbed.catalog.server.service.history.entries import HistoryEntry
    from interbed.catalog.server.service.model import DroppedObject
    from interbed.catalog.server.service.service import Metastore
    from interbed.catalog.server.service.undrop.histories import HistoryService
    from interbed.catalog.server.service.undrop.undrops import UndropService


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


_server_options = functools.partial(server_options, lambda metastore: metastore.history)


db_option = click.option("--db", metavar="URL", help="The server's database; that of `interbed server` by default.")


@contextmanager
def opened(db: str | None, warehouse: str | None = None) -> "Iterator[tuple[SqlRepository, Metastore]]":
    """Yield the database and the services of a server. The command line reports errors of its settings and database."""
    # Need Thrift and SQL, which are slow to import for the help of a command.
    from interbed.catalog.client.hive.connection import current_user
    from interbed.catalog.server.database import schema
    from interbed.catalog.server.database.engine import check_exists
    from interbed.catalog.server.process.opening import open_metastore
    from interbed.catalog.server.service.history.entries import ChangeOrigin
    from interbed.catalog.server.settings import load

    config = os.environ.get("INTERBED_SERVER_CONFIG")
    settings = load(Path(config) if config else None, os.environ, {"db": db, "warehouse": warehouse})[0]
    origin = ChangeOrigin(principal=current_user(), operation=click.get_current_context().info_name)
    try:
        check_exists(settings.db)
        with open_metastore(settings, lambda: origin) as (store, metastore):
            schema.check_current(store.engine)
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


def _moment(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    """Return the milliseconds of an option with a time."""
    if value is None:
        return None
    from interbed.catalog.server.service.history.shown import moment_of

    try:
        return moment_of(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is no time such as 2026-11-29T12:00:00Z or 1795953600") from error


@click.command()
@_server_options
@click.argument("name", metavar="[DATABASE.TABLE]", required=False)
@click.option("--database", metavar="NAME", help="The changes of a database and of all in it.")
@click.option(
    "--at", "moment", callback=_moment, metavar="TIME", help="Print the state at this time instead of changes."
)
@click.option("--id", "object_id", type=int, metavar="N", help="The table of this number; others had the name, too.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the latest changes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the entries before and after each change.")
def history(
    changes: "HistoryService",
    /,
    *,
    catalog: str,
    name: str | None,
    database: str | None,
    moment: int | None,
    object_id: int | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Show the changes of a table under all of its names, of a dropped table, or of a database.

    With --at, print the entry of the table, or of everything in the database, at that time as JSON, without secrets.
    """
    if (name is None) == (database is None) or (name is not None and "." not in name):
        raise click.UsageError("give a table as DATABASE.TABLE, or --database")
    if moment is not None:
        _print_state(changes, catalog, name, database, moment, object_id)
        return
    others: tuple[int, ...] = ()
    if name is not None:
        home, _, table = name.partition(".")
        found = changes.of_table(catalog, home, table, object_id=object_id, limit=limit)
        entries, others = found.entries, found.others
    else:
        entries = changes.of_database(catalog, database or "", limit=limit)
    if as_json:
        from interbed.catalog.server.service.history.shown import entry_json

        click.echo(json.dumps([entry_json(entry) for entry in entries], indent=2))
        return
    print_entries(entries)
    if others:
        shown = ", ".join(map(str, others))
        print_line(f"Other tables had this name: see --id {shown}", err=True)


@click.command()
@_server_options
@click.argument("name", metavar="DATABASE.TABLE")
@click.option("--at", "moment", callback=_moment, metavar="TIME", required=True, help="The time of the older entry.")
@click.option("--dry-run", is_flag=True, help="Check it, and print the entry without storing it.")
def restore(changes: "HistoryService", /, *, catalog: str, name: str, moment: int, dry_run: bool) -> None:
    """Put the entry of a table or view back: columns, parameters, location, the metadata file of an Iceberg table.

    The table keeps its name and its partitions; files are not changed. Refused if files of the older entry do not exist
    any more, and for what the schema files of a Paimon table decide.
    """
    database, _, table = name.partition(".")
    plan = changes.restore(catalog, database, table, moment, dry_run=dry_run)
    for key in plan.kept:
        print_line(f"{key} keeps its present value: the history has no secrets", err=True)
    for key in plan.missing:
        print_line(f"{key} was left out: the history has no secrets; set it with ALTER TABLE", err=True)
    if dry_run:
        from interbed.catalog.server.service.history.shown import value_json

        click.echo(json.dumps(value_json(plan.table), indent=2))
        return
    print_line(f"{name} has its entry of {_time(moment)}")


COMMANDS = (history, restore)
"""The commands of the group `interbed metastore`."""


def _print_state(
    changes: "HistoryService",
    catalog: str,
    name: str | None,
    database: str | None,
    moment: int,
    object_id: int | None,
) -> None:
    from interbed.catalog.server.service.history.shown import value_json

    if name is not None:
        home, _, table = name.partition(".")
        found = changes.table_at(catalog, home, table, moment, object_id=object_id)
        if found is None:
            raise click.ClickException(f"{name} did not exist at {_time(moment)}")
        click.echo(json.dumps(value_json(found), indent=2))
        return
    states = changes.states_at(catalog, moment)
    listed = [
        {"kind": str(key[0]), **value_json(value)}
        for key, value in sorted(states.items())
        if key[2] == (database or "").lower() and key[0] != "catalog"
    ]
    click.echo(json.dumps(listed, indent=2))


def print_entries(entries: "Sequence[HistoryEntry]") -> None:
    """Print changes, one on a line."""
    if not entries:
        print_line("No changes.")
        return
    rows = [
        [
            _time(entry.time_millis),
            entry.change,
            entry.qualified,
            entry.origin.principal or "",
            ".".join(part for part in (entry.origin.interface, entry.origin.operation) if part),
            _summary(entry),
        ]
        for entry in entries
    ]
    print_columns([["TIME", "CHANGE", "NAME", "BY", "OPERATION", "WHAT"], *rows])


def _summary(entry: "HistoryEntry") -> str:
    """Return what a change has changed, in a few words."""
    from interbed.catalog.server.service.history.shown import changed_fields

    return ", ".join(changed_fields(entry))


def _time(millis: int) -> str:
    from interbed.catalog.server.service.history.shown import moment_text

    return moment_text(millis)


_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_id = click.option("--id", "entry_id", type=int, metavar="N", help="The entry of this id; by default the latest drop.")


_dropped_options = functools.partial(server_options, lambda metastore: metastore.dropped)


@click.command(name="dropped")
@_dropped_options
@click.option("--database", metavar="NAME", help="Only objects of this database.")
@_json
def list_dropped(dropped: "UndropService", /, *, catalog: str, database: str | None, as_json: bool) -> None:
    """List dropped tables, views and databases that can be put back, the latest first."""
    entries = dropped.select(catalog, database)
    if as_json:
        click.echo(json.dumps([entry.to_json() for entry in entries], indent=2))
        return
    if not entries:
        print_line("No dropped objects.")
        return
    print_columns(
        [
            ["ID", "NAME", "KIND", "STATE", "DROPPED", "KEPT UNTIL", "BY", "WITH", "FILES"],
            *(
                [
                    str(entry.id),
                    entry.qualified,
                    str(entry.kind),
                    str(entry.state),
                    shown_time(entry.dropped_at),
                    shown_time(entry.expires_at),
                    entry.dropped_by or "",
                    "" if entry.parent_id is None else str(entry.parent_id),
                    entry.aside or "in place",
                ]
                for entry in entries
            ),
        ]
    )


@click.command()
@_dropped_options
@click.argument("name", metavar="DATABASE[.TABLE]")
@_id
@click.option("--as", "new_name", metavar="NAME", help="Another name for a table, without its database.")
def undrop(dropped: "UndropService", /, *, catalog: str, name: str, entry_id: int | None, new_name: str | None) -> None:
    """Put a dropped table, view or database back, with its files.

    A database comes with the tables that were dropped with it. Refused if the name or the directory is taken.
    """
    entry = _found(dropped, catalog, name, entry_id)
    value = dropped.undrop(entry, new_name=new_name)
    own = entry.database if entry.name is None else f"{entry.database}.{value.name}"
    print_line(f"{entry.kind} {own} is back{'' if value.location is None else f', at {value.location}'}")


@click.command()
@_dropped_options
@click.argument("name", metavar="DATABASE[.TABLE]", required=False)
@_id
@click.option("--all", "everything", is_flag=True, help="All dropped objects of the catalog.")
def purge(
    dropped: "UndropService", /, *, catalog: str, name: str | None, entry_id: int | None, everything: bool
) -> None:
    """Delete a dropped object for good, with the files that were moved aside for it.

    A database is purged with the tables that were dropped with it. Exit code 1 if a directory could not be deleted.
    """
    if everything == (name is not None) or (everything and entry_id is not None):
        raise click.UsageError("give a name, perhaps with --id, or --all")
    if everything:
        # Databases take their tables along.
        chosen = sorted(dropped.select(catalog), key=lambda entry: (entry.name is not None, entry.id))
    else:
        chosen = [_found(dropped, catalog, name or "", entry_id)]
    left = [entry for entry in chosen if not dropped.purge(entry)]
    print_line(f"purged {len(chosen) - len(left)} dropped objects")
    for entry in left:
        print_line(f"{entry.qualified} ({entry.id}) was not deleted: see the log for {entry.aside}", err=True)
    if left:
        sys.exit(1)


DROPPED_COMMANDS = (list_dropped, undrop, purge)
"""The commands of the group `interbed metastore`."""


def _found(dropped: "UndropService", catalog: str, name: str, entry_id: int | None) -> "DroppedObject":
    database, _, table = name.partition(".")
    return dropped.find(catalog, database, table or None, entry_id)


def shown_time(seconds: int) -> str:
    """Return seconds since the epoch as a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
