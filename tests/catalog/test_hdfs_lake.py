"""Whole tables in HDFS: by the file-system catalog without a lock, and by the Hive catalog."""

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.storage.base.errors import StorageAccessError
from interbed.storage.io.api import FileIO, WrappedFileIO
from interbed.storage.io.resolve import file_io_for
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from interbed.storage.version.orphans import remove_orphan_files
from tests.support.pages import Page
from tests.support.servers.hdfs import NAMESERVICE, HdfsServer
from tests.support.servers.metastore import metastore
from tests.support.shares import each_run
from tests.support.writers import create_orders, finished, keys_of, own_keys, writers

FIELDS: list[tuple[str, pa.DataType]] = [("id", pa.int64()), ("name", pa.string()), ("day", pa.string())]
SCHEMA = pa.schema(FIELDS)


@pytest.fixture(params=each_run(["filesystem", "hive", "nameservice"], lambda kind: kind == "filesystem"))
def options(request: pytest.FixtureRequest, hdfs: HdfsServer) -> Iterator[dict[str, str]]:
    """Options of each kind of catalog, on a warehouse of the test."""
    path = f"{uuid.uuid4()}/paimon"
    if request.param == "hive":
        warehouse = f"{hdfs.uri}/{path}/hive"
        with metastore(warehouse=warehouse) as uri:
            yield {"metastore": "hive", "uri": uri, "warehouse": warehouse, "lock-check-max-sleep": "200 ms"}
    elif request.param == "filesystem":
        yield {"warehouse": f"{hdfs.uri}/{path}/fs"}
    else:
        yield {"warehouse": f"hdfs://{NAMESERVICE}/{path}/fs", **hdfs.settings}


def ids(table: interbed.Table) -> list[int]:
    column: Any = table.scan(columns=["id"]).to_arrow()["id"]
    return sorted(column.to_pylist())


def row(number: int, name: str = "a", day: str = "d1") -> dict[str, object]:
    return {"id": number, "name": name, "day": day}


def test_a_table_in_hdfs_supports_all_operations_from_creation_to_drop(options: dict[str, str]) -> None:
    with interbed.CatalogFactory.create(options) as catalog:
        catalog.create_database("shop")
        table = catalog.create_table(
            "shop.items", SCHEMA, primary_keys=["id", "day"], partition_keys=["day"], options={"bucket": "2"}
        )
        assert table.location.startswith(options["warehouse"] + "/")
        table.upsert([row(n, day=f"d{n % 2}") for n in range(100)])
        table.versions.create_tag("first")
        table.upsert([row(n, "b", f"d{n % 2}") for n in range(50, 120)])
        table.delete("id < 10")
        table.compact()
        assert ids(table) == list(range(10, 120))
        assert table.scan(filter="id = 60").to_arrow()["name"].to_pylist() == ["b"]
        assert table.get((61, "d1")) == row(61, "b", "d1")
        table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
        assert len(table.snapshots()) == 1
        assert ids(table.copy({"scan.tag-name": "first"})) == list(range(100))
        table.versions.delete_tag("first")
        # A killed writer leaves such a file, which was not renamed to its final name.
        stray = f"{table.location}/day=d0/bucket-0/.data-x.parquet.{uuid.uuid4()}.tmp"
        table.store.file_io.overwrite(stray, b"half a file")
        remove_orphan_files(table.store, clock=lambda: time.time() + 2 * 24 * 3600)
        assert not table.store.file_io.exists(stray)
        assert table.maintenance.fsck().is_sound

        catalog.rename_table("shop.items", "shop.things")
        assert catalog.list_tables("shop") == ["things"]
        things = catalog.get_table("shop.things")
        assert ids(things) == list(range(10, 120))
        place, file_io = things.location, things.store.file_io
        catalog.drop_table("shop.things")
        assert not file_io.exists(place)
        catalog.drop_database("shop")
        assert "shop" not in catalog.list_databases()


class _SafeModeFileIO(WrappedFileIO):
    """FileIO whose name node enters safe mode when a snapshot is created."""

    def __init__(self, inner: FileIO, server: HdfsServer) -> None:
        super().__init__(inner)
        self._server = server

    def create_exclusive(self, path: str, content: bytes) -> bool:
        if "/snapshot-" not in path:
            return self.inner.create_exclusive(path, content)
        self._server.send("safe mode")
        try:
            return self.inner.create_exclusive(path, content)
        finally:
            self._server.send("leave safe mode")


def test_a_snapshot_refused_by_the_name_node_is_not_of_unknown_state(hdfs: HdfsServer) -> None:
    warehouse = f"{hdfs.uri}/{uuid.uuid4()}"
    catalog = interbed.load_catalog("lake", warehouse=warehouse)
    catalog.create_database("shop")
    table = catalog.create_table("shop.items", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    table.upsert([row(1)])
    io, root = file_io_for(table.location)
    before = {
        path: [entry.name for entry in io.list(f"{root}/{path}")] for path in ("bucket-0", "manifest", "snapshot")
    }
    refused = Table(table.name, open_store(table.location, _SafeModeFileIO(io, hdfs)))
    with pytest.raises(StorageAccessError, match=r"safe mode.*Nothing was committed; the same work may be done again"):
        refused.upsert([row(2)])
    assert {path: [entry.name for entry in io.list(f"{root}/{path}")] for path in before} == before
    table.upsert([row(2)])
    assert ids(table) == [1, 2]


class _FullFileIO(WrappedFileIO):
    """FileIO without space for another file."""

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        raise StorageAccessError(f"Can't write {path}: the quota is exceeded.")

    def create_exclusive(self, path: str, content: bytes) -> bool:
        raise StorageAccessError(f"Can't create {path}: the quota is exceeded.")


def test_a_table_can_be_dropped_when_no_further_file_can_be_written(hdfs: HdfsServer) -> None:
    catalog = interbed.load_catalog("lake", warehouse=f"{hdfs.uri}/{uuid.uuid4()}")
    assert isinstance(catalog, FileSystemCatalog)
    catalog.create_database("shop")
    table = catalog.create_table("shop.items", SCHEMA, primary_keys=["id"])
    table.upsert([row(1)])
    io = catalog.file_io
    catalog._file_io = _FullFileIO(io)
    catalog.drop_table("shop.items")
    assert not io.exists(file_io_for(table.location)[1])
    assert catalog.list_tables("shop") == []


@pytest.mark.long
def test_append_tables_in_each_format_are_read_back(options: dict[str, str]) -> None:
    with interbed.CatalogFactory.create(options) as catalog:
        catalog.create_database("shop")
        for format_ in ("parquet", "orc", "avro"):
            table = catalog.create_table(f"shop.{format_}", SCHEMA, options={"file.format": format_})
            for first in range(0, 40, 10):
                table.append([row(n) for n in range(first, first + 10)])
            table.compact()
            assert ids(table) == list(range(40))


@pytest.mark.long
@pytest.mark.parametrize(("count", "commits"), each_run([(3, 3), (6, 15)], lambda sizes: sizes[0] == 3))
def test_concurrent_commits_of_processes_lose_no_write(options: dict[str, str], count: int, commits: int) -> None:
    # Outside of local file systems writers do not queue for a lock, so that commits collide more often than the default
    # allows.
    options = {**options, "table-default.commit.max-retries": "1000"}
    with interbed.CatalogFactory.create(options) as catalog:
        table = create_orders(catalog)
        with writers(options, range(count), commits) as running:
            results = [finished(writer) for writer in running]
        assert "".join(errors for _, errors, _ in results) == ""
        assert [code for code, _, _ in results] == [0] * count
        acknowledged = [made for _, _, made in results]
        # Each commit is one snapshot, and there are no others.
        assert sorted(snapshot for made in acknowledged for _, snapshot in made) == list(range(1, count * commits + 1))
        assert [snapshot.id for snapshot in table.snapshots()] == list(range(1, count * commits + 1))
        assert own_keys(table) == sorted(set().union(*(keys_of(made, i) for i, made in enumerate(acknowledged))))
        io, hidden = table.store.file_io, (f"{table.location}/snapshot", f"{table.location}/schema")
        # Every commit lease was released.
        assert not [e.name for directory in hidden for e in io.list(directory) if e.name.startswith(".")]
        if isinstance(catalog, HiveCatalog):
            assert catalog.client.show_locks() == []
        else:
            assert "lock.enabled" not in options


@pytest.mark.long
def test_the_python_example_of_the_page_runs(hdfs: HdfsServer) -> None:
    [program] = Page("hdfs.md").blocks("python")
    assert "hdfs://namenode:8020/" in program
    exec(program.replace("hdfs://namenode:8020/", f"{hdfs.uri}/{uuid.uuid4()}/"), {})


@pytest.mark.long
def test_writers_continue_through_a_failover_of_name_nodes(hdfs: HdfsServer) -> None:
    options = {"warehouse": f"hdfs://{NAMESERVICE}/{uuid.uuid4()}", **hdfs.settings}
    with interbed.CatalogFactory.create(options) as catalog:
        table = create_orders(catalog)
        with writers(options, range(3), 15) as running:
            assert running[0].stdout is not None
            for _ in range(4):
                # Each line reports a commit.
                running[0].stdout.readline()
                hdfs.send("fail over")
            results = [finished(writer) for writer in running]
        assert [code for code, _, _ in results] == [0] * 3, [errors for _, errors, _ in results]
        assert [snapshot.id for snapshot in table.snapshots()] == list(range(1, 46))
        assert len(own_keys(table)) == 45


def test_dropped_tables_are_kept_and_put_back(hdfs: HdfsServer) -> None:
    catalog = interbed.load_catalog(warehouse=f"{hdfs.uri}/{uuid.uuid4()}", undrop_seconds=3600)
    catalog.create_database("shop")
    for name in ("items", "things"):
        catalog.create_table(f"shop.{name}", SCHEMA, primary_keys=["id"]).upsert([row(1)])
    catalog.drop_table("shop.items")
    catalog.undrop_table("shop.items", new_name="back")
    catalog.drop_database("shop", cascade=True)
    assert catalog.list_databases() == []
    catalog.undrop_database("shop")
    assert catalog.list_tables("shop") == ["back", "things"]
    assert ids(catalog.get_table("shop.back")) == [1]
    catalog.drop_table("shop.back")
    assert [entry.qualified for entry in catalog.list_dropped()] == ["shop.back"]
    assert catalog.purge_dropped() == 1
    assert catalog.list_dropped() == []
