"""URI schemes of published metadata: files have the scheme of the warehouse, because Hadoop's client supports `s3a`
only.
"""

import pickle
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

import interbed
from interbed.iceberg.meta.live_files import live_file
from interbed.iceberg.meta.manifests import entries_of
from interbed.iceberg.table import store_properties
from interbed.storage.table.table import Table
from tests.iceberg.publish.tables import KEYED, STORAGE, VECTORS, ordered, place_of, rows, shown
from tests.support.peers.spark import SparkPeer, hadoop_aws_jars, iceberg_settings
from tests.support.servers.http_servers import for_hadoop, running_s3

BUCKET = "lake"


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with running_s3(BUCKET) as options:
        yield options


def opened(store: Mapping[str, str], scheme: str, directory: str) -> interbed.Catalog:
    return interbed.load_catalog("lake", warehouse=f"{scheme}://{BUCKET}/{directory}", **store)


def by_pyiceberg(store: Mapping[str, str], table: Table, scheme: str) -> StaticTable:
    version = table.latest_snapshot()
    assert version is not None
    place = table.location if table.options.raw[STORAGE] == "table-location" else place_of(table)
    metadata = f"{place}/metadata/v{version.id}.metadata.json".replace("s3://", f"{scheme}://")
    return StaticTable.from_metadata(metadata, store_properties(store))


def schemes_of(table: StaticTable) -> set[str]:
    """Return the schemes of all paths in the metadata and in the files that they reference."""
    paths: list[str | None] = [table.metadata.location]
    for snapshot in table.metadata.snapshots:
        paths.append(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            paths.append(manifest.manifest_path)
            for entry in entries_of(table.io, manifest, deleted=True):
                file = live_file(entry)
                paths += [file.path, file.referenced]
    return {path.partition("://")[0] for path in paths if path is not None}


@pytest.mark.sample(2)
@pytest.mark.parametrize("storage", ["hadoop-catalog", "table-location"])
@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_all_files_are_named_by_the_scheme_of_the_warehouse(store: dict[str, str], scheme: str, storage: str) -> None:
    with opened(store, scheme, str(uuid.uuid4())) as lake:
        lake.create_database("db")
        options = {**VECTORS, STORAGE: storage, "bucket": "1", "metadata.iceberg.compaction.min.file-num": "2"}
        table = lake.create_table("db.t", KEYED, primary_keys=["id"], options=options)
        for number in range(4):
            table.upsert(rows(number, number + 1))
        table.compact(full=True)
        table.versions.create_tag("first")
        table.delete("id = 1")
        table.compact()
        # The table is loaded again and pickled, as another process gets it.
        again: Table = pickle.loads(pickle.dumps(lake.get_table("db.t")))
        again.upsert(rows(7))
        again.versions.rollback_to("first")
        again.upsert(rows(8))
        again.compact(full=True)
        found = by_pyiceberg(store, again, scheme)
        assert schemes_of(found) == {scheme}
        assert ordered(found.scan().to_arrow().to_pylist()) == shown(again)


@pytest.mark.long
def test_published_files_keep_their_scheme(store: dict[str, str]) -> None:
    directory = str(uuid.uuid4())
    with opened(store, "s3a", directory) as lake, opened(store, "s3", directory) as other:
        lake.create_database("db")
        options = {**VECTORS, STORAGE: "hadoop-catalog", "bucket": "1"}
        lake.create_table("db.t", KEYED, primary_keys=["id"], options=options).upsert(rows(1, 2))
        for catalog in (other, lake, other):
            catalog.get_table("db.t").delete("id = 1")
            catalog.get_table("db.t").upsert(rows(1, 3))
            catalog.get_table("db.t").compact(full=True)
        found = by_pyiceberg(store, other.get_table("db.t"), "s3")
        assert schemes_of(found) == {"s3a"}
        assert ordered(found.scan().to_arrow().to_pylist()) == shown(lake.get_table("db.t"))


@pytest.mark.long
def test_iceberg_reads_the_table_by_hadoops_client_which_supports_one_scheme(store: dict[str, str]) -> None:
    directory = str(uuid.uuid4())
    with opened(store, "s3a", directory) as lake:
        lake.create_database("db")
        options = {**VECTORS, STORAGE: "hadoop-catalog", "bucket": "1"}
        table = lake.create_table("db.t", KEYED, primary_keys=["id"], options=options)
        for number in range(3):
            table.upsert(rows(number, number + 1))
        table.delete("id = 1")
        table.compact()
        settings = iceberg_settings("", Path("/"))
        del settings["spark.sql.catalog.ice.uri"]
        settings["spark.jars"] += "".join(f",{jar}" for jar in hadoop_aws_jars())
        catalog = {"type": "hadoop", "warehouse": f"s3a://{BUCKET}/{directory}/iceberg"}
        settings |= {f"spark.sql.catalog.ice.{key}": value for key, value in catalog.items()}
        settings |= {f"spark.hadoop.{key}": value for key, value in for_hadoop(store).items()}
        with SparkPeer({"spark.master": "local[1]", **settings}) as spark:
            found = spark.run("SELECT id, v, p FROM ice.db.t ORDER BY id")
        assert found == [[str(value) for value in row.values()] for row in shown(table)]
