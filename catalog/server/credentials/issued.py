"""Credentials of a store, one kind for each cloud, the protocol of their issuers, and credentials of single tables.

A session policy of S3 has the actions that credentials allow, on the objects of one directory. A session has the rights
that both the role and its session policy have. Objects are named by a prefix that ends with a slash, so that `orders`
is not a prefix of `orders_old`. Source: AWS, IAM User Guide, "Session policies", and the list of actions, resources and
condition keys of Amazon S3.

A table's location is metadata, which clients can change. So credentials are issued only for a directory that is the
table's alone: no other object is registered at it, in it or around it, except the database that the table is in.
Directories that properties of a table name are not included, because a client could name any directory there.
"""

import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from interbed.catalog.server.service.access.guard import WRITE, AccessGuard
from interbed.catalog.server.service.access.objects import Privilege, SecuredObject, column_object, table_object
from interbed.catalog.server.service.access.policies import PolicyRules
from interbed.catalog.server.service.directories.locations import parsed
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.repository import Repository, Transaction

REQUESTS_MAX = 8
"""Requests of an issuer to its service at once; a further one is refused, so that a slow service does not hold all
threads.
"""

KEPT_MAX = 10_000
"""Credentials that are kept."""

_LOCKS = 64


class StorageOperation(StrEnum):
    """Rights of a holder of credentials on the files of a directory. WRITE contains READ."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageCredentials:
    """Credentials for the files below `location`, a URI. `expires_millis` is their end, in milliseconds since the
    epoch. `endpoint` says where clients find the store; None where the client's own settings count.
    """

    location: str
    expires_millis: int
    endpoint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Credentials(StorageCredentials):
    """Keys of a session of S3. `region` is None where the client's own settings count."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(repr=False)
    region: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleCredentials(StorageCredentials):
    """An access token of Google's, with fewer rights than that of the server."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureCredentials(StorageCredentials):
    """A shared access signature of Azure's for an account, whose host is that of the location."""

    account: str
    host: str
    signature: str = field(repr=False)


class CredentialsError(MetastoreError):
    """The refusal of credentials for a directory; the text has the reason."""


class CredentialsUnavailableError(CredentialsError):
    """The issuer does not answer at present; the client may try again later."""


class RequestLimit:
    """Bounds the requests to a service, which `awaited` names. Safe for many threads."""

    def __init__(self, awaited: str) -> None:
        self._awaited = awaited
        self._free = threading.BoundedSemaphore(REQUESTS_MAX)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Return the context of one request. CredentialsUnavailableError if too many are being made."""
        if not self._free.acquire(blocking=False):
            raise CredentialsUnavailableError(f"Too many requests wait for {self._awaited}; try again")
        try:
            yield
        finally:
            self._free.release()


class CredentialIssuer(Protocol):
    """Issues credentials for directories. Safe for many threads; does I/O."""

    def serves(self, scheme: str) -> bool:
        """Return whether locations of this scheme are those of its store."""
        ...

    def issue(self, location: str, operation: StorageOperation, principal: str) -> StorageCredentials:
        """Return credentials for a directory, in the name of a principal. CredentialsError."""
        ...


ROLE_ARN = re.compile(r"arn:(aws[a-z-]*):iam::\d{12}:role/.+")
ROLE_ARN_FORM = "arn:aws:iam::<account>:role/<name>"
_READ = ("s3:GetObject", "s3:GetObjectVersion")
_WRITE = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")
# Policies give these a meaning: wildcards, and the beginning of a variable.
_SPECIAL = frozenset("*?$")


def s3_session_policy(bucket: str, directory: str, operation: StorageOperation, *, partition: str = "aws") -> str:
    """Return the JSON of the policy for a directory of a bucket, which is named without slashes at its ends.

    CredentialsError for a bucket as a whole, and for names that a policy would read as a pattern.
    """
    if not directory:
        raise CredentialsError(f"{bucket} is a whole bucket, and credentials are for the directory of one table")
    if _SPECIAL & set(bucket + directory):
        raise CredentialsError(
            f"{bucket}/{directory} has one of the characters * ? $, which have a meaning in policies"
        )
    actions = _READ if operation is StorageOperation.READ else (*_READ, *_WRITE)
    arn = f"arn:{partition}:s3:::{bucket}"
    document = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": list(actions), "Resource": [f"{arn}/{directory}/*"]},
            {
                "Effect": "Allow",
                "Action": ["s3:ListBucket"],
                "Resource": [arn],
                "Condition": {"StringLike": {"s3:prefix": [f"{directory}/*"]}},
            },
            {"Effect": "Allow", "Action": ["s3:GetBucketLocation"], "Resource": [arn]},
        ],
    }
    return json.dumps(document, separators=(",", ":"))


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
