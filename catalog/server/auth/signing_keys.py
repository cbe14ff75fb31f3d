"""The signing keys of an issuer of JWTs (a JWK set, RFC 7517), from a file or by HTTPS.

Keys are fetched when a token names one that is not known, and again after REFRESH_SECONDS, so that an issuer may rotate
them. Unknown key ids cost one request in RETRY_SECONDS at most, however many tokens name them. When the issuer does not
answer, the keys that are known serve for STALE_SECONDS.
"""

import json
import logging
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt

from interbed.catalog.server.auth.principals import AuthenticationError, AuthenticationUnavailableError

logger = logging.getLogger(__name__)

REFRESH_SECONDS = 300.0
RETRY_SECONDS = 10.0
STALE_SECONDS = 24 * 3600.0
FETCH_SECONDS_MAX = 5.0
DOCUMENT_BYTES_MAX = 1 << 20
KEYS_MAX = 100

KeyFetcher = Callable[[], Mapping[str, Any]]
"""Returns the JSON of a JWK set. OSError or ValueError if it cannot."""


class SigningKeys:
    """The keys of one issuer. Safe for many threads; one of them fetches at a time."""

    def __init__(self, fetch: KeyFetcher, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._clock = clock
        self._guard = threading.Lock()
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None

    def find(self, key_id: str | None) -> jwt.PyJWK:
        """Return the key of an id; without an id, the only key. AuthenticationError if there is none."""
        found = self._keys.get(key_id)
        if found is None or self._is_due():
            is_fetching = self._refresh()
            found = self._keys.get(key_id)
            if found is None and key_id is not None and is_fetching:
                raise AuthenticationUnavailableError("The keys of the tokens' issuer are being fetched")
        now = self._clock()
        if self._fetched_at is None or now - self._fetched_at > STALE_SECONDS:
            raise AuthenticationUnavailableError("The keys of the tokens' issuer cannot be fetched at present")
        if found is None and key_id is None and len(self._keys) == 1:
            (found,) = self._keys.values()
        if found is None:
            raise AuthenticationError("The token is signed with a key that its issuer does not publish")
        return found

    def _is_due(self) -> bool:
        return self._fetched_at is None or self._clock() - self._fetched_at > REFRESH_SECONDS

    def _refresh(self) -> bool:
        """Fetch the keys, if that is due. Return whether another thread does so: only the first fetch is waited for, so
        that an issuer that answers slowly takes one thread.
        """
        if not self._guard.acquire(blocking=self._fetched_at is None):
            return True
        try:
            now = self._clock()
            if self._tried_at is not None and now - self._tried_at < RETRY_SECONDS:
                return False
            self._tried_at = now
            try:
                keys = _parsed(self._fetch())
            except (OSError, ValueError) as error:
                logger.warning("cannot fetch the signing keys of the tokens' issuer: %s", error)
                return False
            self._keys, self._fetched_at = keys, now
            return False
        finally:
            self._guard.release()


def _parsed(document: Mapping[str, Any]) -> dict[str | None, jwt.PyJWK]:
    """Return the public keys for signatures in a JWK set. ValueError if it has none."""
    listed = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise ValueError(f"the document has no list `keys` of up to {KEYS_MAX} keys")
    found: dict[str | None, jwt.PyJWK] = {}
    for each in listed:
        # A symmetric key in a public document is no secret.
        if not isinstance(each, Mapping) or each.get("kty") == "oct" or each.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK(dict(each))
        except jwt.PyJWTError as error:
            logger.info("a key of the tokens' issuer is not used: %s", error)
            continue
        found[key.key_id] = key
    if not found:
        raise ValueError("the document has no public key for signatures that is supported")
    return found


def file_fetcher(path: Path) -> KeyFetcher:
    """Return a fetcher that reads a JWK set from a file, each time."""

    def fetch() -> Mapping[str, Any]:
        with open(path, "rb") as file:
            return _decoded(file.read(DOCUMENT_BYTES_MAX + 1))

    return fetch


def url_fetcher(url: str) -> KeyFetcher:
    """Return a fetcher of a JWK set at an address."""
    check_url(url)
    return lambda: _get(url)


def discovering_fetcher(issuer: str) -> KeyFetcher:
    """Return a fetcher that finds the address by the issuer's metadata (OpenID Connect Discovery 1.0)."""
    check_url(issuer)

    def fetch() -> Mapping[str, Any]:
        metadata = _get(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if metadata.get("issuer") != issuer:
            raise ValueError(f"the metadata of {issuer} are those of the issuer {metadata.get('issuer')!r:.200}")
        address = metadata.get("jwks_uri")
        if not isinstance(address, str):
            raise ValueError(f"the metadata of {issuer} have no jwks_uri")
        check_url(address)
        if issuer.startswith("https:") and not address.startswith("https:"):
            raise ValueError(f"the metadata of {issuer} name the keys at {address:.200}, which is no https address")
        return _get(address)

    return fetch


def check_url(url: str) -> None:
    """Check that keys may be fetched from an address: HTTPS, or HTTP on loopback. ValueError."""
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        raise ValueError("an address of keys has no user or password")
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and _is_loopback(parts.hostname):
        return
    raise ValueError(f"{url:.200} is no https address (http is allowed on loopback)")


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host or "").is_loopback
    except ValueError:
        return False


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: they could lead to another host, or to a file."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def _get(url: str) -> Mapping[str, Any]:
    handlers: list[urllib.request.BaseHandler] = [
        _NoRedirects(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
    ]
    opener = urllib.request.build_opener(*handlers)
    request = urllib.request.Request(url, headers={"accept": "application/json"})
    with opener.open(request, timeout=FETCH_SECONDS_MAX) as response:
        return _decoded(response.read(DOCUMENT_BYTES_MAX + 1))


def _decoded(content: bytes) -> Mapping[str, Any]:
    if len(content) > DOCUMENT_BYTES_MAX:
        raise ValueError(f"the document has more than {DOCUMENT_BYTES_MAX} bytes")
    try:
        found = json.loads(content)
    except RecursionError as error:
        raise ValueError("the document is nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("the document is no JSON object")
    return found
