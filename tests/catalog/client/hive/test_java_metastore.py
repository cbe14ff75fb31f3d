"""Hive catalog on Hive's own metastores 2.3.10, 3.1.3 and 4.0.1: pointers, locks, partitions, lost replies, repairs."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import CatalogError, LockError
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.hive.lock import HiveCatalogLock
from interbed.catalog.client.hive.registration import CURRENT_SNAPSHOT
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn, Position, RenameColumn, SetOption
from tests.support.servers.java_metastore import java_metastore
from tests.support.servers.relay import Relay
from tests.support.shares import each_run

SCHEMA = pa.schema((("id", pa.int64()), ("dt", pa.string())))
ROWS = pa.table({"id": [1, 2], "dt": ["x", "y/ z"]})
PARTITIONED = {"bucket": "1", "metastore.partitioned-table": "true"}
CHANGES = (
    "create_table",
    "alter_table_with_environment_context",
    "drop_partition_with_environment_context",
    "drop_table_with_environment_context",
)


SERVERS = ["2.3.10", "3.1.3", "4.0.1", "4.0.1 without locks"]
WRITERS = 3
COMMITS = 4


@pytest.fixture(scope="module", params=each_run(SERVERS, lambda server: server == "4.0.1"))
def java(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Run a metastore; yields its version, whether it is used without locks, and its address."""
    with java_metastore(request.param.partition(" ")[0]) as uri:
        yield request.param, uri


@pytest.fixture
def options(java: tuple[str, str], tmp_path: Path) -> dict[str, str]:
    """Options of the catalog under test."""
    server, uri = java
    return {
        "metastore": "hive",
        "uri": uri,
        "warehouse": f"file:{tmp_path}/lake",
        "lock.enabled": str("without" not in server).lower(),
        "lock-check-max-sleep": "50 ms",
    }


@pytest.fixture
def catalog(options: dict[str, str]) -> Iterator[HiveCatalog]:
    """Open a catalog with the database `shop`; drop the database afterwards."""
    with interbed.CatalogFactory.create(options) as opened:
        assert isinstance(opened, HiveCatalog)
        opened.create_database("shop")
        yield opened
        for name in opened.list_databases():
            if name != "default":
                opened.drop_database(name, cascade=True)


def create(catalog: HiveCatalog, name: str = "shop.t") -> interbed.Table:
    return catalog.create_table(name, SCHEMA, primary_keys=["dt", "id"], partition_keys=["dt"], options=PARTITIONED)


def test_the_pointer_follows_commits_and_partitions_are_registered(catalog: HiveCatalog) -> None:
    table = create(catalog)
    assert table.upsert(ROWS) == 1
    assert table.upsert(pa.table({"id": [3], "dt": ["x"]})) == 2
    entry = catalog.client.get_table("shop", "t")
    assert entry.parameters[CURRENT_SNAPSHOT] == "2"
    assert [k.name for k in entry.partitionKeys] == ["dt"]
    assert sorted(catalog.client.get_partition_names("shop", "t")) == ["dt=x", "dt=y%2F z"]
    [partition] = catalog.client.get_partitions_by_names("shop", "t", ["dt=y%2F z"])
    assert partition.values == ["y/ z"]
    assert partition.sd.location.rstrip("/") == f"{entry.sd.location}/dt=y%2F z"
    catalog.alter_partitions("shop.t", catalog.list_partitions("shop.t"))
    [partition] = catalog.client.get_partitions_by_names("shop", "t", ["dt=x"])
    assert (partition.parameters["numFiles"], partition.parameters["numRows"]) == ("2", "2")


@pytest.mark.long
def test_changed_columns_are_copied_to_the_partitions(catalog: HiveCatalog) -> None:
    create(catalog).upsert(ROWS)
    catalog.alter_table("shop.t", [AddColumn("more", AtomicType(TypeRoot.INT)), RenameColumn("more", "v")])
    assert [c.name for c in catalog.client.get_table("shop", "t").sd.cols] == ["id", "v"]
    for partition in catalog.client.get_partitions_by_names("shop", "t", ["dt=x", "dt=y%2F z"]):
        assert [c.name for c in partition.sd.cols] == ["id", "v"]
    catalog.alter_table("shop.t", SetOption("write-only", "true"))
    assert catalog.client.get_table("shop", "t").parameters["write-only"] == "true"


@pytest.mark.long
def test_a_renamed_table_keeps_its_partitions(catalog: HiveCatalog, tmp_path: Path) -> None:
    create(catalog).upsert(ROWS)
    catalog.create_database("other", properties={"location": f"file:{tmp_path}/other"})
    catalog.rename_table("shop.t", "other.u")
    table = catalog.get_table("other.u")
    assert table.location == f"{tmp_path}/other/u"
    assert table.scan().count() == 2
    [partition] = catalog.client.get_partitions_by_names("other", "u", ["dt=x"])
    assert partition.sd.location.rstrip("/") == f"file:{tmp_path}/other/u/dt=x"
    assert table.upsert(pa.table({"id": [3], "dt": ["new"]})) == 2
    assert len(catalog.client.get_partition_names("other", "u")) == 3


def test_every_type_is_registered(catalog: HiveCatalog) -> None:
    schema = pa.schema(
        (
            ("a", pa.timestamp("us", tz="UTC")),
            ("b", pa.decimal128(38, 18)),
            ("c", pa.map_(pa.string(), pa.list_(pa.struct([("x", pa.int8()), ("y", pa.binary())])))),
            ("d", pa.time32("ms")),
            ("e", pa.date32()),
        )
    )
    catalog.create_table("shop.t", schema)
    types = [c.type for c in catalog.client.get_table("shop", "t").sd.cols]
    assert types[0] in ("timestamp with local time zone", "timestamp")
    assert types[1:] == ["decimal(38,18)", "map<string,array<struct<x:tinyint,y:binary>>>", "string", "date"]


def test_locks_exclude_each_other(catalog: HiveCatalog, options: dict[str, str]) -> None:
    if options["lock.enabled"] == "false":
        with HiveCatalogLock(catalog.client, "shop", "t"):
            assert create(catalog).upsert(ROWS) == 1
        return
    table = create(catalog)
    with (
        interbed.CatalogFactory.create(options | {"lock-acquire-timeout": "100 ms"}) as hasty,
        HiveCatalogLock(catalog.client, "shop", "t"),
        pytest.raises(LockError, match=r"shop\.t within 0\.1 s: lock \d+ is held by"),
    ):
        hasty.get_table("shop.t").upsert(ROWS)
    assert table.upsert(ROWS) == 1
    assert catalog.client.show_locks() == []
    assert catalog.client.lock_lease_seconds() == 300


def test_no_concurrent_commit_is_lost(catalog: HiveCatalog, options: dict[str, str]) -> None:
    create(catalog)

    def write(writer: int) -> list[int | None]:
        with interbed.CatalogFactory.create(options) as own:
            table = own.get_table("shop.t")
            return [
                table.upsert(pa.table({"id": [100 * writer + n], "dt": [f"d{n}"]}, schema=SCHEMA))
                for n in range(COMMITS)
            ]

    with ThreadPoolExecutor(WRITERS) as pool:
        made = [number for numbers in pool.map(write, range(WRITERS)) for number in numbers]
    whole = WRITERS * COMMITS
    assert sorted(n for n in made if n is not None) == list(range(1, whole + 1))
    table = catalog.get_table("shop.t")
    assert table.scan().count() == whole
    assert catalog.client.get_table("shop", "t").parameters[CURRENT_SNAPSHOT] == str(whole)
    assert sorted(catalog.client.get_partition_names("shop", "t")) == [f"dt=d{n}" for n in range(COMMITS)]
    assert catalog.client.show_locks() == []


def test_changes_survive_lost_replies(catalog: HiveCatalog, options: dict[str, str]) -> None:
    port = urlsplit(options["uri"]).port
    assert port is not None
    with Relay(port) as relay, interbed.CatalogFactory.create(options | {"uri": relay.uri}) as shaky:
        assert isinstance(shaky, HiveCatalog)
        relay.lose_reply_of("create_table")
        table = create(shaky)
        if options["lock.enabled"] == "true":
            relay.lose_reply_of("lock")
            table.upsert(ROWS)
        relay.lose_reply_of("add_partitions_req")
        table.upsert(ROWS)
        relay.lose_reply_of("alter_table_with_environment_context")
        shaky.alter_table("shop.t", AddColumn("more", AtomicType(TypeRoot.INT)))
        relay.lose_reply_of("drop_partition_with_environment_context")
        shaky.drop_partitions("shop.t", [{"dt": "x"}])
        assert catalog.client.get_partition_names("shop", "t") == ["dt=y%2F z"]
        relay.lose_reply_of("drop_table_with_environment_context")
        shaky.drop_table("shop.t")
        assert [m for m in relay.lost if m in CHANGES] == list(CHANGES)
    assert catalog.list_tables("shop") == []
    if options["lock.enabled"] == "true":
        assert catalog.client.show_locks() == []


@pytest.mark.long
def test_the_metastore_is_repaired(catalog: HiveCatalog, options: dict[str, str]) -> None:
    with interbed.CatalogFactory.create({"warehouse": options["warehouse"]}) as files:
        files.create_database("found")
        files.create_table("found.t", SCHEMA, partition_keys=["dt"], options={"metastore.partitioned-table": True})
        files.get_table("found.t").append(ROWS)
    report = catalog.repair_catalog()
    assert [str(a.kind) for a in report.actions] == ["create database", "create table", "add partitions"]
    assert catalog.repair_catalog().actions == ()
    assert catalog.get_table("found.t").scan().count() == 2
    catalog.drop_table("found.t")
    assert not Path(options["warehouse"].removeprefix("file:"), "found.db", "t").exists()


@pytest.mark.long
def test_external_tables_keep_their_files(catalog: HiveCatalog, tmp_path: Path) -> None:
    table = catalog.create_table("shop.t", SCHEMA, options={"path": f"file:{tmp_path}/elsewhere"})
    table.append(ROWS)
    assert catalog.client.get_table("shop", "t").tableType == "EXTERNAL_TABLE"
    catalog.drop_table("shop.t")
    assert interbed.load_table(f"{tmp_path}/elsewhere").scan().count() == 2


@pytest.mark.long
def test_a_refused_change_reports_the_setting_and_the_current_schema(
    catalog: HiveCatalog, java: tuple[str, str]
) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    refusal = pytest.raises(CatalogError, match=r"incompatible\.col\.type\.changes to false in the hive-site\.xml")
    with refusal as refused:
        catalog.alter_table("shop.t", AddColumn("between", AtomicType(TypeRoot.INT), position=Position()))
    # Without a lock, other writers may have used the new schema already.
    stands = "without" in java[0]
    assert ("is committed" in refused.value.__notes__[0]) == stands
    assert (catalog.get_table("shop.t").schema == table.schema) != stands
