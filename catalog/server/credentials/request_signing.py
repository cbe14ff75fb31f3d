"""Signatures of the server for single requests of S3: clients reach stores without a token service by them.

A client sends the server each request, and sends it to the store with the signature. A signature is valid for the
request that was checked, within the minutes that the store allows for a difference of clocks. The server signs by its
own keys, which come from the environment as for every program that uses AWS's library. The secret key never leaves it;
the key's id, and the session token of keys that have one, are part of each signed request.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from interbed.catalog.server.credentials.issued import (
    CredentialsError,
    CredentialsUnavailableError,
    StorageOperation,
)
from interbed.catalog.server.credentials.s3_requests import CheckedRequest, S3Address, S3Directory, S3Request
from interbed.catalog.server.credentials.sts import SCHEMES
from interbed.catalog.server.credentials.table_credentials import table_location
from interbed.catalog.server.service.access.objects import SecuredObject, table_object
from interbed.catalog.server.service.directories.locations import parsed
from interbed.catalog.server.service.repository import Repository
from interbed.storage.base.errors import load_extra


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRequest:
    """The address of a request, and the headers that its signature adds. `is_read` says that it changes nothing."""

    uri: str
    headers: Mapping[str, str] = field(repr=False)
    is_read: bool


Sign = Callable[[CheckedRequest, str], Mapping[str, str]]
"""Returns the headers of the signature of a request, for a region."""


class TableSigning:
    """Signs requests on the files of tables in the store of an address. Safe for many threads.

    `operation` returns what the client of the present call may do with the files of a table; it raises the error of a
    refusal. `sign` makes the signatures.
    """

    def __init__(
        self,
        repository: Repository,
        address: S3Address,
        operation: Callable[[SecuredObject], StorageOperation],
        sign: Sign,
    ) -> None:
        self.address = address
        self._repository = repository
        self._operation = operation
        self._sign = sign

    def check(self, catalog: str, database: str, name: str) -> None:
        """Check that requests on the files of a table can be signed. CredentialsError with the reason if not."""
        self._directory(catalog, database, name)

    def sign(self, catalog: str, database: str, name: str, request: S3Request) -> SignedRequest:
        """Return a request of the client with a signature. CredentialsError with the reason of a refusal."""
        checked = self._directory(catalog, database, name).checked(request)
        headers = self._sign(checked, self.address.region)
        return SignedRequest(uri=checked.uri, headers=headers, is_read=request.method in ("GET", "HEAD"))

    def _directory(self, catalog: str, database: str, name: str) -> S3Directory:
        operation = self._operation(table_object(catalog, database, name))
        location = self._repository.read(lambda transaction: table_location(transaction, catalog, database, name))
        place = parsed(location)
        if place.scheme not in SCHEMES:
            raise CredentialsError(f"{database}.{name} is in {place.scheme}: the server signs no requests for it")
        return S3Directory(
            address=self.address, bucket=place.authority, directory="/".join(place.names), operation=operation
        )


class OwnKeys:
    """The server's keys of the store. Safe for many threads. MissingExtraError without boto3."""

    def __init__(self) -> None:
        boto3: Any = load_extra("boto3", needed_by="credentials_s3_signing")
        self._session = boto3.Session()
        self._guard = threading.Lock()
        self._keys: Any = None

    def sign(self, request: CheckedRequest, region: str) -> Mapping[str, str]:
        """Return the headers of the signature of a request. CredentialsUnavailableError without keys."""
        # Parts of boto3.
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError

        try:
            keys = self._found().get_frozen_credentials()
        except BotoCoreError as error:
            # Its text may have addresses and names of profiles, which concern the operator alone.
            raise CredentialsUnavailableError(f"The server's keys cannot be read: {type(error).__name__}") from error
        signed = AWSRequest(method=request.method, url=request.uri, headers=dict(request.headers))
        signer: Any = S3SigV4Auth(keys, "s3", region)
        # The server does not have the content of which this is the hash.
        signer.payload = lambda _: request.content_hash
        signer.add_auth(signed)
        return {name: str(value) for name, value in signed.headers.items() if name.lower() not in request.headers}

    def _found(self) -> Any:
        """Return the keys, which renew themselves if they are those of a session."""
        with self._guard:
            if self._keys is None:
                self._keys = self._session.get_credentials()
            if self._keys is None:
                raise CredentialsUnavailableError("The server has no keys of the store to sign requests with")
            return self._keys
