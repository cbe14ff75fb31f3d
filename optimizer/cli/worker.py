"""`interbed optimizer worker`: a process that carries out tasks for an optimizer elsewhere."""

import click

from interbed.catalog.cli.group import CatalogChoice


@click.command()
@click.pass_obj
def worker(chosen: CatalogChoice) -> None:
    """Work for an optimizer that runs elsewhere."""
    raise click.UsageError("Not yet.")
