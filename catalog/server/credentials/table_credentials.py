"""Credentials for the directories of tables.

A table's location is metadata, which clients can change. So credentials are issued only for a directory that is the
table's alone: no other object is registered at it, in it or around it, except the database that the table is in.
Directories that properties of a table name are not included, because a client could name any directory there.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from interbed.catalog.server.credentials.issued import (
    CredentialIssuer,
    CredentialsError,
    StorageCredentials,
    StorageOperation,
)
from interbed.catalog.server.service.access.guard import WRITE, AccessGuard
from interbed.catalog.server.service.access.objects import Privilege, SecuredObject, column_object, table_object
from interbed.catalog.server.service.access.policies import PolicyRules
from interbed.catalog.server.service.directories.locations import parsed
from interbed.catalog.server.service.repository import Repository, Transaction

KEPT_MAX = 10_000
"""Credentials that are kept."""

_LOCKS = 64


class TableCredentials:
    """Issues credentials for tables, and keeps them for half of their time. Safe for many threads.

    `operation` returns what the client of the present call may do with the files of a table; it raises the error of a
    refusal. Each principal has credentials of its own, so that the log of the store names it.
    """

    def __init__(
        self,
        repository: Repository,
        issuers: Sequence[CredentialIssuer],
        operation: Callable[[SecuredObject], StorageOperation],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._repository = repository
        self._issuers = tuple(issuers)
        self._operation = operation
        self._clock = clock
        self._guard = threading.Lock()
        self._locks = [threading.Lock() for _ in range(_LOCKS)]
        self._kept: OrderedDict[tuple[str, StorageOperation, str], tuple[StorageCredentials, float]] = OrderedDict()

    def of_table(self, catalog: str, database: str, name: str, principal: str) -> StorageCredentials:
        """Return credentials for the directory of a table, valid for at least half of the issuer's time.

        CredentialsError with the reason if there are none.
        """
        operation = self._operation(table_object(catalog, database, name))
        location = self._repository.read(lambda transaction: table_location(transaction, catalog, database, name))
        place = parsed(location)
        issuer = next((each for each in self._issuers if each.serves(place.scheme)), None)
        if issuer is None:
            raise CredentialsError(f"{database}.{name} is in {place.scheme}: the server issues no credentials for it")
        # One spelling for one directory.
        directory = f"s3://{place.authority}{place.path}" if place.text.startswith("s3:") else location
        key = (directory, operation, principal)
        with self._locks[hash(key) % _LOCKS]:
            kept = self._still_kept(key)
            if kept is not None:
                return kept
            now = self._clock()
            issued = issuer.issue(directory, operation, principal)
            self._keep(key, issued, now + (issued.expires_millis / 1000 - now) / 2)
            return issued

    def _still_kept(self, key: tuple[str, StorageOperation, str]) -> StorageCredentials | None:
        with self._guard:
            found = self._kept.get(key)
            if found is None or self._clock() >= found[1]:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def _keep(self, key: tuple[str, StorageOperation, str], issued: StorageCredentials, until: float) -> None:
        with self._guard:
            self._kept[key] = (issued, until)
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)


def permitted_operation(access: AccessGuard, policies: PolicyRules, table: SecuredObject) -> StorageOperation:
    """Return what the caller of the present call may do with the files of a table: readers need SELECT, writers also
    one of INSERT, UPDATE, DELETE. AccessDeniedError, also for a caller that a row filter or a column mask binds, or
    that may read some columns only, unless it is trusted.
    """
    if not access.may((Privilege.SELECT,), table):
        access.require((Privilege.SELECT,), column_object(table, None))
    policies.check_files(table, "storage credentials")
    return StorageOperation.WRITE if access.may(WRITE, table) else StorageOperation.READ


def table_location(transaction: Transaction, catalog: str, database: str, name: str) -> str:
    """Return the location of a table; CredentialsError if its directory is not the table's alone."""
    found = transaction.tables.find(catalog, database, name)
    shown = f"{database}.{name}"
    if found is None or found.value.location is None:
        raise CredentialsError(f"{shown} has no location")
    place = parsed(found.value.location)
    if not place.names:
        raise CredentialsError(f"{shown} is at the root of a file system")
    conflict = transaction.places.conflict([place.text], place.above, table_id=found.id)
    if conflict is not None:
        raise CredentialsError(f"The directory of {shown} is not that of this table alone")
    return found.value.location
