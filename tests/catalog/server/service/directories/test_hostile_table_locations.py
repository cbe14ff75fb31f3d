"""Hostile locations in every call about tables that has one, followed by deletions: no foreign file is deleted."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.model import (
    MetastoreDatabase,
)
from interbed.catalog.server.service.service import Metastore
from tests.catalog.server.service.directories.hostile_trials import check_nothing_foreign_is_deleted, table
from tests.support.hostile_locations import ProtectedTree
from tests.support.tally import Tally

pytestmark = pytest.mark.attack("paths and links")


def _table(metastore: Metastore, location: str) -> None:
    metastore.databases.create(MetastoreDatabase(name="h"))
    metastore.tables.create(table("t", location))
    with suppress(MetastoreError):
        metastore.tables.truncate("hive", "h", "t")
    metastore.tables.alter("hive", "h", "t", table("u", metastore.tables.get("hive", "h", "t").location))
    metastore.tables.drop("hive", "h", "u", delete_data=True)


def _external_table(metastore: Metastore, location: str) -> None:
    metastore.databases.create(MetastoreDatabase(name="h"))
    purged = {"EXTERNAL": "TRUE", "external.table.purge": "true", "auto.purge": "true"}
    metastore.tables.create(table("t", location, parameters=purged))
    with suppress(MetastoreError):
        metastore.tables.truncate("hive", "h", "t")
    metastore.tables.drop("hive", "h", "t", delete_data=True, purge=True)


def _altered_table(metastore: Metastore, location: str) -> None:
    metastore.databases.create(MetastoreDatabase(name="h"))
    metastore.tables.create(table("t", parameters={"EXTERNAL": "TRUE"}))
    metastore.tables.alter("hive", "h", "t", table("t", location, parameters={"EXTERNAL": "FALSE"}))
    with suppress(MetastoreError):
        metastore.tables.truncate("hive", "h", "t")
    metastore.tables.drop("hive", "h", "t", delete_data=True, purge=True)


def _renamed_table(metastore: Metastore, location: str) -> None:
    metastore.databases.create(MetastoreDatabase(name="h"))
    metastore.tables.create(table("t"))
    metastore.tables.alter("hive", "h", "t", table("u", location))
    metastore.databases.alter("hive", "h", MetastoreDatabase(name="h", location=location))
    metastore.tables.alter("hive", "h", "u", table("v", location))


ENTRIES: list[Callable[[Metastore, str], None]] = [
    _table,
    _external_table,
    _altered_table,
    _renamed_table,
]


@pytest.mark.longer
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda each: each.__name__.lstrip("_"))
def test_nothing_foreign_is_deleted(
    metastore: Metastore, precious: ProtectedTree, entry: Callable[[Metastore, str], None], tally: Tally
) -> None:
    check_nothing_foreign_is_deleted(metastore, precious, entry, ENTRIES.index(entry), tally)
