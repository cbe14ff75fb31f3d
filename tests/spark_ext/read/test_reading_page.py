"""The statements of docs/spark-reading.md run as written."""

from tests.spark_ext.conftest import SparkLake
from tests.support.pages import Page


def test_the_statements_return_what_the_page_says(lake: SparkLake) -> None:
    page = Page("spark-reading.md")

    assert page.run_sql(lambda sql: lake.sql(sql.replace("lake.", f"{lake.name}."))) > 10
