"""The journal in the metastore's database, or one like it: SQLite for one machine, PostgreSQL for several.

Each method is one transaction. Those of the scheduler read the number of the lease in it first; on PostgreSQL the row
stays locked until its end, on SQLite all who write wait for one another: nobody overtakes a scheduler within a
transaction, and one that was overtaken changes nothing. The tables are made by the migrations of the metastore.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from interbed.catalog.server.database import schema
from interbed.catalog.server.database.engine import DatabaseError, SqlUnits, open_engine
from interbed.optimizer.errors import JournalError
from interbed.optimizer.flow.group import ResourceGroup, Worker
from interbed.optimizer.flow.process import Process
from interbed.optimizer.flow.table_state import TableRequest, TableState
from interbed.optimizer.journal.api import JournalChanges, JournalState, Lease, check_changes, check_lease, check_name
from interbed.optimizer.journal.transaction import JournalTransaction

T = TypeVar("T")


class SqlJournal:
    """See Journal. `database` is a url, `sqlite:///path/to/file.db` or `postgresql://user:password@host/database`, or
    an engine of open_engine, which stays open. Its tables must exist, see `open`.
    """

    def __init__(self, database: str | Engine) -> None:
        with _journal_errors():
            self._engine = open_engine(database) if isinstance(database, str) else database
        self._owns_engine = isinstance(database, str)
        self._units = SqlUnits(self._engine, JournalTransaction, called="its database")

    @classmethod
    def open(cls, database: str | Engine) -> "SqlJournal":
        """A journal whose tables are made or brought up to date first, as a metastore does when it starts. Raises
        JournalError, also for a database of a newer version of interbed.
        """
        journal = cls(database)
        try:
            journal._upgrade()
        except BaseException:
            journal.close()
            raise
        return journal

    def close(self) -> None:
        """Close the connections."""
        self._units.close()
        if self._owns_engine:
            self._engine.dispose()

    def acquire(self, holder: str, now_millis: int, until_millis: int) -> Lease | None:
        """See Journal."""
        check_name("scheduler", holder)

        def work(transaction: JournalTransaction) -> Lease | None:
            held = transaction.lease(for_update=True)
            if held is not None and held.holder != holder and held.until_millis > now_millis:
                return None
            number = 1 if held is None else held.number + 1
            lease = Lease(holder=holder, number=number, until_millis=until_millis)
            transaction.set_lease(lease)
            return lease

        return self._write(work)

    def renew(self, lease: Lease, until_millis: int) -> Lease:
        """See Journal."""
        renewed = replace(lease, until_millis=until_millis)

        def work(transaction: JournalTransaction) -> None:
            transaction.check(lease)
            transaction.set_lease(renewed)

        self._write(work)
        return renewed

    def release(self, lease: Lease) -> None:
        """See Journal."""

        def work(transaction: JournalTransaction) -> None:
            held = transaction.lease(for_update=True)
            if held is not None and held.number == lease.number:
                transaction.set_lease(replace(held, until_millis=0))

        self._write(work)

    def load(self, lease: Lease) -> JournalState:
        """See Journal."""

        def work(transaction: JournalTransaction) -> JournalState:
            # Who overtakes now waits until all is read, so that it is of one time.
            check_lease(lease, transaction.lease(for_share=True))
            return JournalState(
                tables=transaction.tables(None), processes=transaction.open_processes(), tasks=transaction.tasks()
            )

        return self._read(work)

    def store(self, lease: Lease, changes: JournalChanges) -> None:
        """See Journal."""
        check_changes(changes)

        def work(transaction: JournalTransaction) -> None:
            transaction.check(lease)
            transaction.set_tables(changes.tables)
            transaction.remove_tables(changes.gone)
            transaction.set_tasks(changes.tasks)
            transaction.set_processes(changes.processes)
            touched = {task.process for task in changes.tasks} | {process.id for process in changes.processes}
            transaction.remove_tasks_of_none(touched)
            if changes.workers is not None:
                transaction.set_workers(changes.workers)
            if changes.groups is not None:
                transaction.set_groups(changes.groups)
            transaction.remove_requests(changes.answered)

        self._write(work)

    def requests(self) -> Sequence[TableRequest]:
        """See Journal."""
        return self._read(lambda transaction: transaction.requests())

    def ask(self, request: TableRequest) -> None:
        """See Journal."""
        check_name("table", request.table)
        self._write(lambda transaction: transaction.add_request(request))

    def holder(self) -> Lease | None:
        """See Journal."""
        return self._read(lambda transaction: transaction.lease())

    def tables(self, names: Sequence[str] | None = None) -> Sequence[TableState]:
        """See Journal."""
        for name in names or ():
            check_name("table", name)
        return self._read(lambda transaction: transaction.tables(names))

    def processes(self, table: str | None = None, *, limit: int = 100) -> Sequence[Process]:
        """See Journal."""
        check_name("table", table or "")
        return self._read(lambda transaction: transaction.processes(table, limit))

    def running(self) -> Sequence[Process]:
        """See Journal."""
        return self._read(lambda transaction: transaction.open_processes())

    def workers(self) -> Sequence[Worker]:
        """See Journal."""
        return self._read(lambda transaction: transaction.workers())

    def groups(self) -> Sequence[ResourceGroup]:
        """See Journal."""
        return self._read(lambda transaction: transaction.groups())

    def expire(self, lease: Lease, ended_before_millis: int) -> int:
        """See Journal."""

        def work(transaction: JournalTransaction) -> int:
            transaction.check(lease)
            return transaction.expire(ended_before_millis)

        return self._write(work)

    def _upgrade(self) -> None:
        with _journal_errors():
            if schema.is_current(self._engine):
                return
            found = schema.current_revision(self._engine)
            latest = schema.latest_revision()
            if found is not None and found > latest:
                raise JournalError(
                    f"The journal in {self._engine.url.render_as_string()} is of a newer version of interbed: its "
                    f"tables are at {found}, and this version knows them up to {latest}. Use the newer version, or "
                    "another database."
                )
            schema.upgrade(self._engine)

    def _read(self, work: Callable[[JournalTransaction], T]) -> T:
        with _journal_errors():
            return self._units.read(work)

    def _write(self, work: Callable[[JournalTransaction], T]) -> T:
        with _journal_errors():
            return self._units.write(work)


@contextmanager
def _journal_errors() -> Iterator[None]:
    try:
        yield
    except (DatabaseError, SQLAlchemyError) as error:
        raise JournalError(f"The optimizer's journal can't be reached: {error}.") from error
