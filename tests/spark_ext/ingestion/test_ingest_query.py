"""interbed.spark_ext.ingest: a query that is monitored and stopped like any query of structured streaming."""

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

import interbed
from interbed.spark_ext import ingest
from interbed.storage.base.errors import InvalidInputError
from tests.ingest.shop import event, rows_of
from tests.ingest.test_kafka_to_tables import make_topic, produce
from tests.spark_ext.conftest import SparkLake
from tests.support.servers.kafka import KafkaServer
from tests.support.waits import at_most

DEADLINE_SECONDS = at_most(120)


def test_a_query_runs_until_it_is_stopped_and_the_next_one_continues(
    kafka: KafkaServer, lake: SparkLake, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "interbed.spark_ext.ingest_query")
    make_topic(kafka, "query", 2)
    produce(kafka, "query", [event("c", None, {"id": i, "v": "a"}) for i in range(50)])
    query = ingest(
        lake.spark,
        catalog=lake.name,
        bootstrap_servers=kafka.bootstrap_servers,
        topics=["query"],
        table="shop.orders",
        table_options={"bucket": "2"},
        commit_interval="100 ms",
        query_name="orders",
    )
    assert "orders" in [active.name for active in lake.spark.streams.active]
    catalog = interbed.load_catalog("lake", warehouse=str(lake.warehouse))
    table = Path(lake.warehouse, "shop.db", "orders", "snapshot", "snapshot-1")
    until(table.exists, query)
    produce(kafka, "query", [event("d", {"id": 7, "v": "a"}, None)])
    until(lambda: len(rows_of(catalog)) == 49, query)
    until(lambda: [commit["messages"] for commit in logged_commits(caplog)][-1:] == [51], query)
    query.stop()
    last = logged_commits(caplog)[-1]
    assert (last["event"], last["messages"], last["rows"], last["lag"]) == ("commit", 51, {"shop.orders": 51}, 0)
    assert sum(last["positions"]["query"].values()) == 51
    assert not query.isActive
    assert query.exception() is None
    produce(kafka, "query", [event("c", None, {"id": 7, "v": "b"})])
    later = ingest(
        lake.spark,
        catalog=lake.name,
        bootstrap_servers=kafka.bootstrap_servers,
        topics=["query"],
        table="shop.orders",
        until_end=True,
    )
    assert later.awaitTermination(DEADLINE_SECONDS)
    assert [row["v"] for row in rows_of(catalog) if row["id"] == 7] == ["b"]
    assert not list(table.parent.glob(".write-*"))


def test_a_query_fails_with_the_reason_of_a_bad_message(kafka: KafkaServer, lake: SparkLake) -> None:
    make_topic(kafka, "wrong")
    produce(kafka, "wrong", [("k", b"no json")])
    query = ingest(
        lake.spark,
        catalog=lake.name,
        bootstrap_servers=kafka.bootstrap_servers,
        topics=["wrong"],
        table="shop.orders",
        until_end=True,
    )
    with pytest.raises(
        StreamingQueryException, match="topic wrong, partition 0, offset 0 can't be taken: it is no JSON"
    ):
        query.awaitTermination(DEADLINE_SECONDS)


def test_incompatible_arguments_are_refused_at_once(lake: SparkLake) -> None:
    with pytest.raises(InvalidInputError, match="the one table that changes go to, or the database of many"):
        ingest(lake.spark, catalog=lake.name, bootstrap_servers="127.0.0.1:1", topics=["a"])
    with pytest.raises(InvalidInputError, match="a topic_pattern"):
        ingest(lake.spark, catalog=lake.name, bootstrap_servers="127.0.0.1:1", table="db.t")


def logged_commits(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return the commits that the log reports."""
    records = [record for record in caplog.records if record.name == "interbed.spark_ext.ingest_query"]
    return [json.loads(record.getMessage()) for record in records]


def until(condition: Callable[[], bool], query: StreamingQuery) -> None:
    """Wait for the condition while the query runs."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline
