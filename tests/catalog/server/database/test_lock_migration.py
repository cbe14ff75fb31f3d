"""Held locks survive the migration to one row each, and its downgrade."""

from collections.abc import Iterator

import pytest
from sqlalchemy import inspect, text

from interbed.catalog.server.database import schema
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.lock_model import LockComponent, LockLevel, LockRequest, LockState, LockType
from interbed.catalog.server.service.locks import LockService
from tests.support.databases import prepare


@pytest.fixture
def store(database_url: str) -> Iterator[SqlRepository]:
    """Open an empty database of the current version."""
    prepare(database_url)
    opened = SqlRepository(database_url)
    try:
        schema.upgrade(opened.engine)
        yield opened
    finally:
        opened.close()


def test_held_and_waiting_locks_survive_a_downgrade_and_an_upgrade(store: SqlRepository) -> None:
    locks = LockService(store)
    whole = LockComponent(type=LockType.SHARED_WRITE, level=LockLevel.DB, database="a")
    table = LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, database="a", table="t", operation=2)
    part = LockComponent(type=LockType.EXCL_WRITE, level=LockLevel.PARTITION, database="b", table="t", partition="p=1")
    for components in ((whole,), (table,), (table, part), (part,)):
        locks.lock(LockRequest(components=components, user="u", host="h", agent="x"))
    before = locks.show()
    with store.engine.connect() as connection:
        names = connection.execute(text("SELECT id, database_name, table_name FROM locks ORDER BY id")).all()
    assert [tuple(row[1:]) for row in names] == [("a", None), ("a", "t"), (None, None), ("b", "t")]
    schema.downgrade(store.engine, "0003")
    with store.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM lock_components")).scalar() == 5
    schema.upgrade(store.engine)
    assert locks.show() == before
    with store.engine.connect() as connection:
        assert connection.execute(text("SELECT id, database_name, table_name FROM locks ORDER BY id")).all() == names


def test_migrated_locks_are_kept_by_their_lease_until_the_client_calls_again(store: SqlRepository) -> None:
    now = 1_000.0
    locks = LockService(store, lease_seconds=300, disconnect_seconds=5, clock=lambda: now)
    table = LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, database="a", table="t")
    request = LockRequest(components=(table,), user="u", host="h", agent="x")
    held = locks.lock(request, process=locks.mark).id
    waits = locks.lock(request, process=locks.mark).id
    locks.disconnect([waits])

    schema.downgrade(store.engine, "0007")
    columns = {column["name"] for column in inspect(store.engine).get_columns("locks")}
    assert "id" in columns
    assert not columns & {"processes", "orphaned_at_ms"}
    with store.engine.begin() as connection:
        assert connection.execute(text("SELECT id FROM locks ORDER BY id")).scalars().all() == [held, waits]

    schema.upgrade(store.engine)
    assert schema.is_current(store.engine)
    found = [lock for lock, _ in locks.show()]
    assert [lock.id for lock in found] == [held, waits]
    assert [lock.request for lock in found] == [request, request]
    assert [(lock.processes, lock.orphaned_at_ms) for lock in found] == [("", None), ("", None)]

    # No connection is known for any lock, so that the lease decides and not the time since a connection broke.
    now += 100
    locks.disconnect([held, waits])
    now += 100
    assert locks.expire() == 0
    # From the client's next call on, its connection is known.
    locks.heartbeat(held, process=locks.mark)
    locks.disconnect([held])
    assert [lock.orphaned_at_ms for lock, _ in locks.show()] == [1_200_000, None]
    now += 6
    assert locks.expire() == 1
    assert locks.check_lock(waits, process=locks.mark).state == LockState.ACQUIRED
    # The migration has not renewed the lease of the other lock.
    now += 301
    assert locks.expire() == 1
    assert locks.show() == []


def test_locks_without_a_catalog_exclude_those_in_any_and_new_ones_keep_theirs(store: SqlRepository) -> None:
    locks = LockService(store)

    def request(catalog: str | None) -> LockRequest:
        component = LockComponent(
            type=LockType.EXCLUSIVE, level=LockLevel.TABLE, database="a", table="t", operation=2, catalog=catalog
        )
        return LockRequest(components=(component,), user="u", host="h")

    held = [locks.lock(request(catalog)) for catalog in ("hive", "spark")]
    assert [each.state for each in held] == [LockState.ACQUIRED] * 2
    schema.downgrade(store.engine, "0020")
    with store.engine.connect() as connection:
        stored = connection.execute(text("SELECT components FROM locks ORDER BY id")).scalars().all()
    assert stored == ['[[3, 2, "a", "t", null, 2]]'] * 2
    schema.upgrade(store.engine)
    assert [lock.request for lock, _ in locks.show()] == [request(None)] * 2
    waits = locks.lock(request("third"))
    assert (waits.state, waits.blocked_by) == (LockState.WAITING, held[1].id)
    for each in held:
        locks.unlock(each.id)
    assert locks.check_lock(waits.id).state == LockState.ACQUIRED
    assert locks.lock(request("hive")).state == LockState.ACQUIRED
    assert locks.show("a", "t", catalog="hive")[0][0].request == request("hive")
