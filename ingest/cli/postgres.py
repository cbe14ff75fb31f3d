"""`interbed ingest postgres`: reads the tables of one database into tables, without Kafka."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import click

from interbed.catalog.client.cli.group import CatalogChoice
from interbed.catalog.client.cli.group import names as listed
from interbed.ingest.cli.options import (
    check_tables,
    ingest_settings,
    table_names,
    table_settings,
    to_tables,
    watched,
    with_commits,
)


@click.command()
@click.option(
    "--url",
    required=True,
    metavar="postgresql://USER@HOST:PORT/DATABASE",
    help="The database; a password may come from PGPASSWORD or ~/.pgpass instead.",
)
@click.option(
    "--schema",
    "schemas",
    multiple=True,
    default=["public"],
    show_default=True,
    metavar="NAME",
    help="A schema with tables to read; repeatable, or with commas.",
)
@click.option(
    "--publication",
    default="interbed",
    show_default=True,
    metavar="NAME",
    help="The publication of the tables; created for the existing tables when it is missing.",
)
@click.option(
    "--slot",
    default="interbed",
    show_default=True,
    metavar="NAME",
    help="The replication slot, made when it is missing; each reads everything into its tables.",
)
@to_tables
@click.option(
    "--skip-tables",
    metavar="REGEX",
    help="Tables whose whole name matches are passed over, with a warning, where they can't be taken.",
)
@with_commits
@click.option("--skip-bad", is_flag=True, help="Pass over rows that can't be taken, with a warning for each.")
@watched
@click.pass_obj
def postgres(
    chosen: CatalogChoice,
    /,
    url: str,
    schemas: Sequence[str],
    publication: str,
    slot: str,
    skip_bad: bool,
    **given: Any,
) -> None:
    """Write the changes of a PostgreSQL database to tables.

    A table gets the rows that it has in the database first, and then every change of them, without a gap between the
    two. Commits are where transactions end. How far a table was read is part of its snapshots, so that a run that was
    killed goes on without losing or repeating a row; the database keeps what is not in all tables yet.

    The server needs wal_level = logical. Drop the slot when it is not read any more: the server keeps its WAL for it.

    Needs the extra: pip install 'interbed[postgres]'.
    """
    check_tables(given)

    from interbed.ingest.formats.pgoutput import PgOutput
    from interbed.ingest.job import Ingestion
    from interbed.ingest.sources.postgres.source import PostgresSource
    from interbed.ingest.watch import run

    names, tables = table_names(given, listed(schemas)), table_settings(given)
    settings = ingest_settings(given, slot, skip_bad=skip_bad)
    source = PostgresSource(
        url,
        publication=publication,
        slot=slot,
        is_wanted=lambda table: names.of(table) is not None,
        may_skip=names.may_skip,
        names_tables=names.are_chosen,
    )
    with chosen.catalog(makes_warehouse=True) as catalog, closing(source):
        run(Ingestion(catalog, source, lambda: PgOutput(source.catalog), names, tables, settings), given)
