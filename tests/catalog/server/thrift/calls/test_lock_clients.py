"""Locks of connections that end: which locks are dropped and when, and which waiting client is served next."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import text

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.errors import NoSuchLockError
from interbed.catalog.server.service.lock_model import LockComponent, LockLevel, LockRequest, LockState, LockType
from interbed.catalog.server.service.locks import LockService
from interbed.catalog.server.threads import AnswerLaterError, ClientLink, current_link, may_answer_later
from interbed.catalog.server.thrift.calls.locks import LockClients
from tests.support.databases import open_migrated
from tests.support.examples import examples

LEASE_SECONDS, GRACE_SECONDS, WAIT_SECONDS = 300, 5, 2


class FixedClock:
    """Clock that is set by the test, both for seconds since the epoch and for monotonic time."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class ServerProcess:
    """Server process with locks only; the test runs the steps of its thread."""

    def __init__(self, store: SqlRepository, clock: FixedClock) -> None:
        self.locks = LockService(
            store, lease_seconds=LEASE_SECONDS, disconnect_seconds=GRACE_SECONDS, clock=lambda: clock.now
        )
        self.clients = LockClients(self.locks, wait_seconds=WAIT_SECONDS, clock=clock)
        # The thread of a server would race with the test.
        self.clients._wake_thread = lambda: None  # type: ignore[method-assign]

    @contextmanager
    def serving(self, link: ClientLink, *, may_wait: bool = False) -> Iterator[None]:
        """Serve calls in the block by this connection."""
        tokens = current_link.set(link), may_answer_later.set(may_wait)
        try:
            yield
        finally:
            current_link.reset(tokens[0])
            may_answer_later.reset(tokens[1])

    def lock(self, link: ClientLink, table: str = "t") -> int:
        """Request an exclusive lock, and return its id."""
        component = LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, database="d", table=table)
        with self.serving(link):
            lock = self.locks.lock(
                LockRequest(components=(component,), user="u", host="h"), process=self.clients.process()
            )
            self.clients.touch(lock.id)
        return lock.id

    def check(self, link: ClientLink, lock_id: int) -> LockState:
        """Check a lock without waiting. Raise NoSuchLockError if it is unknown."""
        with self.serving(link):
            self.clients.touch(lock_id)
            return self.locks.check_lock(lock_id, process=self.clients.process()).state

    def heartbeat(self, link: ClientLink, lock_id: int) -> None:
        """Renew a lock. Raise NoSuchLockError if it is unknown."""
        with self.serving(link):
            self.clients.touch(lock_id)
            self.locks.heartbeat(lock_id, process=self.clients.process())

    def wait(self, link: ClientLink, lock_id: int, serve: Callable[[], None], until: float | None = None) -> bool:
        """Check a lock, and return whether the answer is deferred."""
        with self.serving(link, may_wait=True):
            self.clients.touch(lock_id)
            lock = self.locks.check_lock(lock_id, process=self.clients.process())
            try:
                self.clients.wait(lock, until)
            except AnswerLaterError as later:
                later.start(serve)
                return True
        return False

    def close(self, link: ClientLink) -> None:
        """End the connection as if it had broken."""
        link.is_closed = True
        self.clients.closed(link)


@pytest.fixture
def store(database_url: str) -> Iterator[SqlRepository]:
    """Open a database of either kind."""
    opened = open_migrated(database_url)
    yield opened
    opened.close()


@pytest.fixture
def clock() -> FixedClock:
    """Return the clock of the test."""
    return FixedClock()


def test_a_lock_survives_its_last_connection_by_the_grace_period_only(
    store: SqlRepository, clock: FixedClock, caplog: pytest.LogCaptureFixture
) -> None:
    process = ServerProcess(store, clock)
    holder, waiting = ClientLink(), ClientLink()
    held, queued = process.lock(holder), process.lock(waiting)
    process.close(holder)
    process.clients.step()
    clock.now += GRACE_SECONDS
    assert process.check(waiting, queued) == LockState.WAITING
    clock.now += 0.1
    assert process.check(waiting, queued) == LockState.ACQUIRED
    with pytest.raises(NoSuchLockError):
        process.heartbeat(ClientLink(), held)
    assert "(acquired, exclusive d.t) of u on host h expired: its client's last connection" in caplog.text
    assert "broken for 5.1 s" in caplog.text


def test_a_waiting_request_of_a_dead_client_is_dropped_after_the_grace_period(
    store: SqlRepository, clock: FixedClock
) -> None:
    process = ServerProcess(store, clock)
    holder, dead, behind = ClientLink(), ClientLink(), ClientLink()
    held, _, last = process.lock(holder), process.lock(dead), process.lock(behind)
    process.close(dead)
    process.clients.step()
    process.locks.unlock(held)
    assert process.check(behind, last) == LockState.WAITING
    clock.now += GRACE_SECONDS + 0.1
    assert process.check(behind, last) == LockState.ACQUIRED


@pytest.mark.parametrize("by", ["check", "heartbeat"])
def test_a_client_that_reconnects_within_the_grace_period_keeps_its_lock(
    store: SqlRepository, clock: FixedClock, by: str
) -> None:
    one, other = ServerProcess(store, clock), ServerProcess(store, clock)
    link = ClientLink()
    held = one.lock(link)
    one.close(link)
    one.clients.step()
    clock.now += GRACE_SECONDS - 1
    # The new connection may be served by either process.
    (other.check if by == "check" else other.heartbeat)(ClientLink(), held)
    clock.now += LEASE_SECONDS - 1
    assert other.locks.expire() == 0
    clock.now += 2
    assert other.locks.expire() == 1


def test_no_lock_is_dropped_while_any_connection_that_used_it_is_open(store: SqlRepository, clock: FixedClock) -> None:
    one, other = ServerProcess(store, clock), ServerProcess(store, clock)
    first, second, elsewhere = ClientLink(), ClientLink(), ClientLink()
    held = one.lock(first)
    one.heartbeat(second, held)
    other.heartbeat(elsewhere, held)
    for process, link, dropped in ((one, first, 0), (one, second, 0), (other, elsewhere, 1)):
        process.close(link)
        process.clients.step()
        clock.now += GRACE_SECONDS + 0.1
        assert one.locks.expire() == dropped


def test_connections_that_do_not_speak_for_their_client_leave_locks_to_the_lease(
    store: SqlRepository, clock: FixedClock
) -> None:
    process = ServerProcess(store, clock)
    link, request = ClientLink(), ClientLink(speaks_for_client=False)
    asked_by_request, renewed_by_request = process.lock(request, "a"), process.lock(link, "b")
    process.heartbeat(request, renewed_by_request)
    for each in (request, link):
        process.close(each)
    process.clients.step()
    clock.now += LEASE_SECONDS - 1
    assert process.locks.expire() == 0
    process.heartbeat(request, asked_by_request)
    clock.now += 2
    assert process.locks.expire() == 1


def test_locks_of_a_killed_server_process_are_kept_for_their_lease(store: SqlRepository, clock: FixedClock) -> None:
    killed, other = ServerProcess(store, clock), ServerProcess(store, clock)
    held = killed.lock(ClientLink())
    link = ClientLink()
    clock.now += LEASE_SECONDS / 2
    other.heartbeat(link, held)
    other.close(link)
    other.clients.step()
    clock.now += LEASE_SECONDS - 1
    assert other.locks.expire() == 0


def test_a_connection_that_ends_during_its_call_leaves_an_orphaned_lock(
    store: SqlRepository, clock: FixedClock
) -> None:
    process = ServerProcess(store, clock)
    link = ClientLink()
    process.close(link)
    process.lock(link)
    process.clients.step()
    clock.now += GRACE_SECONDS + 0.1
    assert process.locks.expire() == 1


def test_ended_connections_are_recorded_again_after_a_failure_of_the_database(
    store: SqlRepository, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = ServerProcess(store, clock)
    link = ClientLink()
    process.lock(link)
    process.close(link)

    def fail(_ids: object) -> None:
        raise NoSuchLockError("the database is down")

    with monkeypatch.context() as failing:
        failing.setattr(process.locks, "disconnect", fail)
        with pytest.raises(NoSuchLockError):
            process.clients.step()
    process.clients.step()
    clock.now += GRACE_SECONDS + 0.1
    assert process.locks.expire() == 1


def test_waiting_clients_are_served_in_order_of_arrival(store: SqlRepository, clock: FixedClock) -> None:
    process = ServerProcess(store, clock)
    links = [ClientLink() for _ in range(20)]
    ids = [process.lock(link) for link in links]
    served: list[int] = []
    for number in range(1, 20):
        assert process.wait(links[number], ids[number], partial(served.append, number))
    process.clients.step()
    assert served == []
    for number in range(19):
        process.locks.unlock(ids[number])
        process.clients.released(ids[number])
        process.clients.step()
        assert served == list(range(1, number + 2))
        assert not process.wait(links[number + 1], ids[number + 1], lambda: None)
        assert process.check(links[number + 1], ids[number + 1]) == LockState.ACQUIRED


def test_waiting_ends_by_timeout_by_disconnect_and_for_connections_that_hold_locks(
    store: SqlRepository, clock: FixedClock
) -> None:
    process = ServerProcess(store, clock)
    holder, waiter, dead = ClientLink(), ClientLink(), ClientLink()
    process.lock(holder)
    first, second = process.lock(waiter), process.lock(dead)
    served: list[str] = []
    assert process.wait(waiter, first, lambda: served.append("patient"))
    assert process.wait(dead, second, lambda: served.append("dead"))
    process.close(dead)
    clock.now += WAIT_SECONDS
    process.clients.step()
    assert served == ["patient"]
    assert waiter.waits_until is not None
    assert not process.wait(waiter, first, lambda: None, waiter.waits_until)
    # A connection that holds a lock may hold the one that others wait for.
    assert not process.wait(holder, process.lock(holder), lambda: None)


def test_a_client_that_waits_for_a_dead_holder_is_served_after_the_grace_period(
    store: SqlRepository, clock: FixedClock
) -> None:
    one, other = ServerProcess(store, clock), ServerProcess(store, clock)
    holder, waiting = ClientLink(), ClientLink()
    one.lock(holder)
    queued = other.lock(waiting)
    served: list[int] = []
    clock.now += 1
    one.close(holder)
    one.clients.step()
    for _ in range(3):
        until = clock.now + GRACE_SECONDS
        assert other.wait(waiting, queued, lambda: served.append(queued), until)
        other.clients.step()
        clock.now += GRACE_SECONDS / 3
        assert served == []
    clock.now += 0.1
    assert other.check(waiting, queued) == LockState.ACQUIRED


def test_locks_released_by_another_process_are_forgotten(
    store: SqlRepository, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interbed.catalog.server.thrift.calls.locks._PRUNED_AT_LEAST", 4)
    one, other = ServerProcess(store, clock), ServerProcess(store, clock)
    link = ClientLink()
    for number in range(12):
        other.locks.unlock(one.lock(link, f"t{number}"))
        one.clients._prune_at = 4
        one.clients.step()
    assert len(one.clients._connections) < 4


@dataclass
class ModelLock:
    """Lock in the model: its last heartbeat, the open connections that used it, and when the last of them broke."""

    heard: float
    links: set[int] = field(default_factory=set)
    broken: float | None = None

    def is_stale(self, now: float) -> bool:
        """Return whether the next check of locks drops this one."""
        return now - self.heard > LEASE_SECONDS or (self.broken is not None and now - self.broken > GRACE_SECONDS)


class ConnectionMachine(RuleBasedStateMachine):
    """State machine of two processes with connections that open and close, and tables with one lock each.

    `store` is set by the test.
    """

    store: SqlRepository

    def __init__(self) -> None:
        super().__init__()
        with self.store.engine.begin() as connection:
            connection.execute(text("DELETE FROM locks"))
        self.clock = FixedClock()
        self.processes = [ServerProcess(self.store, self.clock) for _ in range(2)]
        self.links: dict[int, tuple[ServerProcess, ClientLink]] = {}
        self.model: dict[int, ModelLock] = {}
        self.numbers = 0
        self.open_link()

    @rule()
    def open_link(self) -> None:
        self.numbers += 1
        self.links[self.numbers] = (self.processes[self.numbers % 2], ClientLink())

    @rule(data=st.data())
    def lock(self, data: st.DataObject) -> None:
        number = self._any_link(data)
        if number is not None:
            process, link = self.links[number]
            lock_id = process.lock(link, f"t{len(self.model)}-{self.numbers}-{self.clock.now}")
            self.model[lock_id] = ModelLock(heard=self.clock.now, links={number})

    @rule(data=st.data(), by_check=st.booleans())
    def touch(self, data: st.DataObject, by_check: bool) -> None:
        number = self._any_link(data)
        if number is None or not self.model:
            return
        process, link = self.links[number]
        lock_id = data.draw(st.sampled_from(sorted(self.model)))
        lock = self.model[lock_id]
        touch = process.check if by_check else process.heartbeat
        if self.clock.now - lock.heard > LEASE_SECONDS:
            with pytest.raises(NoSuchLockError):
                touch(link, lock_id)
            if by_check:
                del self.model[lock_id]
            else:
                lock.links.add(number)
        else:
            # A heartbeat also rescues an orphaned lock that no check has dropped yet.
            touch(link, lock_id)
            lock.heard, lock.broken = self.clock.now, None
            lock.links.add(number)

    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        number = self._any_link(data)
        if number is None:
            return
        process, link = self.links.pop(number)
        process.close(link)
        process.clients.step()
        for lock in self.model.values():
            if number in lock.links:
                lock.links.discard(number)
                if not lock.links and self.clock.now - lock.heard <= LEASE_SECONDS:
                    lock.broken = self.clock.now

    @rule(seconds=st.sampled_from([1, 3, 4, 6, 150]))
    def time_passes(self, seconds: int) -> None:
        self.clock.now += seconds

    @rule()
    def reaper_comes(self) -> None:
        stale = [lock_id for lock_id, lock in self.model.items() if lock.is_stale(self.clock.now)]
        assert self.processes[0].locks.expire() == len(stale)
        for lock_id in stale:
            del self.model[lock_id]

    @invariant()
    def exactly_the_live_locks_are_shown(self) -> None:
        fresh = [lock_id for lock_id, lock in self.model.items() if not lock.is_stale(self.clock.now)]
        assert [lock.id for lock, _ in self.processes[1].locks.show()] == fresh
        assert self.processes[0].locks.fresh(list(self.model)) == set(fresh)

    def _any_link(self, data: st.DataObject) -> int | None:
        return data.draw(st.sampled_from(sorted(self.links))) if self.links else None


@pytest.mark.longer
def test_locks_live_as_long_as_their_connections_and_leases(store: SqlRepository) -> None:
    class BackendMachine(ConnectionMachine):
        pass

    BackendMachine.store = store
    run_state_machine_as_test(
        BackendMachine,
        settings=settings(
            max_examples=examples(25),
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
