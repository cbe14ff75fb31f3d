"""`interbed metastore history | restore`: the changes of a server's metadata, and tables put back to an older entry.

Times are ISO 8601 (`2026-11-29T12:00:00.250Z`; UTC without an offset) or seconds since the epoch. A state at a time
includes the changes of that millisecond.
"""

import functools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from interbed.catalog.server.cli.opened import server_options
from interbed.storage.base.terminal import print_columns, print_line

if TYPE_CHECKING:
    from interbed.catalog.server.service.history.entries import HistoryEntry
    from interbed.catalog.server.service.undrop.histories import HistoryService

_server_options = functools.partial(server_options, lambda metastore: metastore.history)


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
