"""Runs over a real database: initial copy, changes, and the hand-over between them."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.client.api import Catalog
from interbed.ingest.flow.messages import BadMessageError
from interbed.ingest.tables.source_tables import TableNames
from interbed.ingest.tables.table_sink import TableSettings
from interbed.storage.base.errors import InvalidInputError
from tests.ingest.shop import lake, rows_of
from tests.ingest.sources.postgres.database import Database


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lake(tmp_path)


def versions(catalog: Catalog, name: str = "shop.orders") -> list[list[int]]:
    """Return the keys in each snapshot of a table."""
    table = catalog.get_table(name)
    seen: list[list[Any]] = [
        table.copy({"scan.snapshot-id": str(s.id)}).scan().to_arrow()["id"].to_pylist() for s in table.snapshots()
    ]
    return [sorted(keys) for keys in seen]


def test_a_table_gets_the_existing_rows_and_then_their_changes(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, v text)", "CREATE TABLE empty (id int PRIMARY KEY)")
    database.execute("INSERT INTO orders VALUES (1, 'a'), (2, NULL), (3, '')")
    first = database.read(catalog)
    assert rows_of(catalog) == [{"id": 1, "v": "a"}, {"id": 2}, {"id": 3, "v": ""}]
    assert rows_of(catalog, "shop.empty") == []
    assert catalog.get_table("shop.orders").schema.primary_keys == ("id",)
    assert first.result.rows == {"shop.empty": 0, "shop.orders": 3}
    database.execute("UPDATE orders SET v = 'b' WHERE id = 1", "DELETE FROM orders WHERE id = 2")
    database.execute("INSERT INTO empty VALUES (7)", "UPDATE orders SET id = 9 WHERE id = 3")
    second = database.read(catalog)
    assert rows_of(catalog) == [{"id": 1, "v": "b"}, {"id": 9, "v": ""}]
    assert rows_of(catalog, "shop.empty") == [{"id": 7}]
    assert second.result.rows == {"shop.empty": 1, "shop.orders": 4}
    assert second.result.lag == 0
    third = database.read(catalog)
    assert third.result.rows == {}


def test_a_transaction_larger_than_a_commit_is_atomic(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)", "INSERT INTO orders VALUES (0)")
    database.read(catalog)
    database.execute("INSERT INTO orders SELECT generate_series(1, 70000)", "INSERT INTO orders VALUES (70001)")
    database.read(catalog, commit_rows=10, commit_interval=0.01)
    assert [len(keys) for keys in versions(catalog)] in ([1, 70001, 70002], [1, 70002])


def test_a_table_refilled_in_one_transaction_is_never_seen_empty(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)", "CREATE TABLE items (id int PRIMARY KEY)")
    database.execute("INSERT INTO orders VALUES (1), (2)", "INSERT INTO items VALUES (1)")
    database.read(catalog)
    database.execute("INSERT INTO orders VALUES (3)")
    database.transaction("DELETE FROM orders WHERE id = 1", "TRUNCATE orders, items", "INSERT INTO orders VALUES (7)")
    database.read(catalog, commit_rows=1)
    assert versions(catalog)[-1] == [7]
    assert [] not in versions(catalog)
    assert rows_of(catalog, "shop.items") == []


def test_a_column_added_within_a_transaction_does_not_split_it(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, v text)", "INSERT INTO orders VALUES (1)")
    database.read(catalog)
    database.execute("INSERT INTO orders VALUES (2)")
    database.transaction(
        "INSERT INTO orders VALUES (3)",
        "ALTER TABLE orders ADD COLUMN w int",
        "INSERT INTO orders VALUES (4, 'x', 5)",
        "ALTER TABLE orders ALTER COLUMN w TYPE bigint",
        "INSERT INTO orders VALUES (5, 'x', 5000000000)",
        "ALTER TABLE orders DROP COLUMN v",
        "ALTER TABLE orders RENAME COLUMN w TO u",
        "INSERT INTO orders VALUES (6, 7)",
    )
    database.read(catalog)
    assert rows_of(catalog) == [
        {"id": 1},
        {"id": 2},
        {"id": 3},
        {"id": 4, "v": "x", "w": 5},
        {"id": 5, "v": "x", "w": 5000000000},
        {"id": 6, "u": 7},
    ]
    assert all(3 not in keys or 6 in keys for keys in versions(catalog))


def test_a_truncation_before_a_new_column_in_one_transaction_does_not_split_it(
    database: Database, catalog: Catalog
) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
    database.read(catalog)
    database.transaction(
        "INSERT INTO orders VALUES (2)",
        "TRUNCATE orders",
        "INSERT INTO orders VALUES (3)",
        "ALTER TABLE orders ADD COLUMN w int",
        "INSERT INTO orders VALUES (4, 5)",
    )
    database.read(catalog)
    assert rows_of(catalog) == [{"id": 3}, {"id": 4, "w": 5}]
    assert all(keys in ([1], [3, 4]) for keys in versions(catalog))


def test_an_unchanged_large_value_is_kept_with_replica_identity_full(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE orders (id int, n int, v text, PRIMARY KEY (id))")
    database.execute("ALTER TABLE orders REPLICA IDENTITY FULL", "ALTER TABLE orders ALTER v SET STORAGE EXTERNAL")
    database.execute("INSERT INTO orders VALUES (1, 1, repeat('x', 9000)), (2, 2, repeat('y', 9000)), (4, 4, NULL)")
    database.read(catalog)
    assert catalog.get_table("shop.orders").schema.primary_keys == ("id",)
    database.transaction(
        "UPDATE orders SET n = 3 WHERE id = 1",
        "INSERT INTO orders VALUES (5, 5, 'z')",
        "UPDATE orders SET id = 3 WHERE id = 2",
        "UPDATE orders SET v = NULL WHERE id = 1",
        "UPDATE orders SET n = 4 WHERE id = 3",
        "DELETE FROM orders WHERE id = 4",
    )
    database.read(catalog)
    assert rows_of(catalog) == [{"id": 1, "n": 3}, {"id": 3, "n": 4, "v": "y" * 9000}, {"id": 5, "n": 5, "v": "z"}]


def test_an_unchanged_large_value_that_is_not_sent_makes_its_message_bad(
    database: Database, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    from interbed.ingest.run_settings import BadMessages

    database.execute("CREATE TABLE orders (id int PRIMARY KEY, n int, v text)")
    database.execute("ALTER TABLE orders ALTER v SET STORAGE EXTERNAL")
    database.execute("INSERT INTO orders VALUES (1, 1, repeat('x', 9000))")
    database.read(catalog)
    database.transaction("UPDATE orders SET n = 2", "INSERT INTO orders VALUES (2, 2, 'y')")
    with pytest.raises(BadMessageError, match=r"it leaves out the column 'v'.* Set REPLICA IDENTITY FULL"):
        database.read(catalog)
    with caplog.at_level(logging.WARNING):
        job = database.read(catalog, bad_messages=BadMessages.SKIP)
    assert "it leaves out the column 'v'" in caplog.text
    assert job.result.bad == 1
    assert rows_of(catalog) == [{"id": 1, "n": 1, "v": "x" * 9000}, {"id": 2, "n": 2, "v": "y"}]


def test_the_key_is_that_of_the_replica_identity(database: Database, catalog: Catalog) -> None:
    database.execute(
        "CREATE TABLE orders (id int, a text NOT NULL, b int NOT NULL, UNIQUE (b, a))",
        "ALTER TABLE orders REPLICA IDENTITY USING INDEX orders_b_a_key",
        "INSERT INTO orders VALUES (1, 'x', 1), (2, 'y', 1)",
    )
    database.read(catalog)
    assert catalog.get_table("shop.orders").schema.primary_keys == ("a", "b")
    database.execute("UPDATE orders SET b = 3 WHERE id = 1", "DELETE FROM orders WHERE id = 2")
    database.read(catalog)
    assert rows_of(catalog) == [{"id": 1, "a": "x", "b": 3}]


def test_a_table_without_a_key_accepts_insertions(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE log (n int)", "ALTER TABLE log REPLICA IDENTITY FULL")
    database.execute("INSERT INTO log VALUES (1), (1)")
    database.read(catalog, tables=TableSettings())
    database.execute("INSERT INTO log VALUES (1), (2)")
    database.read(catalog, tables=TableSettings())
    assert rows_of(catalog, "shop.log", "n") == [{"n": 1}, {"n": 1}, {"n": 1}, {"n": 2}]
    database.execute("UPDATE log SET n = 5 WHERE n = 2")
    with pytest.raises(BadMessageError, match=r"shop\.log, which has no primary key to find it by") as refused:
        database.read(catalog, tables=TableSettings())
    assert re.search(r"The message at position [0-9A-F]+/[0-9A-F]+ of the WAL of db_[0-9]+ can't", str(refused.value))
    assert str(refused.value).endswith("or go on without such messages: skip them.")


def test_a_table_published_later_is_copied_first(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
    database.read(catalog)
    database.execute("CREATE TABLE items (id int PRIMARY KEY)", "INSERT INTO items VALUES (1)")
    database.execute("INSERT INTO orders VALUES (2)")
    database.execute("ALTER PUBLICATION interbed ADD TABLE items", "INSERT INTO items VALUES (2)")
    database.read(catalog)
    assert rows_of(catalog, "shop.items") == [{"id": 1}, {"id": 2}]
    assert rows_of(catalog) == [{"id": 1}, {"id": 2}]


def test_a_table_published_during_a_run_is_copied_first(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
    database.read(catalog)
    database.execute("INSERT INTO orders VALUES (2)")
    source = database.source()
    job = database.job(catalog, source=source, until_end=False, commit_interval=0.01)

    def committed() -> None:
        if job.result.commits == 1:
            database.execute("CREATE TABLE items (id int PRIMARY KEY)", "INSERT INTO items VALUES (1)")
            database.execute("ALTER PUBLICATION interbed ADD TABLE items")
            database.transaction("INSERT INTO orders VALUES (3)", "INSERT INTO items VALUES (2)")

    job.run(lambda: "shop.items" in job.result.rows, committed)
    source.close()
    database.read(catalog)
    assert rows_of(catalog, "shop.items") == [{"id": 1}, {"id": 2}]
    assert rows_of(catalog) == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_a_table_dropped_before_it_was_copied_is_ignored(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE PUBLICATION interbed FOR ALL TABLES", "CREATE TABLE orders (id int PRIMARY KEY)")
    database.read(catalog)
    database.execute("CREATE TABLE gone (id int PRIMARY KEY)", "INSERT INTO gone VALUES (1)", "TRUNCATE gone")
    database.execute("INSERT INTO gone VALUES (2)", "DROP TABLE gone", "INSERT INTO orders VALUES (1)")
    database.read(catalog)
    assert rows_of(catalog) == [{"id": 1}]
    assert rows_of(catalog, "shop.gone") == [{"id": 2}]


def test_only_selected_tables_are_published_and_read(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE SCHEMA other", "CREATE TABLE other.orders (id int PRIMARY KEY)")
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)", "CREATE TABLE log (n int)")
    names = TableNames(database="shop", databases=frozenset({"public"}), excluding="log")
    database.read(catalog, names=names)
    assert database.rows("SELECT tablename FROM pg_publication_tables") == [("orders",)]
    database.execute("ALTER PUBLICATION interbed ADD TABLE other.orders", "INSERT INTO other.orders VALUES (1)")
    database.read(catalog, names=names)
    assert rows_of(catalog) == []
    with pytest.raises(InvalidInputError, match=r"The tables other\.orders and public\.orders .* 'shop\.orders'"):
        database.read(catalog, names=TableNames(database="shop"))


def test_a_single_table_may_have_another_name_columns_and_keys(database: Database, catalog: Catalog) -> None:
    from interbed.ingest.tables.computed_columns import ComputedColumn

    database.execute("CREATE TABLE orders (id int PRIMARY KEY, at date)", "INSERT INTO orders VALUES (1, '2024-05-06')")
    tables = TableSettings(
        primary_keys=["id", "dt"],
        partition_keys=["dt"],
        options={"bucket": "1"},
        computed=[ComputedColumn.parse("dt=date_format(at,'yyyy-MM')")],
    )
    names = TableNames(table="lake.sales", including="orders")
    database.read(catalog, names=names, tables=tables)
    database.execute("INSERT INTO orders VALUES (2, '2024-06-07')")
    database.read(catalog, names=names, tables=tables)
    assert [row["dt"] for row in rows_of(catalog, "lake.sales")] == ["2024-05", "2024-06"]
    assert catalog.get_table("lake.sales").schema.partition_keys == ("dt",)


def test_columns_and_rows_are_those_of_the_publication(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, v text, secret text)")
    database.execute("INSERT INTO orders VALUES (1, 'a', 's'), (-1, 'b', 's')")
    database.execute("CREATE PUBLICATION interbed FOR TABLE orders (id, v) WHERE (id > 0)")
    database.read(catalog)
    database.execute(
        "INSERT INTO orders VALUES (2, 'c', 's'), (-2, 'd', 's')", "UPDATE orders SET id = -5 WHERE id = 1"
    )
    database.read(catalog)
    assert rows_of(catalog) == [{"id": 2, "v": "c"}]
    assert catalog.get_table("shop.orders").schema.fields[-1].name == "v"


def test_a_partitioned_table_is_one_table(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    database.execute("CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (10)")
    database.execute("CREATE TABLE high PARTITION OF orders FOR VALUES FROM (10) TO (20)")
    database.execute(
        "CREATE TABLE parent (id int PRIMARY KEY)", "CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent)"
    )
    database.execute("INSERT INTO orders VALUES (1), (11)", "INSERT INTO child VALUES (1)")
    database.read(catalog)
    database.execute("INSERT INTO orders VALUES (2), (12)", "INSERT INTO child VALUES (2)")
    database.read(catalog)
    assert [row["id"] for row in rows_of(catalog)] == [1, 2, 11, 12]
    assert (rows_of(catalog, "shop.parent"), rows_of(catalog, "shop.child")) == ([], [{"id": 1}, {"id": 2}])
    assert sorted(catalog.list_tables("shop")) == ["child", "orders", "parent"]


def test_an_existing_table_is_filled(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, n bigint)")
    database.execute(
        "INSERT INTO orders SELECT i, i FROM generate_series(1, 30000) i", "INSERT INTO orders VALUES (0, 1e18)"
    )
    catalog.create_database("shop")
    catalog.create_table("shop.orders", [{"id": 1}], primary_keys=["id"], options={"bucket": "1"})
    database.read(catalog)
    assert catalog.get_table("shop.orders").scan().to_arrow().num_rows == 30001
    assert len(versions(catalog)) == 1


def test_names_may_contain_any_letters(database: Database, catalog: Catalog) -> None:
    database.execute('''CREATE TABLE "it's a ""Täble""" ("the key" int PRIMARY KEY, "V, x" text)''')
    database.execute('''INSERT INTO "it's a ""Täble""" VALUES (1, 'a')''')
    names = TableNames(table="shop.named")
    source = database.source(names, publication='it\'s "mine"')
    database.read(catalog, names=names, source=source)
    database.execute('''INSERT INTO "it's a ""Täble""" VALUES (2, 'b')''')
    source = database.source(names, publication='it\'s "mine"')
    database.read(catalog, names=names, source=source)
    assert rows_of(catalog, "shop.named", "the key") == [{"the key": 1, "V, x": "a"}, {"the key": 2, "V, x": "b"}]
