"""Credentials of Azure's store: shared access signatures for one directory, by a user delegation key.

The server gets the key for its own identity, which comes from the environment as for every program that uses Azure's
library, and signs by it: no account key is needed. A signature has the depth of its directory, so that it is valid for
what is below alone. Such signatures need an account with a hierarchical namespace. Source: Azure Storage, "Create a
user delegation SAS".
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

from interbed.catalog.server.credentials.issued import (
    AzureCredentials,
    CredentialsError,
    CredentialsUnavailableError,
    RequestLimit,
    StorageOperation,
)
from interbed.catalog.server.service.directories.locations import parsed
from interbed.storage.base.errors import load_extra

SCHEMES = frozenset({"abfs", "abfss"})
"""Schemes of accounts with a hierarchical namespace; `wasb` is without."""

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 10.0

# Clocks of the server and of the store may differ; a key is not valid before its start.
_BEFORE = timedelta(minutes=15)
_KEY_SECONDS_MORE = 3600.0
_NOT_IN_NAMES = frozenset("*?\\")


class DelegatedSignatures:
    """Issues signatures for directories of Azure's store, valid for `seconds`. Safe for many threads.

    `key_endpoint` is the address of the account from which the server gets keys, `store_endpoint` its address for
    clients; both are those in the locations by default. MissingExtraError without Azure's libraries.
    """

    def __init__(
        self,
        *,
        seconds: int,
        key_endpoint: str | None = None,
        store_endpoint: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._seconds, self._clock = seconds, clock
        self._key_endpoint, self._store_endpoint = key_endpoint, store_endpoint
        identity: Any = load_extra("azure.identity", needed_by="credentials_azure")
        load_extra("azure.storage.filedatalake", needed_by="credentials_azure")
        self._identity = identity.DefaultAzureCredential()
        self._guard = threading.Lock()
        self._keys: dict[str, tuple[Any, float]] = {}
        self._requests = RequestLimit("keys of Azure")

    def serves(self, scheme: str) -> bool:
        """Return whether locations of this scheme are in an account with a hierarchical namespace."""
        return scheme in SCHEMES

    def issue(self, location: str, operation: StorageOperation, principal: str) -> AzureCredentials:
        """Return a signature for a directory of Azure's store. CredentialsError."""
        # A part of Azure's libraries.
        from azure.storage.filedatalake import DirectorySasPermissions, generate_directory_sas

        place = parsed(location)
        container, at, host = place.authority.partition("@")
        if not at or not container or not host:
            raise CredentialsError(f"{location} names no account: abfss://container@account.dfs.core.windows.net/path")
        if not place.names:
            raise CredentialsError(
                f"{location} is a whole container, and credentials are for the directory of one table"
            )
        if any(_NOT_IN_NAMES & set(name) for name in place.names):
            raise CredentialsError(f"{location} has one of the characters * ? and backslash in it")
        account, writes = host.partition(".")[0], operation is StorageOperation.WRITE
        signature = generate_directory_sas(
            account,
            container,
            "/".join(place.names),
            self._key(host),
            permission=DirectorySasPermissions(
                read=True, list=True, create=writes, write=writes, delete=writes, add=writes
            ),
            expiry=datetime.fromtimestamp(self._clock() + self._seconds, UTC),
        )
        # The text of the time has whole seconds.
        end = datetime.fromisoformat(parse_qs(signature)["se"][0])
        return AzureCredentials(
            location=location,
            account=account,
            host=host,
            signature=signature,
            expires_millis=int(end.timestamp() * 1000),
            endpoint=self._store_endpoint,
        )

    def _key(self, host: str) -> Any:
        """Return a key of an account that is valid for as long as a new signature."""
        with self._guard:
            found = self._keys.get(host)
            if found is not None and self._clock() + self._seconds < found[1]:
                return found[0]
        with self._requests.one():
            end = self._clock() + self._seconds + _KEY_SECONDS_MORE
            key = self._asked(host, datetime.fromtimestamp(end, UTC))
        with self._guard:
            self._keys[host] = (key, end)
        return key

    def _asked(self, host: str, end: datetime) -> Any:
        # Parts of Azure's libraries.
        from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
        from azure.storage.filedatalake import DataLakeServiceClient

        endpoint = self._key_endpoint or f"https://{host}"
        start = datetime.fromtimestamp(self._clock(), UTC) - _BEFORE
        try:
            with DataLakeServiceClient(
                endpoint,
                credential=self._identity,
                connection_timeout=CONNECT_SECONDS,
                read_timeout=ANSWER_SECONDS,
                retry_total=1,
            ) as client:
                return client.get_user_delegation_key(start, end)
        except ClientAuthenticationError as error:
            # Its text has the names of identities, which concern the operator alone.
            raise CredentialsUnavailableError(
                "The server's identity is not accepted by Azure, or it has none"
            ) from error
        except HttpResponseError as error:
            code = str(getattr(error, "error_code", None) or error.status_code)
            kind = CredentialsError if error.status_code in (400, 403, 404) else CredentialsUnavailableError
            raise kind(f"Azure refuses a user delegation key of {host}: {code}") from error
        except AzureError as error:
            raise CredentialsUnavailableError(f"Azure does not answer: {type(error).__name__}") from error
