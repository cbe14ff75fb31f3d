"""The commands that read PostgreSQL without Kafka: `interbed ingest postgres` and `interbed ingest verify`.

`postgres` reads the tables of one database into tables. `verify` compares a table with a source table.
"""

import json
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.client.cli.group import CatalogChoice
from interbed.catalog.client.cli.group import names as listed
from interbed.ingest.cli.options import (
    DurationParameter,
    check_tables,
    ingest_settings,
    table_names,
    table_settings,
    to_tables,
    watched,
    with_commits,
)
from interbed.storage.base.terminal import print_line

if TYPE_CHECKING:
    from interbed.ingest.tables.comparison import TableComparison


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


@click.command()
@click.option(
    "--url",
    required=True,
    metavar="postgresql://USER@HOST:PORT/DATABASE",
    help="The database of the source table; a password may come from PGPASSWORD or ~/.pgpass instead.",
)
@click.option("--table", required=True, metavar="DATABASE.TABLE", help="The table of the lake.")
@click.option("--source", "source_name", required=True, metavar="SCHEMA.TABLE", help="The source table.")
@click.option("--where", "condition", metavar="CONDITION", help="The rows of the source table to compare, in its SQL.")
@click.option(
    "--wait",
    type=DurationParameter(),
    default="5s",
    show_default=True,
    help="How long to wait before differences are looked at again.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as a JSON object.")
@click.pass_obj
def verify(
    chosen: CatalogChoice,
    /,
    url: str,
    table: str,
    source_name: str,
    condition: str | None,
    wait: float,
    *,
    as_json: bool,
) -> None:
    """Compare a table with the source table that it was filled from.

    Compares counts and checksums of key ranges, then the rows of the ranges that differ, twice: rows that are changed
    meanwhile do not count. Columns that only one of the tables has are left out. Exits with 1 when a row is missing,
    left over or different. Let the job that fills the table read to the end before.

    Nothing is changed, and in PostgreSQL the right to SELECT is enough.

    Needs the extra: pip install 'interbed[postgres]'.
    """
    from interbed.ingest.flow.changes import SourceTable
    from interbed.ingest.sources.postgres.snapshot import PostgresTable
    from interbed.ingest.tables.comparison import RowComparison

    schema, _, name = source_name.rpartition(".")
    source = PostgresTable(url, SourceTable(schema or "public", name), condition=condition)
    with chosen.catalog() as catalog:
        found = RowComparison(catalog.get_table(table), source.changes).run(partial(time.sleep, wait))
    if as_json:
        click.echo(json.dumps(_as_json(table, source_name, found), default=str))
    else:
        _print(table, source_name, found)
    if not found.is_equal:
        raise SystemExit(1)


def _as_json(table: str, source: str, found: "TableComparison") -> dict[str, Any]:
    return {
        "table": table,
        "source": source,
        "equal": found.is_equal,
        "rows": found.rows,
        "source_rows": found.source_rows,
        "columns": list(found.columns),
        "source_only_columns": list(found.source_only),
        "ranges_that_differ": found.ranges,
        "missing": found.missing,
        "left_over": found.left_over,
        "different": found.different,
        "differences": [{"table": each.lake, "source": each.source} for each in found.differences],
    }


def _print(table: str, source: str, found: "TableComparison") -> None:
    print_line(f"{table}: {found.rows} rows; {source}: {found.source_rows} rows; compared {', '.join(found.columns)}")
    if found.source_only:
        print_line(f"not compared, because {table} lacks them: {', '.join(found.source_only)}")
    if found.is_equal:
        print_line("all rows are the same")
        return
    print_line(f"missing: {found.missing}, left over: {found.left_over}, different: {found.different}")
    for each in found.differences:
        for sign, row in (("source", each.source), ("table", each.lake)):
            shown = "no row" if row is None else json.dumps(dict(row), default=str, ensure_ascii=False)
            print_line(f"  {sign:<6}  {shown}")
