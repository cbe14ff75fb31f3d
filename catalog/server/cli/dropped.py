"""`interbed metastore dropped | undrop | purge`: the dropped objects of a server, in its database and warehouse.

They work on the database directly (opened.py).
"""

import functools
import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from interbed.catalog.server.cli.opened import server_options
from interbed.storage.base.terminal import print_columns, print_line

if TYPE_CHECKING:
    from interbed.catalog.server.service.dropped import DroppedObject
    from interbed.catalog.server.service.undrop.undrops import UndropService

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_id = click.option("--id", "entry_id", type=int, metavar="N", help="The entry of this id; by default the latest drop.")


_server_options = functools.partial(server_options, lambda metastore: metastore.dropped)


@click.command(name="dropped")
@_server_options
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
@_server_options
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
@_server_options
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


COMMANDS = (list_dropped, undrop, purge)
"""The commands of the group `interbed metastore`."""


def _found(dropped: "UndropService", catalog: str, name: str, entry_id: int | None) -> "DroppedObject":
    database, _, table = name.partition(".")
    return dropped.find(catalog, database, table or None, entry_id)


def shown_time(seconds: int) -> str:
    """Return seconds since the epoch as a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
