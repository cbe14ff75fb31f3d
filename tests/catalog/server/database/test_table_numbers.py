"""Tables are found by their numbers, which are in their documents."""

from collections.abc import Iterator

import pytest

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.model import (
    EXTERNAL_TABLE,
    MetastoreCatalog,
    MetastoreDatabase,
    MetastoreTable,
)
from interbed.catalog.server.service.repository import Transaction
from tests.support.databases import open_migrated


@pytest.fixture
def store(database_url: str) -> Iterator[SqlRepository]:
    """Open a repository with a database of two tables."""
    opened = open_migrated(database_url)
    entries = [MetastoreTable(catalog="hive", database="d", name=name, table_type=EXTERNAL_TABLE) for name in "ab"]

    def fill(transaction: Transaction) -> None:
        transaction.catalogs.add(MetastoreCatalog(name="hive", location="file:/w"))
        number = transaction.databases.add(MetastoreDatabase(catalog="hive", name="d", location="file:/w/d.db"))
        assert number is not None
        for entry in entries:
            transaction.tables.add(number, entry)

    opened.write(fill)
    yield opened
    opened.close()


def test_tables_are_found_by_their_number(store: SqlRepository) -> None:
    number = (1 << 53) - 1

    def fill(transaction: Transaction) -> None:
        found = transaction.databases.find("hive", "d")
        assert found is not None
        for name, given in (("n", number), ("m", number - 1)):
            entry = MetastoreTable(catalog="hive", database="d", name=name, table_type=EXTERNAL_TABLE, number=given)
            transaction.tables.add(found.id, entry)

    store.write(fill)
    assert store.read(lambda each: each.tables.numbered("hive", number)) == [("d", "n")]
    assert store.read(lambda each: each.tables.numbered("other", number)) == []
    assert store.read(lambda each: each.tables.numbered("hive", 1 << 61)) == []
    # Tables that have no number are known by their row.
    row = store.read(lambda each: each.tables.find("hive", "d", "a"))
    assert row is not None
    assert store.read(lambda each: each.tables.numbered("hive", row.id)) == [("d", "a")]
