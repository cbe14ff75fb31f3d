"""docs/spark-setup.md says what is so."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.pages import Page

PAGE = Page("spark-setup.md")


def test_the_statements_answer_as_the_page_says(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()

    assert PAGE.run_sql(lambda sql: session.sql(sql.replace("${warehouse}", str(tmp_path))).collect()) > 12


def test_the_commands_exist() -> None:
    assert PAGE.check_commands() >= 5
