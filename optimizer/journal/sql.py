"""The journal in a database with the metastore's schema: SQLite for one machine, PostgreSQL for several.

Each method is one transaction. Those of the scheduler read the number of the lease first. On PostgreSQL the row of the
lease stays locked until the transaction ends, and on SQLite there is one writer at a time. So no other scheduler takes
the lease during a transaction, and a scheduler that has lost its lease changes nothing. The migrations of the metastore
create the tables.

Without `--db` or `optimizer.db` the journal of a catalog is a SQLite file in the user's own state:

    $XDG_STATE_HOME/interbed/optimizer/warehouse-tmp-lake-1f0c2b3a4d5e.db     (~/.local/state without the variable)

The name has a readable part of the catalog's key, and a hash that makes it unique. A scheduler creates its journal
(`SqlJournal.open`). Readers create nothing: for them a missing journal is empty.
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
from interbed.optimizer.flow.process import JournalError, Process
from interbed.optimizer.flow.tables import ResourceGroup, TableRequest, TableState, Worker
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
    """Journal in a database, whose tables must exist (see `open`).

    `database` is a url, `sqlite:///path/to/file.db` or `postgresql://user:password@host/database`, or an engine of
    open_engine, which the caller closes.
    """

    def __init__(self, database: str | Engine) -> None:
        with _journal_errors():
            self._engine = open_engine(database) if isinstance(database, str) else database
        self._owns_engine = isinstance(database, str)
        self._units = SqlUnits(self._engine, JournalTransaction, called="its database")

    @classmethod
    def open(cls, database: str | Engine) -> "SqlJournal":
        """Open a journal after creating or migrating its tables, as a metastore does when it starts.

        Raises JournalError, also for a database of a newer version of interbed.
        """
        journal = cls(database)
        try:
            journal._upgrade()
        except BaseException:
            journal.close()
            raise
        return journal

    def close(self) -> None:
        """Close the connections to the database."""
        self._units.close()
        if self._owns_engine:
            self._engine.dispose()

    def acquire(self, holder: str, now_millis: int, until_millis: int) -> Lease | None:
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
        renewed = replace(lease, until_millis=until_millis)

        def work(transaction: JournalTransaction) -> None:
            transaction.check(lease)
            transaction.set_lease(renewed)

        self._write(work)
        return renewed

    def release(self, lease: Lease) -> None:
        def work(transaction: JournalTransaction) -> None:
            held = transaction.lease(for_update=True)
            if held is not None and held.number == lease.number:
                transaction.set_lease(replace(held, until_millis=0))

        self._write(work)

    def load(self, lease: Lease) -> JournalState:
        def work(transaction: JournalTransaction) -> JournalState:
            # With the shared lock another scheduler can't take the lease before all is read, in one consistent state.
            check_lease(lease, transaction.lease(for_share=True))
            return JournalState(
                tables=transaction.tables(None), processes=transaction.open_processes(), tasks=transaction.tasks()
            )

        return self._read(work)

    def store(self, lease: Lease, changes: JournalChanges) -> None:
        check_changes(changes)

        def work(transaction: JournalTransaction) -> None:
            transaction.check(lease)
            transaction.set_tables(changes.tables)
            transaction.remove_tables(changes.removed)
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
        return self._read(lambda transaction: transaction.requests())

    def ask(self, request: TableRequest) -> None:
        check_name("table", request.table)
        self._write(lambda transaction: transaction.add_request(request))

    def holder(self) -> Lease | None:
        return self._read(lambda transaction: transaction.lease())

    def tables(self, names: Sequence[str] | None = None) -> Sequence[TableState]:
        for name in names or ():
            check_name("table", name)
        return self._read(lambda transaction: transaction.tables(names))

    def processes(self, table: str | None = None, *, limit: int = 100) -> Sequence[Process]:
        check_name("table", table or "")
        return self._read(lambda transaction: transaction.processes(table, limit))

    def running(self) -> Sequence[Process]:
        return self._read(lambda transaction: transaction.open_processes())

    def workers(self) -> Sequence[Worker]:
        return self._read(lambda transaction: transaction.workers())

    def groups(self) -> Sequence[ResourceGroup]:
        return self._read(lambda transaction: transaction.groups())

    def expire(self, lease: Lease, ended_before_millis: int) -> int:
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
                    f"tables are at revision {found}, and this version knows revisions up to {latest}. Use the newer "
                    "version, or another database."
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
"""Characters of the key in the name: its last ones, which differ most."""


def default_url(catalog_key: str) -> str:
    """Return the url of a catalog's journal, the same for the same key, and create its directories, for the user alone.

    Raises JournalError when they can't be created.
    """
    digest = hashlib.sha256(catalog_key.encode(errors="surrogatepass")).hexdigest()[:12]
    # Credentials in a url must not become part of a file name.
    public = re.sub(r"//[^/@]*@", "//", catalog_key)
    readable = re.sub(r"[^a-z0-9]+", "-", public.lower()).strip("-")[-READABLE_MAX:].strip("-")
    try:
        directory = _state_home() / "interbed" / "optimizer"
        for each in [*reversed(directory.parents), directory]:
            if not each.is_dir():
                each.mkdir(mode=0o700, exist_ok=True)
    except (OSError, RuntimeError) as error:
        raise JournalError(
            f"The directory of the optimizer's journal of {public} can't be created: {error}. Name a database by --db."
        ) from error
    return URL.create("sqlite", database=str(directory / f"{readable}-{digest}.db")).render_as_string()


def _state_home() -> Path:
    # By the XDG Base Directory Specification a path that is not absolute is ignored.
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return given if given.is_absolute() else Path.home() / ".local" / "state"


_FIRST_REVISION = "0007"
"""The first revision of the metastore's schema with the journal's tables."""


class PlacedCatalog(Protocol):
    """Options and warehouse of a catalog."""

    options: CatalogOptions

    @property
    def warehouse(self) -> str:
        """The root directory of databases."""
        ...


def journal_url(catalog: PlacedCatalog, given: str | None = None) -> str:
    """Return the database of a catalog's journal: the one given, its option `optimizer.db`, or a file of the user."""
    return given or catalog.options.optimizer_db or default_url(catalog_key(catalog))


def catalog_key(catalog: PlacedCatalog) -> str:
    """Return the identity of a catalog, whatever its configured name: its metastore's address, or its warehouse.

    A REST server has many warehouses, whose names only it makes distinct.
    """
    options = catalog.options
    if options.metastore is MetastoreKind.REST and options.uri:
        return f"{options.uri.rstrip('/')}/{catalog.warehouse}"
    return options.uri if options.metastore is MetastoreKind.HIVE and options.uri else catalog.warehouse


@contextmanager
def journal_to_read(url: str) -> Iterator[Journal]:
    """Open the journal at a url for a block; yield an empty one if it is missing. Raises JournalError."""
    if not _is_there(url):
        yield MemoryJournal()
        return
    with journal_to_ask(url) as journal:
        yield journal


@contextmanager
def journal_to_ask(url: str) -> Iterator[Journal]:
    """Open the journal at a url for a block; create it if it is missing. Raises JournalError."""
    journal = SqlJournal.open(url)
    try:
        yield journal
    finally:
        journal.close()


def _is_there(url: str) -> bool:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file():
            # A connection would create the file.
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
