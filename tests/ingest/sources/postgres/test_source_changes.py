"""Source tables of PostgreSQL whose identity changes, during a run and between two runs."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from interbed.catalog.client.api import Catalog
from interbed.ingest.flow.messages import SourceChangedError, SourceGapError
from interbed.ingest.tables.source_tables import TableNames
from interbed.ingest.tables.table_sink import TableSettings
from tests.ingest.shop import lake, rows_of
from tests.ingest.sources.postgres.database import Database
from tests.support.tally import Tally

PARTITIONED = (
    "CREATE TABLE orders (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (10)",
)
PLAIN = ("CREATE TABLE orders (id int PRIMARY KEY, tenant int NOT NULL DEFAULT 1, v text)",)
ROW = "INSERT INTO orders (id, v) VALUES (2, 'b')"
CHANGES: dict[str, tuple[Sequence[str], Sequence[str], str]] = {
    "a key that is extended": (
        PLAIN,
        ("ALTER TABLE orders DROP CONSTRAINT orders_pkey", "ALTER TABLE orders ADD PRIMARY KEY (tenant, id)", ROW),
        r"another primary key .* was \(id\), and is \(id, tenant\)",
    ),
    "a key that is dropped": (
        PLAIN,
        ("ALTER TABLE orders REPLICA IDENTITY FULL", "ALTER TABLE orders DROP CONSTRAINT orders_pkey", ROW),
        r"another primary key .* was \(id\), and is none",
    ),
    "a key of another index": (
        PLAIN,
        (
            "ALTER TABLE orders ADD UNIQUE (tenant)",
            "ALTER TABLE orders REPLICA IDENTITY USING INDEX orders_tenant_key",
            "INSERT INTO orders VALUES (2, 2, 'b')",
        ),
        r"another primary key .* was \(id\), and is \(tenant\)",
    ),
    "a table that leaves the publication and returns": (
        PLAIN,
        (
            "ALTER PUBLICATION interbed DROP TABLE orders",
            "INSERT INTO orders (id, v) VALUES (9, 'lost')",
            "ALTER PUBLICATION interbed ADD TABLE orders",
            ROW,
        ),
        r"has left the publication and returned",
    ),
    "a table that leaves the publication": (
        PLAIN,
        (ROW, "ALTER PUBLICATION interbed DROP TABLE orders", "INSERT INTO orders (id, v) VALUES (9, 'lost')"),
        r"is not published any more.*--excluding-tables",
    ),
    "a publication without updates for a while": (
        PLAIN,
        (
            "ALTER PUBLICATION interbed SET (publish = 'insert')",
            "UPDATE orders SET v = 'lost'",
            "ALTER PUBLICATION interbed SET (publish = 'insert, update, delete, truncate')",
            ROW,
        ),
        r"the publication was changed",
    ),
    "a table that is created again": (
        PLAIN,
        ("DROP TABLE orders", *PLAIN, "ALTER PUBLICATION interbed ADD TABLE orders", ROW),
        r"is another table .*its number was \d+, and is \d+",
    ),
    "a table whose name another one gets": (
        PLAIN,
        (
            "ALTER TABLE orders RENAME TO orders_old",
            "CREATE TABLE orders (id int PRIMARY KEY, tenant int, v text)",
            "ALTER PUBLICATION interbed ADD TABLE orders",
            ROW,
        ),
        r"is another table .*its number was \d+, and is \d+",
    ),
    "a table that leaves its schema for a while": (
        PLAIN,
        (
            "CREATE SCHEMA other",
            "ALTER TABLE orders SET SCHEMA other",
            "INSERT INTO other.orders (id, v) VALUES (9, 'lost')",
            "ALTER TABLE other.orders SET SCHEMA public",
            ROW,
        ),
        r"was renamed, or moved to another schema, and got its name back",
    ),
    "a table that has another name for a while": (
        PLAIN,
        (
            "ALTER TABLE orders RENAME TO orders_old",
            "INSERT INTO orders_old (id, v) VALUES (9, 'lost')",
            "ALTER TABLE orders_old RENAME TO orders",
            ROW,
        ),
        r"was renamed, or moved to another schema, and got its name back",
    ),
    "a table that is dropped": (PLAIN, ("DROP TABLE orders",), r"is not published any more"),
    "a table with rows that becomes a partition": (
        PARTITIONED,
        (
            "CREATE TABLE high (id int PRIMARY KEY, v text)",
            "INSERT INTO high VALUES (11, 'lost')",
            "ALTER TABLE orders ATTACH PARTITION high FOR VALUES FROM (10) TO (20)",
            ROW,
        ),
        r"has got a partition that was a table before \(high\)",
    ),
}
HARMLESS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "a new partition": (
        PARTITIONED,
        ("CREATE TABLE high PARTITION OF orders FOR VALUES FROM (10) TO (20)", "ALTER TABLE high ADD CHECK (id > 0)"),
    ),
    "another table that is published": (
        PLAIN,
        ("CREATE TABLE other (id int PRIMARY KEY)", "ALTER PUBLICATION interbed ADD TABLE other"),
    ),
    "new columns": (PLAIN, ("ALTER TABLE orders ADD COLUMN w int", "VACUUM FULL orders", "ANALYZE orders")),
    "a second reason to be published": (PLAIN, ("ALTER PUBLICATION interbed ADD TABLES IN SCHEMA public",)),
    "other properties of the table": (
        PLAIN,
        (
            "CREATE INDEX ON orders (v)",
            "COMMENT ON TABLE orders IS 'of a shop'",
            "GRANT SELECT ON orders TO public",
            "ALTER TABLE orders ALTER COLUMN v SET NOT NULL, SET (fillfactor = 70)",
            "ALTER TABLE orders RENAME COLUMN tenant TO client",
            "CLUSTER orders USING orders_pkey",
        ),
    ),
    "a truncation": (PLAIN, ("TRUNCATE orders", "INSERT INTO orders (id, v) VALUES (1, 'a')")),
    "the same key again": (
        PLAIN,
        ("ALTER TABLE orders DROP CONSTRAINT orders_pkey", "ALTER TABLE orders ADD PRIMARY KEY (id)"),
    ),
}
FIRST = "INSERT INTO orders (id, v) VALUES (1, 'a')"
NAMES = TableNames(database="shop", databases=frozenset({"public"}), excluding="orders_old")


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lake(tmp_path)


def run_on(database: Database, catalog: Catalog, changes: Sequence[str]) -> None:
    """Execute the changes during a run, which continues until it has read them."""
    source = database.source(NAMES)
    job = database.job(catalog, names=NAMES, source=source, until_end=False, commit_interval=0.01)
    done = False

    def stopped() -> bool:
        nonlocal done
        if not done:
            database.execute(*changes)
            done = True
            return False
        return job.result.lag == 0 and bool(source.positions().has_reached(source.ends()))

    try:
        job.run(stopped)
    finally:
        source.close()


@pytest.mark.sample(8)
@pytest.mark.parametrize("when", ["in a running process", "between two runs"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_source_table_with_another_identity_ends_the_run(
    database: Database, catalog: Catalog, tally: Tally, change: str, when: str
) -> None:
    tally("changes of identity in PostgreSQL", 1)
    before, changes, expected = CHANGES[change]
    database.execute(*before, FIRST)
    database.read(catalog, names=NAMES)
    if when == "between two runs":
        database.execute(*changes)
        changes = ()
    with pytest.raises(SourceChangedError, match=re.compile(expected, re.DOTALL)) as error:
        run_on(database, catalog, changes)
    assert "shop.orders" in str(error.value)
    # The error persists until the user has decided.
    with pytest.raises(SourceChangedError):
        database.read(catalog, names=NAMES)
    assert [row["id"] for row in rows_of(catalog)] == [1]


@pytest.mark.sample(5)
@pytest.mark.parametrize("when", ["in a running process", "between two runs"])
@pytest.mark.parametrize("change", HARMLESS)
def test_harmless_changes_do_not_end_the_run(database: Database, catalog: Catalog, change: str, when: str) -> None:
    before, changes = HARMLESS[change]
    database.execute(*before, FIRST)
    database.read(catalog, names=NAMES)
    if when == "between two runs":
        database.execute(*changes)
    else:
        run_on(database, catalog, changes)
    database.execute(ROW)
    database.read(catalog, names=NAMES)
    assert [row["id"] for row in rows_of(catalog)] == [1, 2]


def test_accepted_changes_are_recorded_and_a_skipped_table_blocks_no_other(
    database: Database, catalog: Catalog
) -> None:
    database.execute(*PLAIN, FIRST, "CREATE TABLE other (id int PRIMARY KEY)")
    database.read(catalog)
    database.execute("ALTER PUBLICATION interbed DROP TABLE orders", "ALTER PUBLICATION interbed ADD TABLE orders", ROW)
    with pytest.raises(SourceChangedError):
        database.read(catalog)
    database.read(catalog, accept_changed_source=frozenset({"shop.orders"}))
    database.execute("INSERT INTO orders (id) VALUES (3)")
    database.read(catalog)
    assert [row["id"] for row in rows_of(catalog)] == [1, 2, 3]
    database.execute("DROP TABLE orders", "INSERT INTO other VALUES (7)")
    with pytest.raises(SourceChangedError):
        database.read(catalog)
    left = TableNames(database="shop", databases=frozenset({"public"}), excluding="orders")
    database.read(catalog, names=left)
    assert rows_of(catalog, "shop.other") == [{"id": 7}]
    assert [row["id"] for row in rows_of(catalog)] == [1, 2, 3]


def test_a_dropped_table_is_read_again_from_its_first_row(database: Database, catalog: Catalog) -> None:
    database.execute(*PLAIN, FIRST)
    database.read(catalog)
    database.execute(
        "ALTER TABLE orders DROP CONSTRAINT orders_pkey", "ALTER TABLE orders ADD PRIMARY KEY (tenant, id)"
    )
    database.execute("INSERT INTO orders (id, tenant) VALUES (1, 2)")
    with pytest.raises(SourceChangedError, match=r"Drop shop\.orders to read the source table again"):
        database.read(catalog)
    catalog.drop_table("shop.orders")
    database.read(catalog, tables=TableSettings(options={"bucket": "1"}))
    assert [(row["id"], row["tenant"]) for row in rows_of(catalog)] == [(1, 1), (1, 2)]


@pytest.mark.parametrize("changes", ["of both tables", "of the other table", "of the table that is left out"])
def test_a_table_that_a_run_skipped_is_not_continued_after_a_gap(
    database: Database, catalog: Catalog, changes: str
) -> None:
    """The slot retains no WAL for the table while a run without the table reads the slot."""
    database.execute("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    database.execute("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")
    database.read(catalog)
    if changes in ("of both tables", "of the other table"):
        database.execute("INSERT INTO a VALUES (2)")
    if changes in ("of both tables", "of the table that is left out"):
        database.execute("INSERT INTO b VALUES (2)")
    database.read(catalog, names=TableNames(database="shop", databases=frozenset({"public"}), excluding=r"public\.b"))
    database.execute("INSERT INTO b VALUES (3)")
    with pytest.raises(SourceGapError, match="has been read by other processes up to"):
        database.read(catalog)
    assert rows_of(catalog, "shop.b") == [{"id": 1}]
    catalog.drop_table("shop.b")
    database.read(catalog)
    assert [(row["id"],) for row in rows_of(catalog, "shop.b")] == database.rows("TABLE b ORDER BY id")
