"""Credentials of Google's store: tokens with fewer rights than the server's, by a credential access boundary.

Google's token service exchanges a token of the server for one that is bound to the objects and lists of one directory.
The server's own credentials come from the environment as for every program that uses Google's library. The token is
valid as long as that of the server, an hour at most. Source: Google Cloud, "Create a downscoped token", and "Conditions
on the names of resources and on objectListPrefix".
"""

import re
import threading
import time
from collections.abc import Callable
from datetime import UTC
from typing import Any

from interbed.catalog.server.credentials.issued import (
    CredentialsError,
    CredentialsUnavailableError,
    GoogleCredentials,
    RequestLimit,
    StorageOperation,
)
from interbed.catalog.server.service.directories.locations import parsed
from interbed.storage.base.errors import load_extra

SCHEMES = frozenset({"gs", "gcs"})

TOKEN_SERVICE = "https://sts.googleapis.com/v1/token"

ANSWER_SECONDS = 10.0

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
        return scheme in SCHEMES

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
