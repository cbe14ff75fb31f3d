"""A writer that waited for the lock and then lost the race for its snapshot id keeps the lock for its next attempt."""

import dataclasses
import threading
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import LockError
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.hive.lock import HiveCatalogLock
from interbed.catalog.client.hive.publisher import HivePublisher
from interbed.storage.base.errors import CommitConflictError, CommitFailedError
from interbed.storage.io.file_lock import DirectoryLock
from interbed.storage.meta.snapshot.snapshot import LockKeeper, Snapshot, attempts_of, is_waited_for
from interbed.thrift_idl.hive_metastore.ttypes import LockType
from tests.support.servers.metastore import lock_component, lock_request
from tests.support.waits import at_most

SCHEMA = pa.schema((("id", pa.int64()),))
ROWS = pa.table({"id": [1]}, schema=SCHEMA)


@pytest.fixture(params=["true", "auto"])
def opened(request: pytest.FixtureRequest, options: dict[str, str], catalog: HiveCatalog) -> Iterator[HiveCatalog]:
    """Open a catalog whose commits lock by the metastore or by the directory, with a table of one snapshot."""
    with interbed.CatalogFactory.create(options | {"lock.enabled": request.param}) as found:
        assert isinstance(found, HiveCatalog)
        assert catalog.list_tables("shop") == []
        found.create_table("shop.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"}).upsert(ROWS)
        yield found


@pytest.fixture
def table(opened: HiveCatalog) -> interbed.Table:
    """Open the table with a publisher of its own."""
    return opened.get_table("shop.t")


@pytest.fixture
def publisher(table: interbed.Table) -> HivePublisher:
    """Return the publisher, which creates the snapshots of the table."""
    found = table.store.publisher
    assert isinstance(found, HivePublisher)
    assert isinstance(found, LockKeeper)
    return found


def snapshot(table: interbed.Table, number: int) -> Snapshot:
    """Return a new snapshot with this id, with the rows of the latest one."""
    latest = table.store.snapshots.latest()
    assert latest is not None
    return dataclasses.replace(latest, id=number, uuid=str(uuid.uuid4()))


def is_locked(table: interbed.Table, catalog: HiveCatalog) -> bool:
    """Return whether a commit holds the metastore lock or the directory lock of the table."""
    with DirectoryLock(table.location) as directory:
        return bool(catalog.client.show_locks("shop", "t")) or not directory.take(0.0)


def last_lock_id(catalog: HiveCatalog) -> int:
    """Return the id of a new lock; ids are consecutive."""
    response = catalog.client.lock(lock_request(lock_component(LockType.EXCLUSIVE, "probe", "probe")))
    catalog.client.unlock(response.lockid)
    return int(response.lockid)


def test_the_lock_of_a_failed_attempt_is_kept_for_the_next_one(
    table: interbed.Table, publisher: HivePublisher, opened: HiveCatalog
) -> None:
    before = last_lock_id(opened)
    with attempts_of(publisher):
        assert not is_waited_for(publisher)
        assert not publisher.publish(snapshot(table, 1))
        assert is_waited_for(publisher)
        assert is_locked(table, opened)
        assert not publisher.publish(snapshot(table, 1))
        assert is_locked(table, opened)
        assert publisher.publish(snapshot(table, 2))
        assert not is_waited_for(publisher)
        assert not is_locked(table, opened)
    locks = {"true": 1, "auto": 0}[opened.options.raw["lock.enabled"]]
    assert last_lock_id(opened) == before + locks + 1


def test_a_commit_with_one_attempt_keeps_no_lock(
    table: interbed.Table, publisher: HivePublisher, opened: HiveCatalog
) -> None:
    assert not publisher.publish(snapshot(table, 1))
    assert not publisher.keeps_lock
    assert not is_locked(table, opened)


def test_a_writer_that_gives_up_releases_the_lock(
    table: interbed.Table, publisher: HivePublisher, opened: HiveCatalog
) -> None:
    with attempts_of(publisher):
        assert not publisher.publish(snapshot(table, 1))
        assert is_locked(table, opened)
    assert not publisher.keeps_lock
    assert not is_locked(table, opened)


def test_a_writer_that_fails_between_two_attempts_releases_the_lock(
    table: interbed.Table, publisher: HivePublisher, opened: HiveCatalog
) -> None:
    def fail() -> None:
        with attempts_of(publisher):
            assert not publisher.publish(snapshot(table, 1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not publisher.keeps_lock
    assert not is_locked(table, opened)


def test_an_attempt_that_raises_releases_the_lock(
    table: interbed.Table, publisher: HivePublisher, opened: HiveCatalog
) -> None:
    lost, next_one = snapshot(table, 1), snapshot(table, 2)
    with attempts_of(publisher):
        assert not publisher.publish(lost)
        opened.client.drop_table("shop", "t", delete_data=False)
        with pytest.raises(CommitConflictError, match="dropped or renamed"):
            publisher.publish(next_one)
        assert not publisher.keeps_lock
        assert not is_locked(table, opened)
    assert [s.id for s in table.snapshots()] == [1]


def test_a_kept_lock_that_was_lost_is_acquired_again(
    table: interbed.Table, publisher: HivePublisher, opened: HiveCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with attempts_of(publisher):
        assert not publisher.publish(snapshot(table, 1))
        with monkeypatch.context() as patch:
            # The same state as after a heartbeat for which the metastore knew no lock.
            patch.setattr(HiveCatalogLock, "is_held", property(lambda _: False))
            patch.setattr(DirectoryLock, "is_held", property(lambda _: False))
            before = publisher.keeps_lock
            kept = publisher._kept_or_new_lock()
        assert before
        assert kept is not None
        assert not kept.is_held
        assert not is_locked(table, opened)
        assert publisher.publish(snapshot(table, 2))
    assert not is_locked(table, opened)


def test_the_kept_lock_belongs_to_the_thread_that_acquired_it(
    table: interbed.Table, publisher: HivePublisher, opened: HiveCatalog
) -> None:
    seen: list[bool] = []
    with attempts_of(publisher):
        assert not publisher.publish(snapshot(table, 1))
        thread = threading.Thread(target=lambda: seen.append(publisher.keeps_lock))
        thread.start()
        thread.join(timeout=at_most(60))
        assert publisher.keeps_lock
    assert seen == [False]
    assert not is_locked(table, opened)


def test_a_commit_that_loses_its_snapshot_id_while_it_waits_requests_one_lock(
    options: dict[str, str], table: interbed.Table, opened: HiveCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer, without locks, commits while this one waits for the lock."""
    acquired: list[str] = []
    with interbed.CatalogFactory.create(options | {"lock.enabled": "false"}) as other:
        rival = other.get_table("shop.t")

        def acquire(lock: HiveCatalogLock) -> None:
            if not acquired:
                rival.upsert(pa.table({"id": [2]}, schema=SCHEMA))
            acquired.append("metastore")
            real_acquire(lock)

        def take(lock: DirectoryLock, timeout_seconds: float) -> bool:
            if not acquired:
                rival.upsert(pa.table({"id": [2]}, schema=SCHEMA))
            acquired.append("directory")
            return real_take(lock, timeout_seconds)

        real_acquire, real_take = HiveCatalogLock.acquire, DirectoryLock.take
        monkeypatch.setattr(HiveCatalogLock, "acquire", acquire)
        monkeypatch.setattr(DirectoryLock, "take", take)
        assert table.upsert(pa.table({"id": [3]}, schema=SCHEMA)) == 3
        assert acquired == [{"true": "metastore", "auto": "directory"}[opened.options.raw["lock.enabled"]]]
        monkeypatch.undo()
    assert not is_locked(table, opened)


def test_a_commit_without_retries_releases_the_kept_lock(
    options: dict[str, str], table: interbed.Table, opened: HiveCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = table.copy({"commit.max-retries": "0"})
    with interbed.CatalogFactory.create(options | {"lock.enabled": "false"}) as other:
        rival = other.get_table("shop.t")

        def publish(publisher: HivePublisher, new: Snapshot) -> bool:
            monkeypatch.undo()
            rival.upsert(pa.table({"id": [2]}, schema=SCHEMA))
            return publisher.publish(new)

        monkeypatch.setattr(HivePublisher, "publish", publish)
        with pytest.raises(CommitFailedError, match="Lost the race"):
            impatient.upsert(pa.table({"id": [3]}, schema=SCHEMA))
    assert not is_locked(table, opened)


def test_an_attempt_that_can_not_acquire_the_lock_keeps_none(
    options: dict[str, str], table: interbed.Table, opened: HiveCatalog
) -> None:
    with (
        interbed.CatalogFactory.create(options | {"lock-acquire-timeout": "50 ms"}) as hasty,
        HiveCatalogLock(opened.client, "shop", "t"),
    ):
        publisher = hasty.get_table("shop.t").store.publisher
        assert isinstance(publisher, HivePublisher)
        with attempts_of(publisher):
            with pytest.raises(LockError):
                publisher.publish(snapshot(table, 2))
            assert not publisher.keeps_lock
    assert not is_locked(table, opened)
