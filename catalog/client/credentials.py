"""Credentials of a client: Kerberos tickets, and tokens by OAuth 2.0 client credentials.

Kerberos. Tickets come from the ticket cache of the client's user (`kinit`), or are fetched and renewed with a keytab.
Options are Paimon's: `security.kerberos.login.principal`, `security.kerberos.login.keytab` and
`security.kerberos.login.use-ticket-cache`. MIT's library keeps the tickets of a keytab in the memory of the process,
and fetches new ones when half of their lifetime is over. The client's side of SASL GSSAPI is that of RFC 4752, without
I/O to the server. The header `Authorization: Negotiate <base64>` (RFC 4559) is new for each request. The library of the
extra `kerberos` is loaded when one of them is used.

OAuth 2.0 (RFC 6749, section 4.4). The options have the names of Iceberg's REST clients: `credential`,
`oauth2-server-uri`, `scope`. One request fetches a token for all threads of a catalog, and it is renewed before it
expires. A renewal that fails is no error while the present token is valid. A token that a server refuses before its end
is replaced once. The secret is sent to the token endpoint alone, which is https, or http on loopback; redirects are not
followed. It is in no message, log line or repr.
"""

import base64
import itertools
import json
import logging
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote_plus, urlencode, urlsplit

from interbed.catalog.client.errors import CatalogAccessError, CatalogUnavailableError
from interbed.catalog.client.options import CatalogOptions
from interbed.storage.base.backoff import ExponentialBackoff
from interbed.storage.base.errors import InvalidOptionError, load_extra
from interbed.storage.base.shown_text import MASK, escaped

HOST = "_HOST"
"""In the principal of a server, the name of the host that is connected."""

_caches = itertools.count(1)


def gssapi() -> Any:
    """Return the library of GSSAPI, which the extra `kerberos` installs. MissingExtraError."""
    return load_extra("gssapi", needed_by="A login by Kerberos")


class AuthorizationSource(Protocol):
    """Source of the header Authorization."""

    def authorization(self) -> str:
        """Return the value of the header for one request. CatalogAccessError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """The login of a client. Without a keytab, the tickets are those of the user's ticket cache; `principal` is the
    client's, None for that of the cache.
    """

    principal: str | None = None
    keytab: str | None = None
    cache: str = field(default_factory=lambda: f"MEMORY:interbed-{next(_caches)}", compare=False)

    @staticmethod
    def of(options: CatalogOptions) -> "KerberosLogin":
        """Return the login of a catalog's options. InvalidOptionError, MissingExtraError."""
        gssapi()
        principal, keytab = options.kerberos_login_principal, options.kerberos_login_keytab
        if keytab is None:
            if not options.kerberos_login_use_ticket_cache:
                raise InvalidOptionError(
                    "Option 'security.kerberos.login.use-ticket-cache' is false; give the options "
                    "'security.kerberos.login.keytab' and 'security.kerberos.login.principal'."
                )
            return KerberosLogin(principal=principal)
        if principal is None:
            raise InvalidOptionError(
                "Option 'security.kerberos.login.keytab' needs 'security.kerberos.login.principal', the principal of "
                "the client in it."
            )
        try:
            with Path(keytab).open("rb"):
                pass
        except OSError as error:
            raise InvalidOptionError(
                f"Option 'security.kerberos.login.keytab' names a file that can't be read: {error}"
            ) from error
        return KerberosLogin(principal=principal, keytab=keytab)

    def credentials(self, mechanism: Any) -> Any:
        """Return credentials with tickets for a mechanism of GSSAPI. CatalogAccessError if there are none."""
        store = None
        if self.keytab is not None:
            store = {"client_keytab": f"FILE:{self.keytab}", "ccache": self.cache}
        try:
            name = None
            if self.principal is not None:
                name = gssapi().Name(self.principal, gssapi().NameType.kerberos_principal)
            return gssapi().Credentials(name=name, usage="initiate", mechs=[mechanism], store=store)
        except gssapi().exceptions.GSSError as error:
            raise CatalogAccessError(f"there is no ticket of Kerberos: {error_text(error)}. {self.way_out}") from error

    @property
    def way_out(self) -> str:
        """Advice for a user without a ticket."""
        if self.keytab is not None:
            return (
                "Check 'security.kerberos.login.principal' and 'security.kerberos.login.keytab', and the address of "
                "the KDC in krb5.conf"
            )
        return "Run kinit, or give the options 'security.kerberos.login.keytab' and 'security.kerberos.login.principal'"


def server_principal(principal: str, host: str) -> str:
    """Return the principal of a server, with its host in place of `_HOST`. InvalidOptionError."""
    service, slash, rest = principal.partition("/")
    instance, at, realm = rest.partition("@")
    if not (service and slash and instance and at and realm):
        raise InvalidOptionError(
            f"hive.metastore.kerberos.principal is {principal!r}; it has to look like service/host@REALM or "
            "service/_HOST@REALM."
        )
    return f"{service}/{host.lower() if instance == HOST else instance}@{realm}"


def error_text(error: Any) -> str:
    """Return the text of an error of GSSAPI in one line: that of the mechanism, or else the general one."""
    minor = str(error.get_all_statuses(error.min_code, False)[0]) if error.min_code else ""
    major = str(error.get_all_statuses(error.maj_code, True)[0])
    return (minor if minor and "Unknown error" not in minor else major).strip()


GSSAPI = "GSSAPI"
"""The name of the mechanism."""

LAYERS = {"authentication": 1, "integrity": 2, "privacy": 4}
"""Flags of the layers of protection, by their names in `hadoop.rpc.protection`."""

_FRAME_BYTES_MAX = 0xFFFFFF
_OFFER_BYTES = 4


class GssapiLogin:
    """One negotiation with a server, and the protection of frames after it. For one thread at a time."""

    def __init__(
        self, login: KerberosLogin, principal: str, *, layers: Sequence[str] = ("authentication",), acts_for: str = ""
    ) -> None:
        """Begin a negotiation with the server of a principal; CatalogAccessError without a ticket of the client.

        `layers` are those that the client takes, the first one that the server offers is used. `acts_for` is another
        user, for which the server lets this one act.
        """
        self._login = login
        self._principal = principal
        self._layers = layers
        self._acts_for = acts_for
        self._layer = 0
        self._context = gssapi().SecurityContext(
            name=gssapi().Name(principal, gssapi().NameType.kerberos_principal),
            creds=login.credentials(gssapi().MechType.kerberos),
            mech=gssapi().MechType.kerberos,
            flags=[
                gssapi().RequirementFlag.mutual_authentication,
                gssapi().RequirementFlag.integrity,
                gssapi().RequirementFlag.confidentiality,
                gssapi().RequirementFlag.replay_detection,
                gssapi().RequirementFlag.out_of_sequence_detection,
            ],
            usage="initiate",
        )

    @property
    def has_chosen(self) -> bool:
        """Whether the client has sent its last response."""
        return self._layer != 0

    @property
    def is_protected(self) -> bool:
        """Whether frames are protected."""
        return self._layer > LAYERS["authentication"]

    def respond(self, challenge: bytes) -> bytes:
        """Return the response to a challenge; the first one is the response to none. CatalogAccessError."""
        try:
            if not self._context.complete:
                return bytes(self._context.step(challenge or None) or b"")
            return self._choice(self._context.unwrap(challenge).message)
        except gssapi().exceptions.GSSError as error:
            raise CatalogAccessError(
                f"no ticket of Kerberos for {self._principal}: {error_text(error)}. {self._login.way_out}; "
                "hive.metastore.kerberos.principal is the principal of the server"
            ) from error

    def wrap(self, message: bytes) -> bytes:
        """Return the content of a frame with a message."""
        return bytes(self._context.wrap(message, self._layer == LAYERS["privacy"]).message)

    def unwrap(self, frame: bytes) -> bytes:
        """Return the message in the content of a frame. ValueError for one that is not the server's."""
        try:
            found = self._context.unwrap(frame)
        except gssapi().exceptions.GSSError as error:
            raise ValueError(error_text(error)) from error
        if self._layer == LAYERS["privacy"] and not found.encrypted:
            raise ValueError("the frame is not encrypted")
        return bytes(found.message)

    def _choice(self, offer: bytes) -> bytes:
        """Return the choice among the server's layers of protection."""
        if len(offer) != _OFFER_BYTES:
            raise CatalogAccessError(f"{self._principal} offers layers of protection in {len(offer)} bytes")
        for name in self._layers:
            if offer[0] & LAYERS[name]:
                self._layer = LAYERS[name]
                break
        else:
            offered = ", ".join(name for name, flag in LAYERS.items() if offer[0] & flag) or "none"
            raise InvalidOptionError(
                f"hadoop.rpc.protection is {','.join(self._layers)}, and {self._principal} offers {offered}: set one "
                "of these."
            )
        longest = _FRAME_BYTES_MAX if self.is_protected else 0
        choice = bytes((self._layer,)) + longest.to_bytes(3) + self._acts_for.encode()
        return bytes(self._context.wrap(choice, False).message)


_SPNEGO = "1.3.6.1.5.5.2"


class NegotiateTokens:
    """Tokens for one server. Safe for many threads."""

    def __init__(self, login: KerberosLogin, principal: str) -> None:
        """Make tokens for the server of a principal: `HTTP/host@REALM`, or `HTTP@host` for the realm of krb5.conf."""
        self._login = login
        self._principal = principal
        kind = gssapi().NameType.kerberos_principal if "/" in principal else gssapi().NameType.hostbased_service
        self._name = gssapi().Name(principal, kind)

    def authorization(self) -> str:
        """Return the value of the header for one request. CatalogAccessError without a ticket."""
        mechanism = gssapi().OID.from_int_seq(_SPNEGO)
        context = gssapi().SecurityContext(
            name=self._name, creds=self._login.credentials(mechanism), mech=mechanism, usage="initiate", flags=[]
        )
        try:
            token = context.step(None)
        except gssapi().exceptions.GSSError as error:
            raise CatalogAccessError(
                f"no ticket of Kerberos for {self._principal}: {error_text(error)}. {self._login.way_out}"
            ) from error
        return f"Negotiate {base64.b64encode(token).decode()}"


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
