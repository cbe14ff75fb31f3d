"""Procedures that bring changes of other systems into tables: `interbed ingest`, with the work done by executors."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from interbed.spark_ext.procedures.ingestion_rounds import Rounds

_MAP, _LONG = ArgumentType.STRING_MAP, ArgumentType.LONG


def _ingest_kafka(call: ProcedureCall) -> Answer:
    from interbed.spark_ext.ingestion.progress import Progress

    text = call.given("progress")
    return _rounds(call).begin(Progress() if text is None else Progress.from_json(text))


def _resume(call: ProcedureCall, token: bytes, results: Sequence[bytes]) -> Answer:
    return _rounds(call).go_on(token, results)


def _abort(call: ProcedureCall, token: bytes) -> None:
    _rounds(call).abort(token)


def _run_task(shared: bytes, payload: bytes) -> bytes:
    from interbed.spark_ext.ingestion.reading import read

    report, blocks = read(shared, payload)
    return with_blocks(report.to_bytes(), blocks)


def _take_blocks(shared: bytes, payload: bytes, blocks: Iterator[tuple[str, bytes]]) -> bytes:
    from interbed.spark_ext.ingestion.writing import write

    return write(shared, payload, blocks)


def _rounds(call: ProcedureCall) -> "Rounds":
    # Ingestion, and all that it needs, is loaded when it is asked for.
    from interbed.spark_ext.procedures.ingestion_arguments import settings_of
    from interbed.spark_ext.procedures.ingestion_rounds import Rounds

    return Rounds(call, settings_of(call), tells_all=call.given("progress") is None)


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
