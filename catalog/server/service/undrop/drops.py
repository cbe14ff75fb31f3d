"""Soft drops: the entry is kept and the directory is moved aside, in one transaction with the drop.

A directory is moved to `.dropped` of the warehouse, in one rename. So only directories below the warehouse are kept, on
local disks and HDFS: an object store would copy them file by file. The tables in the directory of a dropped database
move with it. Files that the metastore does not own stay in place. A table that cannot be kept is deleted as if soft
drops were off, and the log has the reason.

The trash is the directory to which files of dropped tables, partitions and databases are moved before they are deleted.

It is laid out as Hadoop's. A directory is renamed to `<root>/Current/<its path>`, in one step, with the time in
milliseconds at its end if that name is taken. Periodically `Current` becomes a checkpoint, `<root>/yyMMddHHmmss` (UTC).
A checkpoint is deleted when it is older than the retention: each file is kept for that time at least, and for twice as
long at most.

Only directories on the file system of the trash can be moved there. A directory that cannot be moved stays where it is
and is named in the log: Hive would delete it.
"""

import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TypeVar

from interbed.catalog.server.service import events
from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.directories.deletions import GuardedDeletions
from interbed.catalog.server.service.directories.guard import DeletionClaim
from interbed.catalog.server.service.errors import InvalidOperationError, MetastoreError
from interbed.catalog.server.service.model import (
    DroppedKind,
    DroppedObject,
    DroppedState,
    Function,
    MetastoreDatabase,
    MetastoreTable,
)
from interbed.catalog.server.service.moves import (
    DROPPED_DIRECTORY,
    TRANSFER_ATTEMPTS_MAX,
    DirectoryStaysError,
    DirectoryTransfer,
    EntryChangedError,
    settle_later,
)
from interbed.catalog.server.service.repository import Repository, StoredRow, Transaction
from interbed.catalog.server.service.tables.rules import owns_data, skips_trash
from interbed.catalog.server.service.warehouse import Warehouse

logger = logging.getLogger(__name__)

DIRECTORY_NAME = ".Trash"
CURRENT = "Current"

_CHECKPOINT = re.compile(r"\d{12}", re.ASCII)
_CHECKPOINT_FORMAT = "%y%m%d%H%M%S"

_ATTEMPTS = 3
"""Attempts of a move: the name may be taken, and `Current` renamed, during a move."""


class Trash:
    """Directory for files dropped less than `keep_seconds` ago. Safe for many threads and processes."""

    def __init__(self, root: str, *, keep_seconds: float, clock: Callable[[], float] = time.time) -> None:
        self.root = root
        self._keep_seconds = keep_seconds
        self._clock = clock

    def take(self, location: str) -> bool:
        """Move a directory here; return whether it has left its place. A directory that cannot be moved is logged and
        stays; one that is in the trash already is deleted.
        """
        if files.contains(self.root, location):
            files.delete_directory(location)
            return True
        if files.contains(location, self.root):
            logger.warning("the data in %s was left alone: the trash is inside it", location)
            return False
        if files.file_system_of(location) != files.file_system_of(self.root):
            logger.warning(
                "the data in %s was left alone: the trash %s is on another file system; drop with PURGE to delete it",
                location,
                self.root,
            )
            return False
        reason: MetastoreError | None = None
        for attempt in range(_ATTEMPTS):
            try:
                target = self._target(location, attempt)
                files.make_directory(target.rsplit("/", 1)[0])
                files.rename_directory(location, target)
            except MetastoreError as error:
                reason = error
            else:
                return True
        logger.warning("could not move %s to the trash; it was left alone: %s", location, reason)
        return False

    def expire(self) -> int:
        """Delete the checkpoints beyond the retention, and make a new one of `Current` if there is none younger.
        Returns the number of those deleted. MetastoreError if the trash cannot be read.
        """
        if not files.directory_exists(self.root):
            return 0
        names = files.names_in(self.root)
        checkpoints = {name: age for name in names if (age := self._age(name)) is not None}
        expired = [name for name, age in checkpoints.items() if age >= self._keep_seconds]
        for name in expired:
            files.delete_directory(files.child(self.root, name))
        if CURRENT in names and len(expired) == len(checkpoints):
            stamp = datetime.fromtimestamp(self._clock(), UTC).strftime(_CHECKPOINT_FORMAT)
            try:
                files.rename_directory(files.child(self.root, CURRENT), files.child(self.root, stamp))
            except InvalidOperationError:
                # Another server made one in the same second; the directories in `Current` go into the next one.
                logger.debug("the checkpoint %s of the trash is there already", stamp)
        return len(expired)

    def _target(self, location: str, attempt: int) -> str:
        target = self.root + "/" + CURRENT + files.path_of(location).rstrip("/")
        if attempt or files.directory_exists(target):
            return f"{target}{int(self._clock() * 1000) + attempt}"
        return target

    def _age(self, name: str) -> float | None:
        """Return the seconds since a checkpoint was made; None for other names."""
        if _CHECKPOINT.fullmatch(name) is None:
            return None
        try:
            made = datetime.strptime(name, _CHECKPOINT_FORMAT).replace(tzinfo=UTC)
        except ValueError:
            return None
        return self._clock() - made.timestamp()


T = TypeVar("T")

Key = tuple[str, str, str]


class TableFate(Enum):
    """Treatment of a table and its directory by a drop."""

    STAYS = "kept, and the directory stays in place"
    MOVES = "kept, and the directory is moved aside"
    MOVES_ALONG = "kept, and the directory is moved in that of the database"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseContents:
    """A database with everything in it, as a transaction reads it."""

    stored: StoredRow[MetastoreDatabase]
    tables: Sequence[MetastoreTable]
    functions: Sequence[Function]

    @property
    def homes(self) -> list[str]:
        """The directories of the database."""
        database = self.stored.value
        return [home for home in (database.location, database.managed_location) if home is not None]

    @property
    def identity(self) -> tuple[object, ...]:
        """The values that must not change between the announcement of a drop and the drop."""
        return (self.stored.id, *((each.name, each.number, each.location) for each in self.tables))


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedDatabase:
    """A database after its drop. `tables` are those whose directories are to be deleted, `homes` the directories of the
    database that were not moved, `purged` directories in the moved one that are to be deleted.
    """

    database: MetastoreDatabase
    tables: Sequence[MetastoreTable]
    homes: Sequence[str]
    purged: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DatabasePlan:
    """The fates of the tables of a database by name, and the home that is moved."""

    contents: DatabaseContents
    home: str | None
    fates: Mapping[str, TableFate]


class SoftDrops:
    """Drops that are kept for `keep_seconds`. Safe for many threads and processes."""

    def __init__(
        self,
        store: Repository,
        warehouse: Warehouse,
        deletions: GuardedDeletions,
        *,
        keep_seconds: float,
        clock: Callable[[], float] = time.time,
        user: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._store = store
        self._warehouse = warehouse
        self._deletions = deletions
        self._keep_seconds = keep_seconds
        self._clock = clock
        self._user = user
        self._root = aside_root(warehouse.root)

    def drop_table(self, key: Key, *, delete_data: bool, with_directory: bool = False) -> MetastoreTable | None:
        """Drop a table or view, keep its entry, and return it. None if it cannot be kept or does not exist, or
        `with_directory` if its directory is not moved aside: nothing is changed then.
        """
        for _ in range(TRANSFER_ATTEMPTS_MAX):
            read = self._store.read(lambda transaction: _table_with_strays(transaction, key))
            if read is None:
                return None
            table, strays = read
            fate = self._fate(table, None, frozenset(), delete_data=delete_data)
            if with_directory and fate is not TableFate.MOVES:
                return None
            if fate is TableFate.DELETED:
                if not skips_trash(table):
                    place = f"{table.location} cannot be moved to {self._root}"
                    logger.info("%s.%s is dropped for good: %s", table.database, table.name, place)
                return None
            if fate is TableFate.MOVES and strays:
                logger.info("%s.%s is dropped for good: it has partitions elsewhere", table.database, table.name)
                return None
            try:
                return self._drop_table(table, fate)
            except EntryChangedError:
                continue
            except DirectoryStaysError as error:
                logger.warning("%s.%s is dropped for good: %s", table.database, table.name, error)
                return None
        raise MetastoreError(f"{key[1]}.{key[2]} could not be dropped: others keep changing it, try again")

    def drop_database(
        self, read: Callable[[Transaction], DatabaseContents | None], *, delete_data: bool
    ) -> DroppedDatabase | None:
        """Drop the database that `read` returns, with its tables and functions, and keep their entries; return what the
        caller has to delete. None if `read` returns None. `read` locks the database, and raises what prevents the drop.
        """
        staying: set[str] = set()
        changes = 0
        while changes < TRANSFER_ATTEMPTS_MAX:
            contents = self._store.read(read)
            if contents is None:
                return None
            try:
                return self._drop_database(
                    read, self._plan(contents, staying, delete_data=delete_data), delete_data=delete_data
                )
            except EntryChangedError:
                changes += 1
            except DirectoryStaysError as error:
                # Each directory stays once, so that this ends.
                changes += error.location in staying
                staying.add(error.location)
                logger.warning("the database %s is dropped, and %s", contents.stored.value.name, error)
        raise MetastoreError("the database could not be dropped: others keep changing it, try again")

    def _fate(
        self, table: MetastoreTable, home: str | None, staying: frozenset[str] | set[str], *, delete_data: bool
    ) -> TableFate:
        """Return what becomes of a table if the directory `home` is moved and those in `staying` cannot be."""
        is_purged = owns_data(table) and skips_trash(table)
        if not delete_data:
            return TableFate.STAYS
        if home is not None and files.contains(home, table.location):
            return TableFate.DELETED if is_purged else TableFate.MOVES_ALONG
        if not owns_data(table) or table.location is None:
            return TableFate.STAYS
        if is_purged or table.location in staying or not self._is_movable(table.location):
            return TableFate.DELETED
        exists = _exists(table.location)
        return TableFate.DELETED if exists is None else TableFate.MOVES if exists else TableFate.STAYS

    def _is_movable(self, location: str) -> bool:
        """Return whether a directory can be renamed to the directory of dropped ones, as far as its location says."""
        root = self._warehouse.root
        is_below = files.contains(root, location) and not files.contains(location, root)
        return is_below and not files.contains(self._root, location) and files.renames_directories(location)

    def _drop_table(self, table: MetastoreTable, fate: TableFate) -> MetastoreTable:
        transfers = self._announce([self._announcement(table)] if fate is TableFate.MOVES else [])

        def work(transaction: Transaction) -> MetastoreTable:
            for transfer in transfers:
                transfer.lock(transaction)
            stored = transaction.tables.find(table.catalog, table.database, table.name, for_update=True)
            if stored is None or (stored.value.number, stored.value.location) != (table.number, table.location):
                raise EntryChangedError(f"{table.database}.{table.name} was changed meanwhile")
            for transfer in transfers:
                transfer.move_aside(transaction, self._deletions.guard, DeletionClaim(table_id=stored.id))
            entry_id = transfers[0].entry_id if transfers else transaction.dropped.add(self._entry(stored.value))
            transaction.dropped.keep_table(entry_id, stored.id, stored.value)
            transaction.tables.remove(stored.id)
            transaction.events.append(events.drop_table(stored.value))
            return stored.value

        return self._run(work, transfers)

    def _plan(self, contents: DatabaseContents, staying: set[str], *, delete_data: bool) -> _DatabasePlan:
        home = contents.stored.value.location if delete_data else None
        if home is not None and (home in staying or not self._is_movable(home) or not _exists(home)):
            home = None
        fates: dict[str, TableFate] = {}
        moved: list[str] = []
        for table in sorted(contents.tables, key=lambda table: table.location or ""):
            fate = self._fate(table, home, staying, delete_data=delete_data)
            if fate is TableFate.MOVES and table.location is not None:
                if any(files.contains(other, table.location) for other in moved):
                    # Its files leave with the directory of another table.
                    fate = TableFate.DELETED
                else:
                    moved.append(table.location)
            fates[table.name] = fate
        return _DatabasePlan(contents=contents, home=home, fates=fates)

    def _drop_database(
        self, read: Callable[[Transaction], DatabaseContents | None], plan: _DatabasePlan, *, delete_data: bool
    ) -> DroppedDatabase:
        database = plan.contents.stored.value
        moved = [table for table in plan.contents.tables if plan.fates[table.name] is TableFate.MOVES]
        announced = [] if plan.home is None else [self._announcement(database)]
        transfers = self._announce([*announced, *map(self._announcement, moved)])
        home = transfers[0] if plan.home is not None else None

        def work(transaction: Transaction) -> DroppedDatabase:
            for transfer in transfers:
                transfer.lock(transaction)
            contents = read(transaction)
            if contents is None or contents.identity != plan.contents.identity:
                raise EntryChangedError(f"the database {database.name} was changed meanwhile")
            entry_id = transaction.dropped.add(self._entry(contents.stored.value)) if home is None else home.entry_id
            self._remove(transaction, contents, plan, entry_id, transfers)
            for transfer in transfers:
                claim = DeletionClaim(made=database.made, is_home=transfer is home)
                transfer.move_aside(transaction, self._deletions.guard, claim)
            transaction.events.append(
                *(events.drop_function(function) for function in contents.functions),
                *(events.drop_table(table) for table in contents.tables),
                events.drop_database(contents.stored.value),
            )
            deleted = [table for table in contents.tables if plan.fates[table.name] is TableFate.DELETED]
            places = {table.name: _place_in(home, table.location) for table in deleted}
            return DroppedDatabase(
                database=contents.stored.value,
                tables=[table for table in deleted if places[table.name] is None],
                homes=[each for each in contents.homes if each != plan.home] if delete_data else [],
                purged=[place for place in places.values() if place is not None],
            )

        return self._run(work, transfers)

    def _remove(
        self,
        transaction: Transaction,
        contents: DatabaseContents,
        plan: _DatabasePlan,
        entry_id: int,
        transfers: Sequence[DirectoryTransfer],
    ) -> None:
        """Remove the rows of a database and complete the entries of those that are kept."""
        database = contents.stored.value
        home = transfers[0] if plan.home is not None else None
        own = {transfer.source: transfer.entry_id for transfer in transfers if transfer is not home}
        transaction.dropped.keep_database(entry_id, database, contents.functions)
        # Functions are dropped first, in the order of Hive's notification log.
        for function in contents.functions:
            found = transaction.functions.find(database.catalog, database.name, function.name)
            if found is not None:
                transaction.functions.remove(found.id)
        for table in contents.tables:
            row = transaction.tables.find(database.catalog, database.name, table.name, for_update=True)
            if row is None:
                raise EntryChangedError(f"the database {database.name} was changed meanwhile")
            fate = plan.fates[table.name]
            if fate is not TableFate.DELETED:
                number = own.get(row.value.location or "") if fate is TableFate.MOVES else None
                if number is None:
                    aside = _place_in(home, row.value.location) if fate is TableFate.MOVES_ALONG else None
                    number = transaction.dropped.add(self._entry(row.value, aside=aside, parent_id=entry_id))
                else:
                    transaction.dropped.adopt(number, entry_id)
                transaction.dropped.keep_table(number, row.id, row.value)
            transaction.tables.remove(row.id)
        transaction.databases.remove(contents.stored.id)

    def _announcement(self, value: MetastoreTable | MetastoreDatabase) -> DroppedObject:
        aside = files.child(self._root, secrets.token_hex(16))
        return self._entry(value, aside=aside, state=DroppedState.ANNOUNCED)

    def _entry(
        self,
        value: MetastoreTable | MetastoreDatabase,
        *,
        aside: str | None = None,
        parent_id: int | None = None,
        state: DroppedState = DroppedState.DROPPED,
    ) -> DroppedObject:
        now = self._clock()
        is_table = isinstance(value, MetastoreTable)
        kind = DroppedKind.DATABASE
        if isinstance(value, MetastoreTable):
            kind = DroppedKind.VIEW if value.is_view else DroppedKind.TABLE
        return DroppedObject(
            parent_id=parent_id,
            catalog=value.catalog,
            database=value.database if isinstance(value, MetastoreTable) else value.name,
            name=value.name if is_table else None,
            kind=kind,
            state=state,
            dropped_at=int(now),
            expires_at=int(now + self._keep_seconds),
            dropped_by=self._user(),
            location=value.location,
            aside=aside,
        )

    def _announce(self, entries: Sequence[DroppedObject]) -> list[DirectoryTransfer]:
        if not entries:
            return []
        files.make_directory(self._root)
        ids = self._store.write(lambda transaction: [transaction.dropped.add(entry) for entry in entries])
        return [
            DirectoryTransfer(entry_id, entry, entry.location or "", entry.aside or "")
            for entry_id, entry in zip(ids, entries, strict=True)
        ]

    def _run(self, work: Callable[[Transaction], T], transfers: Sequence[DirectoryTransfer]) -> T:
        is_done = False
        try:
            result = self._store.write(work)
            is_done = True
            return result
        finally:
            for transfer in () if is_done else transfers:
                settle_later(self._store, self._deletions.guard, transfer.entry_id)


def aside_root(warehouse: str) -> str:
    """Return the directory of dropped objects of a warehouse."""
    return files.child(warehouse, DROPPED_DIRECTORY)


def _table_with_strays(transaction: Transaction, key: Key) -> tuple[MetastoreTable, bool] | None:
    """Return a table, and whether it has partitions outside of its directory."""
    stored = transaction.tables.find(*key)
    if stored is None:
        return None
    location = stored.value.location
    is_checked = stored.value.partition_keys and location is not None and owns_data(stored.value)
    return stored.value, bool(is_checked and transaction.partitions.locations_outside(stored.id, location or ""))


def _place_in(home: DirectoryTransfer | None, location: str | None) -> str | None:
    """Return where a location in a directory is after it was moved; None if it is not in it."""
    if home is None or location is None or not files.contains(home.source, location):
        return None
    inner = files.path_of(location).rstrip("/")[len(files.path_of(home.source).rstrip("/")) :]
    return home.target + inner


def _exists(location: str) -> bool | None:
    """Return whether there is a directory; None if its file system does not answer."""
    try:
        return files.directory_exists(location)
    except MetastoreError as error:
        logger.warning("it is not known what is in %s: %s", location, error)
        return None
