"""Journals of all kinds for tests, and builders of values that default all fields a test does not set."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, delete, text, update

from interbed.catalog.server.database.engine import open_engine
from interbed.catalog.server.database.models import Base, OptimizerLeaseRow
from interbed.optimizer.flow.process import Process, ProcessState, TableSummary, Task, WorkKind
from interbed.optimizer.journal.api import Journal, Lease, MemoryJournal
from interbed.optimizer.journal.sql import SqlJournal

STANDING = TableSummary(snapshot_id=3, score=70, read_amplification=2.5, pending_bytes=1 << 30)

Closing = Callable[[SqlJournal], SqlJournal]
"""Registers a journal to be closed when the test ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalPlace:
    """Location of journals: the url of a database, or memory."""

    url: str | None

    def empty(self, closing: Closing) -> Journal:
        """Open the journal after deleting all of its rows."""
        if self.url is None:
            return MemoryJournal()
        engine = open_engine(self.url)
        empty_database(engine)
        engine.dispose()
        return closing(SqlJournal(self.url))

    def another(self, journal: Journal, closing: Closing) -> Journal:
        """Open the same journal as another process would."""
        return journal if self.url is None else closing(SqlJournal(self.url))


def empty_database(engine: Engine) -> None:
    """Delete all rows from the database of a journal."""
    with engine.execution_options(interbed_write=True).connect() as connection, connection.begin():
        for table in Base.metadata.tables.values():
            if table.name.startswith("optimizer_") and table.name != "optimizer_lease":
                connection.execute(delete(table))
        connection.execute(update(OptimizerLeaseRow).values(holder="", number=0, until_millis=0))
        if connection.dialect.name == "sqlite":
            # Ids of requests start at 1 again, as in memory.
            connection.execute(text("DELETE FROM sqlite_sequence WHERE name = 'optimizer_requests'"))


def scheduler(journal: Journal, holder: str = "first", *, until: int = 1000, now: int = 0) -> Lease:
    """Acquire the lease, which must be free."""
    lease = journal.acquire(holder, now, until)
    assert lease is not None
    return lease


def process(name: str, **fields: Any) -> Process:
    """Return a running process, unless the fields say otherwise."""
    given: dict[str, Any] = {
        "table": "db.t",
        "kind": WorkKind.MINOR,
        "group": "default",
        "reason": "12 files of level 0",
        "state": ProcessState.RUNNING,
        "created_millis": 1,
        "before": STANDING,
    }
    return Process(id=name, **{**given, **fields})


def ended(name: str, at: int, **fields: Any) -> Process:
    """Return a process that has ended."""
    return process(name, state=ProcessState.SUCCEEDED, ended_millis=at, **fields)


def task(process_id: str, number: int, **fields: Any) -> Task:
    """Return a waiting task, unless the fields say otherwise."""
    return Task(process=process_id, number=number, payload=b"work", cost=5, **fields)
