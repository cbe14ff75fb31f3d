"""The commands of ingestion: `interbed ingest kafka -o warehouse=… --topic orders --table shop.orders …`.

A run shows its progress on standard error, in one line that is updated, if that is a terminal. With `--json` each
commit is an object on a line of standard output, and so is the end. SIGTERM and SIGINT end a run after what was read is
committed.
"""

import click

from interbed.catalog.client.cli.group import CatalogGroup
from interbed.ingest.cli.sources import kafka, postgres, verify


@click.group(cls=CatalogGroup)
def ingest() -> None:
    """Bring changes of other systems into tables, exactly once."""


ingest.add_command(kafka)
ingest.add_command(postgres)
ingest.add_command(verify)
