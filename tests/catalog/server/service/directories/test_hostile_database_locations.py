"""Hostile locations in every call about databases that has one, followed by deletions: no foreign file is deleted."""

from collections.abc import Callable

import pytest

from interbed.catalog.server.service.model import (
    MetastoreCatalog,
    MetastoreDatabase,
)
from interbed.catalog.server.service.service import Metastore
from tests.catalog.server.service.directories.hostile_trials import check_nothing_foreign_is_deleted, table
from tests.support.hostile_locations import ProtectedTree
from tests.support.tally import Tally

pytestmark = pytest.mark.attack("paths and links")


def _database(metastore: Metastore, location: str) -> None:
    metastore.databases.create(MetastoreDatabase(name="h", location=location))
    metastore.tables.create(table("t"))
    metastore.tables.truncate("hive", "h", "t")


def _managed_database(metastore: Metastore, location: str) -> None:
    metastore.databases.create(MetastoreDatabase(name="h", managed_location=location))
    metastore.tables.create(table("t"))


def _altered_database(metastore: Metastore, location: str) -> None:
    metastore.databases.create(MetastoreDatabase(name="h"))
    metastore.databases.alter("hive", "h", MetastoreDatabase(name="h", location=location))
    metastore.tables.create(table("t"))


def _altered_managed_database(metastore: Metastore, location: str) -> None:
    metastore.databases.create(MetastoreDatabase(name="h"))
    metastore.databases.alter("hive", "h", MetastoreDatabase(name="h", managed_location=location))


def _catalog(metastore: Metastore, location: str) -> None:
    metastore.catalogs.create(MetastoreCatalog(name="h", location=location))
    metastore.databases.create(MetastoreDatabase(catalog="h", name="h"))
    metastore.databases.drop("h", "h", delete_data=True, cascade=True)


def _altered_catalog(metastore: Metastore, location: str) -> None:
    metastore.catalogs.create(MetastoreCatalog(name="h", location=f"{metastore.warehouse.root}/h"))
    metastore.catalogs.alter("h", MetastoreCatalog(name="h", location=location))


ENTRIES: list[Callable[[Metastore, str], None]] = [
    _database,
    _managed_database,
    _altered_database,
    _altered_managed_database,
    _catalog,
    _altered_catalog,
]


@pytest.mark.longer
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda each: each.__name__.lstrip("_"))
def test_nothing_foreign_is_deleted(
    metastore: Metastore, precious: ProtectedTree, entry: Callable[[Metastore, str], None], tally: Tally
) -> None:
    check_nothing_foreign_is_deleted(metastore, precious, entry, ENTRIES.index(entry), tally)
