"""The history of metadata: what is recorded, states at a time, expiry."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from interbed.catalog.server.database import schema
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.errors import InvalidOperationError, MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.history.entries import (
    ChangeOrigin,
    HistoryEntry,
    HistoryKind,
    HistoryPolicy,
    HistoryQuery,
    deciding,
    state_at,
)
from interbed.catalog.server.service.model import (
    VIRTUAL_VIEW,
    Function,
    MetastoreCatalog,
    MetastoreColumn,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
    SerDe,
    StorageDescriptor,
)
from interbed.catalog.server.service.service import Metastore
from tests.catalog.server.service.test_undrop import FixedClock
from tests.support.databases import prepare

STORAGE = StorageDescriptor(columns=(MetastoreColumn(name="id", type="int"),), serde=SerDe())
ANN = ChangeOrigin(principal="ann", interface="thrift", operation="alter_table", request_id="5f3a-17")


@pytest.fixture
def clock() -> FixedClock:
    """Return a clock that a test advances."""
    return FixedClock()


@pytest.fixture
def store(database_url: str, clock: FixedClock) -> Iterator[SqlRepository]:
    """Open a repository with the current schema, whose history begins with the clock's time."""
    prepare(database_url)
    opened = SqlRepository(database_url, history=HistoryPolicy(origin=lambda: ANN, clock=clock))
    schema.upgrade(opened.engine)
    clock.now = opened.read(lambda transaction: transaction.history.since_millis()) / 1000 + 1
    yield opened
    opened.close()


@pytest.fixture
def metastore(store: SqlRepository, tmp_path: Path, clock: FixedClock) -> Metastore:
    """Return a metastore with the database `db`."""
    started = Metastore(store, f"file:{tmp_path / 'warehouse'}", clock=clock, undrop_seconds=3600)
    started.databases.bootstrap()
    started.databases.create(MetastoreDatabase(name="db"))
    return started


def create(metastore: Metastore, name: str = "t", **fields: object) -> MetastoreTable:
    """Create the table `db.NAME`."""
    table = MetastoreTable(database="db", name=name, storage=STORAGE)
    metastore.tables.create(dataclasses.replace(table, **fields))  # type: ignore[arg-type]
    return metastore.tables.get("hive", "db", name)


def alter(metastore: Metastore, **fields: object) -> None:
    """Change fields of the table `db.t`."""
    old = metastore.tables.get("hive", "db", "t")
    metastore.tables.alter("hive", "db", "t", dataclasses.replace(old, **fields))  # type: ignore[arg-type]


def changes(metastore: Metastore, name: str = "t") -> list[HistoryEntry]:
    """Return the history of the table `db.NAME`."""
    return metastore.history.of_table("hive", "db", name).entries


def later(clock: FixedClock) -> int:
    """Return the clock's time in milliseconds, and advance the clock."""
    now = int(clock.now * 1000)
    clock.now += 10
    return now


def test_a_change_has_its_origin_and_the_entries_before_and_after(metastore: Metastore, clock: FixedClock) -> None:
    created = create(metastore, parameters={"a": "1"})
    moment = later(clock)
    alter(metastore, parameters={"a": "2"})
    first, second = changes(metastore)
    assert (first.change, second.change, second.kind) == ("CREATE_TABLE", "ALTER_TABLE", HistoryKind.TABLE)
    assert (first.time_millis, second.time_millis) == (moment, moment + 10_000)
    assert second.origin == ANN
    assert second.body.table_before == first.body.table == created
    assert second.body.table is not None
    assert second.body.table.parameters["a"] == "2"
    assert second.object_id == created.number


def test_other_objects_of_the_name_of_a_table_are_not_in_its_history(metastore: Metastore) -> None:
    create(metastore)
    metastore.functions.create(Function(database="db", name="t", class_name="x"))
    metastore.functions.drop("hive", "db", "t")
    latest = metastore.history.of_table("hive", "db", "t", limit=1)
    assert [each.change for each in latest.entries] == ["CREATE_TABLE"]


def test_a_renamed_and_a_dropped_table_are_followed(metastore: Metastore, clock: FixedClock) -> None:
    first = create(metastore)
    before = later(clock)
    alter(metastore, name="u")
    metastore.tables.drop("hive", "db", "u", delete_data=True)
    assert [each.change for each in changes(metastore, "u")] == ["CREATE_TABLE", "ALTER_TABLE", "DROP_TABLE"]
    assert changes(metastore, "t") == changes(metastore, "u")
    second = create(metastore)
    found = metastore.history.of_table("hive", "db", "t")
    assert (found.object_id, found.others, len(found.entries)) == (second.number, (first.number,), 1)
    old = metastore.history.of_table("hive", "db", "t", object_id=first.number)
    assert [each.name for each in old.entries] == ["t", "u", "u"]
    assert metastore.history.table_at("hive", "db", "t", before, object_id=first.number) == first
    with pytest.raises(NoSuchObjectError, match=r"the history has no table db\.missing"):
        metastore.history.of_table("hive", "db", "missing")


def test_an_undropped_table_continues_its_history(metastore: Metastore) -> None:
    create(metastore)
    metastore.tables.drop("hive", "db", "t", delete_data=True)
    metastore.dropped.undrop(metastore.dropped.find("hive", "db", "t"))
    assert [each.change for each in changes(metastore)] == ["CREATE_TABLE", "DROP_TABLE", "CREATE_TABLE"]


def test_hundreds_of_partitions_make_one_entry(metastore: Metastore) -> None:
    create(metastore, partition_keys=(MetastoreColumn(name="dt", type="string"),))
    added = [MetastorePartition(values=(f"{n:05}",), storage=STORAGE) for n in range(300)]
    metastore.partitions.add(("hive", "db", "t"), added)
    metastore.partitions.alter(
        ("hive", "db", "t"), [dataclasses.replace(each, parameters={"a": "1"}) for each in added]
    )
    _, add, change = changes(metastore)
    assert (add.change, change.change) == ("ADD_PARTITION", "ALTER_PARTITION")
    for entry in (add, change):
        assert entry.body.details["partition_count"] == 300
        assert entry.body.details["partitions"][:2] == ["dt=00000", "dt=00001"]
        assert len(json.dumps(entry.body.details)) < 1000
        assert entry.body.partitions == ()


def test_databases_functions_and_catalogs_are_recorded(metastore: Metastore, store: SqlRepository) -> None:
    function = Function(database="db", name="f", class_name="org.example.F")
    metastore.functions.create(function)
    old = metastore.databases.get("hive", "db")
    metastore.databases.alter("hive", "db", dataclasses.replace(old, description="other"))
    metastore.databases.drop("hive", "db", delete_data=True, cascade=True)
    found = metastore.history.of_database("hive", "db")
    assert [each.change for each in found] == [
        "CREATE_DATABASE",
        "CREATE_FUNCTION",
        "ALTER_DATABASE",
        "DROP_FUNCTION",
        "DROP_DATABASE",
    ]
    assert found[1].name == "f"
    assert found[2].body.database_before == old
    metastore.catalogs.create(MetastoreCatalog(name="other", location=metastore.warehouse.root + "/other"))
    entries = store.read(lambda transaction: transaction.history.select(HistoryQuery(catalog="other")))
    assert next((each.kind, each.change) for each in entries) == (HistoryKind.CATALOG, "CREATE_CATALOG")


def test_secrets_are_not_kept(metastore: Metastore, store: SqlRepository) -> None:
    create(
        metastore,
        parameters={"fs.s3a.secret.key": "hunter2", "url": "jdbc:db://ann:hunter2@host/x", "plain": "kept"}
        | {"query": "x?pass.word=hunter2", "other": "x?Private-Key=hunter2"},
        storage=dataclasses.replace(STORAGE, serde=SerDe(parameters={"password": "hunter2"})),
    )
    create(
        metastore,
        "v",
        table_type=VIRTUAL_VIEW,
        storage=None,
        view_original_text="SELECT * FROM read('s3://ann:hunter2@bucket/x')",
    )
    entry, view = changes(metastore)[0], changes(metastore, "v")[0]
    for each in (entry, view):
        assert "hunter2" not in repr(each)
    assert entry.body.table is not None
    assert entry.body.table.parameters["plain"] == "kept"
    assert metastore.tables.get("hive", "db", "t").parameters["fs.s3a.secret.key"] == "hunter2"
    events = store.read(lambda transaction: transaction.events.after(0))
    assert any("hunter2" in repr(each) for each in events)


def test_old_changes_and_too_many_are_removed(metastore: Metastore, store: SqlRepository, clock: FixedClock) -> None:
    create(metastore)
    later(clock)
    moments = []
    for number in range(10):
        alter(metastore, parameters={"n": str(number)})
        moments.append(later(clock))

    def expire(before_millis: int, entries_max: int) -> int:
        return store.write(lambda transaction: transaction.history.expire(before_millis, entries_max, 3))

    def expired(before_millis: int, entries_max: int) -> list[int]:
        """Return how many entries each call has removed, until one removes none."""
        return list(iter(lambda: expire(before_millis, entries_max), 0))

    # The creations of the database and of the table, and its first change.
    assert expired(moments[1], 1000) == [3]
    assert [each.time_millis for each in changes(metastore)] == moments[1:]
    assert expired(0, 4) == [3, 2]
    assert [each.time_millis for each in changes(metastore)] == moments[-4:]
    with pytest.raises(InvalidOperationError, match="the history has the changes since"):
        metastore.history.table_at("hive", "db", "t", moments[5])
    found = metastore.history.table_at("hive", "db", "t", moments[6])
    assert found is not None
    assert found.parameters["n"] == "6"


def test_a_refused_change_leaves_no_entry(metastore: Metastore) -> None:
    create(metastore)
    create(metastore, "u")
    with pytest.raises(MetastoreError):
        alter(metastore, name="u")
    assert len(changes(metastore)) == 1


def test_no_history_is_written_when_it_is_off(database_url: str, tmp_path: Path) -> None:
    store = SqlRepository(database_url, history=HistoryPolicy(origin=None))
    schema.upgrade(store.engine)
    metastore = Metastore(store, f"file:{tmp_path / 'warehouse'}")
    metastore.databases.bootstrap()
    assert metastore.history.of_database("hive", "default") == []
    store.close()


def test_the_entries_that_decide_a_state_are_few(metastore: Metastore, store: SqlRepository, clock: FixedClock) -> None:
    create(metastore, parameters={"a": "0"})
    moment = later(clock)
    for number in range(1, 30):
        later(clock)
        alter(metastore, parameters={"a": str(number)})
    alter(metastore, name="u")
    query = HistoryQuery(after_millis=moment)
    whole = store.read(lambda transaction: transaction.history.select(query))
    few = store.read(lambda transaction: deciding(transaction.history.iterate(query)))
    assert (len(whole), [each.id for each in few]) == (30, [whole[0].id, whole[-1].id])
    present = metastore.tables.get("hive", "db", "u")
    for name in ("t", "u"):
        found = metastore.history.table_at("hive", "db", name, moment)
        assert found == state_at(whole, moment, present)
        assert found is not None
        assert (found.name, found.parameters["a"]) == ("t", "0")
    assert deciding([]) == []
