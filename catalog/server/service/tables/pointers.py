"""Tables whose state is a file that a parameter of their entry names, as Iceberg's `metadata_location`: changes by
compare-and-swap of that parameter.

A swap changes the entries of one or more tables in one transaction, each only if it still names the file that the
change was made from. Clients of Hive's interface that compare the parameter themselves (`expected_parameter_key`) are
serialized with it by the database. Those that take an exclusive lock of the table instead, and then store the entry as
they have read it, are respected: while another client holds such a lock, no swap is made. No lock is granted between
this check and the end of the transaction.

Files of metadata are read and unpacked up to a size. Clients choose the file. It may be a device or a pipe, sparse, or
packed so that a few kilobytes become gigabytes. So its size is checked before it is read, and what is unpacked of it
has the same bound.
"""

import dataclasses
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from interbed.catalog.server.service import events
from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.access.guard import CHANGE, AnyOf, Rights
from interbed.catalog.server.service.access.objects import (
    Privilege,
    SecuredObject,
    database_object,
    table_object,
)
from interbed.catalog.server.service.access.places import CheckedPlace, TablePlaceRules, check_not_of_others, is_inside
from interbed.catalog.server.service.access.policies import check_policies_after
from interbed.catalog.server.service.access.secured import (
    Arguments,
    SecuredService,
    a_column_of_the_table,
    needs,
    secured,
    secured_inside,
    the_table,
    unsecured,
)
from interbed.catalog.server.service.column_statistics import statistics_to_keep, without_stale_columns
from interbed.catalog.server.service.directories.deletions import GuardedDeletions
from interbed.catalog.server.service.directories.guard import DeletionClaim
from interbed.catalog.server.service.directories.locations import place_text
from interbed.catalog.server.service.errors import (
    AlreadyExistsError,
    DamagedFileError,
    MetastoreError,
    NoSuchObjectError,
    UnboundedFileError,
)
from interbed.catalog.server.service.history.entries import HistoryKind, HistoryQuery, value_after
from interbed.catalog.server.service.lock_model import LockComponent, LockLevel, LockRequest, LockType
from interbed.catalog.server.service.locks import LockService
from interbed.catalog.server.service.model import (
    ICEBERG_METADATA,
    PARAMETER_DDL_TIME,
    MetastoreTable,
    StorageDescriptor,
)
from interbed.catalog.server.service.names import escaped, normalized, shortened
from interbed.catalog.server.service.repository import Repository, StoredRow, Transaction
from interbed.catalog.server.service.tables.rules import names_after, table_not_found
from interbed.catalog.server.service.warehouse import Warehouse, with_files
from interbed.storage.base.decoding import TooManyBytesError, plain_content
from interbed.storage.io.api import FileIO

FILE_BYTES_MAX = 256 << 20
"""Bytes of a file of metadata that are read, and those that are unpacked of it."""

_GZIP = b"\x1f\x8b"


def read_bounded(location: str, message: str) -> bytes:
    """Return the content of a file that a client names. UnboundedFileError for one that is too large, and for a pipe,
    which has no size; MetastoreError, which begins with `message`, if it cannot be read, or not whole.
    """

    def read(file_io: FileIO, path: str) -> tuple[int, bytes]:
        size = file_io.size(path)
        return size, file_io.read_bytes(path) if 0 < size <= FILE_BYTES_MAX else b""

    size, found = with_files(location, read, message)
    if not 0 < size <= FILE_BYTES_MAX:
        raise UnboundedFileError(f"{message}: it has {size} bytes, and 1 to {FILE_BYTES_MAX} are read")
    if len(found) != size:
        raise MetastoreError(f"{message}: {len(found)} of its {size} bytes were read; try again")
    return found


def read_unpacked(location: str, message: str) -> bytes:
    """Return the content of a file as `read_bounded`, unpacked if it is one of gzip, by whatever name.

    UnboundedFileError also for one whose content is too large, DamagedFileError for one that cannot be unpacked.
    """
    content = read_bounded(location, message)
    if not content.startswith(_GZIP):
        return content
    try:
        return plain_content(content, FILE_BYTES_MAX)
    except TooManyBytesError as error:
        raise UnboundedFileError(f"{message}: unpacked it has more than {FILE_BYTES_MAX} bytes") from error
    except ValueError as error:
        raise DamagedFileError(f"{message}: it is damaged: {error}") from error


class PointerMovedError(MetastoreError):
    """The entry names another file by now: nothing was changed, and the change may be made again from that file."""


class TableLockedError(MetastoreError):
    """Another client holds a lock of the table: nothing was changed, and the change may be retried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerChange:
    """A change of a table's entry: `parameter` must have the value `expected` (None: it must be absent), and `change`
    returns the new entry.

    `change` must have no effect, since a transaction may run more than once. The new entry may have another name or
    database, `renamed`; files stay where they are. The caller needs one of the privileges `any_of` on the table.
    """

    catalog: str
    database: str
    name: str
    parameter: str
    expected: str | None
    change: Callable[[MetastoreTable], MetastoreTable]
    renamed: tuple[str, str] | None = None
    any_of: AnyOf = (Privilege.ALTER,)
    places: Sequence[CheckedPlace] = ()
    """New directories as they were checked, which are checked again at the end of the transaction."""
    column_names: Mapping[str, str] | None = None
    """New names of the columns by their old ones, without those of dropped columns; None if they are unknown."""

    @property
    def secured(self) -> SecuredObject:
        """The table that privileges are on."""
        return table_object(self.catalog, normalized(self.database), normalized(self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTablePlace:
    """The table that has the name of a new one already, or the directory for the new one."""

    table: MetastoreTable | None = None
    location: str | None = None


def _the_changed_tables(arguments: Arguments) -> tuple[SecuredObject, ...]:
    return tuple(each.secured for each in arguments["changes"])


def _the_databases_of_new_names(arguments: Arguments) -> tuple[SecuredObject, ...]:
    renamed = [(each.catalog, each.renamed[0]) for each in arguments["changes"] if each.renamed is not None]
    return tuple(dict.fromkeys(database_object(*each) for each in renamed))


def _the_database_of_the_new_table(arguments: Arguments) -> tuple[SecuredObject, ...]:
    return (database_object(arguments["catalog"], normalized(arguments["database"])),)


class PointerService(SecuredService):
    """Changes of tables by compare-and-swap, and their locations."""

    def __init__(
        self,
        store: Repository,
        warehouse: Warehouse,
        deletions: GuardedDeletions,
        locks: LockService,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._warehouse = warehouse
        self._deletions = deletions
        self._locks = locks
        self._places = TablePlaceRules(store, warehouse, deletions.guard)
        self._clock = clock

    @secured(needs(CHANGE, _the_changed_tables), needs(Privilege.CREATE, _the_databases_of_new_names))
    def swap(self, changes: Sequence[PointerChange], user: str = "") -> None:
        """Make all changes in one transaction, or none.

        NoSuchObjectError for a missing table or database, PointerMovedError, TableLockedError, AlreadyExistsError for
        a new name that is taken: nothing was changed then. OutcomeUnknownError if it is not known.
        """
        self._store.write(self.swapping(changes, user))

    @secured(needs(CHANGE, _the_changed_tables), needs(Privilege.CREATE, _the_databases_of_new_names))
    def swapping(self, changes: Sequence[PointerChange], user: str = "") -> Callable[[Transaction], None]:
        """Return the work of `swap`, for a transaction with further changes behind it."""
        # All transactions lock rows in one order.
        ordered = sorted(changes, key=lambda each: (each.catalog, normalized(each.database), normalized(each.name)))
        rights = [self._access.rights(each.secured) for each in ordered]
        request = LockRequest(
            components=tuple(
                LockComponent(
                    type=LockType.EXCLUSIVE,
                    level=LockLevel.TABLE,
                    database=normalized(each.database),
                    table=normalized(each.name),
                    catalog=each.catalog,
                )
                for each in ordered
            ),
            user=user,
            host="",
        )

        def work(transaction: Transaction) -> None:
            blocker = self._locks.blocker(transaction, request)
            if blocker is not None:
                raise TableLockedError(f"The lock {blocker} of another client has to be released first")
            changed = [self._changed(transaction, *each) for each in zip(ordered, rights, strict=True)]
            transaction.events.append(*(events.alter_table(old, new) for old, new in changed))
            for each in ordered:
                for place in each.places:
                    place.check_again(transaction)

        return work

    @secured(needs(Privilege.DROP, the_table))
    def withdraw(self, catalog: str, database: str, name: str, parameter: str, expected: str) -> None:
        """Remove the entry of a table whose `parameter` has the value `expected`. All files are kept, and the entry is
        not kept for an undrop: another catalog may own the table now.

        NoSuchObjectError, PointerMovedError: nothing was changed then.
        """

        def work(transaction: Transaction) -> None:
            stored = transaction.tables.find(catalog, normalized(database), normalized(name), for_update=True)
            if stored is None:
                raise table_not_found(database, name)
            if stored.value.parameters.get(parameter) != expected:
                raise PointerMovedError(f"{parameter} of {database}.{name} has changed")
            transaction.tables.remove(stored.id)
            transaction.events.append(events.drop_table(stored.value))

        self._store.write(work)

    @unsecured("returns the file of a table that the caller has withdrawn")
    def withdrawn(self, catalog: str, database: str, name: str, parameter: str, operation: str) -> str | None:
        """Return the value that a parameter had when an operation last withdrew a table of that name, by the history;
        None without one.
        """
        query = HistoryQuery(
            kind=HistoryKind.TABLE, catalog=catalog, database=normalized(database), name=normalized(name)
        )
        entries = self._store.read(lambda transaction: transaction.history.select(query))
        for entry in reversed(entries):
            table = entry.body.table
            if value_after(entry) is None and entry.origin.operation == operation and table is not None:
                return table.parameters.get(parameter)
        return None

    @unsecured("compares a location with settings")
    def checked(self, location: str) -> str:
        """Return a client's location as the server stores it. InvalidLocationError for one that is refused."""
        return self._warehouse.qualified(location)

    @secured(needs(Privilege.CREATE, _the_database_of_the_new_table))
    def check_new(
        self, catalog: str, database: str, name: str, location: str | None, folder: str | None = None
    ) -> None:
        """Raise AccessDeniedError unless the caller may create a table in a directory, or the default one, with its
        metadata in a folder: before the first file is written.
        """
        new = MetastoreTable(
            catalog=catalog,
            database=database,
            name=name,
            storage=StorageDescriptor(location=location),
            parameters={} if folder is None else {ICEBERG_METADATA: files.child(folder, "metadata.json")},
        )
        self._places.new(self._access, new)

    @secured(needs(CHANGE, the_table))
    def check_moved(
        self, catalog: str, database: str, name: str, before: Sequence[str], after: Sequence[str]
    ) -> Sequence[CheckedPlace]:
        """Raise AccessDeniedError unless the caller may change the directories of a table to others: before the first
        file is written there. Return the places for the change.
        """
        if self._access.caller() is None:
            return ()
        new = [each for each in after if each not in before and not any(is_inside(each, known) for known in before)]
        return self._places.moved(self._access, (catalog, normalized(database), normalized(name)), new)

    @secured(needs(Privilege.SELECT, a_column_of_the_table))
    def check_readable(self, catalog: str, database: str, name: str, home: str, locations: Sequence[str]) -> None:
        """Raise AccessDeniedError for files that the metadata of a table name, besides those in its directory `home`,
        in the directory of a table that the caller may not read.
        """
        if self._access.caller() is None:
            return
        own = [table_object(catalog, normalized(database), normalized(name)), database_object(catalog, database)]
        for folder in dict.fromkeys(each.rpartition("/")[0] for each in locations):
            if not is_inside(folder, home):
                guard = self._deletions.guard
                check_not_of_others(self._access, self._store, guard, folder, own, any_of=(Privilege.SELECT,))

    @secured_inside("LOCATION on the database, and no file in the directory of another object")
    def registrable(self, catalog: str, database: str, location: str) -> None:
        """Raise AccessDeniedError if the caller may not register a file in a database."""
        self._places.file(self._access, catalog, normalized(database), location)

    @secured(needs(None, _the_database_of_the_new_table), needs(None, the_table))
    def find_place(self, catalog: str, database: str, name: str, *, has_location: bool = False) -> NewTablePlace:
        """Return the table of a name, if there is one. Without it, and unless the new table has a location, return the
        directory of the new one: below the database's, one that does not exist and that no other table has.

        NoSuchObjectError without the database, MetastoreError if the file system cannot be reached.

        A table keeps its directory when it is renamed, and its files when it is dropped: a new table of its old name
        gets another directory, so that the deletion of one never takes the files of the other.
        """

        def work(transaction: Transaction) -> tuple[NewTablePlace, bool]:
            stored = transaction.databases.find(catalog, normalized(database))
            if stored is None:
                raise NoSuchObjectError(shortened(database))
            found = transaction.tables.find(catalog, normalized(database), normalized(name))
            if found is not None or has_location:
                return NewTablePlace(table=None if found is None else found.value), False
            home = stored.value.location or self._warehouse.database_location(stored.value.name)
            default = files.child(home, escaped(normalized(name)))
            is_taken = transaction.places.conflict([place_text(default) or default], ()) is not None
            return NewTablePlace(location=default), is_taken

        place, is_taken = self._store.read(work)
        if place.location is not None and (is_taken or files.directory_exists(place.location)):
            return NewTablePlace(location=f"{place.location}-{uuid.uuid4().hex}")
        return place

    @unsecured("computes a location of names")
    def database_location(self, name: str, catalog_location: str | None = None) -> str:
        """Return the directory of a new database without a location, of any name."""
        return self._warehouse.database_location(escaped(name), catalog_location)

    @unsecured("the caller has dropped the table; the guard of deletions keeps what is another object's")
    def discard(self, location: str) -> bool:
        """Delete the directory of a dropped table; return whether it has left its place. It is kept, and the log says
        why, if another object is registered in it or the server's settings exclude it.
        """
        return self._deletions.discard(location, purge=False)

    @unsecured("part of a change that asks for its privileges")
    def discard_files(
        self, catalog: str, database: str, name: str, locations: Iterable[str], remove: Callable[[str], None]
    ) -> None:
        """Delete files that a table's state no longer names; `remove` does so in a remote file system.

        Clients choose the state, so that it may name any file. One outside of the directories that the server may
        delete from, or in the directory of another object, is kept, and the log says why.
        """
        stored = self._store.read(
            lambda transaction: transaction.tables.find(catalog, normalized(database), normalized(name))
        )
        if stored is None:
            return
        for location in locations:
            self._deletions.discard_file(location, DeletionClaim(table_id=stored.id), remove)

    def _changed(
        self, transaction: Transaction, change: PointerChange, rights: Rights
    ) -> tuple[MetastoreTable, MetastoreTable]:
        stored = transaction.tables.find(
            change.catalog, normalized(change.database), normalized(change.name), for_update=True
        )
        if stored is None:
            raise table_not_found(change.database, change.name)
        old = stored.value
        found = old.parameters.get(change.parameter)
        if found != change.expected:
            raise PointerMovedError(
                f"The parameter {change.parameter} of {old.database}.{old.name} is {found!r} and no longer "
                f"{change.expected!r}"
            )
        new = self._completed(old, change.change(old))
        _check_rights(rights, change, old, new)
        database_id = None
        if (new.catalog, new.database) != (old.catalog, old.database):
            database = transaction.databases.find(new.catalog, new.database, for_child=True)
            if database is None:
                raise NoSuchObjectError(f"The database {new.database} does not exist")
            database_id = database.id
        self._replace(transaction, stored, database_id, new)
        names = names_after(old, new, by_ids=change.column_names)
        check_policies_after(transaction.policies, old, new, names)
        if names is not None:
            transaction.tables.follow_columns(stored.id, names)
        return old, new

    def _completed(self, old: MetastoreTable, new: MetastoreTable) -> MetastoreTable:
        storage = new.storage
        if storage is not None and storage.location and storage.location != old.location:
            storage = dataclasses.replace(storage, location=self._warehouse.qualified(storage.location, old.location))
        kept = without_stale_columns(new.parameters, old.storage, storage)
        parameters = {**kept, PARAMETER_DDL_TIME: str(int(self._clock()))}
        return dataclasses.replace(new, storage=storage, parameters=parameters)

    def _replace(
        self, transaction: Transaction, stored: StoredRow[MetastoreTable], database_id: int | None, new: MetastoreTable
    ) -> None:
        old = stored.value
        if (old.database, old.name) != (new.database, new.name):
            taken = transaction.tables.find(new.catalog, new.database, new.name)
            if taken is not None:
                raise AlreadyExistsError(f"Table {new.name} already exists")
        if not transaction.tables.replace(stored.id, database_id, new, old):
            raise AlreadyExistsError(f"Table {new.name} already exists")
        if new.location != old.location:
            transaction.places.link(stored.id, "", self._warehouse.linked(new.location))
        keep = statistics_to_keep(old.storage, new.storage)
        if keep is not None:
            transaction.statistics.keep_table_columns(stored.id, keep)


def _check_rights(rights: Rights, change: PointerChange, old: MetastoreTable, new: MetastoreTable) -> None:
    """Raise AccessDeniedError for a change that the caller may not make."""
    if rights.granted is None:
        return
    rights.require(*change.any_of, Privilege.ALTER)
    if new.owner != old.owner:
        rights.require(Privilege.ALL)
    if new.location is not None and new.location != old.location:
        rights.require(Privilege.LOCATION)
    if (new.database, new.name) != (old.database, old.name):
        rights.require(Privilege.ALTER)
        if (new.database, new.name) != change.renamed:
            raise MetastoreError(f"the change of {old.database}.{old.name} does not say that it renames the table")
        if new.database != old.database:
            rights.require(Privilege.DROP)
