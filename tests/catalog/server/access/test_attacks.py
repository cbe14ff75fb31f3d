"""Ways round the privileges: by other names, other directories, other calls. None leads to another's table."""

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from interbed.catalog.server.service.access.objects import Privilege, catalog_object, database_object, table_object
from interbed.catalog.server.service.access.secured import hidden_objects
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    InvalidOperationError,
    MetastoreError,
    NoSuchLockError,
    NoSuchObjectError,
)
from interbed.catalog.server.service.lock_model import LockComponent, LockLevel, LockRequest, LockType
from interbed.catalog.server.service.model import (
    EXTERNAL_TABLE,
    MetastoreCatalog,
    MetastoreDatabase,
    MetastorePartition,
    SerDe,
    Skew,
)
from interbed.catalog.server.service.notifications import HIDDEN_EVENT
from interbed.catalog.server.service.tables.pointers import PointerChange
from interbed.catalog.server.threads import ClientLink, current_link
from interbed.catalog.server.thrift.calls.locks import LockClients, LockHandler
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.access.guarded import (
    ADMIN,
    NOBODY,
    ORDERS,
    OWNER,
    READER,
    SALES,
    STORAGE,
    WRITER,
    GuardedMetastore,
    served,
    table,
)
from tests.support.waits import wait_until

pytestmark = pytest.mark.attack("ways round privileges")

ORDERS_KEY = ("hive", "sales", "orders")
ATTACKER = OWNER
"""The owner of `sales` and its tables: all privileges there, and none elsewhere."""

SPELLINGS: list[tuple[str, Callable[[Path], str]]] = [
    ("as it is", lambda root: f"file:{root}/warehouse/hr.db/pay"),
    ("in it", lambda root: f"file:{root}/warehouse/hr.db/pay/dt=2026-01-01"),
    ("above it", lambda root: f"file:{root}/warehouse/hr.db"),
    ("beside it in its database", lambda root: f"file:{root}/warehouse/hr.db/new"),
    ("without a scheme", lambda root: f"{root}/warehouse/hr.db/pay"),
    ("with slashes", lambda root: f"file://{root}//warehouse///hr.db/pay/"),
    ("in capitals", lambda root: f"FILE:{root}/warehouse/hr.db/pay"),
    ("with a host", lambda root: f"file://localhost{root}/warehouse/hr.db/pay"),
    ("by dots", lambda root: f"file:{root}/warehouse/sales.db/../hr.db/pay"),
    ("by a link", lambda root: f"file:{root}/link/pay"),
    ("by a link to the table", lambda root: f"file:{root}/warehouse/sales.db/shortcut"),
    ("by a link in the warehouse", lambda root: f"file:{root}/warehouse/sales.db/link/pay"),
    ("all of the warehouse", lambda root: f"file:{root}/warehouse"),
]


def linked(root: Path) -> None:
    """Make links to the database of another owner."""
    hr = root / "warehouse" / "hr.db"
    os.symlink(hr, root / "link")
    os.symlink(hr, root / "warehouse" / "sales.db" / "link")
    os.symlink(hr / "pay", root / "warehouse" / "sales.db" / "shortcut")


@pytest.mark.parametrize("spelling", [each for _, each in SPELLINGS], ids=[name for name, _ in SPELLINGS])
def test_no_spelling_of_a_location_leads_into_another_table(
    guarded: GuardedMetastore, spelling: Callable[[Path], str]
) -> None:
    linked(guarded.root)
    location = spelling(guarded.root)
    guarded.grant(ATTACKER, catalog_object("hive"), Privilege.LOCATION, Privilege.CREATE)
    guarded.metastore.databases.change("hive", "hr", lambda old: dataclasses.replace(old, owner_name="boss"))
    storage = dataclasses.replace(STORAGE, location=location)
    skewed = dataclasses.replace(STORAGE, skew=Skew(columns=("id",), values=(("1",),), locations=((("1",), location),)))
    # A file beside all databases is of no table.
    file = f"{location}/hr.db/x" if location.endswith("/warehouse") else f"{location}/metadata/v1.metadata.json"
    by_spark = dataclasses.replace(STORAGE, serde=SerDe(library="x", parameters={"path": location}))
    tables, before = guarded.metastore.tables, guarded.metastore.tables.get(*ORDERS_KEY)
    with served(ATTACKER):
        for made in (
            table("mine", table_type=EXTERNAL_TABLE, parameters={"EXTERNAL": "TRUE"}),
            table("mine"),
        ):
            with pytest.raises(MetastoreError):
                tables.create(dataclasses.replace(made, storage=storage))
        for changed in (
            dataclasses.replace(before, storage=storage),
            dataclasses.replace(before, storage=dataclasses.replace(skewed, location=before.location)),
            dataclasses.replace(before, storage=dataclasses.replace(by_spark, location=before.location)),
            dataclasses.replace(before, parameters={**before.parameters, "paimon_location": location}),
            dataclasses.replace(before, parameters={**before.parameters, "metadata_location": file}),
        ):
            with pytest.raises(MetastoreError):
                tables.alter(*ORDERS_KEY, changed)
        partition = MetastorePartition(values=("2",), storage=storage)
        with pytest.raises(MetastoreError):
            guarded.metastore.partitions.add(ORDERS_KEY, [partition])
        with pytest.raises(MetastoreError):
            guarded.metastore.partitions.alter(ORDERS_KEY, [dataclasses.replace(partition, values=("2026-01-01",))])
        with pytest.raises(MetastoreError):
            guarded.metastore.databases.create(MetastoreDatabase(name="lab", location=location))
        with pytest.raises(MetastoreError):
            guarded.metastore.databases.change("hive", "sales", lambda old: dataclasses.replace(old, location=location))
        with pytest.raises(MetastoreError):
            guarded.metastore.catalogs.create(MetastoreCatalog(name="lab", location=location))
    assert tables.get(*ORDERS_KEY) == before
    assert guarded.metastore.partitions.names(ORDERS_KEY) == ["dt=2026-01-01"]
    assert tables.names("hive", "sales") == ["orders"]
    assert guarded.metastore.databases.names("hive") == ["default", "hr", "sales"]


def test_errors_about_locations_do_not_name_the_other_object(guarded: GuardedMetastore) -> None:
    guarded.grant(ATTACKER, catalog_object("hive"), Privilege.LOCATION)
    location = f"file:{guarded.root}/warehouse/hr.db"
    with served(ATTACKER), pytest.raises(AccessDeniedError) as caught:
        guarded.metastore.tables.create(table("mine", parameters={"paimon_location": location}))
    assert "pay" not in str(caught.value)
    assert "hive.hr" not in str(caught.value)


def test_a_directory_of_ones_own_needs_the_privilege_location(guarded: GuardedMetastore) -> None:
    storage = dataclasses.replace(STORAGE, location=f"file:{guarded.root}/elsewhere/mine")
    guarded.grant(READER, SALES, Privilege.CREATE)
    with served(READER):
        with pytest.raises(AccessDeniedError, match="LOCATION on the database"):
            guarded.metastore.tables.create(dataclasses.replace(table("mine"), storage=storage))
        default = dataclasses.replace(STORAGE, location=f"file:{guarded.root}/warehouse/sales.db/mine")
        guarded.metastore.tables.create(dataclasses.replace(table("mine"), storage=default))
    assert not (guarded.root / "elsewhere").exists()
    guarded.grant(READER, SALES, Privilege.LOCATION)
    with served(READER):
        guarded.metastore.tables.create(dataclasses.replace(table("other"), storage=storage))


def test_the_default_directory_is_not_that_of_another_table(guarded: GuardedMetastore) -> None:
    place = f"file:{guarded.root}/warehouse/sales.db/wanted"
    theirs = table("far", "hr", table_type=EXTERNAL_TABLE, parameters={"EXTERNAL": "TRUE"})
    guarded.metastore.tables.create(dataclasses.replace(theirs, storage=dataclasses.replace(STORAGE, location=place)))
    with served(ATTACKER), pytest.raises(AccessDeniedError, match="directory of another object"):
        guarded.metastore.tables.create(table("wanted"))


def test_a_rename_does_not_take_or_show_another_name(guarded: GuardedMetastore) -> None:
    before = guarded.metastore.tables.get(*ORDERS_KEY)
    with served(ATTACKER):
        for name in ("pay", "nix"):
            with pytest.raises(InvalidOperationError, match="The database hr does not exist"):
                guarded.metastore.tables.alter(*ORDERS_KEY, dataclasses.replace(before, database="hr", name=name))
        with pytest.raises(InvalidOperationError, match="table not found"):
            guarded.metastore.tables.alter("hive", "hr", "pay", dataclasses.replace(before, name="mine"))


def test_a_swap_of_a_pointer_does_not_rename_unless_it_says_so(guarded: GuardedMetastore) -> None:
    guarded.grant(WRITER, ORDERS, Privilege.ALTER)
    change = PointerChange(
        catalog="hive",
        database="sales",
        name="orders",
        parameter="metadata_location",
        expected=None,
        change=lambda old: dataclasses.replace(old, name="taken"),
    )
    with served(WRITER):
        with pytest.raises(MetastoreError, match="does not say that it renames"):
            guarded.metastore.pointers.swap([change])
        with pytest.raises(AccessDeniedError, match="CREATE on the database"):
            guarded.metastore.pointers.swap([dataclasses.replace(change, renamed=("sales", "taken"))])
        given_away = dataclasses.replace(change, change=lambda old: dataclasses.replace(old, owner=WRITER))
        with pytest.raises(AccessDeniedError, match="ALL on the table"):
            guarded.metastore.pointers.swap([given_away])
        of_other = dataclasses.replace(change, database="hr", name="pay", change=lambda old: old)
        with pytest.raises(NoSuchObjectError):
            guarded.metastore.pointers.swap([of_other])


def test_a_file_of_another_table_is_not_registered_or_read(guarded: GuardedMetastore) -> None:
    metadata = guarded.root / "warehouse" / "hr.db" / "pay" / "metadata" / "v1.metadata.json"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(json.dumps({"format-version": 2, "secret": "salary"}))
    for privileges in ((), (Privilege.LOCATION,)):
        guarded.grant(ATTACKER, catalog_object("hive"), *privileges)
        with served(ATTACKER), pytest.raises(AccessDeniedError) as caught:
            guarded.metastore.pointers.registrable("hive", "sales", f"file:{metadata}")
        assert "salary" not in str(caught.value)


def test_locks_of_unseen_and_of_missing_tables_are_refused_alike(guarded: GuardedMetastore) -> None:
    def component(name: str, kind: LockType, database: str = "hr") -> LockRequest:
        part = LockComponent(type=kind, level=LockLevel.TABLE, database=database, table=name)
        return LockRequest(components=(part,), user="boss", host="h")

    locks = guarded.metastore.locks
    with served(READER):
        texts = set()
        for name in ("pay", "nix"):
            for kind in (LockType.SHARED_READ, LockType.EXCLUSIVE):
                with pytest.raises(AccessDeniedError) as caught:
                    locks.lock(component(name, kind))
                texts.add(str(caught.value).replace(name, "T"))
        assert len(texts) == 2
        with pytest.raises(AccessDeniedError):
            locks.lock(component("orders", LockType.EXCLUSIVE, "sales"))
        held = locks.lock(component("orders", LockType.SHARED_READ, "sales"))
        assert held.request.user == READER
        locks.heartbeat(held.id)
    theirs = locks.lock(component("pay", LockType.SHARED_READ))
    with served(WRITER):
        assert [lock.id for lock, _ in locks.show()] == [held.id]
        for lock_id in (held.id, theirs.id, 10_000):
            with pytest.raises(NoSuchLockError, match=f"No such lock lockid:{lock_id}"):
                locks.check_lock(lock_id)
            with pytest.raises(NoSuchLockError, match=f"No such lock: lockid:{lock_id}"):
                locks.heartbeat(lock_id)
            locks.unlock(lock_id)
    assert [lock.id for lock, _ in locks.show()] == [held.id, theirs.id]
    with served(NOBODY):
        assert locks.show() == []
    with served(ADMIN):
        locks.unlock(theirs.id)
    with served(READER):
        locks.unlock(held.id)
    assert locks.show() == []


def test_a_client_that_may_create_a_table_locks_the_name_of_a_missing_one_only(guarded: GuardedMetastore) -> None:
    def request(name: str, database: str = "sales") -> LockRequest:
        part = LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, database=database, table=name)
        return LockRequest(components=(part,), user="boss", host="h")

    locks = guarded.metastore.locks
    guarded.grant(READER, database_object("hive", "sales"), Privilege.CREATE)
    with served(READER):
        made = locks.lock(request("New"))
        assert made.request.user == READER
        locks.unlock(made.id)
        for name, database in (("orders", "sales"), ("ORDERS", "sales"), ("new", "hr")):
            with pytest.raises(AccessDeniedError):
                locks.lock(request(name, database))
    guarded.grant(NOBODY, database_object("hive", "sales"), Privilege.CREATE)
    hidden = hidden_objects.set(frozenset({table_object("hive", "sales", "orders")}))
    try:
        with served(NOBODY), pytest.raises(AccessDeniedError):
            locks.lock(request("orders"))
    finally:
        hidden_objects.reset(hidden)
    with served(WRITER), pytest.raises(AccessDeniedError):
        locks.lock(request("new"))


def test_a_call_about_the_lock_of_another_client_does_not_end_its_connection(guarded: GuardedMetastore) -> None:
    clients = LockClients(guarded.metastore.locks)
    handler = LockHandler(guarded.metastore, clients)
    component = LockComponent(type=LockType.SHARED_READ, level=LockLevel.TABLE, database="sales", table="orders")
    request_of_owner = LockRequest(components=(component,), user=OWNER, host="h")
    link = ClientLink()
    token = current_link.set(link)
    try:
        held = guarded.metastore.locks.lock(request_of_owner, process=clients.process())
        clients.touch(held.id)
        with served(READER):
            for call, request in (
                (handler.check_lock, ttypes.CheckLockRequest(lockid=held.id)),
                (handler.heartbeat, ttypes.HeartbeatRequest(lockid=held.id)),
            ):
                with pytest.raises(NoSuchLockError):
                    call(request)
            handler.unlock(ttypes.UnlockRequest(lockid=held.id))
    finally:
        current_link.reset(token)
    link.is_closed = True
    clients.closed(link)
    wait_until(lambda: guarded.metastore.locks.show()[0][0].orphaned_at_ms is not None)
    clients.stop()


def test_events_of_unseen_objects_keep_only_their_number_and_time(guarded: GuardedMetastore) -> None:
    all_events = guarded.metastore.notifications.after(0)
    with served(READER):
        shown = guarded.metastore.notifications.after(0)
        assert [each.id for each in shown] == [each.id for each in all_events]
        hidden = [each for each in shown if each.type == HIDDEN_EVENT]
        assert {(each.catalog, each.database, each.table) for each in hidden} == {(None, None, None)}
        assert all(each.body.table is None and not each.body.partitions for each in hidden)
        assert {each.database for each in shown if each.type != HIDDEN_EVENT} == {"sales"}
        for name in ("hr", "nix"):
            assert guarded.metastore.notifications.after(0, catalog="hive", database=name) == []
            assert guarded.metastore.notifications.count(0, catalog="hive", database=name) == 0
        assert guarded.metastore.notifications.count(0, catalog="hive", database="sales", tables=["orders"]) == 3
    with served(ADMIN):
        assert guarded.metastore.notifications.after(0) == all_events


def test_an_undrop_does_not_bring_another_table_under_a_new_name(keeping: GuardedMetastore) -> None:
    keeping.metastore.tables.drop("hive", "hr", "pay", delete_data=True)
    (entry,) = keeping.metastore.dropped.select("hive", "hr")
    with served(ATTACKER):
        assert keeping.metastore.dropped.select() == []
        with pytest.raises(NoSuchObjectError):
            keeping.metastore.dropped.find("hive", "hr", "pay", entry.id)
        with pytest.raises(InvalidOperationError):
            keeping.metastore.dropped.undrop(entry, new_name="mine")
        assert keeping.metastore.dropped.purge(entry)
    assert [each.id for each in keeping.metastore.dropped.select("hive", "hr")] == [entry.id]
    keeping.grant("keeper", table_object("hive", "hr", "pay"), Privilege.ALL)
    with served("keeper"):
        assert keeping.metastore.dropped.select() == []


def test_a_refused_move_does_not_name_what_is_in_the_way(guarded: GuardedMetastore) -> None:
    place = f"file:{guarded.root}/warehouse/sales.db/wanted"
    theirs = table("far", "hr", table_type=EXTERNAL_TABLE, parameters={"EXTERNAL": "TRUE"})
    guarded.metastore.tables.create(dataclasses.replace(theirs, storage=dataclasses.replace(STORAGE, location=place)))
    (guarded.root / "warehouse/sales.db/wanted").rmdir()
    renamed = dataclasses.replace(guarded.metastore.tables.get(*ORDERS_KEY), name="wanted")
    with served(ATTACKER), pytest.raises(InvalidOperationError, match="another object is registered") as caught:
        guarded.metastore.tables.alter(*ORDERS_KEY, renamed)
    assert "far" not in str(caught.value)


def test_a_client_without_a_principal_reaches_no_row(guarded: GuardedMetastore) -> None:
    with served(None):
        for call in (guarded.metastore.databases.identity, guarded.metastore.notifications.current):
            with pytest.raises(AccessDeniedError, match="not authenticated"):
                call()


def test_a_taken_name_is_the_only_thing_that_a_creator_learns(guarded: GuardedMetastore) -> None:
    guarded.metastore.tables.create(table("secret", owner="boss"))
    guarded.grant(READER, SALES, Privilege.CREATE)
    with served(READER), pytest.raises((AlreadyExistsError, AccessDeniedError)) as caught:
        guarded.metastore.tables.create(table("secret"))
    assert "boss" not in str(caught.value)
