"""Procedures that ingest changes of other systems, as `interbed ingest`, on Spark's executors.

Arguments of sys.ingest_kafka have the meaning of the options of `interbed ingest kafka`.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from interbed.catalog.client.identifier import TableName
from interbed.ingest.formats.format import FORMATS, WITH_PLACEHOLDER, WITH_SCHEMAS
from interbed.ingest.formats.lacking_columns import UnavailableValue
from interbed.ingest.run_settings import BadMessages
from interbed.ingest.tables.computed_columns import ComputedColumn
from interbed.ingest.tables.source_tables import TableNames
from interbed.ingest.tables.table_sink import TableSettings
from interbed.spark_ext.ingestion.settings import KafkaSettings, RunSettings
from interbed.spark_ext.procedures.procedure import (
    Answer,
    ArgumentType,
    Procedure,
    ProcedureCall,
    column,
    optional,
    required,
    with_blocks,
)
from interbed.storage.base.shown_text import parse_duration_millis

ROUND_ROWS = 500_000
"""Messages of a round before its commit, by default."""


def settings_of(call: ProcedureCall) -> RunSettings:
    """Return the settings of a call. Raises ProcedureArgumentError for wrong or contradicting arguments."""
    form = call.given("format") or "debezium-json"
    if form not in FORMATS:
        raise call.error("format", f"is one of {', '.join(FORMATS)}, not {form!r}")
    registry, registry_conf = call.given("schema_registry"), call.given("schema_registry_conf") or {}
    if (form in WITH_SCHEMAS) != bool(registry) or (registry_conf and not registry):
        raise call.error("schema_registry", f"is needed with the format {', '.join(WITH_SCHEMAS)}, and with no other")
    topics, pattern = _listed(call, "topic"), call.given("topic_pattern")
    if bool(topics) == bool(pattern):
        raise call.error("topic", "names the topics to read; either it or 'topic_pattern' has to be given")
    round_rows = call.given("commit_rows")
    if round_rows is not None and round_rows < 1:
        raise call.error("commit_rows", f"is a positive number, not {round_rows}")
    until_end = call.given("until_end")
    return RunSettings(
        kafka=KafkaSettings(
            servers=call.needed("bootstrap_servers"),
            topics=topics,
            pattern=pattern,
            group=call.given("group") or "interbed",
            start=call.given("start") or "earliest",
            client=call.given("kafka_conf") or {},
        ),
        form=form,
        schema_registry=registry,
        schema_registry_conf=registry_conf,
        names=_names(call),
        tables=TableSettings(
            primary_keys=_listed(call, "primary_keys"),
            partition_keys=_listed(call, "partition_keys"),
            options=call.given("table_options") or {},
            computed=[ComputedColumn.parse(text) for text in _listed(call, "computed_columns", ";")],
        ),
        bad_messages=_bad_messages(call),
        dead_letter_topic=call.given("dead_letter_topic"),
        until_end=True if until_end is None else until_end,
        commit_interval=parse_duration_millis("commit_interval", call.given("commit_interval") or "10 s") / 1000,
        round_rows=round_rows or ROUND_ROWS,
        unavailable_value=_placeholder(call, form),
        accept_changed_source=_listed(call, "accept_changed_source"),
    )


def _placeholder(call: ProcedureCall, form: str) -> str | None:
    """Return Debezium's placeholder for values that were not sent, if it is not the default."""
    text: str | None = call.given("unavailable_value")
    if text is not None:
        if form not in WITH_PLACEHOLDER:
            raise call.error("unavailable_value", f"is for the formats {' and '.join(WITH_PLACEHOLDER)}")
        UnavailableValue.parse(text)
    return text


def _names(call: ProcedureCall) -> TableNames:
    table, database = call.given("table"), call.given("database")
    if bool(table) == bool(database):
        raise call.error("table", "names the one table that changes go to; either it or 'database' has to be given")
    name: TableName | None = None
    if table:
        name = call.table_name()
        if name.system is not None:
            raise call.error("table", f"names a system table: {table!r}")
    return TableNames(
        table=None if name is None else str(name.of_table),
        database=database,
        prefix=call.given("table_prefix") or "",
        suffix=call.given("table_suffix") or "",
        including=call.given("including_tables") or ".*",
        excluding=call.given("excluding_tables"),
    )


def _bad_messages(call: ProcedureCall) -> BadMessages:
    """Return the treatment of bad messages; a topic for them means dead-letter."""
    topic = call.given("dead_letter_topic")
    text = call.given("bad_messages") or (BadMessages.DEAD_LETTER if topic else BadMessages.STOP).value
    if text not in list(BadMessages):
        raise call.error("bad_messages", f"is one of {', '.join(BadMessages)}, not {text!r}")
    if (text == BadMessages.DEAD_LETTER) != bool(topic):
        raise call.error("bad_messages", "is 'dead-letter' where a 'dead_letter_topic' is given, and only there")
    return BadMessages(text)


def _listed(call: ProcedureCall, name: str, mark: str = ",") -> list[str]:
    text = call.given(name) or ""
    return [item.strip() for item in text.split(mark) if item.strip()]


if TYPE_CHECKING:
    from interbed.spark_ext.procedures.ingestion_rounds import IngestionRounds

_MAP, _LONG = ArgumentType.STRING_MAP, ArgumentType.LONG


def _ingest_kafka(call: ProcedureCall) -> Answer:
    from interbed.spark_ext.ingestion.round import RunProgress

    text = call.given("progress")
    return _rounds(call).begin(RunProgress() if text is None else RunProgress.from_json(text))


def _resume(call: ProcedureCall, token: bytes, results: Sequence[bytes]) -> Answer:
    return _rounds(call).resume(token, results)


def _abort(call: ProcedureCall, token: bytes) -> None:
    _rounds(call).abort(token)


def _run_task(shared: bytes, payload: bytes) -> bytes:
    from interbed.spark_ext.ingestion.reading import read

    report, blocks = read(shared, payload)
    return with_blocks(report.to_bytes(), blocks)


def _take_blocks(shared: bytes, payload: bytes, blocks: Iterator[tuple[str, bytes]]) -> bytes:
    from interbed.spark_ext.ingestion.writing import write

    return write(shared, payload, blocks)


def _rounds(call: ProcedureCall) -> "IngestionRounds":
    # Ingestion and its dependencies are loaded by use.
    from interbed.spark_ext.procedures.ingestion import settings_of
    from interbed.spark_ext.procedures.ingestion_rounds import IngestionRounds

    return IngestionRounds(call, settings_of(call), records_all=call.given("progress") is None)


PROCEDURES = (
    Procedure(
        name="ingest_kafka",
        description="Writes the changes in topics of Kafka to tables, exactly once, to the ends of the topics.",
        parameters=(
            required("bootstrap_servers"),
            optional("topic"),
            optional("topic_pattern"),
            optional("format"),
            optional("table"),
            optional("database"),
            optional("table_prefix"),
            optional("table_suffix"),
            optional("including_tables"),
            optional("excluding_tables"),
            optional("primary_keys"),
            optional("partition_keys"),
            optional("table_options", _MAP),
            optional("computed_columns"),
            optional("group"),
            optional("start"),
            optional("commit_interval"),
            optional("commit_rows", _LONG),
            optional("until_end", ArgumentType.BOOLEAN),
            optional("bad_messages"),
            optional("dead_letter_topic"),
            optional("accept_changed_source"),
            optional("kafka_conf", _MAP),
            optional("schema_registry"),
            optional("schema_registry_conf", _MAP),
            optional("unavailable_value"),
            optional("progress"),
        ),
        columns=(
            column("messages", _LONG),
            column("rows", _LONG),
            column("bad_messages", _LONG),
            column("commits", _LONG),
            column("tables"),
            column("progress"),
            column("lag", _LONG),
        ),
        call=_ingest_kafka,
        run_task=_run_task,
        take_blocks=_take_blocks,
        resume=_resume,
        abort=_abort,
    ),
)
