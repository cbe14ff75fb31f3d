"""Moves of the directories of dropped objects, so that neither a crash nor a lost connection separates a directory from
its metadata.

An entry is stored as ANNOUNCED (before a drop) or RESTORING (before an undrop) in a transaction of its own. The
transaction that changes the metadata locks the entry, renames the directory and changes the state. What holds after a
kill:

- before the rename: the metadata and the directory are the old ones; the entry is settled.
- between the rename and the commit: the metadata is the old one; settling moves the directory back.
- after the commit: the metadata is the new one, and the directory is where it says.
"""

import logging

from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.directories.guard import NO_CLAIM, DeletionClaim, DeletionGuard, DirectoryKeptError
from interbed.catalog.server.service.directories.remote_files import StoreUnavailableError
from interbed.catalog.server.service.dropped import DroppedObject, DroppedState
from interbed.catalog.server.service.errors import InvalidOperationError, MetastoreError
from interbed.catalog.server.service.repository import Repository, Transaction

logger = logging.getLogger(__name__)

ATTEMPTS_MAX = 6
"""Runs of a drop or an undrop; others may change the object or settle the entry in between."""

DIRECTORY_NAME = ".dropped"
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
