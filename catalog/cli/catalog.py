"""The command line of catalogs: `interbed catalog -o metastore=hive -o uri=… repair [DATABASE[.TABLE]]`."""

from collections.abc import Sequence

import click

from interbed.catalog.cli.common import catalog_options, json_flag, pairs, show
from interbed.catalog.factory import open_catalog
from interbed.catalog.repair_report import RepairReport


@click.group()
@catalog_options
@click.pass_context
def catalog(context: click.Context, options: Sequence[str]) -> None:
    """Look after a catalog: interbed catalog -o metastore=hive -o uri=thrift://localhost:9083 repair shop"""
    context.obj = pairs(options)


@catalog.command()
@click.argument("name", metavar="[DATABASE[.TABLE]]", required=False)
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@json_flag
@click.pass_context
def repair(context: click.Context, name: str | None, dry_run: bool, as_json: bool) -> None:
    """Register what lies in the warehouse, and bring what is registered up to date.

    All databases of the warehouse, one database, or one table. Nothing is ever removed. Exits with 1 when something
    could not be repaired.
    """
    with open_catalog("interbed", context.obj) as opened:
        report: RepairReport
        if name is None:
            report = opened.repair_catalog(dry_run=dry_run)
        elif "." in name:
            report = opened.repair_table(name, dry_run=dry_run)
        else:
            report = opened.repair_database(name, dry_run=dry_run)
    show(report, as_json)
    if report.failures:
        context.exit(1)
