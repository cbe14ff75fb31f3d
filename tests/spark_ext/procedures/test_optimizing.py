"""What the optimizer knows and did, in SQL."""

from pathlib import Path

import pytest

import interbed
from interbed.optimizer.journal.sql import SqlJournal
from tests.optimizer.lake_at_work import make_orders, rows, work
from tests.spark_ext.conftest import Lake
from tests.support.pages import Page
from tests.support.sql_script import run_script


@pytest.fixture
def looked_after(lake: Lake, tmp_path: Path) -> Lake:
    """A catalog whose tables were looked after, and of which one needs it again."""
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
    again = Lake(lake.spark, f"{lake.name}_optimized", lake.warehouse)
    again.sql(
        f"CREATE CATALOG {again.name} WITH ('type' = 'interbed', 'warehouse' = '{lake.warehouse}', "
        f"'optimizer.db' = '{url}')"
    )
    return again


def test_the_status_of_tables_is_a_procedure(looked_after: Lake) -> None:
    found = looked_after.sql("CALL {lake}.sys.optimizing_status()")
    assert [(row.table, row.doing, row.reason, row.failures) for row in found] == [
        ("shop.orders", "running minor", "9 sorted runs > 5", 0),
        ("shop.good", "in shape", "", 0),
    ]
    assert found[0].score < found[1].score == 100
    assert found[0].readAmplification > found[1].readAmplification == 1.0
    one = looked_after.sql("CALL {lake}.sys.optimizing_status(table => 'shop.good')")
    assert [row.table for row in one] == ["shop.good"]
    with pytest.raises(Exception, match=r"The argument 'table' of the procedure optimizing_status names no table"):
        looked_after.sql("CALL {lake}.sys.optimizing_status('shop.nosuch')")


def test_what_was_done_is_a_table(looked_after: Lake) -> None:
    told = "table_name, kind, state, score_after, read_amplification_after, seconds >= 0"
    query = f"SELECT {told} FROM {{lake}}.sys.optimizing_processes WHERE table_name = 'orders' ORDER BY created_at"
    assert looked_after.tuples(query) == [
        ("orders", "minor", "succeeded", 100, 1.0, True),
        ("orders", "minor", "running", None, None, True),
    ]


def test_the_statements_of_the_page_run(looked_after: Lake) -> None:
    script = "\n".join(Page("optimizer.md").blocks("sql")).replace("lake.", f"{looked_after.name}.")
    script = script.replace("shop.orders", "shop.good")
    assert run_script(script, looked_after.sql) == 3


def test_a_catalog_that_nobody_looks_after_shows_nothing(lake: Lake, tmp_path: Path) -> None:
    bare = Lake(lake.spark, f"{lake.name}_bare", lake.warehouse)
    url = f"sqlite:///{tmp_path}/none.db"
    options = f"'type' = 'interbed', 'warehouse' = '{lake.warehouse}', 'optimizer.db' = '{url}'"
    bare.sql(f"CREATE CATALOG {bare.name} WITH ({options})")
    assert bare.sql("CALL {lake}.sys.optimizing_status()") == []
    assert bare.sql("SELECT * FROM {lake}.sys.optimizing_processes") == []
    assert not (tmp_path / "none.db").exists()
