"""`interbed metastore grant | revoke | grants | why-denied` with columns, and the methods of catalogs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.server.migration.commands import run, run_json
from tests.catalog.server.service.access.conftest import AccessLake, lake_on_sqlite


@pytest.fixture
def db(tmp_path: Path) -> Iterator[str]:
    """Yield a server's database with the table `sales.orders`."""
    for lake in lake_on_sqlite(tmp_path):
        lake.add_table("orders")
        yield _url(lake)


def _url(lake: AccessLake) -> str:
    return lake.store.engine.url.render_as_string(hide_password=False)


def test_columns_are_granted_listed_explained_and_revoked(db: str) -> None:
    assert run(
        "grant", "SELECT", "--columns", "ID", "on", "table", "sales.orders", "to", "user", "ann", "--db", db
    ) == ("granted SELECT on the column id of the table hive.sales.orders to the user ann\n")
    [found] = run_json("grants", "--on", "table sales.orders", "--db", db)
    assert (found["kind"], found["name"], found["column"]) == ("column", "orders", "id")
    assert run_json("grants", "--on", "column sales.orders.id", "--db", db) == [found]
    run("why-denied", "ann", "SELECT", "column", "sales.orders.id", "--db", db)
    refused = run("why-denied", "ann", "SELECT", "table", "sales.orders", "--db", db, code=1)
    assert "SELECT is granted on the column id of the table hive.sales.orders alone" in refused
    refused = run("why-denied", "bea", "SELECT", "column", "sales.orders.id", "--db", db, code=1)
    assert "interbed metastore grant SELECT --columns id on table sales.orders to user bea" in refused
    assert run("revoke", "SELECT", "on", "column", "sales.orders.id", "from", "user", "ann", "--db", db) == (
        "revoked SELECT on the column id of the table hive.sales.orders from the user ann\n"
    )
    assert run("grants", "--db", db) == "No grants.\n"


@pytest.mark.parametrize(
    ("code", "words", "message"),
    [
        (2, ("SELECT", "--columns", "id,", "on", "table", "sales.orders"), "names columns of a table or a view"),
        (2, ("SELECT", "--columns", "id", "on", "database", "sales"), "names columns of a table or a view"),
        (2, ("SELECT", "on", "column", "sales.orders"), "is not an object"),
        (1, ("INSERT", "--columns", "id", "on", "table", "sales.orders"), "columns have SELECT alone"),
        (1, ("SELECT", "--columns", "id,size", "on", "table", "sales.orders"), "column size of the table"),
    ],
)
def test_wrong_columns_are_refused_and_nothing_is_granted(
    db: str, code: int, words: tuple[str, ...], message: str
) -> None:
    assert message in run("grant", *words, "to", "user", "ann", "--db", db, code=code)
    assert run("grants", "--db", db) == "No grants.\n"
