"""Random sequences of calls: a journal on SQLite answers as the one in memory does."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import Engine

from interbed.catalog.server.database.engine import open_engine
from interbed.optimizer.flow.process import LeaseLostError
from interbed.optimizer.flow.tables import TableRequest, Worker
from interbed.optimizer.journal.api import Journal, JournalChanges, JournalState, Lease, MemoryJournal
from interbed.optimizer.journal.sql import SqlJournal
from tests.optimizer.journal.journals import empty_database
from tests.optimizer.journal.values import groups, processes, requests, tables, tasks, workers
from tests.support.examples import examples

T = TypeVar("T")

HOLDERS = st.sampled_from(["one", "two", "three"])
NAMES = st.sampled_from(["db.a", "db.b", "db.\u00e9", "DB.a"])
IDS = st.sampled_from(["p1", "p2", "p10"])
TIMES = st.integers(min_value=0, max_value=20)

CHANGES = st.builds(
    JournalChanges,
    tables=st.lists(tables(NAMES), max_size=3),
    removed=st.lists(NAMES, max_size=1),
    processes=st.lists(processes(IDS, NAMES, times=TIMES), max_size=3),
    tasks=st.lists(tasks(IDS, st.integers(min_value=0, max_value=2)), max_size=3),
    workers=st.none() | st.lists(workers, max_size=2),
    groups=st.none() | st.lists(groups, max_size=2),
    answered=st.lists(st.integers(min_value=1, max_value=6), max_size=2),
)


class JournalMachine(RuleBasedStateMachine):
    """Calls of several schedulers, each with the last lease that it got. The test sets `engine`."""

    engine: Engine

    def __init__(self) -> None:
        super().__init__()
        empty_database(self.engine)
        self.journal = SqlJournal(self.engine)
        self.model = MemoryJournal()
        self.leases: dict[str, Lease] = {}
        self.now = 0

    def teardown(self) -> None:
        self.journal.close()

    @rule(holder=HOLDERS, passed=st.integers(min_value=0, max_value=30), length=st.integers(min_value=1, max_value=30))
    def acquire(self, holder: str, passed: int, length: int) -> None:
        self.now += passed
        lease = self._both(lambda journal: journal.acquire(holder, self.now, self.now + length))
        if lease is not None:
            self.leases[holder] = lease

    @rule(holder=HOLDERS, length=st.integers(min_value=1, max_value=30))
    def renew(self, holder: str, length: int) -> None:
        if holder in self.leases:
            lease = self._both(lambda journal: _or_lost(lambda: journal.renew(self.leases[holder], self.now + length)))
            if lease is not None:
                self.leases[holder] = lease

    @rule(holder=HOLDERS)
    def release(self, holder: str) -> None:
        if holder in self.leases:
            self._both(lambda journal: journal.release(self.leases[holder]))

    @rule(holder=HOLDERS, changes=CHANGES)
    def store(self, holder: str, changes: JournalChanges) -> None:
        if holder in self.leases:
            self._both(lambda journal: _or_lost(lambda: journal.store(self.leases[holder], changes)))

    @rule(changes=CHANGES)
    def store_as_the_scheduler(self, changes: JournalChanges) -> None:
        """Store with the current lease: most other calls use a lease that was lost."""
        lease = self.model.holder()
        if lease is not None:
            self._both(lambda journal: _or_lost(lambda: journal.store(lease, changes)))

    @rule(request=requests(NAMES))
    def ask(self, request: TableRequest) -> None:
        self._both(lambda journal: journal.ask(request))

    @rule(holder=HOLDERS, before=TIMES)
    def expire(self, holder: str, before: int) -> None:
        if holder in self.leases:
            self._both(lambda journal: _or_lost(lambda: journal.expire(self.leases[holder], before)))

    @rule(names=st.lists(NAMES, max_size=3), table=NAMES, limit=st.integers(min_value=0, max_value=3))
    def look(self, names: list[str], table: str, limit: int) -> None:
        self._both(lambda journal: journal.tables(names))
        self._both(lambda journal: journal.processes(table))
        self._both(lambda journal: journal.processes(limit=limit))

    @invariant()
    def both_know_the_same(self) -> None:
        self._both(lambda journal: journal.holder())
        self._both(lambda journal: journal.tables())
        self._both(lambda journal: journal.processes())
        self._both(lambda journal: journal.requests())
        self._both(_workers_and_groups)
        for lease in self.leases.values():
            self._both(_loading(lease))

    def _both(self, call: Callable[[Journal], T]) -> T:
        found, expected = call(self.journal), call(self.model)
        assert found == expected
        return found


def _or_lost(call: Callable[[], T]) -> T | None:
    try:
        return call()
    except LeaseLostError:
        return None


def _loading(lease: Lease) -> Callable[[Journal], JournalState | None]:
    return lambda journal: _or_lost(lambda: journal.load(lease))


def _workers_and_groups(journal: Journal) -> tuple[Sequence[Worker], Sequence[object]]:
    return list(journal.workers()), list(journal.groups())


def test_a_journal_on_sqlite_answers_as_the_one_in_memory(sqlite_journal_url: str) -> None:
    JournalMachine.engine = open_engine(sqlite_journal_url)
    run_state_machine_as_test(JournalMachine, settings=settings(max_examples=examples(40), stateful_step_count=30))
