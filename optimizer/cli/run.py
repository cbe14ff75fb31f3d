"""`interbed optimizer run`: the service, with local workers."""

import click

from interbed.catalog.cli.group import CatalogChoice


@click.command()
@click.pass_obj
def run(chosen: CatalogChoice) -> None:
    """Keep all tables of a catalog in shape, until it is told to end."""
    raise click.UsageError("Not yet.")
