"""Hostile locations at every call that takes one, followed by every call that deletes: nothing foreign goes.

The calls are those of the services, without a network. A file of this name in tests/catalog/server/calls/ has a server.
"""

import dataclasses
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from interbed.catalog.metastore.errors import MetastoreError
from interbed.catalog.metastore.model import (
    MetastoreCatalog,
    MetastoreColumn,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
    SerDe,
    StorageDescriptor,
)
from interbed.catalog.metastore.service import Metastore
from interbed.catalog.metastore.trash import Trash
from interbed.catalog.repository import schema
from interbed.catalog.repository.session import SqlStore
from tests.support import shares
from tests.support.hostile_locations import Precious, hostile_locations
from tests.support.tally import Tally

STORAGE = StorageDescriptor(columns=(MetastoreColumn(name="id", type="int"),), serde=SerDe())
KEYS = (MetastoreColumn(name="dt", type="string"),)
REGISTERED = ("wh/keep.db", "wh/keep.db/a", "wh/keep.db/p", "wh/keep.db/p/dt=1", "wh/keep.db/a/sub", "far/t")
ONE_OF_MANY = 37


def at(location: str | None) -> StorageDescriptor:
    """A storage descriptor with a location."""
    return dataclasses.replace(STORAGE, location=location)


def table(name: str, location: str | None = None, *, database: str = "h", **fields: object) -> MetastoreTable:
    """A table of the hostile database."""
    return MetastoreTable(database=database, name=name, storage=at(location), **fields)  # type: ignore[arg-type]


@pytest.fixture
def precious(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Precious:
    """The tree that must survive."""
    made = Precious(root=tmp_path / "outer")
    made.make()
    monkeypatch.chdir(made.working_directory)
    return made


@pytest.fixture(params=["deletes", "trash"] if shares.LONG else ["deletes"])
def metastore(request: pytest.FixtureRequest, precious: Precious) -> Iterator[Metastore]:
    """A metastore with objects that others own."""
    store = SqlStore(f"sqlite:///{precious.database}")
    schema.upgrade(store.engine)
    trash = Trash(f"file:{precious.warehouse}/.Trash", keep_seconds=60) if request.param == "trash" else None
    made = Metastore(store, f"file:{precious.warehouse}", trash=trash)
    made.databases.bootstrap()
    made.databases.create(MetastoreDatabase(name="keep"))
    made.tables.create(table("a", database="keep"))
    made.tables.create(table("p", database="keep", partition_keys=KEYS))
    made.partitions.add(("hive", "keep", "p"), [MetastorePartition(values=("1",), storage=STORAGE)])
    made.tables.create(table("far", f"file:{precious.root}/far/t", database="keep", parameters={"EXTERNAL": "TRUE"}))
    (precious.warehouse / "keep.db" / "a" / "sub").mkdir()
    for directory in ("wh/keep.db/a", "wh/keep.db/a/sub", "wh/keep.db/p/dt=1", "far/t"):
        (precious.root / directory / "file").write_text("neighbour")
    yield made
    store.close()


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


def _partitioned_table(metastore: Metastore, location: str) -> None:
    metastore.databases.create(MetastoreDatabase(name="h"))
    metastore.tables.create(table("t", location, partition_keys=KEYS))
    metastore.partitions.append(("hive", "h", "t"), ["1"])
    metastore.partitions.rename(("hive", "h", "t"), ["1"], MetastorePartition(values=("2",), storage=at(None)))
    with suppress(MetastoreError):
        metastore.partitions.truncate(("hive", "h", "t"))
    metastore.partitions.drop(("hive", "h", "t"), ["2"], delete_data=True)


def _partition(metastore: Metastore, location: str) -> None:
    key = ("hive", "h", "t")
    metastore.databases.create(MetastoreDatabase(name="h"))
    metastore.tables.create(table("t", partition_keys=KEYS))
    metastore.partitions.add(key, [MetastorePartition(values=("1",), storage=at(location))])
    with suppress(MetastoreError):
        metastore.partitions.truncate(key, ["dt=1"])
    metastore.partitions.drop(key, ["1"], delete_data=True, purge=True)


def _altered_partition(metastore: Metastore, location: str) -> None:
    key = ("hive", "h", "t")
    metastore.databases.create(MetastoreDatabase(name="h"))
    metastore.tables.create(table("t", partition_keys=KEYS))
    metastore.partitions.append(key, ["1"])
    metastore.partitions.alter(key, [MetastorePartition(values=("1",), storage=at(location))])
    with suppress(MetastoreError):
        metastore.partitions.rename(key, ["1"], MetastorePartition(values=("2",), storage=at(location)))
    metastore.partitions.drop_names(key, ["dt=1", "dt=2"], delete_data=True, if_exists=True)


def _archived_partition(metastore: Metastore, location: str) -> None:
    key = ("hive", "h", "t")
    metastore.databases.create(MetastoreDatabase(name="h"))
    metastore.tables.create(table("t", partition_keys=KEYS))
    archived = {"is_archived": "true", "original_location": location}
    metastore.partitions.add(key, [MetastorePartition(values=("1",), storage=at(None), parameters=archived)])
    metastore.partitions.drop(key, ["1"], delete_data=True)


def _exchanged_partitions(metastore: Metastore, location: str) -> None:
    metastore.databases.create(MetastoreDatabase(name="h"))
    metastore.tables.create(table("t", location, partition_keys=KEYS))
    metastore.tables.create(table("u", partition_keys=KEYS))
    metastore.partitions.append(("hive", "h", "t"), ["1"])
    with suppress(MetastoreError):
        metastore.partitions.exchange({"dt": "1"}, ("hive", "h", "t"), ("hive", "h", "u"))
    with suppress(MetastoreError):
        metastore.partitions.exchange({"dt": "1"}, ("hive", "h", "u"), ("hive", "h", "t"))


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
    _table,
    _external_table,
    _altered_table,
    _renamed_table,
    _partitioned_table,
    _partition,
    _altered_partition,
    _archived_partition,
    _exchanged_partitions,
    _catalog,
    _altered_catalog,
]


@pytest.mark.longer
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda each: each.__name__.lstrip("_"))
def test_nothing_foreign_is_deleted(
    metastore: Metastore, precious: Precious, entry: Callable[[Metastore, str], None], tally: Tally
) -> None:
    before = precious.entries()
    inode = precious.database.stat().st_ino
    locations = hostile_locations(precious, REGISTERED)
    assert len(locations) >= 300
    tried = locations if shares.LONG else locations[ENTRIES.index(entry) % ONE_OF_MANY :: ONE_OF_MANY]
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
