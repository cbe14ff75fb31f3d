"""Calls whose reply is lost: each change is made once, and its result is reported correctly."""

import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import CatalogUnavailableError, TableNotFoundError
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.connection import TransportSettings
from interbed.catalog.client.hive.lock import HiveCatalogLock
from interbed.catalog.client.hive.registration import CURRENT_SNAPSHOT
from interbed.storage.base.errors import CommitConflictError
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn, SetOption
from tests.support.servers.relay import DEADLINE_SECONDS, Relay
from tests.support.waits import at_most

SCHEMA = pa.schema((("id", pa.int64()), ("dt", pa.string())))
ROWS = pa.table({"id": [1, 2], "dt": ["x", "y"]})


@pytest.fixture
def relay(server: str) -> Iterator[Relay]:
    """Run a relay before the server."""
    port = urlsplit(server).port
    assert port is not None
    with Relay(port) as running:
        yield running


@pytest.fixture
def relayed_catalog(catalog: HiveCatalog, options: dict[str, str], relay: Relay) -> Iterator[HiveCatalog]:
    """Open the catalog through the relay."""
    with interbed.CatalogFactory.create(options | {"uri": relay.uri}) as opened:
        assert isinstance(opened, HiveCatalog)
        yield opened


def create(catalog: HiveCatalog, name: str = "shop.t") -> interbed.Table:
    options = {"bucket": "1", "metastore.partitioned-table": "true"}
    return catalog.create_table(name, SCHEMA, primary_keys=["dt", "id"], partition_keys=["dt"], options=options)


@pytest.mark.parametrize(
    "method",
    [
        "get_table",
        "lock",
        "alter_table_with_environment_context",
        "unlock",
        "add_partitions_req",
    ],
)
def test_a_commit_survives_a_lost_reply(
    catalog: HiveCatalog, relayed_catalog: HiveCatalog, relay: Relay, method: str
) -> None:
    create(catalog)
    table = relayed_catalog.get_table("shop.t")
    relay.lose_reply_of(method)
    assert table.upsert(ROWS) == 1
    assert relay.lost == [method]
    assert [s.id for s in table.snapshots()] == [1]
    assert catalog.client.get_table("shop", "t").parameters[CURRENT_SNAPSHOT] == "1"
    assert catalog.client.get_partition_names("shop", "t") == ["dt=x", "dt=y"]
    assert catalog.client.show_locks() == []


def test_a_snapshot_is_kept_when_its_partitions_can_not_be_registered(
    catalog: HiveCatalog, relayed_catalog: HiveCatalog, relay: Relay, caplog: pytest.LogCaptureFixture
) -> None:
    create(catalog)
    # The metastore registers none of the partitions.
    relay.before("add_partitions_req", lambda: catalog.client.drop_table("shop", "t", delete_data=False))
    assert relayed_catalog.get_table("shop.t").upsert(ROWS) == 1
    assert "The next commit or a repair of the table registers them" in caplog.text
    catalog.repair_table("shop.t")
    assert catalog.client.get_partition_names("shop", "t") == ["dt=x", "dt=y"]
    assert catalog.get_table("shop.t").scan().count() == 2


def test_a_table_is_created_once(catalog: HiveCatalog, relayed_catalog: HiveCatalog, relay: Relay) -> None:
    relay.lose_reply_of("create_table")
    create(relayed_catalog).upsert(ROWS)
    assert relay.lost == ["create_table"]
    assert catalog.get_table("shop.t").scan().count() == 2


def test_a_table_is_dropped_once(
    catalog: HiveCatalog, relayed_catalog: HiveCatalog, relay: Relay, tmp_path: Path
) -> None:
    create(catalog).upsert(ROWS)
    relay.lose_reply_of("drop_table_with_environment_context")
    relayed_catalog.drop_table("shop.t")
    assert relay.lost == ["drop_table_with_environment_context"]
    assert catalog.list_tables("shop") == []
    assert not (tmp_path / "lake" / "shop.db" / "t").exists()


def test_a_table_is_renamed_once(catalog: HiveCatalog, relayed_catalog: HiveCatalog, relay: Relay) -> None:
    create(catalog).upsert(ROWS)
    relay.lose_reply_of("alter_table_with_environment_context")
    relayed_catalog.rename_table("shop.t", "shop.u")
    assert relay.lost == ["alter_table_with_environment_context"]
    assert catalog.list_tables("shop") == ["u"]
    assert catalog.get_table("shop.u").scan().count() == 2


def test_a_schema_is_changed_once(catalog: HiveCatalog, relayed_catalog: HiveCatalog, relay: Relay) -> None:
    create(catalog).upsert(ROWS)
    relay.lose_reply_of("alter_table_with_environment_context")
    relayed_catalog.alter_table("shop.t", AddColumn("more", AtomicType(TypeRoot.INT)))
    assert relay.lost == ["alter_table_with_environment_context"]
    assert catalog.get_table("shop.t").schema.id == 1
    assert [c.name for c in catalog.client.get_table("shop", "t").sd.cols] == ["id", "more"]


def test_databases_are_created_and_dropped_once(
    catalog: HiveCatalog, relayed_catalog: HiveCatalog, relay: Relay, tmp_path: Path
) -> None:
    relay.lose_reply_of("create_database")
    relayed_catalog.create_database("d", properties={"a": "1"})
    assert catalog.get_database("d").properties["a"] == "1"
    relay.lose_reply_of("alter_database")
    relayed_catalog.alter_database("d", {"a": "2"})
    assert catalog.get_database("d").properties["a"] == "2"
    relay.lose_reply_of("drop_database")
    relayed_catalog.drop_database("d")
    assert relay.lost == ["create_database", "alter_database", "drop_database"]
    assert not catalog.database_exists("d")
    assert not (tmp_path / "lake" / "d.db").exists()


def test_partitions_are_dropped_once(catalog: HiveCatalog, relayed_catalog: HiveCatalog, relay: Relay) -> None:
    create(catalog).upsert(ROWS)
    relay.lose_reply_of("drop_partition_with_environment_context")
    relayed_catalog.drop_partitions("shop.t", [{"dt": "x"}])
    assert relay.lost == ["drop_partition_with_environment_context"]
    assert catalog.client.get_partition_names("shop", "t") == ["dt=y"]


def test_a_schema_that_the_metastore_refuses_is_withdrawn(
    catalog: HiveCatalog, relayed_catalog: HiveCatalog, relay: Relay, options: dict[str, str]
) -> None:
    table = create(catalog)
    table.upsert(ROWS)
    relay.before(
        "alter_table_with_environment_context", lambda: catalog.client.drop_table("shop", "t", delete_data=False)
    )
    with pytest.raises(TableNotFoundError) as caught:
        relayed_catalog.alter_table("shop.t", AddColumn("more", AtomicType(TypeRoot.INT)))
    assert "was withdrawn" in "".join(caught.value.__notes__)
    assert interbed.load_table(table.location).schema.id == 0
    assert catalog.client.show_locks() == []
    # Without locks, other writers may have used the new schema already, so it is not withdrawn.
    catalog.repair_table("shop.t")
    with interbed.CatalogFactory.create(options | {"uri": relay.uri, "lock.enabled": "false"}) as free:
        relay.before(
            "alter_table_with_environment_context", lambda: catalog.client.drop_table("shop", "t", delete_data=False)
        )
        with pytest.raises(TableNotFoundError) as caught:
            free.alter_table("shop.t", AddColumn("more", AtomicType(TypeRoot.INT)))
    assert "interbed catalog repair shop.t" in "".join(caught.value.__notes__)
    assert interbed.load_table(table.location).schema.id == 1


def test_a_schema_is_kept_when_the_state_of_the_metastore_is_unknown(
    catalog: HiveCatalog, relayed_catalog: HiveCatalog, relay: Relay
) -> None:
    create(catalog)
    relay.lose_reply_of("alter_table_with_environment_context", every=True)
    with pytest.raises(CatalogUnavailableError) as caught:
        relayed_catalog.alter_table("shop.t", AddColumn("more", AtomicType(TypeRoot.INT)))
    assert "interbed catalog repair shop.t" in "".join(caught.value.__notes__)
    assert catalog.get_table("shop.t").schema.id == 1
    assert catalog.client.show_locks() == []
    catalog.repair_table("shop.t")
    assert [c.name for c in catalog.client.get_table("shop", "t").sd.cols] == ["id", "more"]


def test_a_commit_by_a_withdrawn_schema_is_refused(
    catalog: HiveCatalog, relayed_catalog: HiveCatalog, relay: Relay
) -> None:
    table = create(catalog)
    table.upsert(ROWS)
    late = relayed_catalog.get_table("shop.t")
    # The commit has checked the schemas already when it requests the lock.
    written = late.new_write("late")
    written.write_arrow(ROWS)
    messages = written.prepare_commit()
    schemas = interbed.load_table(table.location).store.schemas
    changed = schemas.change([SetOption("write-only", "true")])
    relay.before("lock", lambda: Path(late.store.paths.schema(changed.id)).unlink())
    with pytest.raises(CommitConflictError, match="withdrawn"):
        late.new_commit("late").commit(messages)
    assert catalog.get_table("shop.t").upsert(ROWS) == 2


def test_a_recreated_table_refuses_a_commit_to_the_table_before(
    catalog: HiveCatalog, relayed_catalog: HiveCatalog, relay: Relay
) -> None:
    create(catalog).upsert(ROWS)
    late = relayed_catalog.get_table("shop.t")

    def recreate() -> None:
        catalog.drop_table("shop.t")
        create(catalog)

    # This happens between the commit's last check of the table and its lock.
    relay.before("lock", recreate)
    with pytest.raises(CommitConflictError, match="recreated"):
        late.upsert(ROWS)
    assert catalog.get_table("shop.t").snapshots() == []
    assert catalog.client.show_locks() == []


def test_a_commit_keeps_columns_that_a_foreign_catalog_is_about_to_register(catalog: HiveCatalog) -> None:
    table = create(catalog)
    table.upsert(ROWS)
    # Java Paimon holds the lock for the schema file only; the metastore is updated afterwards without the lock.
    table.store.schemas.change([AddColumn("more", AtomicType(TypeRoot.INT))])
    assert table.upsert(ROWS) == 2
    assert [c.name for c in catalog.client.get_table("shop", "t").sd.cols] == ["id", "more"]


def test_a_granted_lock_whose_reply_was_lost_is_released(catalog: HiveCatalog, relay: Relay) -> None:
    with HiveMetastoreClient(relay.uri) as client:
        relay.overtake("lock")
        with HiveCatalogLock(
            client, "shop", "t", acquire_timeout_seconds=at_most(60), check_max_sleep_seconds=0.05
        ) as lock:
            lock.ensure_held()
            assert len(catalog.client.show_locks("shop", "t")) == 1
        assert relay.lost == ["lock"]
    assert catalog.client.show_locks() == []


def test_a_client_waits_for_a_server_that_restarts(server: str, relay: Relay) -> None:
    retrying = TransportSettings(connect_tries=2000, connect_pause_seconds=0.01)
    found: list[str] = []
    with HiveMetastoreClient(relay.uri, transport=retrying) as client:
        client.get_all_databases()
        relay.stop()
        thread = threading.Thread(target=lambda: found.extend(client.get_all_databases()))
        thread.start()
        relay.start()
        thread.join(timeout=DEADLINE_SECONDS)
    assert found == ["default"]


def test_the_next_address_is_used_when_a_server_is_down(server: str, relay: Relay) -> None:
    with HiveMetastoreClient(f"{relay.uri},{server}") as client:
        client.get_all_databases()
        relay.stop()
        assert client.get_all_databases() == ["default"]
