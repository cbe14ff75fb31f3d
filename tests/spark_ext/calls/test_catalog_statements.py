"""CREATE CATALOG, DROP CATALOG and SHOW CATALOGS, and the same by settings."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from tests.spark_ext.conftest import SparkLake


def _catalogs(spark: SparkSession) -> set[str]:
    return {row[0] for row in spark.sql("SHOW CATALOGS").collect()}


@pytest.fixture
def clean(spark: SparkSession) -> SparkSession:
    """The session. The catalog `made` is dropped after the test."""
    spark.sql("DROP CATALOG IF EXISTS made")
    return spark


def test_a_created_catalog_is_shown_and_a_dropped_one_is_not(clean: SparkSession, tmp_path: Path) -> None:
    clean.sql(f"CREATE CATALOG made WITH ('type' = 'paimon', 'warehouse' = '{tmp_path}/w')")
    assert "made" in _catalogs(clean)
    assert not any(name.startswith("interbed") for name in _catalogs(clean))

    clean.sql("DROP CATALOG made")
    assert "made" not in _catalogs(clean)
    assert clean.conf.get("spark.sql.catalog.made", None) is None


@pytest.mark.parametrize(
    "statement",
    [
        "create catalog made with (type = 'interbed', 'warehouse' = '{w}')",
        'CREATE /* really */ CATALOG `made` -- here\n WITH ("type" = "interbed", warehouse = \'{w}\') ;',
        "CREATE CATALOG IF NOT EXISTS made WITH ('warehouse' = '{w}', 'lock.enabled' = false)",
    ],
)
def test_the_statement_has_several_spellings(clean: SparkSession, tmp_path: Path, statement: str) -> None:
    clean.sql(statement.replace("{w}", f"{tmp_path}/w"))

    assert "made" in _catalogs(clean)
    clean.sql("DROP CATALOG made")


def test_quotes_and_backslashes_reach_the_option_as_written(clean: SparkSession, tmp_path: Path) -> None:
    clean.sql(f"CREATE CATALOG made WITH ('warehouse' = '{tmp_path}/it''s \\'a\\' b\\\\c')")

    assert clean.conf.get("spark.sql.catalog.made.warehouse") == f"{tmp_path}/it's 'a' b\\c"
    clean.sql("DROP CATALOG made")


def test_creating_an_existing_catalog_requires_if_not_exists(lake: SparkLake) -> None:
    statement = "CREATE CATALOG {exists} {lake} WITH ('type' = 'nonsense')"

    with pytest.raises(IllegalArgumentException, match="already exists"):
        lake.sql(statement.replace("{exists}", ""))
    lake.sql(statement.replace("{exists}", "IF NOT EXISTS"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'type' = 'iceberg', 'warehouse' = '/tmp/w'", "takes one of interbed, paimon, not 'iceberg'"),
        ("'type' = 'interbed'", "needs the option 'warehouse'"),
        ("'warehouse' = '/tmp/w', 'wharehouse' = '/tmp/w'", "Unknown catalog option 'wharehouse'"),
        ("'warehouse' = '/tmp/w', 'metastore' = 'glue'", "takes one of filesystem, hive, rest, not 'glue'"),
        ("'warehouse' = '/proc/none/w'", "/proc/none"),
    ],
)
def test_invalid_options_fail_at_once_and_leave_no_catalog(clean: SparkSession, options: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        clean.sql(f"CREATE CATALOG made WITH ({options})")

    assert "made" not in _catalogs(clean)
    assert clean.conf.get("spark.sql.catalog.made", None) is None


def test_an_unavailable_metastore_fails_at_once(clean: SparkSession) -> None:
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
        clean.sql(
            "CREATE CATALOG made WITH ('metastore' = 'hive', 'uri' = 'thrift://127.0.0.1:1', 'warehouse' = '/tmp/w')"
        )

    assert "made" not in _catalogs(clean)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("CREATE CATALOG made", "Expected WITH"),
        ("CREATE CATALOG made WITH ('warehouse' '/w')", "Expected '='"),
        ("CREATE CATALOG made WITH ('warehouse' = /w)", "Expected a value in quotes"),
        ("CREATE CATALOG made WITH ('a' = 'b', 'a' = 'c')", "once, not twice"),
        ("CREATE CATALOG made WITH ('a' = 'b) ", "a closing '"),
        ("CREATE CATALOG made WITH ('a' = 'b') COMMENT 'c'", "the end of the statement"),
        ("DROP CATALOG", "the catalog's name"),
    ],
)
def test_a_syntax_error_is_explained(spark: SparkSession, statement: str, expected: str) -> None:
    with pytest.raises(IllegalArgumentException) as failure:
        spark.sql(statement)

    assert expected in str(failure.value)


def test_dropping_a_missing_catalog_requires_if_exists(clean: SparkSession) -> None:
    with pytest.raises(IllegalArgumentException, match="no catalog made"):
        clean.sql("DROP CATALOG made")
    clean.sql("DROP CATALOG IF EXISTS made")


def test_the_current_catalog_is_not_dropped(lake: SparkLake) -> None:
    lake.sql("USE {lake}")

    with pytest.raises(IllegalArgumentException, match="is the current one"):
        lake.sql("DROP CATALOG {lake}")
    lake.sql("USE spark_catalog")


def test_a_catalog_by_settings_is_equivalent(new_lake: Callable[[], SparkLake], tmp_path: Path) -> None:
    lake = new_lake()
    lake.sql("CREATE DATABASE {lake}.db")
    session = lake.spark.newSession()
    session.conf.set("spark.sql.catalog.bysetting", "interbed.spark.SparkCatalog")
    session.conf.set("spark.sql.catalog.bysetting.warehouse", str(lake.warehouse))

    assert [row[0] for row in session.sql("SHOW DATABASES IN bysetting").collect()] == ["db"]


def test_a_catalog_is_selected_by_the_statement_of_flink(clean: SparkSession, tmp_path: Path) -> None:
    clean.sql(f"CREATE CATALOG made WITH ('type' = 'paimon', 'warehouse' = '{tmp_path}/w')")
    clean.sql("USE CATALOG made;")
    clean.sql("CREATE DATABASE catalog")
    clean.sql("USE catalog")
    assert clean.sql("SHOW CURRENT NAMESPACE").collect() == [("made", "catalog")]
    clean.sql("USE /* back */ CATALOG `spark_catalog`")
    clean.sql("USE CATALOG made")
    assert clean.sql("SELECT current_catalog()").collect() == [("made",)]
    with pytest.raises(IllegalArgumentException, match="Expected the end of the statement"):
        clean.sql("USE CATALOG made.catalog")
    with pytest.raises(Exception, match="nowhere"):
        clean.sql("USE CATALOG nowhere")
    clean.sql("USE CATALOG spark_catalog")
    clean.sql("DROP CATALOG made")


def test_other_statements_are_left_to_spark(spark: SparkSession) -> None:
    assert spark.sql("SELECT 'CREATE CATALOG x'").collect()[0][0] == "CREATE CATALOG x"
    assert spark.sql("SELECT :a", args={"a": 1}).collect()[0][0] == 1
