"""The parts of the README run one after the other on one warehouse, as a reader would type them."""

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import interbed
from interbed.cli import main
from interbed.testing import metastore

README = Path(__file__).resolve().parents[2] / "README.md"


def blocks(text: str, language: str) -> list[str]:
    """The blocks of a language that work on the lake."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def statements(text: str) -> list[str]:
    """The statements of Spark SQL, in their order."""
    plain = [re.sub(r"  --.*", "", block) for block in blocks(text, "sql")]
    return [s.strip() for block in plain for s in re.split(r";\s*\n", block) if s.strip()]


def test_python_and_spark_of_the_readme_share_one_warehouse(spark: SparkSession, tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8").replace("file:/tmp/lake", f"file:{tmp_path}/lake")
    [python] = [block for block in blocks(text, "python") if "create_table" in block]
    names: dict[str, Any] = {}
    exec(python, names)
    session = spark.newSession()
    found = statements(text)
    assert len(found) >= 14
    answers = {statement: session.sql(statement).collect() for statement in found}
    assert [row.id for row in answers["SELECT * FROM lake.shop.orders"]] == [1]
    assert {(row.id, row.amount) for row in answers[found[-1]]} == {(1, 8.0), (3, 1.0)}
    # The table of Spark is one of Python's catalog and of the command line.
    assert names["catalog"].get_table("shop.clients").scan().count() == 2
    listed = CliRunner().invoke(main, ["table", "list", "-o", f"warehouse={tmp_path}/lake"])
    assert listed.output == "shop.clients\nshop.orders\n"


def test_spark_says_why_a_metastore_does_not_have_a_table(spark: SparkSession, tmp_path: Path) -> None:
    with interbed.load_catalog(warehouse=f"file:{tmp_path}/lake") as catalog:
        catalog.create_database("shop")
        catalog.create_table_as("shop.orders", [{"id": 1}])
    with metastore(warehouse=f"file:{tmp_path}/unused") as uri:
        session = spark.newSession()
        session.sql(
            f"CREATE CATALOG lake WITH ('type'='interbed', 'metastore'='hive', 'uri'='{uri}', "
            f"'warehouse'='file:{tmp_path}/lake')"
        )
        session.sql("CREATE NAMESPACE lake.shop")
        for statement in (
            "SELECT * FROM lake.shop.orders",
            "INSERT INTO lake.shop.orders VALUES (2)",
            "CREATE TABLE lake.shop.orders (id BIGINT)",
            "CREATE TABLE IF NOT EXISTS lake.shop.orders (id BIGINT)",
            "CREATE TABLE lake.shop.orders AS SELECT 1 AS id",
        ):
            with pytest.raises(Exception, match="holds a table") as caught:
                session.sql(statement)
            assert "interbed catalog repair shop.orders" in str(caught.value), statement
        session.sql("DROP TABLE IF EXISTS lake.shop.orders")
        session.sql("CALL lake.sys.repair('shop.orders')")
        assert session.sql("SELECT * FROM lake.shop.orders").count() == 1
