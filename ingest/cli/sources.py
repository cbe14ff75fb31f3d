"""The commands that read a source: `interbed ingest kafka`, `interbed ingest postgres` and `interbed ingest verify`.

`postgres` reads the tables of one database into tables. `verify` compares a table with a source table.
"""

import json
import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.client.cli.group import CatalogChoice, pairs
from interbed.catalog.client.cli.group import names as listed
from interbed.ingest.cli.options import (
    DurationParameter,
    check_tables,
    ingest_settings,
    run,
    table_names,
    table_settings,
    to_tables,
    watched,
    with_commits,
)
from interbed.storage.base.terminal import print_line

if TYPE_CHECKING:
    from interbed.ingest.tables.comparison import TableComparison

_log = logging.getLogger(__name__)

FORMATS = ("canal-json", "debezium-avro", "debezium-json", "json", "maxwell-json")


@click.command()
@click.option("--bootstrap-servers", required=True, metavar="HOST:PORT,…", help="Brokers of Kafka to begin with.")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="A topic to read; repeatable, or with commas.")
@click.option("--topic-pattern", metavar="REGEX", help="Read all topics whose whole name matches, new ones, too.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="debezium-json",
    show_default=True,
    help="What messages say.",
)
@click.option("--schema-registry", metavar="URL", help="Where the schemas of debezium-avro are; several with commas.")
@click.option(
    "--schema-registry-conf",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of Confluent's clients for it, such as basic.auth.user.info=USER:PASSWORD; repeatable.",
)
@click.option(
    "--unavailable-value",
    metavar="TEXT",
    help="Debezium's unavailable.value.placeholder, a text or hex:BYTES; by default __debezium_unavailable_value.",
)
@to_tables
@click.option(
    "--group",
    default="interbed",
    show_default=True,
    metavar="NAME",
    help="The reader's name: each group reads all messages into its tables, one process of it at a time.",
)
@click.option(
    "--start",
    default="earliest",
    show_default=True,
    metavar="earliest|latest|timestamp:MILLIS",
    help="Where to begin partitions that the group has not read.",
)
@with_commits
@click.option(
    "--transactional", is_flag=True, help="Commit where transactions of the source end, as Debezium's metadata say."
)
@click.option(
    "--transaction-topic",
    metavar="NAME",
    help="Where Debezium says which transactions are over; by default PREFIX.transaction beside PREFIX.SCHEMA.TABLE.",
)
@click.option("--skip-bad", is_flag=True, help="Pass over messages that can't be taken, with a warning for each.")
@click.option("--dead-letter-topic", metavar="NAME", help="Put messages that can't be taken into this topic.")
@click.option("--kafka-conf", multiple=True, metavar="KEY=VALUE", help="A setting of librdkafka; repeatable.")
@watched
@click.pass_obj
def kafka(
    chosen: CatalogChoice,
    /,
    bootstrap_servers: str,
    topics: Sequence[str],
    topic_pattern: str | None,
    form: str,
    schema_registry: str | None,
    schema_registry_conf: Sequence[str],
    unavailable_value: str | None,
    group: str,
    start: str,
    transactional: bool,
    transaction_topic: str | None,
    skip_bad: bool,
    dead_letter_topic: str | None,
    kafka_conf: Sequence[str],
    **given: Any,
) -> None:
    """Write the changes in topics of Kafka to tables.

    Tables that are missing are created, and get the columns and the wider types that come; nothing is dropped or
    narrowed. How far a table was read is part of its snapshots, so that a run that was killed goes on without losing or
    repeating a row.

    Needs the extra: pip install 'interbed[kafka]'.
    """
    if bool(topics) == bool(topic_pattern):
        raise click.UsageError("Give topics by --topic, or --topic-pattern.")
    check_tables(given)
    if skip_bad and dead_letter_topic:
        raise click.UsageError("Give --skip-bad or --dead-letter-topic, not both.")
    if transaction_topic and not transactional:
        raise click.UsageError("--transaction-topic is for --transactional.")

    from interbed.ingest.formats.format import WITH_PLACEHOLDER, WITH_SCHEMAS, decoder_of, transactions_of
    from interbed.ingest.job import Ingestion
    from interbed.ingest.sources.kafka.client import KafkaDeadLetters
    from interbed.ingest.sources.kafka.source import KafkaSource
    from interbed.ingest.sources.schema_registry import SchemaRegistry
    from interbed.ingest.sources.source import TransactionalSource, topic_of_transactions

    if (form in WITH_SCHEMAS) != bool(schema_registry):
        raise click.UsageError(f"Give --schema-registry with --format {', '.join(WITH_SCHEMAS)}, and with no other.")
    if schema_registry_conf and not schema_registry:
        raise click.UsageError("Give --schema-registry-conf with --schema-registry.")
    if unavailable_value and form not in WITH_PLACEHOLDER:
        raise click.UsageError(f"--unavailable-value is for --format {' and '.join(WITH_PLACEHOLDER)}.")
    names, tables = table_names(given), table_settings(given)
    settings = ingest_settings(given, group, skip_bad=skip_bad, dead_letters=bool(dead_letter_topic))
    client = pairs(kafka_conf, hint="--kafka-conf")
    schemas = SchemaRegistry(schema_registry, _settings(schema_registry_conf)) if schema_registry else None
    with ExitStack() as stack:
        catalog = stack.enter_context(chosen.catalog(makes_warehouse=True))
        named = listed(topics)
        announced = transaction_topic or (topic_of_transactions(named) if transactional else None)
        read = [*named, *([] if announced is None else [announced])]
        kafka = KafkaSource(bootstrap_servers, read, topic_pattern, group=group, start=start, settings=client)
        stack.callback(kafka.close)
        source = kafka if announced is None else TransactionalSource(kafka, announced, transactions_of(form, schemas))
        letters = None
        if dead_letter_topic:
            letters = KafkaDeadLetters(bootstrap_servers, dead_letter_topic, settings=client)
            stack.callback(letters.close)
        decoder = partial(decoder_of, form, schemas, unavailable_value)
        job = Ingestion(catalog, source, decoder, names, tables, settings, dead_letters=letters)
        run(job, given)
        if start != "earliest" and settings.until_end and not job.result.has_positions:
            _log.warning(
                "No table keeps a position yet, so the next run begins where --start %s says: messages that come "
                "until then may never be read. Create the table, or begin with --start earliest.",
                start,
            )


def _settings(given: Sequence[str]) -> dict[str, str]:
    """Return the settings of the schema registry. Errors quote none of them, because they may be secrets."""
    if not all(text.partition("=")[0] and "=" in text for text in given):
        raise click.BadParameter("one of them is not KEY=VALUE.", param_hint="--schema-registry-conf")
    return pairs(given, hint="--schema-registry-conf")


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
