"""docs/spark-reading.md says what is so."""

from tests.spark_ext.conftest import Lake
from tests.support.pages import Page


def test_the_statements_answer_as_the_page_says(lake: Lake) -> None:
    page = Page("spark-reading.md")

    assert page.run_sql(lambda sql: lake.sql(sql.replace("lake.", f"{lake.name}."))) > 10
