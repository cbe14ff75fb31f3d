"""Trials of hostile locations on a metastore with foreign objects.

The calls are those of the services, without a network. tests/catalog/server/thrift/calls has a test with a server.
"""

import dataclasses
import os
from collections.abc import Callable
from contextlib import suppress

from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.model import (
    MetastoreColumn,
    MetastoreTable,
    SerDe,
    StorageDescriptor,
)
from interbed.catalog.server.service.service import Metastore
from tests.support import shares
from tests.support.hostile_locations import ProtectedTree, hostile_locations
from tests.support.tally import Tally

STORAGE = StorageDescriptor(columns=(MetastoreColumn(name="id", type="int"),), serde=SerDe())
KEYS = (MetastoreColumn(name="dt", type="string"),)
REGISTERED = ("wh/keep.db", "wh/keep.db/a", "wh/keep.db/p", "wh/keep.db/p/dt=1", "wh/keep.db/a/sub", "far/t")
ONE_OF_MANY = 37
ONE_OF_A_CASE = 3


def storage_at(location: str | None) -> StorageDescriptor:
    """Return a storage descriptor with a location."""
    return dataclasses.replace(STORAGE, location=location)


def table(name: str, location: str | None = None, *, database: str = "h", **fields: object) -> MetastoreTable:
    """Return a table of the hostile database."""
    return MetastoreTable(database=database, name=name, storage=storage_at(location), **fields)  # type: ignore[arg-type]


def check_nothing_foreign_is_deleted(
    metastore: Metastore, precious: ProtectedTree, entry: Callable[[Metastore, str], None], number: int, tally: Tally
) -> None:
    """Pass hostile locations to a call and drop the objects that it created. `number` is the index of the call in its
    file.
    """
    before = precious.entries()
    inode = precious.database.stat().st_ino
    locations = hostile_locations(precious, REGISTERED)
    assert len(locations) >= 300
    if shares.LONG:
        # A metastore with a trash gets other locations than one without; together they cover most of them.
        first = number if metastore.trash is None else number + 1
        tried = locations[first % ONE_OF_A_CASE :: ONE_OF_A_CASE]
        assert 2 * len(tried) >= 300
    else:
        tried = locations[number % ONE_OF_MANY :: ONE_OF_MANY]
    for location in tried:
        with suppress(MetastoreError):
            entry(metastore, location)
        with suppress(MetastoreError):
            metastore.databases.drop("hive", "h", delete_data=True, cascade=True, if_exists=True)
        with suppress(MetastoreError):
            metastore.catalogs.drop("h", if_exists=True)
        after = precious.entries()
        missing = {path: held for path, held in before.items() if after.get(path) != held}
        assert not missing, (location, missing)
        assert "h" not in [*metastore.databases.names("hive"), *metastore.catalogs.names()], location
    assert os.stat(precious.database).st_ino == inode
    tally("hostile locations at calls of the metastore", len(tried))
