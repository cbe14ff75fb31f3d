"""State and history of the optimizer, in SQL."""

from pathlib import Path

import pytest

import interbed
from interbed.optimizer.journal.sql import SqlJournal
from tests.optimizer.lake_at_work import make_orders, rows, work
from tests.spark_ext.conftest import SparkLake
from tests.support.pages import Page
from tests.support.sql_script import run_script


@pytest.fixture
def optimized_lake(lake: SparkLake, tmp_path: Path) -> SparkLake:
    """A catalog whose tables were optimized, one of which needs it again."""
    url = f"sqlite:///{tmp_path}/journal.db"
    journal = SqlJournal.open(url)
    with interbed.load_catalog(warehouse=lake.warehouse) as catalog:
        make_orders(catalog)
        make_orders(catalog, "shop.good", commits=1)
        work(catalog, journal)
        for number in range(8):
            catalog.get_table("shop.orders").upsert(rows(number))
        work(catalog, journal, tasks=0)
    journal.close()
    again = SparkLake(lake.spark, f"{lake.name}_optimized", lake.warehouse)
    again.sql(
        f"CREATE CATALOG {again.name} WITH ('type' = 'interbed', 'warehouse' = '{lake.warehouse}', "
        f"'optimizer.db' = '{url}')"
    )
    return again


def test_the_status_of_tables_is_a_procedure(optimized_lake: SparkLake) -> None:
    found = optimized_lake.sql("CALL {lake}.sys.optimizing_status()")
    assert [(row.table, row.doing, row.reason, row.failures) for row in found] == [
        ("shop.orders", "running minor", "9 sorted runs > 5", 0),
        ("shop.good", "in shape", "", 0),
    ]
    assert found[0].score < found[1].score == 100
    assert found[0].readAmplification > found[1].readAmplification == 1.0
    one = optimized_lake.sql("CALL {lake}.sys.optimizing_status(table => 'shop.good')")
    assert [row.table for row in one] == ["shop.good"]
    with pytest.raises(Exception, match=r"The argument 'table' of the procedure optimizing_status names no table"):
        optimized_lake.sql("CALL {lake}.sys.optimizing_status('shop.nosuch')")


def test_finished_processes_are_a_table(optimized_lake: SparkLake) -> None:
    shown_columns = "table_name, kind, state, score_after, read_amplification_after, seconds >= 0"
    query = (
        f"SELECT {shown_columns} FROM {{lake}}.sys.optimizing_processes WHERE table_name = 'orders' ORDER BY created_at"
    )
    assert optimized_lake.tuples(query) == [
        ("orders", "minor", "succeeded", 100, 1.0, True),
        ("orders", "minor", "running", None, None, True),
    ]


def test_the_statements_of_the_page_run(optimized_lake: SparkLake) -> None:
    script = "\n".join(Page("optimizer.md").blocks("sql")).replace("lake.", f"{optimized_lake.name}.")
    script = script.replace("shop.orders", "shop.good")
    assert run_script(script, optimized_lake.sql) == 3


def test_a_catalog_without_an_optimizer_shows_nothing(lake: SparkLake, tmp_path: Path) -> None:
    bare = SparkLake(lake.spark, f"{lake.name}_bare", lake.warehouse)
    url = f"sqlite:///{tmp_path}/none.db"
    options = f"'type' = 'interbed', 'warehouse' = '{lake.warehouse}', 'optimizer.db' = '{url}'"
    bare.sql(f"CREATE CATALOG {bare.name} WITH ({options})")
    assert bare.sql("CALL {lake}.sys.optimizing_status()") == []
    assert bare.sql("SELECT * FROM {lake}.sys.optimizing_processes") == []
    assert not (tmp_path / "none.db").exists()
