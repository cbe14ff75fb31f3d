"""Deletions, emptyings and moves of directories: the guard checks each right before it happens.

A directory that must be kept is named in the log with the reason. The metadata is changed all the same, as in Hive.
"""

import logging
import os
from collections.abc import Callable
from typing import Protocol

from interbed.catalog.server.service.directories.guard import (
    NO_CLAIM,
    DeletionClaim,
    DeletionGuard,
    Directory,
    DirectoryKeptError,
    empty_tree,
    remove_empty,
    remove_tree,
)
from interbed.catalog.server.service.directories.locations import is_below, stored_place
from interbed.catalog.server.service.errors import InvalidOperationError, MetastoreError
from interbed.catalog.server.service.repository import Repository, Transaction

logger = logging.getLogger(__name__)

_FAILURES = (MetastoreError, OSError, ValueError, NotImplementedError, RecursionError)


class DirectoryDeleter(Protocol):
    """Deletion of directories, as a warehouse offers it (warehouse.py)."""

    @property
    def has_trash(self) -> bool:
        """Whether directories go to a trash before they are deleted."""
        ...

    def discard(self, location: str, *, purge: bool) -> bool:
        """Delete a directory, or move it to the trash; return whether it has left its place."""
        ...

    def empty(self, location: str, *, purge: bool) -> None:
        """Remove the content of a directory."""
        ...


class GuardedDeletions:
    """Deletions by a metastore, checked by its guard. Safe for many threads."""

    def __init__(self, store: Repository, warehouse: DirectoryDeleter, guard: DeletionGuard) -> None:
        self._store = store
        self._warehouse = warehouse
        self.guard = guard

    def discard(self, location: str, claim: DeletionClaim = NO_CLAIM, *, purge: bool) -> bool:
        """Delete a directory, or move it to the trash if there is one and `purge` is false; return whether it has left
        its place. A directory that must be kept, and a failure, are logged.
        """
        try:
            found = self._judged(location, claim)
            if found is None:
                return True
            if found.identity is None:
                return self._warehouse.discard(location, purge=purge)
            if self._warehouse.has_trash and not purge:
                return self._warehouse.discard(_local(found), purge=False)
            remove_tree(found.real.path, found.identity)
        except _FAILURES as error:
            _log_kept(location, error)
            return False
        return True

    def discard_file(self, location: str, claim: DeletionClaim, remove: Callable[[str], None]) -> None:
        """Delete a file of the object of the claim; `remove` does so in a remote file system. A file that must be kept,
        and a failure, are logged.
        """
        try:
            found = self._judged(location, claim)
            if found is None:
                return
            if found.identity is None:
                remove(location)
            elif os.path.isdir(found.real.path):
                raise DirectoryKeptError("it is a directory")
            else:
                remove_tree(found.real.path, found.identity)
        except _FAILURES as error:
            _log_kept(location, error)

    def empty(self, location: str, claim: DeletionClaim = NO_CLAIM, *, purge: bool) -> None:
        """Remove the content of a directory, as `discard`. MetastoreError if it must be kept, or if that fails
        half-way.
        """
        try:
            found = self._judged(location, claim)
            if found is None and not self._warehouse.has_trash:
                return
            if found is None or found.identity is None or (self._warehouse.has_trash and not purge):
                self._warehouse.empty(location if found is None else _local(found), purge=purge)
                return
            empty_tree(found.real.path, found.identity)
        except _FAILURES as error:
            _log_kept(location, error)
            raise MetastoreError(f"the data in {location} was left alone: {error}") from error

    def remove_empty(self, location: str, claim: DeletionClaim = NO_CLAIM) -> bool:
        """Delete an empty directory; return whether it is deleted. A directory that must be kept is logged."""
        try:
            found = self._judged(location, claim)
            if found is not None and found.identity is not None:
                remove_empty(found.real.path, found.identity)
        except _FAILURES as error:
            logger.warning("the directory %s was left alone: %s", location, error)
            return False
        return True

    def remove_empty_parents(self, location: str, claim: DeletionClaim, *, below: str | None) -> None:
        """Delete the empty directories above a location, as long as they lie below another one."""
        top, place = stored_place(below or ""), stored_place(location)
        if below is None or top is None or place is None or not place.is_local:
            return
        for parent in reversed([above for above in place.above if is_below(above, top.text)]):
            try:
                found = self._judged(parent, claim)
                if found is None or found.identity is None:
                    return
                remove_empty(found.real.path, found.identity)
            except _FAILURES:
                # It is not empty, or another partition was just put into it.
                return

    def may_move(self, transaction: Transaction, location: str, claim: DeletionClaim) -> bool:
        """Return whether the directory of a table or partition may be renamed with it. A directory that stays is
        logged.
        """
        try:
            _check_found(self.guard, transaction, location, claim)
        except DirectoryKeptError as error:
            logger.warning("the data stays in %s, although its owner was renamed: %s", location, error)
            return False
        return True

    def _judged(self, location: str, claim: DeletionClaim) -> Directory | None:
        found = self.guard.look(location)
        if found is not None:
            self._store.read(lambda transaction: self.guard.check(transaction, found, claim))
        return found


def check_move(guard: DeletionGuard, transaction: Transaction, old: str, new: str, table_ids: tuple[int, int]) -> None:
    """Raise InvalidOperationError if a directory may not be moved, or not to this place. `table_ids` are the tables
    that own it before and after the move.
    """
    try:
        check_owned(guard, transaction, old, table_ids[0])
        guard.check_target(transaction, new, DeletionClaim(table_id=table_ids[1]))
    except DirectoryKeptError as error:
        raise InvalidOperationError(f"cannot move data from {old} to {new}: {error}") from error


def check_owned(guard: DeletionGuard, transaction: Transaction, location: str, table_id: int) -> None:
    """Raise DirectoryKeptError if the directory of a table may not be moved."""
    _check_found(guard, transaction, location, DeletionClaim(table_id=table_id))


def _check_found(guard: DeletionGuard, transaction: Transaction, location: str, claim: DeletionClaim) -> None:
    found = guard.look(location)
    if found is not None:
        guard.check(transaction, found, claim)


def _local(found: Directory) -> str:
    return found.location if found.identity is None else f"file:{found.real.path}"


def _log_kept(location: str, error: BaseException) -> None:
    logger.warning("the data in %s was left alone: %s", location, error)
