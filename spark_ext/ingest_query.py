"""Ingestion as a query of Spark's structured streaming: each micro-batch is a call of sys.ingest_kafka.

The query is a clock: it begins a micro-batch when a commit is due. It appears in Spark's UI, for listeners and in
`spark.streams`. Only the tables have the positions that were read. Spark's checkpoint is temporary, and is never read.

Spark's progress of the query counts the rows of the clock, since Spark does not know the results of a micro-batch's
function. Each commit is therefore a line of the log, in the format of `interbed ingest kafka --json`.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.shown_text import parse_duration_millis

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)

_CLOCK = "rate-micro-batch"
"""A source with one row for each micro-batch."""


def ingest(
    spark: "SparkSession",
    *,
    catalog: str,
    bootstrap_servers: str,
    topics: Sequence[str] = (),
    topic_pattern: str | None = None,
    format: str = "debezium-json",  # noqa: A002 - as the option is called
    table: str | None = None,
    database: str | None = None,
    table_prefix: str = "",
    table_suffix: str = "",
    including_tables: str = ".*",
    excluding_tables: str | None = None,
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    table_options: Mapping[str, str] | None = None,
    computed_columns: Sequence[str] = (),
    group: str = "interbed",
    start: str = "earliest",
    commit_interval: str = "10 s",
    commit_rows: int | None = None,
    until_end: bool = False,
    bad_messages: str = "stop",
    dead_letter_topic: str | None = None,
    accept_changed_source: Sequence[str] = (),
    kafka_conf: Mapping[str, str] | None = None,
    schema_registry: str | None = None,
    schema_registry_conf: Mapping[str, str] | None = None,
    unavailable_value: str | None = None,
    query_name: str | None = None,
) -> "StreamingQuery":
    """Write the changes in topics of Kafka to tables of `catalog`, a catalog of Spark, on Spark's executors.

    The arguments have the meaning of the options of `interbed ingest kafka`: `bad_messages` is "stop", "skip" or
    "dead-letter", and `kafka_conf` has settings of librdkafka. The query runs until it is stopped or fails, and with
    `until_end` to the ends that the topics have when it begins. It may be started again at any time, here or as a
    process of `interbed ingest`, and continues at the positions of the tables.

    Raises InvalidInputError. Other errors end the query and are its exception.
    """
    if bool(topics) == bool(topic_pattern):
        raise InvalidInputError("Give the topics to read, or a topic_pattern.")
    if bool(table) == bool(database):
        raise InvalidInputError("Give the one table that changes go to, or the database of many.")
    if isinstance(topics, str):
        raise InvalidInputError(f"The topics are a list of names, not {topics!r}.")
    arguments = {
        "bootstrap_servers": bootstrap_servers,
        "topic": ",".join(topics),
        "topic_pattern": topic_pattern,
        "format": format,
        "table": table,
        "database": database,
        "table_prefix": table_prefix,
        "table_suffix": table_suffix,
        "including_tables": including_tables,
        "excluding_tables": excluding_tables,
        "primary_keys": ",".join(primary_keys),
        "partition_keys": ",".join(partition_keys),
        "table_options": dict(table_options or {}),
        "computed_columns": ";".join(computed_columns),
        "group": group,
        "start": start,
        "commit_rows": commit_rows,
        "bad_messages": bad_messages,
        "dead_letter_topic": dead_letter_topic,
        "accept_changed_source": ",".join(accept_changed_source),
        "kafka_conf": dict(kafka_conf or {}),
        "schema_registry": schema_registry,
        "schema_registry_conf": dict(schema_registry_conf or {}),
        "unavailable_value": unavailable_value,
    }
    given = {name: value for name, value in arguments.items() if value not in (None, "", {})}
    writer = spark.readStream.format(_CLOCK).option("rowsPerBatch", 1).load().writeStream
    writer = writer.foreachBatch(_batches(catalog, given, ends=until_end))
    if query_name is not None:
        writer = writer.queryName(query_name)
    if until_end:
        return writer.trigger(availableNow=True).start()
    interval = parse_duration_millis("commit_interval", commit_interval)
    return writer.trigger(processingTime=f"{interval} milliseconds").start()


def _batches(catalog: str, arguments: Mapping[str, Any], *, ends: bool) -> "Callable[[DataFrame, int], None]":
    """Return the function of a micro-batch, which keeps the progress of the micro-batch before.

    Without that progress, positions would be recorded in tables without new rows each time. With a Spark Connect server
    the function runs there, in a process that lives as long as the query.
    """
    progress = None if ends else "{}"
    commits = 0

    def run(batch: "DataFrame", _: int) -> None:
        nonlocal progress, commits
        (row,) = _called(batch.sparkSession, catalog, {**arguments, **({} if ends else {"progress": progress})})
        progress = row["progress"]
        if row["commits"] != commits:
            commits = row["commits"]
            _log.info("%s", _progress_text(row))

    return run


def _progress_text(row: Any) -> str:
    """Return the result of a call as the line of `interbed ingest kafka --json`; it counts since the query began."""
    value = {
        "event": "commit",
        "messages": row["messages"],
        "rows": json.loads(row["tables"]),
        "bad": row["bad_messages"],
        "commits": row["commits"],
        "lag": row["lag"],
        "positions": json.loads(row["progress"])["read"],
    }
    return json.dumps(value)


def _called(spark: "SparkSession", catalog: str, arguments: Mapping[str, Any]) -> Any:
    """Return the rows of a call. Values are not in its text, which Spark shows to other users."""
    from pyspark.sql.functions import create_map, lit

    values = {
        name: create_map(*(lit(text) for pair in value.items() for text in pair)) if isinstance(value, dict) else value
        for name, value in arguments.items()
    }
    quoted = "`" + catalog.replace("`", "``") + "`"
    listed = ", ".join(f"{name} => :{name}" for name in values)
    return spark.sql(f"CALL {quoted}.sys.ingest_kafka({listed})", values).collect()
