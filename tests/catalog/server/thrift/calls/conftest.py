"""Fixtures for tests of single calls: the generated client, and a table with partitions."""

from collections.abc import Iterator

import pytest

from interbed.thrift_idl.hive_metastore.ThriftHiveMetastore import Client
from tests.catalog.server.raw_client import raw_client
from tests.catalog.server.thrift.calls.partition_tables import KEYS, VALUES, partition
from tests.support.servers.metastore import MetastoreUnderTest, table


@pytest.fixture
def raw(metastore: MetastoreUnderTest) -> Iterator[Client]:
    """Connect the generated client."""
    with raw_client(metastore.port) as client:
        yield client


@pytest.fixture
def days(raw: Client, database: str) -> str:
    """Return the name of a database with the table `t` of seven partitions."""
    grouped = {"hive.hcatalog.partition.spec.grouping.enabled": "TRUE"}
    raw.create_table(table(database, "t", partition_keys=KEYS, parameters=grouped))
    raw.add_partitions([partition(database, values) for values in VALUES])
    return database
