"""Replaced tables: every column of the row is that of the new table, whichever of its parts differ from the old one."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.model import (
    EXTERNAL_TABLE,
    VIRTUAL_VIEW,
    MetastoreCatalog,
    MetastoreDatabase,
    MetastoreTable,
    StorageDescriptor,
)
from tests.support.databases import open_migrated

OLD = MetastoreTable(
    database="d",
    name="t",
    table_type=EXTERNAL_TABLE,
    owner="a",
    storage=StorageDescriptor(location="file:/w/t"),
    parameters={"comment": "old"},
    extra={"ownerType": 1},
    number=7,
)
CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "the parameters": {"parameters": {"comment": "new", "x": "1"}},
    "no comment": {"parameters": {}},
    "the location": {"storage": StorageDescriptor(location="file:/w/u")},
    "no location": {"storage": None},
    "the type": {"table_type": VIRTUAL_VIEW},
    "the kind": {"parameters": {"table_type": "ICEBERG", "metadata_location": "file:/w/t/metadata/0.metadata.json"}},
    "the owner": {"owner": "b"},
    "the type of the owner": {"extra": {"ownerType": 2}},
    "the name": {"name": "u"},
}
COLUMNS = "database_id, name, table_type, comment, document, place, kind, owner"


@pytest.fixture
def store(database_url: str) -> Iterator[SqlRepository]:
    """Open a repository with two databases."""
    opened = open_migrated(database_url)
    catalog = MetastoreCatalog(name="hive", location="file:/w")
    opened.write(lambda transaction: transaction.catalogs.add(catalog))
    for name in ("d", "e"):
        database = MetastoreDatabase(name=name, location=f"file:/w/{name}.db")
        opened.write(lambda transaction, database=database: transaction.databases.add(database))  # type: ignore[misc]
    yield opened
    opened.close()


def added(store: SqlRepository, database: str, table: MetastoreTable) -> int:
    """Store a new table and return the id of its row."""

    def work(transaction: Any) -> int:
        number: int = transaction.tables.add(transaction.databases.find("hive", database).id, table)
        return number

    return store.write(work)


def row(store: SqlRepository, number: int) -> tuple[Any, ...]:
    """Return the columns of a table's row."""
    with store.engine.connect() as connection:
        return tuple(connection.execute(text(f"SELECT {COLUMNS} FROM tables WHERE id = {number}")).one())


@pytest.mark.parametrize("change", CHANGES)
def test_a_replaced_table_has_the_columns_of_a_new_one(store: SqlRepository, change: str) -> None:
    new = replace(OLD, **CHANGES[change])
    replaced = added(store, "d", OLD)
    assert store.write(lambda transaction: transaction.tables.replace(replaced, None, new, OLD))
    found = row(store, replaced)
    store.write(lambda transaction: transaction.tables.remove(replaced))
    assert found == row(store, added(store, "d", new))


def test_a_table_moves_to_another_database(store: SqlRepository) -> None:
    number = added(store, "d", OLD)

    def work(transaction: Any) -> bool:
        home = transaction.databases.find("hive", "e").id
        stored: bool = transaction.tables.replace(number, home, replace(OLD, database="e"), OLD)
        return stored

    assert store.write(work)
    assert store.read(lambda transaction: transaction.tables.find("hive", "e", "t")) is not None
    assert store.read(lambda transaction: transaction.tables.find("hive", "d", "t")) is None
