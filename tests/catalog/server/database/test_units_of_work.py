"""Units of work of many threads on one SQLite file: each is atomic, whether or not it shares a commit with others."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interbed.catalog.server.database.engine import DatabaseError
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.model import MetastoreCatalog
from interbed.catalog.server.service.repository import Transaction
from tests.support.databases import open_migrated
from tests.support.waits import at_most, wait_until

THREADS = 8
UNITS = 40
DEADLINE_SECONDS = at_most(120)


class _EndError(BaseException):
    """Ends a unit of work although it catches every Exception."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlRepository]:
    """Open a repository with the tables of a metastore."""
    opened = open_migrated(f"sqlite:///{tmp_path / 'metastore.db'}")
    yield opened
    opened.close()


def test_units_of_work_of_many_threads_are_atomic(store: SqlRepository) -> None:
    """Every third unit fails after it has written; some raise a BaseException, as directory moves do."""
    outcomes: dict[str, str] = {}

    def unit(name: str, fails: bool) -> Callable[[Transaction], None]:
        def work(transaction: Transaction) -> None:
            assert transaction.catalogs.add(_catalog(f"{name}_a"))
            assert transaction.catalogs.add(_catalog(f"{name}_b"))
            if fails:
                kind = MetastoreError if name.endswith(("3", "9")) else _EndError
                raise kind(f"{name} is not wanted")

        return work

    def found(name: str) -> object:
        return store.read(lambda transaction: transaction.catalogs.find(f"{name}_b"))

    def write(thread: int) -> None:
        for number in range(UNITS):
            name = f"c_{thread}_{number}"
            try:
                store.write(unit(name, number % 3 == 0))
                outcomes[name] = "kept"
                # An acknowledged change is visible to every reader.
                assert found(name) is not None
            except (MetastoreError, _EndError) as error:
                outcomes[name] = str(error)

    _run(*(lambda thread=thread: write(thread) for thread in range(THREADS)))
    names = set(store.read(lambda transaction: transaction.catalogs.names()))
    assert len(outcomes) == THREADS * UNITS
    for name, outcome in outcomes.items():
        kept = int(name.rpartition("_")[2]) % 3 != 0
        assert outcome == ("kept" if kept else f"{name} is not wanted")
        assert ({f"{name}_a", f"{name}_b"} <= names) is kept
        assert kept or not {f"{name}_a", f"{name}_b"} & names


def test_units_that_arrive_during_a_write_share_the_next_commit(store: SqlRepository, tmp_path: Path) -> None:
    """One unit holds the writer until the others are queued; then a single commit writes all of them."""
    entered, go_on = threading.Event(), threading.Event()

    def slow(transaction: Transaction) -> None:
        entered.set()
        assert go_on.wait(timeout=DEADLINE_SECONDS)
        transaction.catalogs.add(_catalog("slow"))

    seen: list[int] = []

    def quick(number: int) -> Callable[[Transaction], None]:
        def work(transaction: Transaction) -> None:
            # Another connection sees none of the units that are in the same transaction.
            with sqlite3.connect(tmp_path / "metastore.db") as other:
                seen.append(other.execute("SELECT count(*) FROM catalogs WHERE name LIKE 'quick%'").fetchone()[0])
            other.close()
            transaction.catalogs.add(_catalog(f"quick_{number}"))

        return work

    def wait_for_queue() -> None:
        assert entered.wait(timeout=DEADLINE_SECONDS)
        writer = store._writer
        assert writer is not None
        wait_until(lambda: len(writer._queue) >= THREADS)
        go_on.set()

    def follow(number: int) -> None:
        assert entered.wait(timeout=DEADLINE_SECONDS)
        store.write(quick(number))

    _run(
        lambda: store.write(slow),
        wait_for_queue,
        *(lambda number=number: follow(number) for number in range(THREADS)),
    )
    assert seen == [0] * THREADS
    names = store.read(lambda transaction: transaction.catalogs.names())
    assert {"slow", *(f"quick_{number}" for number in range(THREADS))} <= set(names)


def test_a_full_disk_is_reported_to_the_units_that_met_it(store: SqlRepository) -> None:
    """SQLite gets a limit of a few more pages: some units fit and others do not, and each is atomic."""
    outcomes: dict[str, str] = {}

    def limit(transaction: Transaction) -> None:
        writer = store._writer
        assert writer is not None
        assert writer._session is not None
        pages = writer._session.raw.execute("PRAGMA page_count").fetchone()[0]
        writer._session.raw.execute(f"PRAGMA max_page_count = {pages + 30}")

    store.write(limit)

    def add(name: str) -> None:
        store.write(lambda transaction: transaction.catalogs.add(_catalog(name, "x" * 5000)))

    def write(thread: int) -> None:
        for number in range(10):
            name = f"c_{thread}_{number}"
            try:
                add(name)
                outcomes[name] = "kept"
            except DatabaseError as error:
                outcomes[name] = str(error)

    _run(*(lambda thread=thread: write(thread) for thread in range(THREADS)))
    assert set(outcomes.values()) == {"kept", "the metastore's database failed: database or disk is full"}
    names = set(store.read(lambda transaction: transaction.catalogs.names()))
    kept = {name for name, outcome in outcomes.items() if outcome == "kept"}
    assert {name for name in names if name.startswith("c_")} == kept


def test_a_unit_of_work_waits_for_another_process_that_writes(store: SqlRepository, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "metastore.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.3, lambda: other.execute("COMMIT")).start()
    store.write(lambda transaction: transaction.catalogs.add(_catalog("late")))
    assert store.read(lambda transaction: transaction.catalogs.find("late")) is not None
    other.close()


def _run(*functions: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def run(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=DEADLINE_SECONDS)
        assert not thread.is_alive()
    assert not errors


def _catalog(name: str, description: str = "") -> MetastoreCatalog:
    return MetastoreCatalog(name=name, description=description, location="file:/x")
