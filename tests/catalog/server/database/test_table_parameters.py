"""Tables are found by their parameters, which are in their documents."""

from collections.abc import Iterator

import pytest

from interbed.catalog.server.database import schema
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.model import (
    EXTERNAL_TABLE,
    VIRTUAL_VIEW,
    MetastoreCatalog,
    MetastoreDatabase,
    MetastoreTable,
)
from interbed.catalog.server.service.repository import Transaction

TABLES: dict[str, dict[str, str]] = {
    "a": {"table_type": "ICEBERG", "metadata_location": "file:/a"},
    "b": {"table_type": "iceberg", "metadata_location": "file:/b'\"%"},
    "c": {"table_type": "ICEBERG"},
    "d": {"table_type": "ICEBERG", "metadata_location": ""},
    "e": {"other": "ICEBERG", "metadata_location": "file:/e"},
    "f": {},
}


@pytest.fixture
def store(database_url: str) -> Iterator[SqlRepository]:
    """Open a repository with a database of these tables, and a view with the parameters of the first."""
    opened = SqlRepository(database_url)
    schema.upgrade(opened.engine)
    entries = [
        MetastoreTable(catalog="hive", database="d", name=name, table_type=EXTERNAL_TABLE, parameters=parameters)
        for name, parameters in TABLES.items()
    ]
    view = MetastoreTable(catalog="hive", database="d", name="v", table_type=VIRTUAL_VIEW, parameters=TABLES["a"])

    def fill(transaction: Transaction) -> None:
        transaction.catalogs.add(MetastoreCatalog(name="hive", location="file:/w"))
        number = transaction.databases.add(MetastoreDatabase(catalog="hive", name="d", location="file:/w/d.db"))
        assert number is not None
        for entry in [view, *reversed(entries)]:
            transaction.tables.add(number, entry)

    opened.write(fill)
    yield opened
    opened.close()


def test_tables_are_found_by_the_values_of_several_parameters(store: SqlRepository) -> None:
    def found(values: dict[str, str | None], database: str = "d") -> list[str]:
        return [name for name, _ in store.read(lambda each: each.tables.with_parameters("hive", database, values))]

    assert found({"table_type": "iceberg", "metadata_location": None}) == ["a", "b", "v"]
    assert found({"table_type": "ICEBERG"}) == ["a", "b", "c", "d", "v"]
    assert found({"metadata_location": "FILE:/B'\"%"}) == ["b"]
    assert found({"no'such\"key": None}) == []
    assert found({}) == [*TABLES, "v"]
    assert found({"table_type": "iceberg"}, database="other") == []


def test_a_view_is_told_apart_by_its_type(store: SqlRepository) -> None:
    values = {"metadata_location": "file:/a"}
    found = store.read(lambda each: each.tables.with_parameters("hive", "d", values))
    assert found == [("a", EXTERNAL_TABLE), ("v", VIRTUAL_VIEW)]


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
