"""A Hive catalog whose warehouse is a bucket, with tables and databases in another bucket and on local disk."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.server.process.command import stop_server
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.io.resolve import file_io_for
from interbed.storage.meta.schema.change import SetOption
from tests.support.servers.enforcing_store import EnforcingStore, enforcing_store
from tests.support.servers.metastore import started_server

BUCKET, OTHER = "hive-lake", "hive-other"
"""Names that no other test uses: a process keeps the keys with which it has opened a bucket."""
COLUMNS: "list[pa.Field[Any]]" = [pa.field("id", pa.int64()), pa.field("name", pa.string())]
SCHEMA = pa.schema(COLUMNS)
EMPTY = pa.schema([])
ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]})
OPTIONS = {"bucket": "1"}


@pytest.fixture(scope="module")
def store() -> Iterator[EnforcingStore]:
    """Run a store with two buckets."""
    with enforcing_store(BUCKET) as running:
        running.client("s3").create_bucket(Bucket=OTHER)
        yield running


@pytest.fixture(scope="module")
def catalog(store: EnforcingStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveCatalog]:
    """Open a catalog of a server whose warehouse is in one of the buckets."""
    directory = tmp_path_factory.mktemp("buckets")
    with pytest.MonkeyPatch.context() as patch:
        for key, value in store.environment.items():
            patch.setenv(key, value)
        database = f"sqlite:///{directory / 'metastore.db'}"
        server = started_server(database, f"s3://{BUCKET}/warehouse", log=directory / "server.log")
        try:
            with interbed.load_catalog("hive", metastore="hive", uri=server.uri) as opened:
                assert isinstance(opened, HiveCatalog)
                opened.create_database("shop")
                yield opened
        finally:
            stop_server(server)


@pytest.fixture(params=["bucket", "disk"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a new location in another file system than that of the warehouse."""
    return f"s3://{OTHER}/{uuid.uuid4()}" if request.param == "bucket" else f"file:{tmp_path}/place"


def create(catalog: HiveCatalog, name: str, **options: str) -> interbed.Table:
    return catalog.create_table(name, SCHEMA, primary_keys=["id"], options={**OPTIONS, **options})


def ids(table: interbed.Table) -> list[int]:
    rows: Any = table.scan(columns=["id"]).to_arrow()
    return sorted(rows["id"].to_pylist())


def objects(store: EnforcingStore, bucket: str) -> set[str]:
    """Return the keys of a bucket."""
    return {each["Key"] for each in store.client("s3").list_objects_v2(Bucket=bucket).get("Contents", ())}


def test_an_external_table_is_written_and_read_where_it_lies(
    catalog: HiveCatalog, store: EnforcingStore, place: str
) -> None:
    before = objects(store, BUCKET)
    table = create(catalog, "shop.t", path=f"{place}/t")
    table.upsert(ROWS)
    assert ids(catalog.get_table("shop.t")) == [1, 2]
    catalog.alter_table("shop.t", SetOption("snapshot.num-retained.max", "50"))
    catalog.rename_table("shop.t", "shop.u")
    found = catalog.get_table("shop.u")
    assert (found.location, found.schema.options["snapshot.num-retained.max"]) == (table.location, "50")
    assert catalog.table_outline("shop.u").id == 1
    assert catalog.repair_table("shop.u").actions == ()
    catalog.drop_table("shop.u")
    # The files of an external table stay, and are registered again.
    assert ids(create(catalog, "shop.t", path=f"{place}/t")) == [1, 2]
    catalog.drop_table("shop.t")
    assert objects(store, BUCKET) == before


def test_the_tables_of_a_database_lie_at_its_location(catalog: HiveCatalog, store: EnforcingStore, place: str) -> None:
    before = objects(store, BUCKET)
    catalog.create_database("far", properties={"location": f"{place}/far.db"})
    file_io, directory = file_io_for(f"{place}/far.db")
    create(catalog, "far.t").upsert(ROWS)
    catalog.create_table_as("far.copy", ROWS)
    assert file_io.exists(f"{directory}/t/schema/schema-0")
    assert file_io.exists(f"{directory}/copy/schema/schema-0")
    with pytest.raises(NotSupportedError, match=r"The files of 'far\.t' stay in .*far\.db/t when it is renamed"):
        catalog.rename_table("far.t", "shop.t")
    catalog.rename_table("far.t", "far.u")
    assert ids(catalog.get_table("far.u")) == ids(catalog.get_table("far.copy")) == [1, 2]
    catalog.drop_table("far.u", purge=True)
    catalog.drop_database("far", cascade=True)
    assert not file_io.exists(f"{directory}/copy/schema/schema-0")
    assert objects(store, BUCKET) == before


def test_a_format_table_lies_in_another_bucket(catalog: HiveCatalog, place: str) -> None:
    options = {"type": "format-table", "file.format": "json", "path": f"{place}/f"}
    table: Any = catalog.create_table("shop.f", SCHEMA, partition_keys=["name"], options=options)
    table.append(ROWS)
    assert ids(catalog.get_table("shop.f")) == [1, 2]
    assert len(file_io_for(place)[0].list(f"{table.location}/name=a")) == 1
    catalog.drop_table("shop.f")


def test_an_unknown_file_system_is_refused_by_name(catalog: HiveCatalog) -> None:
    for refused in (
        lambda: create(catalog, "shop.t", path="unknown://lake/t"),
        lambda: catalog.create_table("shop.t", SCHEMA, options={"type": "format-table", "path": "unknown://lake/t"}),
        lambda: catalog.create_table("shop.t", EMPTY, options={"type": "object-table", "path": "unknown://lake/t"}),
        lambda: catalog.create_database("far", properties={"location": "unknown://lake/far.db"}),
    ):
        with pytest.raises(InvalidInputError, match="No file system is known for 'unknown:'"):
            refused()
    assert catalog.list_tables("shop") == []
    assert not catalog.database_exists("far")
