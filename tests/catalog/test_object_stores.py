"""Whole tables in an object store with S3's interface: by a file-system catalog without locks, and
by a Hive catalog.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.hive.registration import MANAGED_AS
from interbed.storage.base.errors import CommitConflictError, InterbedError, NotSupportedError
from interbed.storage.io.resolve import file_io_for
from interbed.storage.io.stores.file_io import ObjectStoreFileIO
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.writer_process import SHARED_KEYS, TABLE
from tests.support.dying_disk import SimulatedKill
from tests.support.servers.google_store import running_google
from tests.support.servers.http_servers import running_s3
from tests.support.servers.metastore import metastore
from tests.support.shares import each_run
from tests.support.writers import create_orders, finished, keys_of, own_keys, writers

BUCKET = "lake"
WRITERS = 4
IN_THE_ENVIRONMENT = {
    "AWS_ENDPOINT_URL": "s3.endpoint",
    "AWS_ACCESS_KEY_ID": "s3.access-key",
    "AWS_SECRET_ACCESS_KEY": "s3.secret-key",
    "AWS_REGION": "s3.region",
}
SCHEMA = pa.schema((("id", pa.int64()), ("v", pa.string()), ("day", pa.date32())))


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with running_s3(BUCKET) as options:
        yield options


# The tests of renames use a Hive catalog there in each run.
@pytest.fixture(params=each_run(["filesystem", "google", "hive"], lambda kind: kind == "filesystem"))
def options(
    request: pytest.FixtureRequest, store: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """Options of each kind of catalog; neither takes locks."""
    directory = request.node.name.replace("[", "-").rstrip("]")
    if request.param == "google":
        with running_google(BUCKET) as of_google:
            yield {"warehouse": f"gs://{BUCKET}/{directory}", **of_google}
        return
    warehouse = f"s3a://{BUCKET}/{directory}"
    if request.param == "filesystem":
        yield {"warehouse": warehouse, **store}
        return
    # The metastore itself renames and deletes directories, with the credentials of its environment.
    for variable, option in IN_THE_ENVIRONMENT.items():
        monkeypatch.setenv(variable, store[option])
    with metastore() as uri:
        yield {"warehouse": warehouse, "metastore": "hive", "uri": uri, "lock.enabled": "false", **store}


def values(table: interbed.Table, snapshot_id: int | None = None) -> dict[Any, Any]:
    """Return the values of the column `v` by id."""
    found = table.scan(snapshot_id=snapshot_id).to_arrow()
    return dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


def test_a_table_in_an_object_store_supports_all_operations_from_creation_to_drop(options: dict[str, str]) -> None:
    io, root = file_io_for(options["warehouse"], options)
    assert isinstance(io, ObjectStoreFileIO)
    with interbed.CatalogFactory.create(options) as catalog:
        catalog.create_database("shop")
        assert catalog.list_databases() == (["default", "shop"] if isinstance(catalog, HiveCatalog) else ["shop"])
        table = catalog.create_table(
            "shop.orders",
            SCHEMA,
            primary_keys=["id", "day"],
            partition_keys=["day"],
            options={"bucket": "1", "changelog-producer": "lookup"},
        )
        day = pa.array([0, 1], pa.int32()).cast(pa.date32()).to_pylist()
        table.upsert([{"id": n, "v": str(n), "day": day[n % 2]} for n in range(100)])
        table.versions.create_tag("first")
        table.upsert([{"id": 7, "v": "seven", "day": day[1]}])
        table.delete("id = 8")
        expected = {n: str(n) for n in range(100) if n != 8} | {7: "seven"}
        assert values(table) == expected
        assert [table.get({"id": 7, "day": day[1]}), table.get({"id": 8, "day": day[0]})] == [
            {"id": 7, "v": "seven", "day": day[1]},
            None,
        ]
        table.compact()
        assert values(table) == expected
        table.maintenance.expire_snapshots(retain_min=1, retain_max=1)
        assert len(table.snapshots()) == 1
        assert values(catalog.get_table("shop.orders"), snapshot_id=table.versions.tags()[0].snapshot.id) == {
            n: str(n) for n in range(100)
        }
        table.versions.delete_tag("first")
        catalog.alter_table("shop.orders", interbed.SchemaChange.add_column("more", "INT"))
        catalog.get_table("shop.orders").upsert([{"id": 200, "v": "x", "day": day[0], "more": 1}])

        log = catalog.create_table("shop.log", SCHEMA, options={"bucket": "-1"})
        for n in range(3):
            log.append([{"id": n, "v": "a", "day": day[0]}])
        log.compact()
        assert sorted(values(catalog.get_table("shop.log"))) == [0, 1, 2]
        for name in ("orders", "log"):
            catalog.drop_table(f"shop.{name}")
        assert catalog.list_tables("shop") == []
        catalog.drop_database("shop")
        assert io.list(root) == []


@pytest.mark.parametrize("commits", each_run([5, 25], lambda commits: commits == 5))
def test_four_processes_lose_no_write(options: dict[str, str], commits: int) -> None:
    with interbed.CatalogFactory.create(options) as catalog:
        table = create_orders(catalog)
        # On a shared disk writers queue for a lock. Here a writer may lose more than the default of ten races.
        catalog.alter_table(TABLE, interbed.SchemaChange.set_option("commit.max-retries", "100"))
        with writers(options, range(WRITERS), commits) as running:
            results = [finished(w) for w in running]
        assert [(code, errors) for code, errors, _ in results] == [(0, "")] * WRITERS
        acknowledged = [done for _, _, done in results]
        ids = sorted(snapshot_id for done in acknowledged for _, snapshot_id in done)
        assert ids == list(range(1, WRITERS * commits + 1))
        snapshots = table.snapshots()
        assert [s.id for s in snapshots] == ids
        rows_each = 1 + len(SHARED_KEYS)
        assert [s.total_record_count for s in snapshots] == [rows_each * i for i in ids]
        assert own_keys(table) == sorted(set().union(*(keys_of(done, i) for i, done in enumerate(acknowledged))))


def test_a_file_system_catalog_refuses_renames_that_would_copy_files(store: dict[str, str]) -> None:
    options = {"warehouse": f"s3a://{BUCKET}/files", **store}
    with interbed.CatalogFactory.create(options) as catalog:
        catalog.create_database("shop")
        log = catalog.create_table("shop.log", SCHEMA, options={"bucket": "-1"})
        log.append([{"id": 1, "v": "a", "day": None}])
        log.versions.create_branch("b")
        with pytest.raises(NotSupportedError, match="create_table_as"):
            catalog.rename_table("shop.log", "shop.log2")
        with pytest.raises(NotSupportedError, match="Create a branch of the other name"):
            log.versions.rename_branch("b", "c")
        assert catalog.list_tables("shop") == ["log"]
        assert (values(catalog.get_table("shop.log")), log.versions.branches()) == ({1: "a"}, ["b"])


@pytest.fixture
def hive(store: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, str]]:
    for variable, option in IN_THE_ENVIRONMENT.items():
        monkeypatch.setenv(variable, store[option])
    with metastore() as uri:
        yield {"warehouse": f"s3a://{BUCKET}/{tmp_path.name}", "metastore": "hive", "uri": uri, **store}


def values_of(catalog: interbed.Catalog, name: str) -> list[int]:
    """Return the ids of a table."""
    column: Any = catalog.get_table(f"shop.{name}").scan(columns=["id"]).to_arrow()["id"]
    return sorted(column.to_pylist())


def test_a_hive_catalog_renames_the_entry_only_and_reserves_the_location(hive: dict[str, str]) -> None:
    rows = [{"id": 1, "v": "a", "day": None}]
    with interbed.CatalogFactory.create(hive) as catalog:
        assert isinstance(catalog, HiveCatalog)
        for name in ("shop", "other"):
            catalog.create_database(name)
        first = catalog.create_table("shop.t", SCHEMA, options={"bucket": "-1"})
        first.append(rows)
        catalog.rename_table("shop.t", "shop.u")
        renamed = catalog.get_table("shop.u")
        assert (renamed.location, values(renamed)) == (first.location, {1: "a"})
        # A writer that opened the table by its old name gets an error and writes nothing.
        with pytest.raises(CommitConflictError, match="renamed"):
            first.append(rows)

        second = catalog.create_table("shop.t", SCHEMA, options={"bucket": "-1"})
        assert second.location == f"{first.location}-2"
        second.append([{"id": 2, "v": "b", "day": None}])
        catalog.rename_table("shop.t", "shop.v")
        third = catalog.create_table_as("shop.t", pa.table({"id": [3]}), options={"bucket": "-1"})
        assert third.location == f"{first.location}-3"
        assert catalog.list_tables("shop") == ["t", "u", "v"]
        assert [values_of(catalog, name) for name in ("t", "u", "v")] == [[3], [1], [2]]
        report = catalog.repair_catalog()
        assert not report.actions, report

        with pytest.raises(NotSupportedError, match="would go with the database 'shop'"):
            catalog.rename_table("shop.u", "other.u")
        # Rename it back to its old name, which is free again.
        catalog.drop_table("shop.t")
        catalog.rename_table("shop.u", "shop.t")
        assert (catalog.get_table("shop.t").location, values_of(catalog, "t")) == (first.location, [1])
        catalog.drop_table("shop.t")
        assert values_of(catalog, "v") == [2]
        assert catalog.create_table("shop.t", SCHEMA).location == first.location
        catalog.drop_database("shop", cascade=True)
        catalog.drop_database("other")


def _killed_rename(catalog: HiveCatalog, calls: int) -> None:
    """Rename `shop.t` to `shop.u`, but stop before the call of this number that alters an entry."""
    alter, acknowledged = catalog.client.alter_table, 0

    def alter_or_die(*arguments: Any, **named: Any) -> None:
        nonlocal acknowledged
        if acknowledged == calls:
            raise SimulatedKill("before the next change of the entry")
        acknowledged += 1
        alter(*arguments, **named)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(catalog.client, "alter_table", alter_or_die)
        with pytest.raises(SimulatedKill):
            catalog.rename_table("shop.t", "shop.u")


@pytest.mark.parametrize("goes_on", each_run([True, False], lambda goes_on: goes_on))
@pytest.mark.parametrize("calls", range(3))
def test_a_rename_killed_between_calls_leaves_a_managed_table_with_one_name(
    hive: dict[str, str], calls: int, goes_on: bool
) -> None:
    """The rename alters the entry three times: to an external table, to the new name, and to a managed table."""
    name, other = ("t", "u") if calls < 2 else ("u", "t")
    with interbed.CatalogFactory.create({**hive, "lock.enabled": "false"}) as catalog:
        assert isinstance(catalog, HiveCatalog)
        catalog.create_database("shop")
        table = catalog.create_table("shop.t", SCHEMA, options={"bucket": "-1"})
        table.append([{"id": 1, "v": "a", "day": None}])
        _killed_rename(catalog, calls)
        assert (catalog.list_tables("shop"), values_of(catalog, name)) == ([name], [1])
        catalog.create_table(f"shop.{other}", SCHEMA)
        assert not catalog.repair_catalog().actions
        catalog.drop_table(f"shop.{other}")
        if goes_on:
            catalog.rename_table(f"shop.{name}", f"shop.{other}")
            assert (catalog.list_tables("shop"), values_of(catalog, other)) == ([other], [1])
            entry = catalog.client.get_table("shop", other)
            assert (entry.tableType, MANAGED_AS in entry.parameters) == ("MANAGED_TABLE", False)
            name = other
        catalog.drop_table(f"shop.{name}")
        assert table.store.file_io.list(table.location) == []


@pytest.mark.long
def test_a_server_gives_the_location_of_a_renamed_table_to_no_new_one(hive: dict[str, str]) -> None:
    with interbed.CatalogFactory.create(hive) as catalog:
        assert isinstance(catalog, HiveCatalog)
        catalog.create_database("shop")
        made = catalog.create_table("shop.t", SCHEMA)
        client = catalog.client
        # As Hive's own clients rename, without a location.
        entry = client.get_table("shop", "t")
        place = entry.sd.location
        entry.tableName = "u"
        client.alter_table("shop", "t", entry)
        assert client.get_table("shop", "u").sd.location == place
        columns = [ttypes.FieldSchema(name="id", type="int")]
        storage = ttypes.StorageDescriptor(cols=columns, serdeInfo=ttypes.SerDeInfo())
        plain = ttypes.Table(dbName="shop", tableName="t", tableType="MANAGED_TABLE", sd=storage, parameters={})
        client.create_table(plain)
        assert client.get_table("shop", "t").sd.location == f"{place}-2"
        client.drop_table("shop", "t", delete_data=True)
        plain.sd.location = place
        with pytest.raises(InterbedError, match="renamed"):
            client.create_table(plain)
        moved = client.get_table("shop", "u")
        moved.dbName, moved.tableName = "default", "w"
        with pytest.raises(InterbedError, match="would go with the database"):
            client.alter_table("shop", "u", moved)
        assert made.location == catalog.get_table("shop.u").location
