"""CALL sys.ingest_kafka on a real broker: the tables are those that `interbed ingest kafka` makes of the same topics."""

import json
from typing import Any

import pytest

import interbed
from tests.ingest.shop import event, rows_of
from tests.ingest.test_kafka_to_tables import ingest, make_topic, produce
from tests.spark_ext.conftest import Lake
from tests.support.servers.kafka import KafkaServer


def call(lake: Lake, kafka: KafkaServer, arguments: str) -> dict[str, Any]:
    """The row that a call answers with."""
    (row,) = lake.sql(
        f"CALL {{lake}}.sys.ingest_kafka(bootstrap_servers => '{kafka.bootstrap_servers}', {arguments})"
    )
    return row.asDict()


def test_topics_become_tables_and_later_calls_go_on(kafka: KafkaServer, lake: Lake) -> None:
    for table in ("orders", "items"):
        make_topic(kafka, f"sql.public.{table}", 2)
        produce(kafka, f"sql.public.{table}", [event("c", None, {"id": i, "v": "a"}, table) for i in range(100)])
    arguments = "topic_pattern => 'sql\\\\.public\\\\..*', database => 'shop', table_options => map('bucket', '4')"
    first = call(lake, kafka, arguments)
    assert json.loads(first.pop("progress"))["rows"] == {"shop.items": 100, "shop.orders": 100}
    assert first == {
        "messages": 200,
        "rows": 200,
        "bad_messages": 0,
        "commits": 1,
        "tables": '{"shop.items": 100, "shop.orders": 100}',
    }
    catalog = interbed.load_catalog("lake", warehouse=str(lake.warehouse))
    assert [row["id"] for row in rows_of(catalog)] == list(range(100))
    assert {name.split("/")[0] for name in lake.files("shop.orders")} == {f"bucket-{i}" for i in range(4)}
    produce(kafka, "sql.public.orders", [event("d", {"id": 3, "v": "a"}, None)])
    assert call(lake, kafka, arguments)["rows"] == 1
    assert call(lake, kafka, arguments)["messages"] == 0
    assert [row["id"] for row in rows_of(catalog)] == [0, 1, 2, *range(4, 100)]
    # A process of the same group goes on as well.
    produce(kafka, "sql.public.orders", [event("c", None, {"id": 3, "v": "b"})])
    own = ["--topic-pattern", r"sql\.public\..*", "--database", "shop"]
    assert ingest(kafka, lake.warehouse, *own)["rows"] == {"shop.orders": 1}
    assert call(lake, kafka, arguments)["messages"] == 0
    produce(kafka, "sql.public.orders", [event("c", None, {"id": 1000, "v": "b"})])
    assert call(lake, kafka, arguments)["messages"] == 1
