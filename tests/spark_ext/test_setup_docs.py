"""The statements and commands of docs/spark-setup.md work."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.pages import Page

PAGE = Page("spark-setup.md")


def test_the_statements_return_what_the_page_says(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()

    assert PAGE.run_sql(lambda sql: session.sql(sql.replace("${warehouse}", str(tmp_path))).collect()) > 12


def test_the_commands_exist() -> None:
    assert PAGE.check_commands() >= 5
