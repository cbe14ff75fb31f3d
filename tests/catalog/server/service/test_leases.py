"""Leases of locks, with a clock of the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.errors import NoSuchLockError
from interbed.catalog.server.service.lock_model import (
    IN_PROCESS,
    LockComponent,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
)
from interbed.catalog.server.service.locks import LockService
from tests.support.databases import open_migrated

REQUEST = LockRequest(
    components=(LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, database="d", table="t"),),
    user="u",
    host="h",
)


class _FixedClock:
    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> _FixedClock:
    """Return a clock whose time is set by the test."""
    return _FixedClock()


@pytest.fixture
def locks(tmp_path: Path, clock: _FixedClock) -> Iterator[LockService]:
    """Return a lock service with leases of 300 s."""
    store = open_migrated(f"sqlite:///{tmp_path / 'metastore.db'}")
    yield LockService(store, lease_seconds=300, clock=clock)
    store.close()


def test_a_silent_lock_is_kept_for_exactly_its_lease(locks: LockService, clock: _FixedClock) -> None:
    held, waiting = locks.lock(REQUEST), locks.lock(REQUEST)
    clock.seconds += 299
    assert locks.check_lock(waiting.id).state == LockState.WAITING
    clock.seconds += 2
    assert locks.check_lock(waiting.id).state == LockState.ACQUIRED
    with pytest.raises(NoSuchLockError):
        locks.check_lock(held.id)


def test_heartbeats_and_checks_renew_the_lease(locks: LockService, clock: _FixedClock) -> None:
    held, waiting = locks.lock(REQUEST), locks.lock(REQUEST)
    for _ in range(10):
        clock.seconds += 250
        locks.heartbeat(held.id)
        assert locks.check_lock(waiting.id).state == LockState.WAITING
    [(shown, blocker), (behind, blocked_by)] = locks.show("d", "t")
    assert (shown.id, blocker, shown.heartbeat_count) == (held.id, None, 10)
    assert blocked_by is not None
    assert (behind.id, blocked_by.id) == (waiting.id, held.id)


def test_a_heartbeat_after_the_lease_is_refused_although_the_lock_is_free(
    locks: LockService, clock: _FixedClock
) -> None:
    held = locks.lock(REQUEST)
    clock.seconds += 301
    with pytest.raises(NoSuchLockError):
        locks.heartbeat(held.id)
    assert locks.show() == []


def test_a_waiting_request_of_a_dead_client_does_not_block_later_ones(locks: LockService, clock: _FixedClock) -> None:
    held, dead, behind = locks.lock(REQUEST), locks.lock(REQUEST), locks.lock(REQUEST)
    clock.seconds += 200
    locks.heartbeat(held.id)
    locks.heartbeat(behind.id)
    clock.seconds += 150
    locks.unlock(held.id)
    assert locks.check_lock(behind.id).state == LockState.ACQUIRED
    with pytest.raises(NoSuchLockError):
        locks.check_lock(dead.id)


def test_ids_are_never_reused(locks: LockService) -> None:
    first = locks.lock(REQUEST)
    locks.unlock(first.id)
    assert locks.lock(REQUEST).id > first.id


def test_a_lock_of_a_client_inside_of_the_server_ends_soon_after_its_last_heartbeat(
    locks: LockService, clock: _FixedClock, tmp_path: Path
) -> None:
    store = SqlRepository(f"sqlite:///{tmp_path / 'metastore.db'}")
    service = LockService(store, lease_seconds=300, disconnect_seconds=5, clock=clock)
    held, waiting = service.lock(REQUEST, process=IN_PROCESS), service.lock(REQUEST, process=IN_PROCESS)
    for _ in range(3):
        clock.seconds += 4
        service.heartbeat(held.id, process=IN_PROCESS)
        assert service.check_lock(waiting.id, process=IN_PROCESS).state == LockState.WAITING
    # The process was killed; another server decides by the same database.
    clock.seconds += 6
    after = service.lock(REQUEST)
    assert after.state == LockState.ACQUIRED
    with pytest.raises(NoSuchLockError):
        service.check_lock(held.id, process=IN_PROCESS)
    store.close()


def test_a_client_inside_of_the_server_that_waits_writes_nothing_between_renewals(
    locks: LockService, clock: _FixedClock
) -> None:
    locks.lock(REQUEST)
    waiting = locks.lock(REQUEST, process=IN_PROCESS)
    clock.seconds += 0.5
    assert locks.check_lock(waiting.id, process=IN_PROCESS).heartbeat_at_ms == waiting.heartbeat_at_ms


def test_a_lock_of_a_client_inside_of_the_server_has_the_lease_where_broken_connections_do_not_count(
    locks: LockService, clock: _FixedClock
) -> None:
    held, waiting = locks.lock(REQUEST, process=IN_PROCESS), locks.lock(REQUEST)
    clock.seconds += 299
    assert locks.check_lock(waiting.id).state == LockState.WAITING
    locks.heartbeat(held.id, process=IN_PROCESS)
    clock.seconds += 299
    assert locks.check_lock(waiting.id).state == LockState.WAITING
