"""Tokens by OAuth 2.0 client credentials (RFC 6749, section 4.4), renewed before they expire.

The options have the names of Iceberg's REST clients: `credential`, `oauth2-server-uri`, `scope`. One request fetches a
token for all threads of a catalog. A renewal that fails is no error while the present token is valid. A token that a
server refuses before its end is replaced once. The secret is sent to the token endpoint alone, which is https, or http
on loopback; redirects are not followed. It is in no message, log line or repr.
"""

import base64
import json
import logging
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from interbed.catalog.client.errors import CatalogAccessError, CatalogUnavailableError
from interbed.catalog.client.options import CatalogOptions
from interbed.storage.base.backoff import ExponentialBackoff
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.shown_text import MASK, escaped

_log = logging.getLogger(__name__)

BACKOFF = ExponentialBackoff(first_seconds=0.2, longest_seconds=5.0, retries=4, timeout_seconds=30.0)
REQUEST_SECONDS_MAX = 10.0
ANSWER_BYTES_MAX = 1 << 20

DEFAULT_SECONDS = 3600.0
"""Lifetime of a token whose answer names none."""

RENEWED_AT = 0.8
"""The part of its lifetime after which a token is renewed."""

RETRIED_SECONDS = 10.0
"""Pause between two renewals that fail while the present token is valid, and between two of refused tokens."""

_TEXT_CHARACTERS_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """A client of an authorization server, and what its tokens are for."""

    server_uri: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None

    @staticmethod
    def of(options: CatalogOptions) -> "ClientCredentials | None":
        """Return the client of a catalog's options, None without `credential`. InvalidOptionError."""
        if options.credential is None:
            if options.oauth2_server_uri is not None:
                raise InvalidOptionError("Option 'oauth2-server-uri' needs 'credential', CLIENT_ID:CLIENT_SECRET.")
            return None
        if options.token is not None or options.token_path is not None:
            raise InvalidOptionError("Option 'credential' excludes 'token' and 'token.provider.path'; give one.")
        client_id, colon, secret = options.credential.partition(":")
        if not (colon and client_id and secret):
            raise InvalidOptionError("Option 'credential' takes CLIENT_ID:CLIENT_SECRET.")
        uri = options.oauth2_server_uri
        if uri is None:
            raise InvalidOptionError(
                "Option 'credential' needs 'oauth2-server-uri', the token endpoint of the identity provider."
            )
        _check_uri(uri)
        return ClientCredentials(server_uri=uri, client_id=client_id, client_secret=secret, scope=options.scope)


class OAuth2Token:
    """The present token of a client. Safe for many threads; one of them fetches at a time."""

    def __init__(
        self,
        client: ClientCredentials,
        *,
        backoff: ExponentialBackoff = BACKOFF,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._backoff = backoff
        self._clock = clock
        self._guard = threading.Lock()
        self._token: str | None = None
        self._renewed_at = self._expires_at = 0.0
        self._replaced_at = float("-inf")

    def __repr__(self) -> str:
        return f"OAuth2Token({self._client!r})"

    def current(self) -> str:
        """Return a token that is valid, fetched or renewed if that is due.

        CatalogAccessError if the server refuses the client, CatalogUnavailableError if it does not answer in time.
        """
        token = self._token
        if token is not None and self._clock() < self._renewed_at:
            return token
        with self._guard:
            now = self._clock()
            if self._token is not None and now < self._renewed_at:
                return self._token
            try:
                self._fetch(is_urgent=self._token is None or now >= self._expires_at)
            except (CatalogAccessError, CatalogUnavailableError) as error:
                if self._token is None or self._clock() >= self._expires_at:
                    raise
                self._renewed_at = min(self._clock() + RETRIED_SECONDS, self._expires_at)
                _log.warning("The present token is used further, until it expires: %s", error)
            assert self._token is not None
            return self._token

    def replace(self, refused: str) -> bool:
        """Replace a token that a server has refused. Return whether the present token is another one.

        A server that refuses every token causes one request in RETRIED_SECONDS. CatalogAccessError,
        CatalogUnavailableError.
        """
        with self._guard:
            if self._token != refused:
                return self._token is not None
            now = self._clock()
            if now - self._replaced_at < RETRIED_SECONDS:
                return False
            self._replaced_at = now
            _log.info("Replacing a token of %s that was refused before its end.", self._client.server_uri)
            self._fetch(is_urgent=True)
            return self._token != refused

    def redacted(self, text: str) -> str:
        """Return the text without the token and the secret of the client."""
        for secret in (self._token, self._client.client_secret, _basic(self._client)):
            if secret:
                text = text.replace(secret, MASK)
        return text

    def _fetch(self, *, is_urgent: bool) -> None:
        retries = self._backoff.start(f"fetching a token at {self._client.server_uri}", _log)
        while True:
            begun = self._clock()
            try:
                answer = self._request()
                break
            except _UnavailableError as error:
                if not is_urgent or not retries.pause(error):
                    raise CatalogUnavailableError(
                        f"The authorization server {self._client.server_uri} does not issue a token: {error}"
                    ) from None
        token, seconds = self._checked(answer)
        self._token = token
        # From the beginning of the request: the server counts from an earlier time than its answer's.
        self._renewed_at, self._expires_at = begun + seconds * RENEWED_AT, begun + seconds
        _log.debug("Fetched a token at %s, for %.0f s.", self._client.server_uri, seconds)

    def _request(self) -> Any:
        client = self._client
        form = {"grant_type": "client_credentials", **({} if client.scope is None else {"scope": client.scope})}
        request = urllib.request.Request(
            client.server_uri,
            data=urlencode(form).encode(),
            headers={
                "accept": "application/json",
                "authorization": f"Basic {_basic(client)}",
                "content-type": "application/x-www-form-urlencoded",
            },
        )
        opener = urllib.request.build_opener(
            _NoRedirects(), urllib.request.HTTPSHandler(context=ssl.create_default_context())
        )
        try:
            with opener.open(request, timeout=REQUEST_SECONDS_MAX) as response:
                content = response.read(ANSWER_BYTES_MAX)
        except urllib.error.HTTPError as error:
            with error:
                said = self.redacted(escaped(error.read(ANSWER_BYTES_MAX).decode(errors="replace")))
            text = f"it answers {error.code}: {said[:_TEXT_CHARACTERS_MAX]}"
            if error.code == HTTPStatus.TOO_MANY_REQUESTS or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise _UnavailableError(text) from None
            raise CatalogAccessError(
                f"The authorization server {client.server_uri} refuses the client {client.client_id}: {text}. Check "
                "the options 'credential', 'oauth2-server-uri' and 'scope'."
            ) from None
        except OSError as error:
            raise _UnavailableError(f"{type(error).__name__}: {error}") from None
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            # The content may be a token, so it is not quoted.
            return None

    def _checked(self, answer: Any) -> tuple[str, float]:
        """Return the token of an answer, and its lifetime in seconds. CatalogAccessError."""
        token = answer.get("access_token") if isinstance(answer, dict) else None
        kind = answer.get("token_type", "bearer") if isinstance(answer, dict) else None
        if not isinstance(token, str) or not token or not isinstance(kind, str) or kind.lower() != "bearer":
            raise CatalogAccessError(
                f"The answer of {self._client.server_uri} has no bearer token; check the option 'oauth2-server-uri'."
            )
        seconds = answer.get("expires_in")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
            seconds = DEFAULT_SECONDS
        return token, float(seconds)


class _UnavailableError(Exception):
    """The server may answer later."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: they could carry the secret to another host."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def _basic(client: ClientCredentials) -> str:
    """Return user and password of the client for the header, both encoded as in a form (RFC 6749, section 2.3.1)."""
    return base64.b64encode(f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}".encode()).decode()


def _check_uri(uri: str) -> None:
    parts = urlsplit(uri)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or ""))
    if not is_safe or not parts.hostname or parts.username is not None or parts.password is not None:
        raise InvalidOptionError(
            "Option 'oauth2-server-uri' takes an https address without user and password (http on loopback)."
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
