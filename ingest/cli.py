"""The commands that bring changes in: `interbed ingest kafka -o warehouse=… --topic orders --table shop.orders …`.

A run is watched on standard error: by a line that is renewed, on a terminal alone. With `--json` each commit is an
object on a line of standard output, and so is the end. SIGTERM and SIGINT end a run after what was read is committed.
"""

import json
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.cli.common import names as listed
from interbed.catalog.cli.group import CatalogChoice, CatalogGroup, pairs

if TYPE_CHECKING:
    from interbed.ingest.job import Ingestion

FORMATS = ("canal-json", "debezium-avro", "debezium-json", "json", "maxwell-json")


class _Seconds(click.ParamType):  # type: ignore[type-arg]
    """A length of time as tables' options have it: '10s', '1 min'."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from interbed.storage.base.errors import InvalidInputError
        from interbed.storage.meta.options.reader import parse_duration_millis

        if isinstance(value, float):
            return value
        try:
            return parse_duration_millis("--commit-interval", str(value)) / 1000
        except InvalidInputError as error:
            self.fail(str(error), param, ctx)


@click.group(cls=CatalogGroup)
def ingest() -> None:
    """Bring changes of other systems into tables, exactly once."""


@ingest.command()
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
@click.option("--table", metavar="DATABASE.TABLE", help="The table that all changes go to.")
@click.option("--database", metavar="NAME", help="The database in which each table of the source has one.")
@click.option("--table-prefix", default="", metavar="TEXT", help="Before the names of the source's tables.")
@click.option("--table-suffix", default="", metavar="TEXT", help="After the names of the source's tables.")
@click.option(
    "--including-tables", default=".*", metavar="REGEX", help="Only tables of the source whose whole name matches."
)
@click.option("--excluding-tables", metavar="REGEX", help="No tables of the source whose whole name matches.")
@click.option(
    "--primary-key",
    "primary_keys",
    multiple=True,
    metavar="COLUMNS",
    help="The key of tables that are created; by default the one that messages name.",
)
@click.option("--partition-key", "partition_keys", multiple=True, metavar="COLUMNS", help="Likewise, the partitions.")
@click.option(
    "--table-option", "table_options", multiple=True, metavar="KEY=VALUE", help="An option of tables that are created."
)
@click.option(
    "--computed-column",
    "computed",
    multiple=True,
    metavar="NAME=FUNCTION(COLUMN,…)",
    help="A column worked out from another, such as dt=date_format(created,'yyyy-MM-dd'); repeatable.",
)
@click.option(
    "--group",
    default="interbed",
    show_default=True,
    metavar="NAME",
    help="Who reads: each group reads all messages into its tables, one process of it at a time.",
)
@click.option(
    "--start",
    default="earliest",
    show_default=True,
    metavar="earliest|latest|timestamp:MILLIS",
    help="Where to begin partitions that the group has not read.",
)
@click.option("--commit-interval", type=_Seconds(), default="10s", show_default=True, help="How often to commit.")
@click.option("--commit-rows", type=click.IntRange(min=1), metavar="N", help="Commit sooner, with so many rows.")
@click.option("--until-end", is_flag=True, help="End where the topics end now, instead of waiting for more.")
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
@click.option("--metrics-port", type=int, metavar="PORT", help="Serve Prometheus's metrics on this port.")
@click.option(
    "--metrics-host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address of the metrics."
)
@click.option("--json", "as_json", is_flag=True, help="Print each commit, and the end, as a JSON object on a line.")
@click.pass_obj
def kafka(
    chosen: CatalogChoice,
    bootstrap_servers: str,
    topics: Sequence[str],
    topic_pattern: str | None,
    form: str,
    schema_registry: str | None,
    schema_registry_conf: Sequence[str],
    table: str | None,
    database: str | None,
    table_prefix: str,
    table_suffix: str,
    including_tables: str,
    excluding_tables: str | None,
    primary_keys: Sequence[str],
    partition_keys: Sequence[str],
    table_options: Sequence[str],
    computed: Sequence[str],
    group: str,
    start: str,
    commit_interval: float,
    commit_rows: int | None,
    until_end: bool,
    transactional: bool,
    transaction_topic: str | None,
    skip_bad: bool,
    dead_letter_topic: str | None,
    kafka_conf: Sequence[str],
    metrics_port: int | None,
    metrics_host: str,
    as_json: bool,
) -> None:
    """Write the changes in topics of Kafka to tables.

    Tables that are missing are created, and get the columns and the wider types that come; nothing is dropped or
    narrowed. How far a table was read is part of its snapshots, so that a run that was killed goes on without losing or
    repeating a row.

    Needs the extra: pip install 'interbed[kafka]'.
    """
    if bool(topics) == bool(topic_pattern):
        raise click.UsageError("Give topics by --topic, or --topic-pattern.")
    if bool(table) == bool(database):
        raise click.UsageError("Give the one --table that changes go to, or the --database of many.")
    if skip_bad and dead_letter_topic:
        raise click.UsageError("Give --skip-bad or --dead-letter-topic, not both.")
    if transaction_topic and not transactional:
        raise click.UsageError("--transaction-topic is for --transactional.")

    from interbed.ingest.formats.format import WITH_SCHEMAS, decoder_of, transactions_of
    from interbed.ingest.job import BadMessages, Ingestion, IngestSettings
    from interbed.ingest.sources.dead_letters import KafkaDeadLetters
    from interbed.ingest.sources.kafka import KafkaSource
    from interbed.ingest.sources.schema_registry import SchemaRegistry
    from interbed.ingest.sources.transactions import TransactionalSource, topic_of_transactions
    from interbed.ingest.tables.computed_columns import ComputedColumn
    from interbed.ingest.tables.names import TableNames
    from interbed.ingest.tables.table_sink import TableSettings

    if (form in WITH_SCHEMAS) != bool(schema_registry):
        raise click.UsageError(f"Give --schema-registry with --format {', '.join(WITH_SCHEMAS)}, and with no other.")
    if schema_registry_conf and not schema_registry:
        raise click.UsageError("Give --schema-registry-conf with --schema-registry.")
    table_names = TableNames(
        table=table,
        database=database,
        prefix=table_prefix,
        suffix=table_suffix,
        including=including_tables,
        excluding=excluding_tables,
    )
    tables = TableSettings(
        primary_keys=listed(primary_keys),
        partition_keys=listed(partition_keys),
        options=pairs(table_options, hint="--table-option"),
        computed=[ComputedColumn.parse(text) for text in computed],
    )
    bad = BadMessages.SKIP if skip_bad else BadMessages.DEAD_LETTER if dead_letter_topic else BadMessages.STOP
    settings = IngestSettings(
        group=group,
        commit_interval=commit_interval,
        commit_rows=commit_rows,
        until_end=until_end,
        bad_messages=bad,
    )
    client = pairs(kafka_conf, hint="--kafka-conf")
    schemas = SchemaRegistry(schema_registry, _settings(schema_registry_conf)) if schema_registry else None
    with ExitStack() as stack:
        catalog = stack.enter_context(chosen.catalog(makes_warehouse=True))
        named = listed(topics)
        told = transaction_topic or (topic_of_transactions(named) if transactional else None)
        read = [*named, *([] if told is None else [told])]
        kafka = KafkaSource(bootstrap_servers, read, topic_pattern, group=group, start=start, settings=client)
        stack.callback(kafka.close)
        source = kafka if told is None else TransactionalSource(kafka, told, transactions_of(form))
        letters = None
        if dead_letter_topic:
            letters = KafkaDeadLetters(bootstrap_servers, dead_letter_topic, settings=client)
            stack.callback(letters.close)
        decoder = partial(decoder_of, form, schemas)
        job = Ingestion(catalog, source, decoder, table_names, tables, settings, dead_letters=letters)
        _run(job, as_json=as_json, metrics=None if metrics_port is None else (metrics_host, metrics_port))


def _settings(given: Sequence[str]) -> dict[str, str]:
    """Settings of the schema registry, of which none is shown, for it may be a secret."""
    if not all(text.partition("=")[0] and "=" in text for text in given):
        raise click.BadParameter("one of them is not KEY=VALUE.", param_hint="--schema-registry-conf")
    return pairs(given, hint="--schema-registry-conf")


def _run(job: "Ingestion", *, as_json: bool, metrics: tuple[str, int] | None) -> None:
    from interbed.ingest.watch import serve_metrics, shown_progress

    with ExitStack() as stack:
        stopped = stack.enter_context(_stop_signals())
        if metrics is not None:
            stack.enter_context(serve_metrics(job, *metrics))
        stack.enter_context(shown_progress(job))

        def committed() -> None:
            if as_json:
                click.echo(json.dumps({"event": "commit", **job.result.to_dict()}))

        job.run(stopped, committed)
    result = job.result
    if as_json:
        click.echo(json.dumps({"event": "end", **result.to_dict()}))
        return
    rows = sum(result.rows.values())
    bad = f", {result.bad} of them bad" if result.bad else ""
    click.echo(
        f"read {result.messages} messages{bad}; committed {rows} rows of {len(result.rows)} tables in "
        f"{result.commits} commits"
    )


@contextmanager
def _stop_signals() -> "Iterator[Callable[[], bool]]":
    """Says whether SIGTERM or SIGINT came while the block runs; a second one ends the process as it would without."""
    came = threading.Event()
    before: dict[int, Any] = {}

    def note(number: int, _: object) -> None:
        came.set()
        signal.signal(number, before[number])

    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.signal(number, note)
    try:
        yield came.is_set
    finally:
        for taken, handler in before.items():
            signal.signal(taken, handler)
