"""Hive catalog on Hive's own metastores with a warehouse in S3, which they open as `s3a`, and in HDFS."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.hive.registration import MANAGED_AS, is_external
from interbed.storage.io.resolve import file_io_for
from tests.support.peers.cache import java_jars
from tests.support.peers.spark import HADOOP_OF_AWS, hadoop_aws_jars
from tests.support.servers.hdfs import running_hdfs
from tests.support.servers.http_servers import for_hadoop, running_s3
from tests.support.servers.java_metastore import java_metastore
from tests.support.shares import each_run

WAREHOUSE = "s3a://lake/warehouse"
SCHEMA = pa.schema((("id", pa.int64()), ("day", pa.string())))


def _hadoop_jars(version: str) -> Sequence[Path]:
    """Return the jars of a newer Hadoop with a client for S3, for metastores with an older or incomplete one."""
    return [] if version == "2.3.10" else sorted(java_jars(HADOOP_OF_AWS).glob("hadoop-client-*.jar"))


@pytest.fixture(params=each_run(["2.3.10", "3.1.3", "4.0.1"], lambda version: version == "4.0.1"))
def options(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Options of the catalog; the metastore knows the object store by the scheme `s3a` only."""
    with running_s3("lake") as store:
        jars = [*_hadoop_jars(request.param), *hadoop_aws_jars()]
        with java_metastore(request.param, for_hadoop(store), first_jars=jars) as uri:
            yield {"metastore": "hive", "uri": uri, "warehouse": WAREHOUSE, "lock.enabled": "false", **store}


def _ids(catalog: interbed.Catalog, name: str) -> list[int]:
    column: Any = catalog.get_table(name).scan(columns=["id"]).to_arrow()["id"]
    return sorted(column.to_pylist())


@pytest.mark.long
def test_tables_in_the_object_store_keep_their_files_when_renamed(options: dict[str, str]) -> None:
    io, root = file_io_for(WAREHOUSE, options)
    database = f"{root}/shop.db"

    def directories() -> list[str]:
        return sorted(entry.name for entry in io.list(database))

    with interbed.CatalogFactory.create(options) as catalog:
        assert isinstance(catalog, HiveCatalog)
        client = catalog.client
        catalog.create_database("shop")
        assert client.get_database("shop").locationUri == f"{WAREHOUSE}/shop.db"
        catalog.create_table("shop.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"}).upsert([{"id": 1}])
        before = client.get_table("shop", "t")
        for number, (old, new) in enumerate([("t", "u"), ("u", "t"), ("t", "u")], 2):
            catalog.rename_table(f"shop.{old}", f"shop.{new}")
            entry = client.get_table("shop", new)
            assert (entry.sd.location, entry.tableType) == (f"{WAREHOUSE}/shop.db/t", before.tableType)
            assert not is_external(entry)
            assert MANAGED_AS not in entry.parameters
            assert directories() == ["t"]
            catalog.get_table(f"shop.{new}").upsert([{"id": number}])
        assert _ids(catalog, "shop.u") == [1, 2, 3, 4]

        by_day = {"bucket": "-1", "metastore.partitioned-table": "true"}
        catalog.create_table("shop.t", SCHEMA, partition_keys=["day"], options=by_day).append([{"id": 5, "day": "a"}])
        assert directories() == ["t", "t-2"]
        catalog.rename_table("shop.t", "shop.v")
        (partition,) = client.get_partitions_by_names("shop", "v", ["day=a"])
        assert partition.sd.location == f"{WAREHOUSE}/shop.db/t-2/day=a"
        assert (_ids(catalog, "shop.v"), directories()) == ([5], ["t", "t-2"])
        assert not catalog.repair_catalog().actions

        catalog.drop_table("shop.u")
        assert directories() == ["t-2"]
        catalog.drop_database("shop", cascade=True)
        assert io.list(root) == []


@pytest.mark.long
def test_a_published_table_is_registered_by_the_scheme_of_the_metastore(options: dict[str, str]) -> None:
    with interbed.CatalogFactory.create(options) as catalog:
        assert isinstance(catalog, HiveCatalog)
        catalog.create_database("shop")
        publishing = {
            "metadata.iceberg.storage": "hive-catalog",
            "metadata.iceberg.uri": options["uri"],
            "metadata.iceberg.database": "ice",
        }
        table = catalog.create_table("shop.t", SCHEMA, options=publishing)
        table.append([{"id": 1}])
        table.append([{"id": 2}])
        entry = catalog.client.get_table("ice", "t")
        place = f"{WAREHOUSE}/iceberg/shop/t"
        assert (entry.sd.location, entry.parameters["metadata_location"]) == (
            place,
            f"{place}/metadata/v2.metadata.json",
        )
        assert _ids(catalog, "ice.t") == [1, 2]


@pytest.mark.long
@pytest.mark.parametrize("version", ["2.3.10", "3.1.3", "4.0.1"])
def test_a_renamed_table_in_hdfs_moves_its_files(version: str) -> None:
    with running_hdfs() as hdfs, java_metastore(version, first_jars=_hadoop_jars(version)) as uri:
        warehouse = f"{hdfs.uri}/warehouse"
        options = {"metastore": "hive", "uri": uri, "warehouse": warehouse, "lock-check-max-sleep": "50 ms"}
        with interbed.CatalogFactory.create(options) as catalog:
            assert isinstance(catalog, HiveCatalog)
            catalog.create_database("shop")
            by_day = {"bucket": "-1", "metastore.partitioned-table": "true"}
            table = catalog.create_table("shop.t", SCHEMA, partition_keys=["day"], options=by_day)
            table.append([{"id": 1, "day": "a"}])
            for old, new in [("t", "u"), ("u", "v")]:
                catalog.rename_table(f"shop.{old}", f"shop.{new}")
                place = f"{warehouse}/shop.db/{new}"
                assert catalog.client.get_table("shop", new).sd.location == place
                (partition,) = catalog.client.get_partitions_by_names("shop", new, ["day=a"])
                assert partition.sd.location == f"{place}/day=a"
                assert _ids(catalog, f"shop.{new}") == [1]
                assert [entry.name for entry in table.store.file_io.list(f"{warehouse}/shop.db")] == [new]
            assert not catalog.repair_catalog().actions
            catalog.drop_database("shop", cascade=True)
            assert table.store.file_io.list(warehouse) == []
