"""Entries of tables put back to an older state."""

import dataclasses
import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from interbed.catalog.server.database import schema
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.errors import InvalidOperationError, NoSuchObjectError
from interbed.catalog.server.service.history.entries import HistoryPolicy
from interbed.catalog.server.service.lock_model import LockComponent, LockLevel, LockRequest, LockType
from interbed.catalog.server.service.model import EXTERNAL_TABLE, MetastoreColumn, MetastoreDatabase, SerDe
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.service.tables import pointers as pointed_files
from interbed.catalog.server.service.tables.pointers import TableLockedError
from tests.catalog.server.service.test_history import STORAGE, alter, changes, create, later
from tests.catalog.server.service.test_undrop import FixedClock
from tests.support.databases import prepare

PAIMON = dataclasses.replace(STORAGE, input_format="org.apache.paimon.hive.mapred.PaimonInputFormat")


@pytest.fixture
def clock() -> FixedClock:
    """Return a clock that a test advances."""
    return FixedClock()


@pytest.fixture
def metastore(tmp_path: Path, clock: FixedClock) -> Iterator[Metastore]:
    """Return a metastore with the database `db`, whose history begins with the clock's time."""
    prepare(f"sqlite:///{tmp_path / 'metastore.db'}")
    store = SqlRepository(f"sqlite:///{tmp_path / 'metastore.db'}", history=HistoryPolicy(clock=clock))
    schema.upgrade(store.engine)
    clock.now = store.read(lambda transaction: transaction.history.since_millis()) / 1000 + 1
    started = Metastore(store, f"file:{tmp_path / 'warehouse'}", clock=clock, undrop_seconds=3600)
    started.databases.bootstrap()
    started.databases.create(MetastoreDatabase(name="db"))
    yield started
    store.close()


def test_a_table_gets_its_columns_and_parameters_back(metastore: Metastore, clock: FixedClock) -> None:
    create(metastore, parameters={"a": "1", "api.token": "secret"})
    moment = later(clock)
    changed = dataclasses.replace(
        metastore.tables.get("hive", "db", "t").storage or STORAGE,
        columns=(MetastoreColumn(name="other", type="bigint"),),
    )
    alter(metastore, storage=changed, parameters={"b": "2", "api.token": "newer", "numRows": "5"})
    checked = metastore.history.restore("hive", "db", "t", moment, dry_run=True)
    assert metastore.tables.get("hive", "db", "t").parameters["b"] == "2"
    plan = metastore.history.restore("hive", "db", "t", moment)
    assert (plan, plan.kept) == (checked, ("api.token",))
    after = metastore.tables.get("hive", "db", "t")
    assert after.storage is not None
    assert after.storage.columns == STORAGE.columns
    assert {key: after.parameters.get(key) for key in ("a", "b", "api.token", "numRows")} == {
        "a": "1",
        "b": None,
        "api.token": "newer",
        "numRows": "5",
    }
    alter(metastore, parameters={"c": "3"})
    assert metastore.history.restore("hive", "db", "t", moment).missing == ("api.token",)
    last = changes(metastore)[-1]
    assert (last.change, last.body.table) == ("ALTER_TABLE", metastore.tables.get("hive", "db", "t"))


def test_a_restore_keeps_the_name_and_the_moved_directory(metastore: Metastore, clock: FixedClock) -> None:
    create(metastore, parameters={"a": "1"})
    moment = later(clock)
    alter(metastore, name="u", parameters={"a": "2"})
    location = metastore.tables.get("hive", "db", "u").location
    assert location is not None
    assert location.endswith("/u")
    metastore.history.restore("hive", "db", "u", moment)
    after = metastore.tables.get("hive", "db", "u")
    assert (after.parameters["a"], after.location) == ("1", location)


def test_a_location_that_does_not_exist_any_more_is_refused(
    metastore: Metastore, clock: FixedClock, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    external = dataclasses.replace(STORAGE, location=f"file:{first}")
    create(metastore, table_type=EXTERNAL_TABLE, parameters={"EXTERNAL": "TRUE"}, storage=external)
    moment = later(clock)
    alter(metastore, storage=dataclasses.replace(external, location=f"file:{second}"))
    later(clock)
    first.rmdir()
    with pytest.raises(InvalidOperationError, match=r"the directory file:.*first of that time does not exist"):
        metastore.history.restore("hive", "db", "t", moment)
    first.mkdir()
    metastore.history.restore("hive", "db", "t", moment)
    assert metastore.tables.get("hive", "db", "t").location == f"file:{first}"


def test_columns_of_paimon_tables_are_refused_and_their_pointer_stays(metastore: Metastore, clock: FixedClock) -> None:
    create(metastore, storage=PAIMON, parameters={"interbed.current-snapshot-id": "1", "a": "1"})
    first = later(clock)
    alter(metastore, parameters={"interbed.current-snapshot-id": "2", "a": "2"})
    second = later(clock)
    old = metastore.tables.get("hive", "db", "t")
    assert old.storage is not None
    wider = (*STORAGE.columns, MetastoreColumn(name="v", type="string"))
    alter(metastore, storage=dataclasses.replace(old.storage, columns=wider))
    with pytest.raises(InvalidOperationError, match=r"db\.t had other columns then. Its schema files decide them"):
        metastore.history.restore("hive", "db", "t", second)
    alter(metastore, storage=old.storage)
    metastore.history.restore("hive", "db", "t", first)
    after = metastore.tables.get("hive", "db", "t").parameters
    assert (after["interbed.current-snapshot-id"], after["a"]) == ("2", "1")


def test_a_locked_table_is_not_restored(metastore: Metastore, clock: FixedClock) -> None:
    create(metastore, parameters={"a": "1"})
    moment = later(clock)
    alter(metastore, parameters={"a": "2"})
    component = LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, database="db", table="t")
    metastore.locks.lock(LockRequest(components=(component,), user="bob", host="there"))
    with pytest.raises(TableLockedError):
        metastore.history.restore("hive", "db", "t", moment)


def test_a_time_before_the_history_or_the_table_is_refused(metastore: Metastore, clock: FixedClock) -> None:
    before = later(clock)
    create(metastore)
    with pytest.raises(NoSuchObjectError, match=r"db\.t did not exist then"):
        metastore.history.restore("hive", "db", "t", before)
    with pytest.raises(InvalidOperationError, match="the history has the changes since"):
        metastore.history.restore("hive", "db", "t", 1)
    metastore.tables.drop("hive", "db", "t", delete_data=True)
    with pytest.raises(NoSuchObjectError, match="put it back first"):
        metastore.history.restore("hive", "db", "t", later(clock))


def test_secrets_of_storage_are_kept_and_named(metastore: Metastore, clock: FixedClock) -> None:
    """The history has masks in their place, which never become values."""
    serde = SerDe(parameters={"password": "old", "c": "1"})
    create(metastore, storage=dataclasses.replace(STORAGE, parameters={"api.token": "a", "b": "1"}, serde=serde))
    moment = later(clock)
    now = metastore.tables.get("hive", "db", "t").storage
    assert now is not None
    alter(metastore, storage=dataclasses.replace(now, parameters={}, serde=SerDe(parameters={"password": "new"})))
    plan = metastore.history.restore("hive", "db", "t", moment)
    assert (plan.kept, plan.missing) == (("the SerDe's password",), ("the storage's api.token",))
    after = metastore.tables.get("hive", "db", "t").storage
    assert after is not None
    assert after.serde is not None
    assert after.serde.parameters == {"password": "new", "c": "1"}
    assert after.parameters == {"b": "1"}


def test_a_table_does_not_get_the_directory_of_another_one(
    metastore: Metastore, clock: FixedClock, tmp_path: Path
) -> None:
    """Its drop would delete the files of the other table."""
    create(metastore)
    moment = later(clock)
    now = metastore.tables.get("hive", "db", "t").storage
    assert now is not None
    alter(metastore, storage=dataclasses.replace(now, location=f"file:{tmp_path / 'moved'}"))
    later(clock)
    create(metastore, name="u", storage=now)
    for dry_run in (True, False):
        with pytest.raises(InvalidOperationError, match=r"the place file:.*/t is taken: .*db\.u"):
            metastore.history.restore("hive", "db", "t", moment, dry_run=dry_run)
    assert metastore.tables.get("hive", "db", "t").location == f"file:{tmp_path / 'moved'}"
    metastore.tables.drop("hive", "db", "u", delete_data=False)
    metastore.history.restore("hive", "db", "t", moment)
    assert metastore.tables.get("hive", "db", "t").location == now.location


@pytest.mark.parametrize(
    "content", [gzip.compress(b" " * 5000), b"\x1f\x8bdamaged", b"[]"], ids=["bomb", "damaged", "list"]
)
def test_a_metadata_file_is_unpacked_up_to_a_size(
    metastore: Metastore, clock: FixedClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(pointed_files, "FILE_BYTES_MAX", 1000)
    file = tmp_path / "00001-a.gz.metadata.json"
    file.write_bytes(content)
    create(metastore, parameters={"metadata_location": f"file:{file}"})
    moment = later(clock)
    alter(metastore, parameters={"metadata_location": f"file:{tmp_path / 'newer'}"})
    with pytest.raises(InvalidOperationError, match=r"more than 1000 bytes|it is damaged|is not Iceberg's"):
        metastore.history.restore("hive", "db", "t", moment)
