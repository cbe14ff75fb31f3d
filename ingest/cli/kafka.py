"""`interbed ingest kafka`: reads topics of Kafka into tables."""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import click

from interbed.catalog.client.cli.group import CatalogChoice, pairs
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
    from interbed.ingest.watch import run

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
