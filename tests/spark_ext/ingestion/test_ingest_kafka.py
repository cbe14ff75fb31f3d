"""CALL sys.ingest_kafka in Spark, on a real broker."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

import interbed
from tests.ingest.shop import Row, event, rows_of
from tests.ingest.test_kafka_to_tables import ingest, make_topic, produce, stream
from tests.spark_ext.conftest import SparkLake
from tests.support.servers.kafka import KafkaServer


def called(lake: SparkLake, kafka: KafkaServer, arguments: str) -> dict[str, Any]:
    """Return the result row of a call."""
    (row,) = lake.sql(f"CALL {{lake}}.sys.ingest_kafka(bootstrap_servers => '{kafka.bootstrap_servers}', {arguments})")
    return row.asDict()


def test_topics_become_tables_and_later_calls_continue(kafka: KafkaServer, lake: SparkLake) -> None:
    for table in ("orders", "items"):
        make_topic(kafka, f"sql.public.{table}", 2)
        produce(kafka, f"sql.public.{table}", [event("c", None, {"id": i, "v": "a"}, table) for i in range(100)])
    arguments = "topic_pattern => 'sql\\\\.public\\\\..*', database => 'shop', table_options => map('bucket', '4')"
    first = called(lake, kafka, arguments)
    assert json.loads(first.pop("progress"))["rows"] == {"shop.items": 100, "shop.orders": 100}
    assert first == {
        "messages": 200,
        "rows": 200,
        "bad_messages": 0,
        "commits": 1,
        "tables": '{"shop.items": 100, "shop.orders": 100}',
        "lag": 0,
    }
    catalog = interbed.load_catalog("lake", warehouse=str(lake.warehouse))
    assert [row["id"] for row in rows_of(catalog)] == list(range(100))
    assert {name.split("/")[0] for name in lake.files("shop.orders")} == {f"bucket-{i}" for i in range(4)}
    produce(kafka, "sql.public.orders", [event("d", {"id": 3, "v": "a"}, None)])
    assert called(lake, kafka, arguments)["rows"] == 1
    assert called(lake, kafka, arguments)["messages"] == 0
    assert [row["id"] for row in rows_of(catalog)] == [0, 1, 2, *range(4, 100)]
    # A process of the same group continues as well, and Spark continues after it.
    produce(kafka, "sql.public.orders", [event("c", None, {"id": 3, "v": "b"})])
    own = ["--topic-pattern", r"sql\.public\..*", "--database", "shop"]
    assert ingest(kafka, lake.warehouse, *own)["rows"] == {"shop.orders": 1}
    produce(kafka, "sql.public.orders", [event("c", None, {"id": 1000, "v": "b"})])
    assert called(lake, kafka, arguments)["messages"] == 1


@pytest.mark.long
def test_several_tasks_read_and_each_bucket_is_written_by_one(kafka: KafkaServer, lake: SparkLake) -> None:
    make_topic(kafka, "tasks", 2)
    model: dict[int, Row] = {}
    produce(kafka, "tasks", stream(random.Random(1), 9_000, model))
    answer = called(lake, kafka, "topic => 'tasks', table => 'shop.orders', table_options => map('bucket', '4')")
    assert answer["messages"] == 9_000
    catalog = interbed.load_catalog("lake", warehouse=str(lake.warehouse))
    assert rows_of(catalog) == sorted(model.values(), key=lambda row: row["id"])
    # A file name has the job's id, the writer's id and a number.
    files = [Path(name) for name in lake.files("shop.orders") if Path(name).name.startswith("data-")]
    writers = {(file.parent.name, file.stem.rpartition("-")[0]) for file in files}
    assert len(writers) == 4
    assert len({writer for _, writer in writers}) == 2
    assert not list((lake.warehouse / "shop.db" / "orders" / "snapshot").glob(".write-*"))


def test_the_statement_fails_with_the_reason_of_a_bad_message(kafka: KafkaServer, lake: SparkLake) -> None:
    make_topic(kafka, "said")
    produce(kafka, "said", [event("c", None, {"id": 1}), ("k", b"no json")])
    arguments = "topic => 'said', table => 'shop.orders'"
    with pytest.raises(PySparkException, match="topic said, partition 0, offset 1 can't be taken: it is no JSON"):
        called(lake, kafka, arguments)
    assert called(lake, kafka, f"{arguments}, bad_messages => 'skip'")["bad_messages"] == 1
