"""Renames of directories together with metadata, so that neither a crash nor a lost connection separates the two.

A move is announced in a transaction of its own before anything happens, and the transaction that changes the metadata
removes the announcement. An announcement that remains when no request works on it is settled: if the metadata is still
the old one, the directory is moved back. A request that works on a move holds the table's row, so that settling waits
for it.

    carry_out(store, lambda transaction, mover: …; mover.move(transaction, table_id, old, new); …)
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.directories.deletions import check_move, check_owned
from interbed.catalog.server.service.directories.guard import DeletionGuard, DirectoryKeptError
from interbed.catalog.server.service.directories.remote_files import StoreUnavailableError
from interbed.catalog.server.service.errors import MetastoreError
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
