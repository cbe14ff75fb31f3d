"""The command line of catalogs: `interbed catalog list | create-database | drop-database | config | repair`."""

from collections.abc import Sequence

import click

from interbed.catalog.client.cli.group import CatalogChoice, CatalogGroup, done, json_flag, pairs, show, show_json
from interbed.storage.base.terminal import print_line, print_lines


@click.group(cls=CatalogGroup)
def catalog() -> None:
    """Databases of a catalog.

    interbed catalog -o warehouse=file:/tmp/lake create-database shop
    """


@catalog.command(name="list")
@json_flag
@click.pass_obj
def list_databases(chosen: CatalogChoice, as_json: bool) -> None:
    """The names of all databases."""
    with chosen.catalog() as opened:
        found = opened.list_databases()
    if as_json:
        show_json(found)
    else:
        print_lines(found, empty="no databases")


@catalog.command("create-database")
@click.argument("name", metavar="DATABASE")
@click.option("--if-not-exists", is_flag=True, help="Do nothing when there is one of that name.")
@click.option("--comment", metavar="TEXT", help="What it is for.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property; repeatable.")
@json_flag
@click.pass_obj
def create_database(
    chosen: CatalogChoice,
    name: str,
    if_not_exists: bool,
    comment: str | None,
    properties: Sequence[str],
    as_json: bool,
) -> None:
    """Create a database, and the warehouse when it is the first."""
    given = pairs(properties, hint="--property") | ({} if comment is None else {"comment": comment})
    with chosen.catalog(makes_warehouse=True) as opened:
        made = not (if_not_exists and opened.database_exists(name))
        opened.create_database(name, if_not_exists, given)
    text = f"created the database {name}" if made else f"there is a database {name} already"
    done(text, {"database": name, "created": made}, as_json)


@catalog.command("drop-database")
@click.argument("name", metavar="DATABASE")
@click.option("--if-exists", is_flag=True, help="Do nothing when there is none of that name.")
@click.option("--cascade", is_flag=True, help="Drop its tables, too, with their files.")
@json_flag
@click.pass_obj
def drop_database(chosen: CatalogChoice, name: str, if_exists: bool, cascade: bool, as_json: bool) -> None:
    """Drop a database; one that holds tables only with --cascade."""
    with chosen.catalog(name) as opened:
        dropped = not if_exists or opened.database_exists(name)
        opened.drop_database(name, if_exists, cascade)
    text = f"dropped the database {name}" if dropped else f"there is no database {name}"
    done(text, {"database": name, "dropped": dropped}, as_json)


@catalog.command("config")
@json_flag
@click.pass_obj
def show_configuration(chosen: CatalogChoice, as_json: bool) -> None:
    """The name and options of the catalog that commands work on, and where each comes from. Secrets are hidden."""
    from interbed.catalog.client.configuration import load_configuration
    from interbed.storage.base.shown_text import masked

    configuration = load_configuration()
    name, options = configuration.resolved(chosen.name, chosen.options)
    settings = configuration.catalogs.get(name, {})
    shown = {
        key: {
            "value": masked(key, value),
            "source": "-o" if key in chosen.options else settings[key].source,
        }
        for key, value in sorted(options.items())
    }
    if as_json:
        show_json({"catalog": name, "options": shown})
        return
    print_line(f"catalog {name}")
    for key, setting in shown.items():
        print_line(f"  {key} = {setting['value']}  ({setting['source']})")


@catalog.command()
@click.argument("name", metavar="[DATABASE[.TABLE]]", required=False)
@click.option("--dry-run", is_flag=True, help="Only report what would be done.")
@json_flag
@click.pass_context
def repair(context: click.Context, name: str | None, dry_run: bool, as_json: bool) -> None:
    """Register what lies in the warehouse of a Hive catalog, and bring what is registered up to date.

    All databases of the warehouse, one database, or one table. Nothing is removed but what a drop that was killed has
    left. Exits with 1 when something could not be repaired.
    """
    with context.ensure_object(CatalogChoice).catalog(name) as opened:
        if name is None:
            report = opened.repair_catalog(dry_run=dry_run)
        elif "." in name:
            report = opened.repair_table(name, dry_run=dry_run)
        else:
            report = opened.repair_database(name, dry_run=dry_run)
    show(report, as_json)
    if report.failures:
        context.exit(1)
