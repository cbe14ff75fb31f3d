"""JSON Web Tokens (RFC 7519) of an OpenID Connect issuer, and its signing keys (a JWK set, RFC 7517), from a file or by
HTTPS.

Accepted algorithms are those of the settings, all of them with public keys. The header of a token chooses among the
issuer's keys by an id; addresses and keys in it are ignored. Expiry, issuer and audience are required.

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

from interbed.catalog.server.auth.principals import (
    GROUPS_MAX,
    AuthenticationError,
    AuthenticationUnavailableError,
    JwtRules,
    Mechanism,
    Principal,
    checked_name,
    checked_principal,
)

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


TOKEN_BYTES_MAX = 16 * 1024
"""The longest token."""

KEPT_SECONDS_MAX = 60.0
"""Time for which a verified token is not verified again."""

_KEY_TYPES = {"R": "RSA", "P": "RSA", "E": "EC"}


class JwtVerifier:
    """Verifies the tokens of one issuer. Safe for many threads."""

    def __init__(self, rules: JwtRules, keys: SigningKeys, *, clock: Callable[[], float] = time.time) -> None:
        self._rules = rules
        self._keys = keys
        self._clock = clock

    def verify(self, token: str) -> tuple[Principal, float]:
        """Return the principal of a token, and the time until which the answer may be kept. AuthenticationError."""
        if len(token) > TOKEN_BYTES_MAX:
            raise AuthenticationError(f"The token has more than {TOKEN_BYTES_MAX} bytes")
        claims = self._claims(token)
        now = self._clock()
        self._check_times(claims, now)
        name = checked_principal(
            _claim(claims, self._rules.principal_claim), f"The claim {self._rules.principal_claim}"
        )
        principal = Principal(
            name=name, mechanism=Mechanism.JWT, groups=self._groups(claims), token_id=_token_id(claims.get("jti"))
        )
        return principal, min(now + KEPT_SECONDS_MAX, claims["exp"] + self._rules.skew_seconds)

    def _claims(self, token: str) -> Mapping[str, Any]:
        rules = self._rules
        try:
            header = jwt.get_unverified_header(token)
            algorithm, key_id = header.get("alg"), header.get("kid")
            if not isinstance(algorithm, str) or algorithm not in rules.algorithms:
                raise AuthenticationError(f"The token is not signed by one of {', '.join(rules.algorithms)}")
            if header.get("crit") is not None:
                raise AuthenticationError("The token has critical extensions, which are not supported")
            if key_id is not None and not isinstance(key_id, str):
                raise AuthenticationError("The key id of the token is no text")
            key = self._keys.find(key_id)
            # The type of the key decides, not the header: a public key never verifies a symmetric signature.
            if key.key_type != _KEY_TYPES[algorithm[0]] and not (algorithm == "EdDSA" and key.key_type == "OKP"):
                raise AuthenticationError("The key of the token is of another type than its algorithm")
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=rules.issuer,
                audience=rules.audience,
                options={
                    "require": ["exp", "iss", "aud"],
                    # Times are checked by the server's clock and skew.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except AuthenticationError:
            raise
        except jwt.InvalidIssuerError as error:
            raise AuthenticationError(f"The token is not one of {rules.issuer}") from error
        except jwt.InvalidAudienceError as error:
            raise AuthenticationError(f"The token is not for the audience {rules.audience}") from error
        except jwt.MissingRequiredClaimError as error:
            raise AuthenticationError(f"The token lacks the claim {error.claim}") from error
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError, json.JSONDecodeError) as error:
            raise AuthenticationError("The token is not valid") from error

    def _check_times(self, claims: Mapping[str, Any], now: float) -> None:
        skew = self._rules.skew_seconds
        for name in ("exp", "nbf", "iat"):
            value = claims.get(name)
            if value is None and name != "exp":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**53:
                raise AuthenticationError(f"The claim {name} of the token is no time")
            if name == "exp" and now >= value + skew:
                raise AuthenticationError("The token has expired")
            if name != "exp" and now < value - skew:
                raise AuthenticationError("The token is not valid yet: compare the clocks of its issuer and the server")

    def _groups(self, claims: Mapping[str, Any]) -> frozenset[str]:
        if self._rules.groups_claim is None:
            return frozenset()
        what = f"The claim {self._rules.groups_claim}"
        found = _claim(claims, self._rules.groups_claim)
        if found is None:
            return frozenset()
        if isinstance(found, str):
            # A scope is a text with blanks (RFC 8693).
            found = found.split()
        if not isinstance(found, list) or len(found) > GROUPS_MAX:
            raise AuthenticationError(f"{what} is no list of up to {GROUPS_MAX} names")
        return frozenset(checked_name(each, f"An entry of {what[0].lower()}{what[1:]}") for each in found)


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path, None if it is missing. A claim whose name has the dots goes first."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _token_id(value: object) -> str | None:
    """Return the id of a token for logs, None for one that is no name."""
    try:
        return None if value is None else checked_name(value, "The id of the token")
    except AuthenticationError:
        return None
