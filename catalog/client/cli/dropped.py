"""`interbed catalog dropped | undrop | purge`: the dropped objects of a file-system catalog, or those that its server
keeps.

They have the words of `interbed metastore dropped | undrop | purge`, which do the same on the server's database.
"""

from datetime import UTC, datetime

import click

from interbed.catalog.client.cli.group import CatalogChoice, done, json_flag, show_json
from interbed.storage.base.terminal import print_columns, print_line

_id = click.option("--id", "drop_id", metavar="ID", help="The drop of this id; by default the latest one.")


@click.command(name="dropped")
@click.option("--database", metavar="NAME", help="Only objects of this database.")
@json_flag
@click.pass_obj
def list_dropped(chosen: CatalogChoice, database: str | None, as_json: bool) -> None:
    """List dropped tables, views and databases that can be put back, the latest first."""
    with chosen.catalog() as opened:
        entries = opened.list_dropped(database)
    if as_json:
        show_json([entry.to_json() for entry in entries])
        return
    if not entries:
        print_line("No dropped objects.")
        return
    rows = [
        [
            entry.id,
            entry.qualified,
            entry.kind,
            _time(entry.dropped_at),
            "until purged" if entry.expires_at is None else _time(entry.expires_at),
            entry.with_database or "",
            entry.present_location or "in place",
        ]
        for entry in entries
    ]
    print_columns([["ID", "NAME", "KIND", "DROPPED", "KEPT UNTIL", "WITH", "FILES"], *rows])


@click.command()
@click.argument("name", metavar="DATABASE[.TABLE]")
@_id
@click.option("--as", "new_name", metavar="NAME", help="Another name for a table, without its database.")
@json_flag
@click.pass_obj
def undrop(chosen: CatalogChoice, name: str, drop_id: str | None, new_name: str | None, as_json: bool) -> None:
    """Put a dropped table, view or database back, with its files.

    A database comes with the tables that were dropped with it. Refused if the name or the directory is taken.
    """
    is_table = "." in name
    if new_name is not None and not is_table:
        raise click.UsageError("a database gets no other name: leave --as out")
    with chosen.catalog(name) as opened:
        if is_table:
            opened.undrop_table(name, new_name=new_name, drop_id=drop_id)
        else:
            opened.undrop_database(name, drop_id=drop_id)
    own = name if new_name is None else f"{name.partition('.')[0]}.{new_name}"
    done(f"{'table' if is_table else 'database'} {own} is back", {"name": own}, as_json)


@click.command()
@click.argument("name", metavar="[DATABASE[.TABLE]]", required=False)
@_id
@click.option("--all", "everything", is_flag=True, help="All dropped objects of the catalog.")
@click.option("--expired", is_flag=True, help="All that has expired.")
@json_flag
@click.pass_context
def purge(
    context: click.Context, name: str | None, drop_id: str | None, everything: bool, expired: bool, as_json: bool
) -> None:
    """Delete a dropped object for good, with the files that were moved aside for it.

    A database is purged with the tables that were dropped with it. Exit code 1 if a directory could not be deleted.
    """
    if [name is not None, everything, expired].count(True) != 1 or (name is None and drop_id is not None):
        raise click.UsageError("give a name, perhaps with --id, or --all, or --expired")
    with context.ensure_object(CatalogChoice).catalog(name) as opened:
        wanted = 1
        if everything:
            wanted = sum(entry.with_database is None for entry in opened.list_dropped())
        purged = opened.purge_dropped(name, drop_id=drop_id, only_expired=expired)
    done(f"purged {purged} dropped objects", {"purged": purged}, as_json)
    if not expired and purged < wanted:
        print_line("Some directories were not deleted: see the log.", err=True)
        context.exit(1)


DROPPED_COMMANDS: tuple[click.Command, ...] = (list_dropped, undrop, purge)
"""The commands of `interbed catalog` about dropped objects."""


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
