"""Renames of directories together with metadata, so that neither a crash nor a lost connection separates the two.

A move is announced in a transaction of its own before anything happens. An announcement that remains when no request
works on it is settled: if the metadata is still the old one, the directory is moved back. A request that works on a
move holds the row of the table or of the entry, so that settling waits for it.

Renames of tables, partitions and databases are announced by a DirectoryMove, which the transaction that changes the
metadata removes:

    carry_out(store, lambda transaction, mover: …; mover.move(transaction, table_id, old, new); …)

Drops and undrops move directories of dropped objects by their entries (`DirectoryTransfer`). An entry is stored as
ANNOUNCED (before a drop) or RESTORING (before an undrop). The transaction that changes the metadata locks the entry,
renames the directory and changes the state. What holds after a kill:

- before the rename: the metadata and the directory are the old ones; the entry is settled.
- between the rename and the commit: the metadata is the old one; settling moves the directory back.
- after the commit: the metadata is the new one, and the directory is where it says.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.directories.deletions import check_move, check_owned
from interbed.catalog.server.service.directories.guard import NO_CLAIM, DeletionClaim, DeletionGuard, DirectoryKeptError
from interbed.catalog.server.service.directories.remote_files import StoreUnavailableError
from interbed.catalog.server.service.errors import InvalidOperationError, MetastoreError
from interbed.catalog.server.service.model import DroppedObject, DroppedState
from interbed.catalog.server.service.repository import DirectoryMove, Repository, Transaction

logger = logging.getLogger(__name__)

T = TypeVar("T")

_Key = tuple[int, str | None, str, str]

ATTEMPTS_MAX = 6
"""Maximum runs of a unit of work: one to find its file system, one to find its moves, one to do them, and the rest for
conflicts with other requests.
"""


class _NotAnnouncedError(BaseException):
    """Signal that a move must be announced before the work can go on. It ends the unit of work whatever
    that catches.
    """

    def __init__(self, key: _Key) -> None:
        super().__init__(key)
        self.key = key


class _NotReachedError(BaseException):
    """Signal that a file system must be reached before the work can go on. It ends the unit of work whatever that
    catches.
    """

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


class DirectoryMover:
    """Renames directories for a unit of work. The unit may run again; each directory is moved once."""

    def __init__(self, guard: DeletionGuard | None = None) -> None:
        self.announced: dict[_Key, int] = {}
        self.reached: set[str] = set()
        self._guard = guard
        self._moved: set[_Key] = set()

    def reach(self, location: str) -> None:
        """Make sure that the file system of a location has answered before the transaction began. A unit of work calls
        it before it looks at a directory or makes one: a transaction must not wait for a file system that does not
        answer.
        """
        if files.is_asked(location) and files.file_system_of(location) not in self.reached:
            raise _NotReachedError(location)

    def move(
        self,
        transaction: Transaction,
        table_id: int,
        old: str,
        new: str,
        *,
        partition_name: str | None = None,
        owner_id: int | None = None,
    ) -> None:
        """Rename a directory, if it exists. The caller holds the table's row and stores the new location before the
        transaction ends. `partition_name` is the new name of the partition that the directory belongs to. `owner_id` is
        the table that owns it before the move, if that is another one.

        InvalidOperationError if the new directory exists or the guard refuses, MetastoreError if it cannot be renamed.
        """
        self.reach(old)
        key = (table_id, partition_name, old, new)
        number = self.announced.get(key)
        if number is None or not transaction.moves.finish(number):
            raise _NotAnnouncedError(key)
        if key not in self._moved:
            if self._guard is not None:
                check_move(self._guard, transaction, old, new, (table_id if owner_id is None else owner_id, table_id))
            files.rename_directory(old, new)
            self._moved.add(key)


def carry_out(
    store: Repository, work: Callable[[Transaction, DirectoryMover], T], guard: DeletionGuard | None = None
) -> T:
    """Run a unit of work that may rename directories. If it fails, the directories are back in their old places."""
    mover = DirectoryMover(guard)
    done = False
    try:
        for _ in range(ATTEMPTS_MAX):
            try:
                result = store.write(lambda transaction: work(transaction, mover))
            except _NotAnnouncedError as needed:
                mover.announced[needed.key] = _announce(store, needed.key)
                continue
            except _NotReachedError as needed:
                files.reach(needed.location)
                mover.reached.add(files.file_system_of(needed.location))
                continue
            done = True
            return result
        raise MetastoreError("the directory could not be renamed: others keep changing the table, try again")
    finally:
        if not done:
            for number in mover.announced.values():
                _settle_later(store, number, guard)


def settle_all(store: Repository, guard: DeletionGuard | None = None) -> int:
    """Settle the moves that a crash left unfinished and return how many. MetastoreError. Moves on file systems that do
    not answer stay for the next call.

    A move that is in progress suffers no harm: it finds its announcement removed, and announces itself again.
    """
    pending = store.read(lambda transaction: transaction.moves.pending())
    settled = 0
    for number in pending:
        try:
            settle(store, number, guard)
        except StoreUnavailableError as error:
            # The other moves may be on file systems that answer.
            logger.warning("a directory's move could not be settled yet: %s", error)
        else:
            settled += 1
    return settled


def settle(store: Repository, number: int, guard: DeletionGuard | None = None) -> None:
    """Move the directory of an announced move to where the metadata has it, and remove the announcement."""

    def work(transaction: Transaction) -> None:
        announced = transaction.moves.find(number)
        if announced is None:
            return
        table = transaction.tables.lock(announced.table_id)
        # The request that announced it may have finished while this one waited for the table.
        move = transaction.moves.find(number)
        if move is None or table is None:
            return
        if files.same_location(_present_location(transaction, move, table.value.location), move.old):
            _move_back(transaction, move, guard)
        transaction.moves.finish(number)

    pending = store.read(lambda transaction: transaction.moves.find(number))
    if pending is not None:
        files.reach(pending.old)
    store.write(work)


def _announce(store: Repository, key: _Key) -> int:
    return store.write(lambda transaction: transaction.moves.announce(*key))


def _settle_later(store: Repository, number: int, guard: DeletionGuard | None) -> None:
    try:
        settle(store, number, guard)
    except MetastoreError as error:
        # Whether the change was committed is unknown. The announcement and the directories stay until the database is
        # back.
        logger.warning("a directory's move could not be settled yet: %s", error)


def _present_location(transaction: Transaction, move: DirectoryMove, table_location: str | None) -> str | None:
    if move.partition_name is None:
        return table_location
    partition = transaction.partitions.find(move.table_id, move.partition_name)
    if partition is None:
        # It still has its old name, and so its old location.
        return move.old
    return partition.value.storage.location if partition.value.storage is not None else None


def _move_back(transaction: Transaction, move: DirectoryMove, guard: DeletionGuard | None) -> None:
    if files.directory_exists(move.old) or not files.directory_exists(move.new):
        return
    if guard is not None:
        try:
            # The metadata decides where it is moved: to a partition of another table, if it was exchanged.
            check_owned(guard, transaction, move.new, move.table_id)
        except DirectoryKeptError as error:
            logger.warning("the directory %s is not moved back to %s: %s", move.new, move.old, error)
            return
    logger.info("moving %s back to %s: the change that moved it was not finished", move.new, move.old)
    files.rename_directory(move.new, move.old)


TRANSFER_ATTEMPTS_MAX = 6
"""Runs of a drop or an undrop; others may change the object or settle the entry in between."""

DROPPED_DIRECTORY = ".dropped"
"""The directory in the warehouse that the directories of dropped objects are moved to."""


class EntryChangedError(MetastoreError):
    """The entry or its object was changed meanwhile; nothing was done, and the work can begin again."""


class DirectoryStaysError(MetastoreError):
    """The directory at `location` cannot be moved; it is where it was."""

    def __init__(self, location: str, reason: MetastoreError) -> None:
        super().__init__(f"the directory {location} cannot be moved: {reason}")
        self.location = location


class DirectoryTransfer:
    """The rename of the directory of an entry, done once whatever the number of runs of its unit of work."""

    def __init__(self, entry_id: int, entry: DroppedObject, source: str, target: str) -> None:
        self.entry_id = entry_id
        self.source = source
        self.target = target
        self._entry = entry
        self._is_done = False

    def lock(self, transaction: Transaction) -> DroppedObject:
        """Return the entry, locked. EntryChangedError if it is no longer the one that was announced."""
        found = transaction.dropped.lock(self.entry_id)
        if found is None or (found.state, found.target) != (self._entry.state, self._entry.target):
            raise EntryChangedError(f"the dropped object {self.entry_id} was changed meanwhile")
        return found

    def move_aside(self, transaction: Transaction, guard: DeletionGuard, claim: DeletionClaim) -> None:
        """Move the directory away from its object. DirectoryStaysError if the guard keeps it or it cannot be renamed,
        StoreUnavailableError if its file system does not answer: the rename may still be made then.
        """
        if self._is_done:
            return
        try:
            found = guard.look(self.source)
            if found is not None:
                guard.check(transaction, found, claim)
            self._rename()
        except (EntryChangedError, StoreUnavailableError):
            raise
        except MetastoreError as error:
            raise DirectoryStaysError(self.source, error) from error

    def move_back(self, transaction: Transaction, guard: DeletionGuard) -> None:
        """Move the directory to the place of its object, which is not registered yet. InvalidOperationError if the
        place is taken, MetastoreError if the directory cannot be renamed.
        """
        if self._is_done:
            return
        check_free(transaction, guard, self.target)
        files.make_directory(self.target.rstrip("/").rpartition("/")[0])
        self._rename()

    def _rename(self) -> None:
        if not files.rename_directory(self.source, self.target):
            raise EntryChangedError(f"there is no directory {self.source} any more")
        self._is_done = True


def check_free(transaction: Transaction, guard: DeletionGuard, location: str, claim: DeletionClaim = NO_CLAIM) -> None:
    """Raise InvalidOperationError if another object than that of a claim is registered at, in or around a location."""
    try:
        guard.check_target(transaction, location, claim)
    except DirectoryKeptError as error:
        raise InvalidOperationError(f"the place {location} is taken: {error}") from error


def settle_drops(store: Repository, guard: DeletionGuard) -> int:
    """Settle the drops and undrops that a crash left unfinished, and return how many. MetastoreError. One that fails is
    logged and stays for the next call.
    """
    unfinished = (DroppedState.ANNOUNCED, DroppedState.RESTORING)
    settled = 0
    for entry_id in store.read(lambda transaction: transaction.dropped.in_states(unfinished)):
        try:
            settled += settle_drop(store, guard, entry_id)
        except MetastoreError as error:
            # The others may be on file systems that answer.
            logger.warning("the dropped object %d could not be settled yet: %s", entry_id, error)
    return settled


def settle_drop(store: Repository, guard: DeletionGuard, entry_id: int) -> bool:
    """Bring the directory of an unfinished drop or undrop back to where the metadata has it; return whether that is
    done. MetastoreError.
    """

    def work(transaction: Transaction) -> bool:
        # A process that works on the entry holds its row: this waits for it, and finds another state then.
        entry = transaction.dropped.lock(entry_id)
        if entry is None or entry.location is None or entry.aside is None:
            return False
        if entry.state == DroppedState.ANNOUNCED:
            if not _is_at(transaction, None, entry.aside, entry.location):
                return False
            transaction.dropped.remove(entry_id)
            return True
        if entry.state != DroppedState.RESTORING or entry.target is None:
            return False
        if not _is_at(transaction, guard, entry.target, entry.aside):
            return False
        transaction.dropped.change(entry_id, DroppedState.DROPPED)
        return True

    pending = store.read(lambda transaction: transaction.dropped.find(entry_id))
    if pending is None or pending.aside is None:
        return False
    files.reach(pending.aside)
    return store.write(work)


def settle_later(store: Repository, guard: DeletionGuard, entry_id: int) -> None:
    """Settle an entry whose work has failed. A failure is logged: the reaper and the next start settle it again."""
    try:
        settle_drop(store, guard, entry_id)
    except MetastoreError as error:
        logger.warning("the dropped object %d could not be settled yet: %s", entry_id, error)


def _is_at(transaction: Transaction, guard: DeletionGuard | None, present: str, wanted: str) -> bool:
    """Move a directory back, if it was moved; return whether it is where it should be. With a guard, the directory
    of a registered object stays: then the move was not made by the entry.
    """
    if not files.directory_exists(present):
        return True
    if files.directory_exists(wanted):
        if guard is not None:
            # The undrop has not moved it: another directory was made at the target.
            return True
        logger.warning("the directory %s cannot be moved back to %s, which exists; move it by hand", present, wanted)
        return False
    if guard is not None:
        found = guard.look(present)
        try:
            if found is not None:
                guard.check(transaction, found, NO_CLAIM)
        except DirectoryKeptError as error:
            logger.warning("the directory %s is not moved back to %s: %s", present, wanted, error)
            return True
    logger.info("moving %s back to %s: the change that moved it was not finished", present, wanted)
    files.rename_directory(present, wanted)
    return True
