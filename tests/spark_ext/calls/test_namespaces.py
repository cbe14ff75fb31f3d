"""Namespaces of a catalog in Spark SQL."""

from collections.abc import Callable

import pytest
from pyspark.errors import AnalysisException

from tests.spark_ext.conftest import SparkLake


def test_namespaces_are_created_listed_and_dropped(new_lake: Callable[[], SparkLake]) -> None:
    lake = new_lake()
    lake.sql("CREATE DATABASE {lake}.one")
    lake.sql("CREATE NAMESPACE IF NOT EXISTS {lake}.one")
    lake.sql("CREATE SCHEMA {lake}.two")

    assert lake.tuples("SHOW NAMESPACES IN {lake}") == [("one",), ("two",)]
    lake.sql("DROP DATABASE {lake}.two")
    lake.sql("DROP DATABASE IF EXISTS {lake}.two")
    assert lake.tuples("SHOW NAMESPACES IN {lake}") == [("one",)]


def test_an_existing_namespace_is_not_created_again(lake: SparkLake) -> None:
    with pytest.raises(AnalysisException, match="SCHEMA_ALREADY_EXISTS"):
        lake.sql("CREATE DATABASE {lake}.db")


def test_a_missing_namespace_is_named(lake: SparkLake) -> None:
    for statement in ("DROP DATABASE {lake}.none", "SHOW TABLES IN {lake}.none", "DESCRIBE NAMESPACE {lake}.none"):
        with pytest.raises(AnalysisException, match=r"SCHEMA_NOT_FOUND.*none"):
            lake.sql(statement)


def test_a_namespace_with_tables_is_dropped_with_cascade_only(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")

    with pytest.raises(AnalysisException, match="SCHEMA_NOT_EMPTY"):
        lake.sql("DROP DATABASE {lake}.db")
    assert lake.tuples("SHOW TABLES IN {lake}.db") == [("db", "t", False)]
    lake.sql("DROP DATABASE {lake}.db CASCADE")
    assert lake.tuples("SHOW NAMESPACES IN {lake}") == []


def test_describe_shows_the_location_of_a_namespace(lake: SparkLake) -> None:
    described = dict(lake.tuples("DESCRIBE NAMESPACE EXTENDED {lake}.db"))

    assert described["Location"] == f"{lake.warehouse}/db.db"
    assert described["Namespace Name"] == "db"


def test_a_namespace_stores_no_secrets_of_object_stores(lake: SparkLake) -> None:
    secret = "('fs.s3a.secret.key' = 's3cr3t')"
    for statement in (
        f"CREATE DATABASE {{lake}}.other WITH DBPROPERTIES {secret}",
        f"ALTER DATABASE {{lake}}.db SET DBPROPERTIES {secret}",
    ):
        with pytest.raises(Exception, match="in the open in the properties of the database"):
            lake.sql(statement)
    assert lake.tuples("SHOW NAMESPACES IN {lake}") == [("db",)]


def test_nested_namespaces_are_refused(lake: SparkLake) -> None:
    with pytest.raises(Exception, match=r"one part, not db\.inner"):
        lake.sql("CREATE NAMESPACE {lake}.db.inner")


def test_the_default_namespace_is_created_on_first_use(lake: SparkLake) -> None:
    lake.sql("USE {lake}")
    lake.sql("CREATE TABLE t (id INT)")

    assert lake.tuples("SHOW TABLES") == [("default", "t", False)]
    lake.sql("USE {lake}.db")
    assert lake.tuples("SHOW TABLES") == []


def test_a_default_collation_of_a_namespace_is_refused(new_lake: Callable[[], SparkLake]) -> None:
    lake = new_lake()
    # Spark 4.1 refuses it itself.
    with pytest.raises(Exception, match=r"SCHEMA_LEVEL_COLLATIONS|DEFAULT COLLATION UTF8_LCASE is not supported"):
        lake.sql("CREATE DATABASE {lake}.one DEFAULT COLLATION UTF8_LCASE")
    assert lake.tuples("SHOW NAMESPACES IN {lake}") == []
