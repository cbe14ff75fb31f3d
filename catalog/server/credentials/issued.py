"""Credentials of a store, one kind for each cloud, the protocol of their issuers, and session policies of S3.

A session policy has the actions that credentials allow, on the objects of one directory. A session has the rights that
both the role and its session policy have. Objects are named by a prefix that ends with a slash, so that `orders` is not
a prefix of `orders_old`. Source: AWS, IAM User Guide, "Session policies", and the list of actions, resources and
condition keys of Amazon S3.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from interbed.catalog.server.service.errors import MetastoreError

REQUESTS_MAX = 8
"""Requests of an issuer to its service at once; a further one is refused, so that a slow service does not hold all
threads.
"""


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
