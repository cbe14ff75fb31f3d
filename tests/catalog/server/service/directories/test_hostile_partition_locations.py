"""Hostile locations in every call about partitions that has one, followed by deletions: no foreign file is deleted."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.model import (
    MetastoreDatabase,
    MetastorePartition,
)
from interbed.catalog.server.service.service import Metastore
from tests.catalog.server.service.directories.hostile_trials import (
    KEYS,
    check_nothing_foreign_is_deleted,
    storage_at,
    table,
)
from tests.support.hostile_locations import ProtectedTree
from tests.support.tally import Tally

pytestmark = pytest.mark.attack("paths and links")


def _partitioned_table(metastore: Metastore, location: str) -> None:
    metastore.databases.create(MetastoreDatabase(name="h"))
    metastore.tables.create(table("t", location, partition_keys=KEYS))
    metastore.partitions.append(("hive", "h", "t"), ["1"])
    metastore.partitions.rename(("hive", "h", "t"), ["1"], MetastorePartition(values=("2",), storage=storage_at(None)))
    with suppress(MetastoreError):
        metastore.partitions.truncate(("hive", "h", "t"))
    metastore.partitions.drop(("hive", "h", "t"), ["2"], delete_data=True)


def _partition(metastore: Metastore, location: str) -> None:
    key = ("hive", "h", "t")
    metastore.databases.create(MetastoreDatabase(name="h"))
    metastore.tables.create(table("t", partition_keys=KEYS))
    metastore.partitions.add(key, [MetastorePartition(values=("1",), storage=storage_at(location))])
    with suppress(MetastoreError):
        metastore.partitions.truncate(key, ["dt=1"])
    metastore.partitions.drop(key, ["1"], delete_data=True, purge=True)


def _altered_partition(metastore: Metastore, location: str) -> None:
    key = ("hive", "h", "t")
    metastore.databases.create(MetastoreDatabase(name="h"))
    metastore.tables.create(table("t", partition_keys=KEYS))
    metastore.partitions.append(key, ["1"])
    metastore.partitions.alter(key, [MetastorePartition(values=("1",), storage=storage_at(location))])
    with suppress(MetastoreError):
        metastore.partitions.rename(key, ["1"], MetastorePartition(values=("2",), storage=storage_at(location)))
    metastore.partitions.drop_names(key, ["dt=1", "dt=2"], delete_data=True, if_exists=True)


def _archived_partition(metastore: Metastore, location: str) -> None:
    key = ("hive", "h", "t")
    metastore.databases.create(MetastoreDatabase(name="h"))
    metastore.tables.create(table("t", partition_keys=KEYS))
    archived = {"is_archived": "true", "original_location": location}
    metastore.partitions.add(key, [MetastorePartition(values=("1",), storage=storage_at(None), parameters=archived)])
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


ENTRIES: list[Callable[[Metastore, str], None]] = [
    _partitioned_table,
    _partition,
    _altered_partition,
    _archived_partition,
    _exchanged_partitions,
]


@pytest.mark.longer
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda each: each.__name__.lstrip("_"))
def test_nothing_foreign_is_deleted(
    metastore: Metastore, precious: ProtectedTree, entry: Callable[[Metastore, str], None], tally: Tally
) -> None:
    check_nothing_foreign_is_deleted(metastore, precious, entry, ENTRIES.index(entry), tally)
