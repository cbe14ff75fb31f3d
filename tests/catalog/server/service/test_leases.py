"""Leases, with a clock of the test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interbed.catalog.server.database import schema
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.errors import NoSuchLockError
from interbed.catalog.server.service.lock_model import LockComponent, LockLevel, LockRequest, LockState, LockType
from interbed.catalog.server.service.locks import LockService

REQUEST = LockRequest(
    components=(LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, database="d", table="t"),),
    user="u",
    host="h",
)


class _Clock:
    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> _Clock:
    """A clock that stands still until it is set."""
    return _Clock()


@pytest.fixture
def locks(tmp_path: Path, clock: _Clock) -> Iterator[LockService]:
    """Locks with leases of 300 s."""
    store = SqlRepository(f"sqlite:///{tmp_path / 'metastore.db'}")
    schema.upgrade(store.engine)
    yield LockService(store, lease_seconds=300, clock=clock)
    store.close()


def test_a_silent_lock_is_kept_for_exactly_its_lease(locks: LockService, clock: _Clock) -> None:
    held, waiting = locks.lock(REQUEST), locks.lock(REQUEST)
    clock.seconds += 299
    assert locks.check_lock(waiting.id).state == LockState.WAITING
    clock.seconds += 2
    assert locks.check_lock(waiting.id).state == LockState.ACQUIRED
    with pytest.raises(NoSuchLockError):
        locks.check_lock(held.id)


def test_heartbeats_and_checks_renew_the_lease(locks: LockService, clock: _Clock) -> None:
    held, waiting = locks.lock(REQUEST), locks.lock(REQUEST)
    for _ in range(10):
        clock.seconds += 250
        locks.heartbeat(held.id)
        assert locks.check_lock(waiting.id).state == LockState.WAITING
    [(shown, blocker), (behind, blocked_by)] = locks.show("d", "t")
    assert (shown.id, blocker, shown.heartbeat_count) == (held.id, None, 10)
    assert blocked_by is not None
    assert (behind.id, blocked_by.id) == (waiting.id, held.id)


def test_a_heartbeat_after_the_lease_comes_too_late_even_if_nobody_took_the_lock(
    locks: LockService, clock: _Clock
) -> None:
    held = locks.lock(REQUEST)
    clock.seconds += 301
    with pytest.raises(NoSuchLockError):
        locks.heartbeat(held.id)
    assert locks.show() == []


def test_a_waiting_request_whose_client_died_does_not_hold_back_those_behind_it(
    locks: LockService, clock: _Clock
) -> None:
    held, dead, behind = locks.lock(REQUEST), locks.lock(REQUEST), locks.lock(REQUEST)
    clock.seconds += 200
    locks.heartbeat(held.id)
    locks.heartbeat(behind.id)
    clock.seconds += 150
    locks.unlock(held.id)
    assert locks.check_lock(behind.id).state == LockState.ACQUIRED
    with pytest.raises(NoSuchLockError):
        locks.check_lock(dead.id)


def test_ids_are_never_given_out_twice(locks: LockService) -> None:
    first = locks.lock(REQUEST)
    locks.unlock(first.id)
    assert locks.lock(REQUEST).id > first.id
