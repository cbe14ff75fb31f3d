"""Any sequence of lock calls, compared with a model of Hive's rules in a list; the clock is set by the test."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import text

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.errors import NoSuchLockError
from interbed.catalog.server.service.lock_model import LockComponent, LockLevel, LockRequest, LockState, LockType
from interbed.catalog.server.service.locks import LockService
from tests.support.databases import open_migrated
from tests.support.examples import examples
from tests.support.servers.metastore import BACKENDS, migrated_database

LEASE_SECONDS = 100
RENEWAL_SECONDS = 5

# Rows: type of the held lock. Columns: type of the requested lock. Order: shared read, shared write, exclusive,
# exclusive write. 1: the request waits.
HIVES_TABLE = ("0010", "0111", "1111", "0111")
ORDER = (LockType.SHARED_READ, LockType.SHARED_WRITE, LockType.EXCLUSIVE, LockType.EXCL_WRITE)


@dataclasses.dataclass
class ModelLock:
    """Lock in the model."""

    id: int
    components: tuple[LockComponent, ...]
    acquired: bool
    heartbeat: float


@st.composite
def components(draw: st.DrawFn) -> LockComponent:
    """Generate a component on one of a few objects, none of which exists."""
    table = draw(st.sampled_from([None, "t", "t", "u"]))
    partition = draw(st.sampled_from([None, None, "p=1", "p=2"])) if table is not None else None
    return LockComponent(
        type=draw(st.sampled_from(LockType)),
        level=LockLevel.DB if table is None else LockLevel.TABLE if partition is None else LockLevel.PARTITION,
        database=draw(st.sampled_from(["a", "a", "b"])),
        table=table,
        partition=partition,
        catalog=draw(st.sampled_from(["hive", "hive", "other", None])),
    )


def must_wait(held: LockComponent, asked: LockComponent) -> bool:
    """Return whether a component has to wait, by an independent implementation of the rule."""
    if held.database != asked.database or (held.catalog and asked.catalog and held.catalog != asked.catalog):
        return False
    if held.table is not None and asked.table is not None:
        if held.table != asked.table or (held.partition and asked.partition and held.partition != asked.partition):
            return False
    elif (held.table is None) != (asked.table is None):
        whole = held if held.table is None else asked
        if whole.type == LockType.SHARED_READ:
            return False
    return HIVES_TABLE[ORDER.index(held.type)][ORDER.index(asked.type)] == "1"


class LockMachine(RuleBasedStateMachine):
    """Lock calls as rules of a state machine. `store` is set by the test."""

    store: SqlRepository

    def __init__(self) -> None:
        super().__init__()
        with self.store.engine.begin() as connection:
            connection.execute(text("DELETE FROM locks"))
        self.now = 1_000_000.0
        self.locks = LockService(self.store, lease_seconds=LEASE_SECONDS, clock=lambda: self.now)
        self.other_server = LockService(self.store, lease_seconds=LEASE_SECONDS, clock=lambda: self.now)
        self.model: list[ModelLock] = []
        self.known: list[int] = []
        self.expired_before = self.locks.figures().expired_total
        self.expired = 0

    @rule(parts=st.lists(components(), min_size=1, max_size=3))
    def lock(self, parts: list[LockComponent]) -> None:
        lock = self.locks.lock(LockRequest(components=tuple(parts), user="u", host="h"))
        assert lock.id > max(self.known, default=0)
        blocked = self._blocked(tuple(parts), self.model)
        assert (lock.state == LockState.WAITING) == blocked
        self.known.append(lock.id)
        self.model.append(ModelLock(id=lock.id, components=tuple(parts), acquired=not blocked, heartbeat=self.now))

    @rule(data=st.data())
    def check_lock(self, data: st.DataObject) -> None:
        lock_id = self._any(data)
        mine = self._find(lock_id)
        if mine is None or mine.heartbeat < self.now - LEASE_SECONDS:
            with pytest.raises(NoSuchLockError):
                self.other_server.check_lock(lock_id)
            self._forget([mine] if mine is not None else [])
            return
        answered = self.other_server.check_lock(lock_id)
        if mine.acquired:
            mine.heartbeat = self.now
        else:
            young = mine.heartbeat >= self.now - RENEWAL_SECONDS
            before = len(self.model)
            mine.acquired = not self._blocked(mine.components, self.model[: self.model.index(mine)])
            if mine.acquired or not young or len(self.model) < before:
                mine.heartbeat = self.now
        assert (answered.state == LockState.ACQUIRED) == mine.acquired

    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        lock_id = self._any(data)
        mine = self._find(lock_id)
        if mine is None or mine.heartbeat < self.now - LEASE_SECONDS:
            with pytest.raises(NoSuchLockError):
                self.locks.heartbeat(lock_id)
        else:
            self.locks.heartbeat(lock_id)
            mine.heartbeat = self.now

    @rule(data=st.data())
    def unlock(self, data: st.DataObject) -> None:
        lock_id = self._any(data)
        self.locks.unlock(lock_id)
        self.model = [lock for lock in self.model if lock.id != lock_id]

    @rule(seconds=st.sampled_from([1, 4, 6, 50, 90, 101]))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def reaper_comes(self) -> None:
        stale = [lock for lock in self.model if lock.heartbeat < self.now - LEASE_SECONDS]
        assert self.other_server.expire() == len(stale)
        self._forget(stale)

    @rule(database=st.sampled_from([None, "a", "b"]), table=st.sampled_from([None, "t"]))
    def show(self, database: str | None, table: str | None) -> None:
        alive = [lock for lock in self.model if lock.heartbeat >= self.now - LEASE_SECONDS]
        expected = [
            (lock.id, None if lock.acquired else next(iter(self._blockers(lock.components, alive[:position])), None))
            for position, lock in enumerate(alive)
            if any(database in (None, part.database) and table in (None, part.table) for part in lock.components)
        ]
        shown = self.locks.show(database, table)
        assert [(lock.id, blocker and blocker.id) for lock, blocker in shown] == expected

    @invariant()
    def held_locks_do_not_conflict(self) -> None:
        held = [lock for lock in self.model if lock.acquired]
        for position, lock in enumerate(held):
            assert not self._blockers(lock.components, held[:position])

    @invariant()
    def metrics_match_the_model(self) -> None:
        alive = [lock for lock in self.model if lock.heartbeat >= self.now - LEASE_SECONDS]
        figures = self.locks.figures()
        assert (figures.acquired, figures.waiting, figures.stale) == (
            sum(lock.acquired for lock in alive),
            sum(not lock.acquired for lock in alive),
            len(self.model) - len(alive),
        )
        assert figures.expired_total - self.expired_before == self.expired

    def _blockers(self, parts: tuple[LockComponent, ...], earlier: list[ModelLock]) -> list[int]:
        return [lock.id for lock in earlier if any(must_wait(held, part) for held in lock.components for part in parts)]

    def _blocked(self, parts: tuple[LockComponent, ...], earlier: list[ModelLock]) -> bool:
        blockers = self._blockers(parts, earlier)
        stale = [lock for lock in earlier if lock.id in blockers and lock.heartbeat < self.now - LEASE_SECONDS]
        self._forget(stale)
        return len(blockers) > len(stale)

    def _forget(self, stale: list[ModelLock]) -> None:
        self.expired += len(stale)
        self.model = [lock for lock in self.model if lock not in stale]

    def _find(self, lock_id: int) -> ModelLock | None:
        return next((lock for lock in self.model if lock.id == lock_id), None)

    def _any(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from([*self.known, 10**9]))


@pytest.mark.longer
@pytest.mark.parametrize("backend", BACKENDS)
def test_locks_are_granted_renewed_and_expire_by_hives_rules(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if backend == "sqlite":
        url = f"sqlite:///{tmp_path / 'metastore.db'}"
    else:
        url = migrated_database(request.getfixturevalue("postgres_url"))
    store = open_migrated(url)

    class BackendMachine(LockMachine):
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
    store.close()
