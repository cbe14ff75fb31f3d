"""Issuers of the credentials of stores, one for each cloud; each restricts them to one directory.

The server's own keys and identity come from the environment, as for every program that uses the cloud's library.

**S3**, or a store that has the operation AssumeRole of AWS's Security Token Service: the server assumes one role, with
a session policy for each directory.

**Google's store**: tokens with fewer rights than the server's, by a credential access boundary. Google's token service
exchanges a token of the server for one that is bound to the objects and lists of one directory. It is valid as long as
that of the server, an hour at most. Source: Google Cloud, "Create a downscoped token", and "Conditions on the names of
resources and on objectListPrefix".

**Azure's store**: shared access signatures for one directory. The server gets a user delegation key for its own
identity, and signs by it: no account key is needed. A signature has the depth of its directory, so that it is valid for
what is below alone. Such signatures need an account with a hierarchical namespace. Source: Azure Storage, "Create a
user delegation SAS".
"""

import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

from interbed.catalog.server.credentials.issued import (
    ROLE_ARN,
    ROLE_ARN_FORM,
    AzureCredentials,
    CredentialsError,
    CredentialsUnavailableError,
    GoogleCredentials,
    RequestLimit,
    S3Credentials,
    StorageOperation,
    s3_session_policy,
)
from interbed.catalog.server.service.directories.locations import parsed
from interbed.storage.base.errors import load_extra

S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 10.0
RETRY_SECONDS = 1
_NOT_IN_SESSIONS = re.compile(r"[^A-Za-z0-9_+=,.@-]")
_SESSION_CHARACTERS = (2, 64)
# Errors by which the service says that the caller is at fault for good; others may pass.
_FINAL = frozenset(
    (
        *("AccessDenied", "AccessDeniedException", "InvalidClientTokenId", "SignatureDoesNotMatch", "NoSuchEntity"),
        *("MalformedPolicyDocument", "PackedPolicyTooLarge", "RegionDisabledException", "ValidationError"),
    )
)


class AssumedRole:
    """Issues credentials of sessions of a role. Safe for many threads.

    `role` is its ARN. Credentials are valid for `seconds`. `endpoint` is the address of the token service, that of AWS
    by default; `store_endpoint` is the address of the store for clients. MissingExtraError without boto3, ValueError
    for something else than the ARN of a role.
    """

    def __init__(
        self,
        role: str,
        *,
        seconds: int,
        region: str | None = None,
        endpoint: str | None = None,
        store_endpoint: str | None = None,
    ) -> None:
        found = ROLE_ARN.fullmatch(role)
        if found is None:
            raise ValueError(f"{role!r} is not the ARN of a role, {ROLE_ARN_FORM}")
        self._role, self._partition = role, found[1]
        self._seconds, self._region, self._store_endpoint = seconds, region, store_endpoint
        boto3: Any = load_extra("boto3", needed_by="credentials_s3_role")
        # A part of boto3.
        from botocore.config import Config

        self._client = boto3.client(
            "sts",
            region_name=region,
            endpoint_url=endpoint,
            config=Config(
                connect_timeout=CONNECT_SECONDS, read_timeout=ANSWER_SECONDS, retries={"total_max_attempts": 2}
            ),
        )
        self._requests = RequestLimit("the token service")

    def serves(self, scheme: str) -> bool:
        """Return whether locations of this scheme are in S3."""
        return scheme in S3_SCHEMES

    def issue(self, location: str, operation: StorageOperation, principal: str) -> S3Credentials:
        """Return credentials for a directory of S3. CredentialsError."""
        place = parsed(location)
        policy = s3_session_policy(place.authority, "/".join(place.names), operation, partition=self._partition)
        with self._requests.one():
            answer = self._asked(
                lambda: self._client.assume_role(
                    RoleArn=self._role,
                    RoleSessionName=session_name(principal),
                    Policy=policy,
                    DurationSeconds=self._seconds,
                )
            )
        given = answer["Credentials"]
        return S3Credentials(
            location=location,
            access_key=given["AccessKeyId"],
            secret_key=given["SecretAccessKey"],
            session_token=given["SessionToken"],
            expires_millis=int(given["Expiration"].timestamp() * 1000),
            region=self._region,
            endpoint=self._store_endpoint,
        )

    def _asked(self, ask: Callable[[], Any]) -> Any:
        # Needs the extra.
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return ask()
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code"))
            kind = CredentialsError if code in _FINAL else CredentialsUnavailableError
            raise kind(f"The token service refuses the role {self._role}: {code}") from error
        except BotoCoreError as error:
            # Its text may have addresses and names of profiles, which concern the operator alone.
            raise CredentialsUnavailableError(f"The token service does not answer: {type(error).__name__}") from error


def session_name(principal: str) -> str:
    """Return the name of a session, by which the store's log shows the principal."""
    least, most = _SESSION_CHARACTERS
    return _NOT_IN_SESSIONS.sub("_", principal)[:most].ljust(least, "_")


GOOGLE_SCHEMES = frozenset({"gs", "gcs"})
TOKEN_SERVICE = "https://sts.googleapis.com/v1/token"
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
# The role for writers changes no access lists, which objectAdmin does.
_ROLES = {
    StorageOperation.READ: "inRole:roles/storage.objectViewer",
    StorageOperation.WRITE: "inRole:roles/storage.objectUser",
}
_QUOTED = re.compile(r"[^'\\\x00-\x1f\x7f]+")
# A token that ends sooner is renewed before it is exchanged.
_LEFT_SECONDS = 900.0


def access_boundary(bucket: str, directory: str, operation: StorageOperation) -> dict[str, Any]:
    """Return the credential access boundary for a directory of a bucket, which is named without slashes at its ends.

    CredentialsError for a bucket as a whole, and for names that a condition cannot quote.
    """
    if not directory:
        raise CredentialsError(f"{bucket} is a whole bucket, and credentials are for the directory of one table")
    if _QUOTED.fullmatch(bucket + directory) is None:
        raise CredentialsError(f"{bucket}/{directory} has a quote, a backslash or a control character in it")
    objects = f"resource.name.startsWith('projects/_/buckets/{bucket}/objects/{directory}/')"
    lists = f"api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith('{directory}/')"
    rule = {
        "availableResource": f"//storage.googleapis.com/projects/_/buckets/{bucket}",
        "availablePermissions": [_ROLES[operation]],
        "availabilityCondition": {"expression": f"{objects} || {lists}"},
    }
    return {"accessBoundary": {"accessBoundaryRules": [rule]}}


class DownscopedTokens:
    """Issues tokens that are bound to a directory. Safe for many threads.

    `token_service` is the address of Google's token service, `store_endpoint` that of the store for clients.
    MissingExtraError without google-auth; CredentialsUnavailableError without credentials of the server.
    """

    def __init__(
        self,
        *,
        token_service: str | None = None,
        store_endpoint: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        load_extra("google.auth", needed_by="credentials_google")
        # Parts of google-auth.
        from google.auth import default, exceptions
        from google.auth.transport.requests import Request
        from google.oauth2.sts import Client

        self._store_endpoint, self._clock = store_endpoint, clock
        client: Any = Client
        self._service = client(token_service or TOKEN_SERVICE)
        self._session = Request()
        try:
            self._source: Any = default(scopes=[_SCOPE])[0]
        except exceptions.DefaultCredentialsError as error:
            raise CredentialsUnavailableError(
                "The server has no credentials of Google: set GOOGLE_APPLICATION_CREDENTIALS, or run it with a service "
                "account"
            ) from error
        self._guard = threading.Lock()
        self._requests = RequestLimit("the token service")

    def serves(self, scheme: str) -> bool:
        """Return whether locations of this scheme are in Google's store."""
        return scheme in GOOGLE_SCHEMES

    def issue(self, location: str, operation: StorageOperation, principal: str) -> GoogleCredentials:
        """Return a token for a directory of Google's store. CredentialsError."""
        place = parsed(location)
        boundary = access_boundary(place.authority, "/".join(place.names), operation)
        with self._requests.one():
            token, source_end = self._own()
            answer = self._asked(
                lambda: self._service.exchange_token(
                    request=self._send,
                    grant_type=_EXCHANGE,
                    subject_token=token,
                    subject_token_type=_ACCESS_TOKEN,
                    requested_token_type=_ACCESS_TOKEN,
                    additional_options=boundary,
                )
            )
        # The service leaves the time out where it is that of the exchanged token.
        seconds = answer.get("expires_in")
        end = source_end if seconds is None else min(source_end, self._clock() + float(seconds))
        return GoogleCredentials(
            location=location,
            token=str(answer["access_token"]),
            expires_millis=int(end * 1000),
            endpoint=self._store_endpoint,
        )

    def _own(self) -> tuple[str, float]:
        """Return a token of the server and its end, in seconds since the epoch."""
        with self._guard:
            if not self._source.token or self._own_end() - self._clock() < _LEFT_SECONDS:
                self._asked(lambda: self._source.refresh(self._send))
            return str(self._source.token), self._own_end()

    def _own_end(self) -> float:
        expiry = self._source.expiry
        # google-auth has times of UTC without a zone.
        return 0.0 if expiry is None else float(expiry.replace(tzinfo=UTC).timestamp())

    def _send(self, *arguments: Any, **named: Any) -> Any:
        return self._session(*arguments, **{**named, "timeout": ANSWER_SECONDS})

    def _asked(self, ask: Callable[[], Any]) -> Any:
        # Needs the extra.
        from google.auth import exceptions

        try:
            return ask()
        except exceptions.OAuthError as error:
            raise CredentialsError("Google's token service refuses a token for this directory") from error
        except exceptions.GoogleAuthError as error:
            # Its text may have addresses and names of accounts, which concern the operator alone.
            raise CredentialsUnavailableError(
                f"Google's token service does not answer: {type(error).__name__}"
            ) from error


AZURE_SCHEMES = frozenset({"abfs", "abfss"})
"""Schemes of accounts with a hierarchical namespace; `wasb` is without."""

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
        return scheme in AZURE_SCHEMES

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
                # By default the client waits for a quarter of a minute before it tries again.
                initial_backoff=RETRY_SECONDS,
                increment_base=0,
                random_jitter_range=0,
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
