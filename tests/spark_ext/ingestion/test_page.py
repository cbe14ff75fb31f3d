"""The statements of docs/ingest.md about Spark, on a real broker."""

from typing import Any

import pytest

import interbed
from tests.ingest.shop import event, rows_of
from tests.ingest.test_kafka_to_tables import make_topic, produce
from tests.spark_ext.conftest import SparkLake
from tests.spark_ext.ingestion.test_ingest_query import until
from tests.support.pages import Page
from tests.support.servers.kafka import KafkaServer

PAGE = Page("ingest.md")


@pytest.mark.long
def test_the_statement_and_the_query_of_the_page_do_what_it_says(kafka: KafkaServer, lake: SparkLake) -> None:
    for table in ("orders", "items"):
        make_topic(kafka, f"shop.public.{table}")
        produce(kafka, f"shop.public.{table}", [event("c", None, {"id": 1, "v": "a"}, table)])

    def here(text: str) -> str:
        return text.replace("127.0.0.1:9092", kafka.bootstrap_servers)

    statement = PAGE.blocks("sql")[0]
    (row,) = lake.sql(here(statement).replace("lake.sys", "{lake}.sys").rstrip().rstrip(";"))
    assert row["tables"] == '{"shop.orders": 1}'
    catalog = interbed.load_catalog("lake", warehouse=str(lake.warehouse))
    assert catalog.get_table("shop.orders").options.bucket == 4
    (program,) = PAGE.blocks("python")
    names: dict[str, Any] = {"spark": lake.spark}
    exec(here(program).replace('"lake"', repr(lake.name)), names)
    query = names["query"]
    until(lambda: catalog.list_tables("shop") == ["items", "orders"] and bool(rows_of(catalog, "shop.items")), query)
    query.stop()
    assert rows_of(catalog) == rows_of(catalog, "shop.items") == [{"id": 1, "v": "a"}]
