"""The journal in the metastore's database, or one like it: SQLite for one machine, PostgreSQL for several.

Each method is one transaction. Those of the scheduler read the number of the lease in it first; on PostgreSQL the row
stays locked until its end, on SQLite all who write wait for one another: nobody overtakes a scheduler within a
transaction, and one that was overtaken changes nothing. The tables are made by the migrations of the metastore.

Without `--db` or `optimizer.db` the journal of a catalog is a SQLite file in the user's own state:

    $XDG_STATE_HOME/interbed/optimizer/warehouse-tmp-lake-1f0c2b3a4d5e.db     (~/.local/state without the variable)

The name is made of the catalog's key: a readable part, and a hash so that each key has its own. A scheduler creates its
journal (`SqlJournal.open`). Readers create nothing: a missing journal is an empty one.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from sqlalchemy import Engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from interbed.catalog.client.options import CatalogOptions, MetastoreKind
from interbed.catalog.server.database import schema
from interbed.catalog.server.database.engine import DatabaseError, SqlUnits, open_engine
from interbed.optimizer.errors import JournalError
from interbed.optimizer.flow.group import ResourceGroup, Worker
from interbed.optimizer.flow.process import Process
from interbed.optimizer.flow.tables import TableRequest, TableState
from interbed.optimizer.journal.api import (
    Journal,
    JournalChanges,
    JournalState,
    Lease,
    MemoryJournal,
    check_changes,
    check_lease,
    check_name,
)
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


READABLE_MAX = 40
"""Characters of the key in the name: its end tells most."""


def default_url(catalog_key: str) -> str:
    """The url of the journal of a catalog, the same for the same key. The directories are made, for the user alone.

    Raises JournalError when they can't be.
    """
    digest = hashlib.sha256(catalog_key.encode(errors="surrogatepass")).hexdigest()[:12]
    # What logs in somewhere is not for file names.
    public = re.sub(r"//[^/@]*@", "//", catalog_key)
    readable = re.sub(r"[^a-z0-9]+", "-", public.lower()).strip("-")[-READABLE_MAX:].strip("-")
    try:
        directory = _state_home() / "interbed" / "optimizer"
        for each in [*reversed(directory.parents), directory]:
            if not each.is_dir():
                each.mkdir(mode=0o700, exist_ok=True)
    except (OSError, RuntimeError) as error:
        raise JournalError(
            f"There is no place for the optimizer's journal of {public}: {error}. Name a database for it."
        ) from error
    return URL.create("sqlite", database=str(directory / f"{readable}-{digest}.db")).render_as_string()


def _state_home() -> Path:
    # A path that is not absolute is to be passed over, says the specification of these directories.
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return given if given.is_absolute() else Path.home() / ".local" / "state"


_FIRST_REVISION = "0007"
"""The revision of the metastore's database that brought the journal's tables."""


class PlacedCatalog(Protocol):
    """What says where a catalog is."""

    options: CatalogOptions

    @property
    def warehouse(self) -> str:
        """The root directory of databases."""
        ...


def journal_url(catalog: PlacedCatalog, given: str | None = None) -> str:
    """The database of a catalog's journal: the one given, or its option `optimizer.db`, or a file of the user's own."""
    return given or catalog.options.optimizer_db or default_url(catalog_key(catalog))


def catalog_key(catalog: PlacedCatalog) -> str:
    """What tells a catalog from others whatever name it is configured by: its metastore's address, or its warehouse."""
    options = catalog.options
    return options.uri if options.metastore is MetastoreKind.HIVE and options.uri else catalog.warehouse


@contextmanager
def journal_to_read(url: str) -> Iterator[Journal]:
    """The journal at a url while the block runs; an empty one where there is none. Raises JournalError."""
    if not _is_there(url):
        yield MemoryJournal()
        return
    with journal_to_ask(url) as journal:
        yield journal


@contextmanager
def journal_to_ask(url: str) -> Iterator[Journal]:
    """The journal at a url while the block runs, made when there is none. Raises JournalError."""
    journal = SqlJournal.open(url)
    try:
        yield journal
    finally:
        journal.close()


def _is_there(url: str) -> bool:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file():
            # To connect would make the file.
            return False
        engine = open_engine(url)
        try:
            revision = schema.current_revision(engine)
        finally:
            engine.dispose()
    except ArgumentError as error:
        raise JournalError(f"The optimizer's journal has no database at '{url}': {error}.") from error
    except (DatabaseError, SQLAlchemyError) as error:
        raise JournalError(f"The optimizer's journal can't be reached: {error}.") from error
    return revision is not None and revision >= _FIRST_REVISION
