"""Authentication of requests to a Paimon REST server: the token providers `bear`, `dlf` and `spnego`.

`bear` sends `Authorization: Bearer <token>`; a token file is read again when it has changed. `dlf` signs each request
with an access key: DLF4-HMAC-SHA256, as Java's DLFDefaultSigner does (paimon-api, package rest.auth, version 1.4).
After a refusal a provider looks for other credentials once. Secrets are in no message, log line or repr.
"""

import base64
import hashlib
import hmac
import json
import logging
import os
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from interbed.catalog.client.credentials import RETRIED_SECONDS, AuthorizationSource, OAuth2Token
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.shown_text import MASK

_log = logging.getLogger(__name__)

AUTHORIZATION = "Authorization"
MEDIA_TYPE = "application/json"
RENEWED_BEFORE_SECONDS = 3600.0
"""Time before its expiration from which a token is renewed; Paimon's TOKEN_EXPIRATION_SAFE_TIME_MILLIS."""
METADATA_SECONDS_MAX = 10.0
_METADATA_BYTES_MAX = 1 << 20

_ALGORITHM = "DLF4-HMAC-SHA256"
_PRODUCT = "DlfNext"
_REQUEST_TYPE = "aliyun_v4_request"
_VERSION = "v1"
_UNSIGNED = "UNSIGNED-PAYLOAD"
_SIGNED_HEADERS = frozenset(
    {
        "content-md5",
        "content-type",
        "x-dlf-content-sha256",
        "x-dlf-date",
        "x-dlf-version",
        "x-dlf-security-token",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRequest:
    """Parts of a request that a signature covers: the encoded path, the plain query, and the body as text."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None


class TokenProvider(Protocol):
    """Provider of the headers that authenticate a request."""

    def headers(self, request: OutgoingRequest) -> dict[str, str]:
        """Return the headers for a request; raises InvalidOptionError for a token that can't be had."""
        ...

    def replace(self, refused: Mapping[str, str]) -> bool:
        """Look for other credentials than those in the headers of a refused request. Return whether there are some."""
        ...

    def redacted(self, text: str) -> str:
        """Return the text without the secrets of the provider."""
        ...


class KerberosTickets:
    """Tickets of Kerberos, a new token for each request; the provider `spnego`."""

    def __init__(self, source: AuthorizationSource) -> None:
        self._source = source

    def headers(self, request: OutgoingRequest) -> dict[str, str]:
        """Return the header with a token. CatalogAccessError without a ticket."""
        return {AUTHORIZATION: self._source.authorization()}

    def replace(self, refused: Mapping[str, str]) -> bool:
        """Return False: each request has a new token anyway."""
        return False

    def redacted(self, text: str) -> str:
        """Return the text: tokens are in no response."""
        return text


class BearerToken:
    """Fixed token, the option `token`."""

    def __init__(self, token: str) -> None:
        self._token = token

    def headers(self, request: OutgoingRequest) -> dict[str, str]:
        """Return the header with the token."""
        return {AUTHORIZATION: f"Bearer {self._token}"}

    def replace(self, refused: Mapping[str, str]) -> bool:
        """Return False: the token is fixed."""
        return False

    def redacted(self, text: str) -> str:
        """Return the text without the token."""
        return _without(text, self._token)


class BearerTokenFile:
    """Token in a file, which another program replaces before the token expires."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._read: tuple[tuple[int, int, int], str] | None = None

    def headers(self, request: OutgoingRequest) -> dict[str, str]:
        """Return the header with the file's token; raises InvalidOptionError for a file without one."""
        return {AUTHORIZATION: f"Bearer {self._token()}"}

    def replace(self, refused: Mapping[str, str]) -> bool:
        """Read the file again. Return whether it has another token."""
        with self._guard:
            # The time and the size of the file may be the same.
            self._read = None
        try:
            return _refused_token(refused) != self._token()
        except InvalidOptionError as error:
            _log.warning("A token was refused, and there is no other one: %s", error)
            return False

    def redacted(self, text: str) -> str:
        """Return the text without the token."""
        return text if self._read is None else _without(text, self._read[1])

    def _token(self) -> str:
        with self._guard:
            try:
                found = os.stat(self._path)
                version = (found.st_mtime_ns, found.st_size, found.st_ino)
                if self._read is None or self._read[0] != version:
                    with open(self._path, encoding="utf-8") as file:
                        self._read = version, file.read().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise InvalidOptionError(
                    f"The token file {self._path} can't be read: {type(error).__name__}."
                ) from None
            if not self._read[1]:
                raise InvalidOptionError(f"The token file {self._path} is empty.")
            return self._read[1]


class BearerTokenOfClient:
    """Token that is fetched by OAuth 2.0, the option `credential`."""

    def __init__(self, token: OAuth2Token) -> None:
        self._token = token

    def headers(self, request: OutgoingRequest) -> dict[str, str]:
        """Return the header with a valid token; raises CatalogAccessError, CatalogUnavailableError."""
        return {AUTHORIZATION: f"Bearer {self._token.current()}"}

    def replace(self, refused: Mapping[str, str]) -> bool:
        """Fetch another token; raises CatalogAccessError, CatalogUnavailableError."""
        return self._token.replace(_refused_token(refused))

    def redacted(self, text: str) -> str:
        """Return the text without the token and the secret."""
        return self._token.redacted(text)


def _refused_token(refused: Mapping[str, str]) -> str:
    return refused.get(AUTHORIZATION, "").removeprefix("Bearer ")


# -- DLF ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DlfToken:
    """Access key of DLF, with the session's token and the end of its validity in seconds since the epoch, if any."""

    key_id: str
    key_secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)
    expires_seconds: float | None = None

    @staticmethod
    def from_json(content: bytes | str, *, source: str) -> "DlfToken":
        """Return the token of a token file or of the metadata service; raises InvalidOptionError naming `source`."""
        try:
            value: Any = json.loads(content)
            expiration = value.get("Expiration")
            return DlfToken(
                key_id=str(value["AccessKeyId"]),
                key_secret=str(value["AccessKeySecret"]),
                security_token=value.get("SecurityToken"),
                expires_seconds=None
                if expiration is None
                else datetime.strptime(expiration, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp(),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            # The error of the decoder quotes the content, which is secret.
            raise InvalidOptionError(
                f"{source} is no token of DLF: a JSON object with AccessKeyId and AccessKeySecret, and with "
                "SecurityToken and Expiration (2026-01-31T12:00:00Z) for a session."
            ) from None


class DlfAuth:
    """Signer of requests with a token of DLF, which is loaded again before it expires."""

    def __init__(self, load: Callable[[], DlfToken], region: str, *, clock: Callable[[], float] = time.time) -> None:
        self._load = load
        self._region = region
        self._clock = clock
        self._guard = threading.Lock()
        self._token: DlfToken | None = None
        self._replaced_at = float("-inf")

    def headers(self, request: OutgoingRequest) -> dict[str, str]:
        """Return the headers of the signature; raises InvalidOptionError for a token that can't be loaded."""
        token = self._fresh()
        headers = signed_headers(request.body, datetime.fromtimestamp(self._clock(), UTC), token.security_token)
        headers[AUTHORIZATION] = authorization(request, token, self._region, headers)
        return headers

    def replace(self, refused: Mapping[str, str]) -> bool:
        """Load the token again, once in RETRIED_SECONDS; InvalidOptionError. Return whether it is another one."""
        with self._guard:
            token = self._token
            if token is None or not _is_signed_by(refused, token):
                return token is not None
            now = self._clock()
            if 0 <= now - self._replaced_at < RETRIED_SECONDS:
                return False
            self._replaced_at = now
            self._token = self._load()
            return self._token != token

    def redacted(self, text: str) -> str:
        """Return the text without the secret and the session's token."""
        token = self._token
        return text if token is None else _without(text, token.key_secret, token.security_token)

    def _fresh(self) -> DlfToken:
        with self._guard:
            token = self._token
            if token is None or _is_due(token, self._clock()):
                token = self._token = self._load()
                _log.debug("Loaded a token of DLF, which expires at %s.", token.expires_seconds)
            return token


def _is_signed_by(headers: Mapping[str, str], token: DlfToken) -> bool:
    """Return whether the headers of a request name a token."""
    is_key = f" Credential={token.key_id}/" in headers.get(AUTHORIZATION, "")
    return is_key and headers.get("x-dlf-security-token") == token.security_token


def _is_due(token: DlfToken, now: float) -> bool:
    return token.expires_seconds is not None and token.expires_seconds - now < RENEWED_BEFORE_SECONDS


def signed_headers(body: str | None, now: datetime, security_token: str | None) -> dict[str, str]:
    """Return the headers that a signature covers, but for the authorization. Pure."""
    headers = {
        "x-dlf-date": now.strftime("%Y%m%dT%H%M%SZ"),
        "x-dlf-content-sha256": _UNSIGNED,
        "x-dlf-version": _VERSION,
    }
    if body:
        headers["Content-Type"] = MEDIA_TYPE
        headers["Content-MD5"] = base64.b64encode(hashlib.md5(body.encode(), usedforsecurity=False).digest()).decode()
    if security_token is not None:
        headers["x-dlf-security-token"] = security_token
    return headers


def authorization(request: OutgoingRequest, token: DlfToken, region: str, headers: Mapping[str, str]) -> str:
    """Return the header `Authorization` of a request with these headers. Pure."""
    moment = headers["x-dlf-date"]
    scope = f"{moment[:8]}/{region}/{_PRODUCT}/{_REQUEST_TYPE}"
    signed = "\n".join((_ALGORITHM, moment, scope, hashlib.sha256(_canonical(request, headers).encode()).hexdigest()))
    key = f"aliyun_v4{token.key_secret}".encode()
    for part in (moment[:8], region, _PRODUCT, _REQUEST_TYPE):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, signed.encode(), "sha256").hex()
    return f"{_ALGORITHM} Credential={token.key_id}/{scope},Signature={signature}"


def _canonical(request: OutgoingRequest, headers: Mapping[str, str]) -> str:
    query = "&".join(
        f"{name.strip()}={value.strip()}" if value else name.strip() for name, value in sorted(request.query.items())
    )
    covered = sorted((name.lower(), value.strip()) for name, value in headers.items())
    lines = [f"{name}:{value}" for name, value in covered if name in _SIGNED_HEADERS]
    return "\n".join((request.method, request.path, query, *lines, _UNSIGNED))


def dlf_token_of_file(path: str) -> DlfToken:
    """Return the token in a file; raises InvalidOptionError."""
    try:
        with open(path, "rb") as file:
            return DlfToken.from_json(file.read(), source=path)
    except OSError as error:
        raise InvalidOptionError(f"The token file {path} can't be read: {type(error).__name__}.") from None


def dlf_token_of_role(url: str, role: str | None) -> DlfToken:
    """Return the token of the role of an ECS instance, from the metadata service; raises InvalidOptionError."""
    base = url if url.endswith("/") else f"{url}/"
    name = role or _metadata(base).decode(errors="replace").strip()
    return DlfToken.from_json(_metadata(f"{base}{name}"), source=f"The answer of {base}{name}")


def _metadata(url: str) -> bytes:
    if not url.startswith(("http://", "https://")):
        raise InvalidOptionError(f"Option 'dlf.token-ecs-metadata-url' takes an http address, not {url}.")
    try:
        with urllib.request.urlopen(url, timeout=METADATA_SECONDS_MAX) as response:
            content: bytes = response.read(_METADATA_BYTES_MAX)
            return content
    except OSError as error:
        raise InvalidOptionError(f"The metadata service at {url} does not answer: {type(error).__name__}.") from None


def _without(text: str, *secrets: str | None) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, MASK)
    return text
