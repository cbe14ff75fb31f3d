"""Credentials by the operation AssumeRole of AWS's Security Token Service, or of a store that has it.

The server assumes one role, with a session policy for each directory. Its own keys come from the environment as for
every program that uses AWS's library: variables, profile, container, instance.
"""

import re
from collections.abc import Callable
from typing import Any

from interbed.catalog.server.credentials.issued import (
    ROLE_ARN,
    ROLE_ARN_FORM,
    CredentialsError,
    CredentialsUnavailableError,
    RequestLimit,
    S3Credentials,
    StorageOperation,
    s3_session_policy,
)
from interbed.catalog.server.service.directories.locations import parsed
from interbed.storage.base.errors import load_extra

SCHEMES = frozenset({"s3", "s3a", "s3n"})

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 10.0

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
        return scheme in SCHEMES

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
