"""Several schedulers that compete for the lease: one gets it, and one that lost it changes nothing from then on."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from interbed.optimizer.flow.process import LeaseLostError
from interbed.optimizer.flow.tables import TableState
from interbed.optimizer.journal.api import Journal, JournalChanges, Lease
from interbed.optimizer.journal.sql import SqlJournal
from tests.optimizer.journal.journals import Closing, JournalPlace, scheduler
from tests.support.waits import at_most

CONTENDERS = 6
ROUNDS = 5
DEADLINE_SECONDS = at_most(60)

CONTENDER = """
import sys
from interbed.optimizer.journal.sql import SqlJournal
journal = SqlJournal(sys.argv[1])
journal.holder()
print("ready", flush=True)
sys.stdin.readline()
print(journal.acquire(sys.argv[2], 0, 1000) is not None)
journal.close()
"""


def test_one_of_many_threads_gets_the_lease(database: str, closing: Closing) -> None:
    JournalPlace(url=database).empty(closing)
    journals = [closing(SqlJournal(database)) for _ in range(CONTENDERS)]
    start = threading.Barrier(CONTENDERS)

    def acquire(number: int, now: int) -> bool:
        start.wait(timeout=DEADLINE_SECONDS)
        return journals[number].acquire(f"contender {number}", now, now + 10) is not None

    with ThreadPoolExecutor(CONTENDERS) as pool:
        for turn in range(ROUNDS):
            got = list(pool.map(acquire, range(CONTENDERS), [10 * turn] * CONTENDERS))
            assert sum(got) == 1
            holder = journals[0].holder()
            assert holder is not None
            assert (holder.holder, holder.number) == (f"contender {got.index(True)}", turn + 1)


def test_one_of_two_processes_gets_the_lease(database: str, closing: Closing) -> None:
    journal = JournalPlace(url=database).empty(closing)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CONTENDER, database, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in ("one", "two")
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=DEADLINE_SECONDS)[0].strip() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait(timeout=DEADLINE_SECONDS)
    assert sorted(answers) == ["False", "True"]
    holder = journal.holder()
    assert holder is not None
    assert holder.holder == ("one", "two")[answers.index("True")]


def test_a_new_scheduler_loads_a_state_that_its_predecessor_no_longer_changes(database: str, closing: Closing) -> None:
    """The first scheduler stores without a pause while the second takes over. It must not change what the second has
    loaded.
    """
    place = JournalPlace(url=database)
    for _ in range(ROUNDS):
        first = place.empty(closing)
        second = place.another(first, closing)
        lease = scheduler(first, until=1000)
        has_begun = threading.Event()

        def store_on(journal: Journal, lease: Lease, has_begun: threading.Event) -> int:
            stored = 0
            try:
                while True:
                    stored += 1
                    states = [TableState(name=f"db.t{number}", failures=stored) for number in range(20)]
                    journal.store(lease, JournalChanges(tables=states))
                    has_begun.set()
            except LeaseLostError:
                return stored

        with ThreadPoolExecutor(1) as pool:
            storing = pool.submit(store_on, first, lease, has_begun)
            assert has_begun.wait(timeout=DEADLINE_SECONDS)
            loaded = second.load(scheduler(second, "second", now=1000))
            stored = storing.result(timeout=DEADLINE_SECONDS)
        # The last attempt failed; the one before was stored in full.
        assert {state.failures for state in loaded.tables} == {stored - 1}
        assert second.tables() == loaded.tables
