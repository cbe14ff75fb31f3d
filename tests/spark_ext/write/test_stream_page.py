"""The statements and streams of the page about streaming work."""

from pathlib import Path

from tests.spark_ext.conftest import SparkLake
from tests.support.pages import Page

PAGE = Page("spark-streaming.md")


def test_the_statements_of_the_page_do_what_they_say(lake: SparkLake) -> None:
    lake.sql("USE {lake}.db")
    assert PAGE.run_sql(lake.sql) == 7


def test_the_streams_of_the_page_can_be_started(lake: SparkLake, tmp_path: Path) -> None:
    lake.sql("CREATE DATABASE {lake}.shop")
    lake.sql("CREATE TABLE {lake}.shop.orders (id INT, item STRING)")
    lake.sql("CREATE TABLE {lake}.shop.rows (id INT, item STRING)")
    places = {"lake.shop": f"{lake.name}.shop", "/lake/": f"{lake.warehouse}/", "/checkpoints": str(tmp_path)}
    for block in PAGE.blocks("python"):
        for written, here in places.items():
            block = block.replace(written, here)
        names = {"spark": lake.spark, "rows": lake.spark.readStream.table(f"{lake.name}.shop.rows")}
        exec(block, names)
    for query in lake.spark.streams.active:
        query.stop()
