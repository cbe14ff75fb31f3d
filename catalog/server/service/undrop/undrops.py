"""Dropped objects put back or purged: by an operator's command, and by the reaper when they have expired.

A table gets its entry, its partitions and its directory back, under its old name or another one. A database comes with
the tables that were dropped with it. A purge deletes only directories that a drop has moved to `.dropped` of this
warehouse: everything else stays.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from interbed.catalog.server.service import events
from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.access.objects import (
    Privilege,
    SecuredObject,
    catalog_object,
    database_object,
)
from interbed.catalog.server.service.access.secured import SecuredService, filtered, secured_inside, unsecured
from interbed.catalog.server.service.directories.deletions import GuardedDeletions
from interbed.catalog.server.service.errors import (
    AlreadyExistsError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchObjectError,
)
from interbed.catalog.server.service.model import (
    DroppedKind,
    DroppedObject,
    DroppedState,
    MetastoreDatabase,
    MetastoreTable,
)
from interbed.catalog.server.service.moves import (
    TRANSFER_ATTEMPTS_MAX,
    DirectoryTransfer,
    EntryChangedError,
    check_free,
    settle_drops,
    settle_later,
)
from interbed.catalog.server.service.names import is_valid_table_name, normalized, shortened
from interbed.catalog.server.service.repository import Repository, Transaction
from interbed.catalog.server.service.tables.rules import owns_data
from interbed.catalog.server.service.undrop.drops import aside_root
from interbed.catalog.server.service.warehouse import Warehouse

logger = logging.getLogger(__name__)

T = TypeVar("T")

EXPIRED_AT_ONCE = 1000
"""Entries that one look of the reaper purges."""


class UndropService(SecuredService):
    """The dropped objects of a metastore. Safe for many threads and processes."""

    def __init__(
        self,
        store: Repository,
        warehouse: Warehouse,
        deletions: GuardedDeletions,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._warehouse = warehouse
        self._deletions = deletions
        self._clock = clock
        self._root = aside_root(warehouse.root)

    @filtered("objects that the caller has dropped, or may drop")
    def select(self, catalog: str | None = None, database: str | None = None) -> list[DroppedObject]:
        """Return the dropped objects, of one database or of all, the latest first."""
        wanted = None if database is None else normalized(database)
        found = self._store.read(lambda transaction: transaction.dropped.select(catalog, wanted))
        return self._visible([entry for entry in found if entry.state != DroppedState.ANNOUNCED])

    @filtered("objects that the caller has dropped, or may drop")
    def find(self, catalog: str, database: str, name: str | None, entry_id: int | None = None) -> DroppedObject:
        """Return the latest dropped table or view of this name, or database if `name` is None; that of an id if given.
        NoSuchObjectError.
        """
        key = (catalog, normalized(database), None if name is None else normalized(name))
        for entry in self.select(catalog, database):
            if (entry.catalog, entry.database, entry.name) == key and entry_id in (None, entry.id):
                return entry
        shown = shortened(database if name is None else f"{database}.{name}")
        raise NoSuchObjectError(
            f"there is no dropped object {shown}{'' if entry_id is None else f' with the id {entry_id}'}; "
            "`interbed metastore dropped` lists them"
        )

    @secured_inside("CREATE on the container, of an object that the caller has dropped or may drop")
    def undrop(self, entry: DroppedObject, *, new_name: str | None = None) -> MetastoreTable | MetastoreDatabase:
        """Put an object back, a table perhaps under a new name; return it.

        AlreadyExistsError if the name is taken, NoSuchObjectError if the database of a table does not exist,
        InvalidOperationError if the place of its directory is taken or the entry is not DROPPED.
        """
        if self._access.caller() is not None:
            if not self._visible([entry]):
                raise _busy(entry)
            self._access.require((Privilege.CREATE,), _container(entry))
        if entry.kind == DroppedKind.DATABASE and new_name is not None:
            raise InvalidOperationError(f"{entry.qualified} is a database, which gets no other name")
        for _ in range(TRANSFER_ATTEMPTS_MAX):
            present = self._store.read(lambda transaction: transaction.dropped.find(entry.id))
            if present is None or present.state != DroppedState.DROPPED:
                raise _busy(entry)
            try:
                if isinstance(present.value, MetastoreTable):
                    return self._undrop_table(present, present.value, new_name)
                assert isinstance(present.value, MetastoreDatabase)
                return self._undrop_database(present, present.value)
            except EntryChangedError:
                # The reaper may settle the entry between its announcement and the change.
                continue
        raise _busy(entry)

    @secured_inside("the object is one that the caller has dropped or may drop")
    def purge(self, entry: DroppedObject) -> bool:
        """Delete an entry, with the directory that was moved aside for it and, for a database, the tables that were
        dropped with it. Returns whether all is deleted: a directory that could not be deleted is named in the log, and
        the reaper tries again. InvalidOperationError if it is being put back.
        """

        if not self._visible([entry]):
            return True

        def begin(transaction: Transaction) -> list[DroppedObject] | None:
            present = transaction.dropped.lock(entry.id)
            if present is None:
                return None
            found = [*transaction.dropped.children(entry.id), present]
            for each in found:
                if each.state not in (DroppedState.DROPPED, DroppedState.PURGING):
                    raise InvalidOperationError(f"{each.qualified} ({each.id}) is {each.state}: it cannot be purged")
                transaction.dropped.change(each.id, DroppedState.PURGING)
            return found

        # From here on nothing puts it back. A kill leaves entries that the reaper goes on with.
        begun = self._store.write(begin)
        if begun is None:
            return True
        left = [each for each in begun if not self._finish_purge(each)]
        return not left

    @unsecured("the reaper calls it")
    def expire(self) -> int:
        """Purge what has expired, and what a kill left half purged; return the number of entries. MetastoreError."""
        now = int(self._clock())
        purged = 0
        for entry_id in self._store.read(lambda transaction: transaction.dropped.expired(now, EXPIRED_AT_ONCE)):
            entry = self._store.read(lambda transaction, number=entry_id: transaction.dropped.find(number))  # type: ignore[misc]
            if entry is None:
                continue
            try:
                purged += self.purge(entry)
            except InvalidOperationError as error:
                logger.warning("will try again: %s", error)
        return purged

    @unsecured("the server calls it")
    def settle(self) -> int:
        """Settle the drops and undrops that a crash left unfinished; return how many. MetastoreError."""
        return settle_drops(self._store, self._deletions.guard)

    def _visible(self, entries: list[DroppedObject]) -> list[DroppedObject]:
        """Return the entries that the caller may know of. Privileges on a dropped object end with it: those on its
        container count, and the name of the client that dropped it.
        """
        caller = self._access.caller()
        if caller is None:
            return entries
        containers = list(dict.fromkeys(map(_container, entries)))
        allowed = {each for each in containers if self._access.may((Privilege.DROP,), each)}
        return [each for each in entries if each.dropped_by == caller.name or _container(each) in allowed]

    def _finish_purge(self, entry: DroppedObject) -> bool:
        if entry.aside is not None:
            if not files.contains(self._root, entry.aside) or files.contains(entry.aside, self._root):
                logger.warning("%s is not in %s of this server: it is kept", entry.aside, self._root)
                return False
            if not self._deletions.discard(entry.aside, purge=True):
                return False
        self._store.write(lambda transaction: transaction.dropped.remove(entry.id))
        return True

    def _undrop_table(self, entry: DroppedObject, table: MetastoreTable, new_name: str | None) -> MetastoreTable:
        renamed = dataclasses.replace(table, name=normalized(new_name)) if new_name else table
        if not is_valid_table_name(renamed.name):
            raise InvalidObjectError(f"{shortened(renamed.name)} is not a valid object name")
        database = self._store.read(lambda transaction: _check_names(transaction, entry, renamed))
        target = self._target(entry, table, renamed, database)
        placed = _moved(renamed, table.location, target) if target is not None else renamed
        transfers = [] if target is None else [self._begin(entry, target)]

        def work(transaction: Transaction) -> MetastoreTable:
            self._lock(transaction, entry, transfers)
            _check_names(transaction, entry, renamed)
            if not transfers and owns_data(placed) and placed.location is not None:
                check_free(transaction, self._deletions.guard, placed.location)
            for transfer in transfers:
                transfer.move_back(transaction, self._deletions.guard)
            self._put(transaction, entry, table, placed)
            transaction.dropped.remove(entry.id)
            transaction.events.append(events.create_table(placed))
            return placed

        return self._run(work, entry, transfers)

    def _undrop_database(self, entry: DroppedObject, database: MetastoreDatabase) -> MetastoreDatabase:
        target = database.location if entry.aside is not None and files.directory_exists(entry.aside) else None
        if target is not None and files.directory_exists(target):
            raise InvalidOperationError(
                f"the directory {target} exists: create the database {database.name} and put its tables back one by one"
            )
        transfers = [] if target is None else [self._begin(entry, target)]

        def work(transaction: Transaction) -> list[DroppedObject]:
            self._lock(transaction, entry, transfers)
            if transaction.catalogs.find(database.catalog, for_child=True) is None:
                raise NoSuchObjectError(f"the catalog {database.catalog} does not exist: create it first")
            for transfer in transfers:
                transfer.move_back(transaction, self._deletions.guard)
            database_id = transaction.databases.add(database)
            if database_id is None:
                raise AlreadyExistsError(
                    f"the database {database.name} exists: put the tables back one by one, or drop it first"
                )
            made = [events.create_database(database)]
            for function in transaction.dropped.functions(entry.id):
                transaction.functions.add(database_id, function)
                made.append(events.create_function(function))
            transaction.dropped.attach_database(entry.id, database_id)
            later = []
            for child in transaction.dropped.children(entry.id):
                if child.state != DroppedState.DROPPED:
                    raise _busy(child)
                assert isinstance(child.value, MetastoreTable)
                if child.aside is not None and not files.contains(entry.aside or "", child.aside):
                    later.append(child)
                    continue
                self._put(transaction, child, child.value, child.value)
                made.append(events.create_table(child.value))
                transaction.dropped.remove(child.id)
            transaction.dropped.remove(entry.id)
            transaction.events.append(*made)
            return later

        for child in self._run(work, entry, transfers):
            # A table outside of the database's directory was moved by itself. A kill leaves it dropped.
            self.undrop(child)
        return database

    def _put(self, transaction: Transaction, entry: DroppedObject, old: MetastoreTable, table: MetastoreTable) -> None:
        database = transaction.databases.find(table.catalog, table.database, for_child=True)
        table_id = None if database is None else transaction.tables.add(database.id, table)
        if table_id is None:
            raise _taken(table)
        transaction.dropped.attach(entry.id, table_id)
        if old.location is not None and table.location is not None and old.location != table.location:
            transaction.partitions.move_location(table_id, old.location, table.location)
            transaction.places.link(table_id, "", self._warehouse.linked(table.location))

    def _target(
        self, entry: DroppedObject, table: MetastoreTable, renamed: MetastoreTable, database: MetastoreDatabase
    ) -> str | None:
        """Return where the directory of a table is moved; None if it stays. InvalidOperationError if that is taken."""
        if entry.aside is None or table.location is None:
            return None
        if not files.directory_exists(entry.aside):
            if files.directory_exists(table.location):
                # It has come back in the directory of another table or of its database.
                return None
            raise InvalidOperationError(f"the files of {entry.qualified} are missing: there is no {entry.aside}")
        is_default = files.same_location(table.location, self._warehouse.table_location(database, table))
        target = table.location
        if renamed.name != table.name and is_default:
            if _has_absolute_paths(table):
                raise InvalidOperationError(
                    f"{entry.qualified} is an Iceberg table, whose metadata has absolute paths below {target}: put it "
                    f"back under its own name, and rename or drop a table {table.name} that is in the way"
                )
            target = self._warehouse.table_location(database, renamed)
        if files.directory_exists(target):
            raise InvalidOperationError(f"the directory {target} exists: give the table another name with --as")
        return target

    def _begin(self, entry: DroppedObject, target: str) -> DirectoryTransfer:
        def work(transaction: Transaction) -> None:
            present = transaction.dropped.lock(entry.id)
            if present is None or present.state != DroppedState.DROPPED:
                raise EntryChangedError(f"{entry.qualified} ({entry.id}) was changed meanwhile")
            transaction.dropped.change(entry.id, DroppedState.RESTORING, target)

        self._store.write(work)
        begun = dataclasses.replace(entry, state=DroppedState.RESTORING, target=target)
        return DirectoryTransfer(entry.id, begun, entry.aside or "", target)

    def _lock(self, transaction: Transaction, entry: DroppedObject, transfers: Sequence[DirectoryTransfer]) -> None:
        for transfer in transfers:
            transfer.lock(transaction)
        present = transaction.dropped.lock(entry.id)
        if present is None or (not transfers and present.state != DroppedState.DROPPED):
            raise EntryChangedError(f"{entry.qualified} ({entry.id}) was changed meanwhile")

    def _run(self, work: Callable[[Transaction], T], entry: DroppedObject, transfers: Sequence[DirectoryTransfer]) -> T:
        is_done = False
        try:
            result = self._store.write(work)
            is_done = True
            return result
        finally:
            if not is_done and transfers:
                settle_later(self._store, self._deletions.guard, entry.id)


def _check_names(transaction: Transaction, entry: DroppedObject, table: MetastoreTable) -> MetastoreDatabase:
    """Return the database of a table that is put back. NoSuchObjectError, AlreadyExistsError."""
    database = transaction.databases.find(table.catalog, table.database, for_child=True)
    if database is None:
        way_out = f"create it, or put it back: `interbed metastore undrop {table.database}`"
        raise NoSuchObjectError(f"the database {table.database} of {entry.qualified} does not exist: {way_out}")
    if transaction.tables.find(table.catalog, table.database, table.name) is not None:
        raise _taken(table)
    return database.value


def _container(entry: DroppedObject) -> SecuredObject:
    """Return the container of a dropped object."""
    return catalog_object(entry.catalog) if entry.name is None else database_object(entry.catalog, entry.database)


def _busy(entry: DroppedObject) -> InvalidOperationError:
    return InvalidOperationError(f"{entry.qualified} ({entry.id}) is being put back or purged by another process")


def _taken(table: MetastoreTable) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"{table.database}.{table.name} exists: give the table another name with --as, or rename the other one"
    )


def _has_absolute_paths(table: MetastoreTable) -> bool:
    return table.parameters.get("table_type", "").lower() == "iceberg" or "metadata_location" in table.parameters


def _moved(table: MetastoreTable, old: str | None, new: str) -> MetastoreTable:
    """Return a table with another location, also where Spark stores a copy of it."""
    storage = table.storage
    if storage is None or old is None or old == new:
        return table
    serde = storage.serde
    if serde is not None and files.same_location((serde.parameters or {}).get("path"), old):
        serde = dataclasses.replace(serde, parameters={**(serde.parameters or {}), "path": new})
    return dataclasses.replace(table, storage=dataclasses.replace(storage, location=new, serde=serde))
