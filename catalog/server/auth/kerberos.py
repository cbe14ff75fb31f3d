"""The server's side of Kerberos, by GSSAPI (RFC 4121): its key, and the contexts of clients, over SASL and HTTP.

The key is one principal's in a keytab; tickets for other principals are refused, also those whose key is in the same
file. The file is read for each context, so that a renewed key counts at once. MIT's library keeps a cache of replays
for all processes of the machine.

Authenticated principals of Kerberos become principals of the server: rules, groups, and users that they act for.

Over HTTP (`Authorization: Negotiate <base64>`, RFC 4559), by SPNEGO or a token of Kerberos itself, one token
authenticates one request. The answer has the server's token, by which the client may verify the server.

By the mechanism GSSAPI of SASL (RFC 4752) the client and the server exchange the tokens of a context. Then the server
offers layers of protection in a wrapped message: a byte of flags, and the longest message that it takes in three bytes.
The client chooses one layer in the same form, and may add an authorization identity: the user that it acts for.
"""

import base64
import logging
import socket
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from enum import IntFlag
from pathlib import Path
from typing import Any

from interbed.catalog.server.auth.authentication import (
    NegotiationError,
    ProtectionError,
    SaslChallenge,
    SaslStatus,
    SaslSuccess,
)
from interbed.catalog.server.auth.impersonation import Impersonation, UserGroups
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    AuthToLocal,
    KerberosName,
    Mechanism,
    Principal,
    checked_principal,
)
from interbed.storage.base.decoding import bytes_of_base64
from interbed.storage.base.errors import load_extra

HOST = "_HOST"
"""In the name of a principal, the name of this machine."""

TOKEN_BYTES_MAX = 64 * 1024
"""The longest token of a client: tickets of Active Directory have its groups."""

logger = logging.getLogger(__name__)


def gssapi() -> Any:
    """Return the library, which is built on machines with the headers of Kerberos alone. MissingExtraError."""
    return load_extra("gssapi", needed_by="Authentication by kerberos")


class KeytabError(Exception):
    """The server's key cannot be used."""


class Acceptor:
    """The key of one principal. Safe for many threads."""

    def __init__(self, keytab: Path, principal: str, *, mechanisms: list[Any] | None = None) -> None:
        """KeytabError if the file has no key of the principal."""
        self.principal = principal
        try:
            with open(keytab, "rb"):
                pass
            self._credentials = gssapi().Credentials(
                name=gssapi().Name(principal, gssapi().NameType.kerberos_principal),
                usage="accept",
                mechs=[gssapi().MechType.kerberos] if mechanisms is None else mechanisms,
                store={"keytab": f"FILE:{keytab}"},
            )
        except OSError as error:
            raise KeytabError(f"cannot read kerberos_keytab {keytab}: {error.strerror}") from error
        except gssapi().exceptions.GSSError as error:
            raise KeytabError(
                f"kerberos_keytab {keytab} has no key of {principal} that can be used: {reason(error)}"
            ) from error

    def context(self) -> "AcceptedContext":
        """Return a new context of a client."""
        return AcceptedContext(self._credentials)


class AcceptedContext:
    """The context of one client. For one thread at a time."""

    def __init__(self, credentials: Any) -> None:
        self._context = gssapi().SecurityContext(creds=credentials, usage="accept")
        # Errors are raised at once, also those that have a token for the client.
        self._context.__DEFER_STEP_ERRORS__ = False

    def is_complete(self) -> bool:
        """Return whether the client is authenticated."""
        return bool(self._context.complete)

    @property
    def client(self) -> str:
        """The principal of the client."""
        return str(KerberosName.parse(str(self._context.initiator_name)))

    @property
    def seconds_left(self) -> float | None:
        """Time until the client's ticket ends, with the difference of clocks that is allowed; None for no end."""
        lifetime: int | None = self._context.lifetime
        return None if lifetime is None else float(lifetime)

    def step(self, token: bytes) -> bytes:
        """Take a token of the client, and return the next one for it. AuthenticationError."""
        if len(token) > TOKEN_BYTES_MAX:
            raise AuthenticationError(f"The token of Kerberos has more than {TOKEN_BYTES_MAX} bytes")
        try:
            answer = self._context.step(token)
        except gssapi().exceptions.GSSError as error:
            if _is_unavailable(error):
                logger.error("the server's key of Kerberos cannot be used: %s", reason(error))
                raise AuthenticationUnavailableError("The server cannot use its key of Kerberos at present") from error
            raise AuthenticationError(f"The ticket is not accepted: {reason(error)}") from error
        return bytes(answer or b"")

    def wrap(self, message: bytes, *, encrypt: bool) -> bytes:
        """Return a message with a checksum, encrypted or not."""
        wrapped = self._context.wrap(message, encrypt)
        assert wrapped.encrypted or not encrypt
        return bytes(wrapped.message)

    def unwrap(self, message: bytes) -> tuple[bytes, bool]:
        """Return the content of a message, and whether it was encrypted. ValueError for one that is not authentic, is
        repeated or is out of order.
        """
        try:
            found = self._context.unwrap(message)
        except gssapi().exceptions.GSSError as error:
            raise ValueError(reason(error)) from error
        return bytes(found.message), bool(found.encrypted)


def named_principal(principal: str, host: str | None = None) -> str:
    """Return a principal with the name of this machine in place of `_HOST`, as Hadoop writes it."""
    name, at, realm = principal.rpartition("@")
    service, slash, instance = name.partition("/")
    if instance == HOST:
        instance = (host or socket.getfqdn()).lower()
    return f"{service}{slash}{instance}{at}{realm}"


def reason(error: Any) -> str:
    """Return the text of an error of GSSAPI in one line: that of the mechanism, or else the general one."""
    minor = str(error.get_all_statuses(error.min_code, False)[0]) if error.min_code else ""
    major = str(error.get_all_statuses(error.maj_code, True)[0])
    return (minor if minor and "Unknown error" not in minor else major).strip()


def _is_unavailable(error: Any) -> bool:
    """Return whether the server's own file is the reason."""
    return isinstance(error, gssapi().exceptions.MissingCredentialsError | gssapi().exceptions.ExpiredCredentialsError)


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosUsers:
    """From principals of clients to principals of the server."""

    rules: AuthToLocal
    groups: UserGroups
    impersonation: Impersonation

    def authenticated(self, name: str) -> Principal:
        """Return the principal of an authenticated client; may do I/O. AuthenticationError."""
        user = checked_principal(self.rules.user(name), f"The user of the principal {name!a:.300}")
        return Principal(name=user, mechanism=Mechanism.KERBEROS, groups=self.groups.of(user))

    def authorized(self, name: str, identity: str, peer: str) -> Principal:
        """Return the principal that a client acts as: its own one if the identity is empty, or names it.

        AuthenticationError, ImpersonationError.
        """
        principal = self.authenticated(name)
        return principal if identity in ("", name) else self.impersonation.acting(principal, identity, peer)

    def regrouped(self, principal: Principal, groups: frozenset[str]) -> Principal:
        """Return a principal with the groups that it has by now. ImpersonationError if without them no service may act
        for it.
        """
        if groups == principal.groups:
            return principal
        if principal.real_user is not None:
            self.impersonation.check_user(principal.real_user, principal.name, groups)
        return replace(principal, groups=groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketHolder:
    """Identity of a client that has presented a ticket, to the end of the ticket, with the groups that it has by then.

    `until` is the end on the monotonic clock, None for a ticket without one.
    """

    principal: Principal
    users: KerberosUsers
    until: float | None = None
    clock: Callable[[], float] = time.monotonic

    def known(self) -> Principal | None:
        """Return the principal if that needs no I/O, None otherwise. AuthenticationError."""
        self._check_end()
        groups = self.users.groups.known(self.principal.name)
        return None if groups is None else self.users.regrouped(self.principal, groups)

    def verified(self) -> Principal:
        """Return the principal; may do I/O. AuthenticationError."""
        self._check_end()
        return self.users.regrouped(self.principal, self.users.groups.of(self.principal.name))

    def _check_end(self) -> None:
        if self.until is not None and self.clock() >= self.until:
            raise AuthenticationError("The ticket has ended: connect again with a new one")


def _held(principal: Principal, users: KerberosUsers, context: AcceptedContext) -> TicketHolder:
    seconds = context.seconds_left
    return TicketHolder(principal=principal, users=users, until=None if seconds is None else time.monotonic() + seconds)


_SPNEGO = "1.3.6.1.5.5.2"


class NegotiateVerifier:
    """Verifies tokens of HTTP requests with the key of a server. Safe for many threads."""

    def __init__(self, keytab: Path, principal: str, users: KerberosUsers) -> None:
        """KeytabError if the file has no key of the principal."""
        self._acceptor = Acceptor(
            keytab, principal, mechanisms=[gssapi().OID.from_int_seq(_SPNEGO), gssapi().MechType.kerberos]
        )
        self._users = users

    def verify(self, token: str) -> tuple[TicketHolder, str]:
        """Return the client of a token, and the server's token for the answer; does I/O. AuthenticationError."""
        try:
            given = bytes_of_base64(token)
        except ValueError as error:
            raise AuthenticationError("The Authorization header is not of the form `Negotiate <base64>`") from error
        context = self._acceptor.context()
        answer = context.step(given)
        if not context.is_complete():
            raise AuthenticationError(
                "The token of the Authorization header does not authenticate by itself: send one of Kerberos"
            )
        client = _held(self._users.authenticated(context.client), self._users, context)
        return client, base64.b64encode(answer).decode()


GSSAPI = "GSSAPI"
"""The name of the mechanism."""

FRAME_BYTES_MAX = 0xFFFFFF
"""The longest protected frame that is announced: what three bytes can have. Java's clients do not look at it."""

TOKENS_MAX = 4
"""The most tokens of a client in one negotiation; Kerberos has one."""

_CHOICE_BYTES_MIN = 4


class ProtectionLayer(IntFlag):
    """Layers of protection, by their flags in the messages."""

    AUTHENTICATION = 1
    INTEGRITY = 2
    PRIVACY = 4


LAYERS = {
    "authentication": ProtectionLayer.AUTHENTICATION,
    "integrity": ProtectionLayer.INTEGRITY,
    "privacy": ProtectionLayer.PRIVACY,
}
"""Layers by their names in Hadoop's `hadoop.rpc.protection`; in SASL they are auth, auth-int and auth-conf."""


class GssapiMechanism:
    """GSSAPI with the key of a server. `layers` are the names of those that it offers."""

    response_bytes_max = TOKEN_BYTES_MAX
    is_quick = False

    def __init__(self, acceptor: Acceptor, users: KerberosUsers, layers: Collection[str]) -> None:
        self._acceptor = acceptor
        self._users = users
        self._offered = ProtectionLayer(0)
        for name in layers:
            self._offered |= LAYERS[name]

    def start(self, peer: str) -> "GssapiExchange":
        """Return a new exchange with a client."""
        return GssapiExchange(self._acceptor.context(), self._users, self._offered, peer)


class GssapiExchange:
    """The server's side of one negotiation."""

    def __init__(self, context: AcceptedContext, users: KerberosUsers, offered: ProtectionLayer, peer: str) -> None:
        self._context = context
        self._users = users
        self._offered = offered
        self._peer = peer
        self._tokens = 0
        self._has_offered = False

    def respond(self, response: bytes) -> SaslChallenge | SaslSuccess:
        """Evaluate a token, the empty response after the last one, or the choice of a layer.

        AuthenticationError, NegotiationError.
        """
        if self._has_offered:
            return self._chosen(response)
        if self._context.is_complete():
            if response:
                raise NegotiationError(SaslStatus.BAD, "The response after the last token is not empty")
            return self._offer()
        if not response and not self._tokens:
            # A client without an initial response waits for an empty challenge.
            self._tokens += 1
            return SaslChallenge(payload=b"")
        self._tokens += 1
        if not response or self._tokens > TOKENS_MAX:
            raise NegotiationError(SaslStatus.BAD, f"The client sends no token, or more than {TOKENS_MAX}")
        answer = self._context.step(response)
        if self._context.is_complete() and not answer:
            return self._offer()
        return SaslChallenge(payload=answer)

    def _offer(self) -> SaslChallenge:
        self._has_offered = True
        frame_bytes = 0 if self._offered == ProtectionLayer.AUTHENTICATION else FRAME_BYTES_MAX
        offer = bytes((self._offered,)) + frame_bytes.to_bytes(3)
        return SaslChallenge(payload=self._context.wrap(offer, encrypt=False))

    def _chosen(self, response: bytes) -> SaslSuccess:
        try:
            choice, _ = self._context.unwrap(response)
        except ValueError as error:
            raise AuthenticationError(f"The choice of a layer of protection is not authentic: {error}") from error
        if len(choice) < _CHOICE_BYTES_MIN:
            raise NegotiationError(SaslStatus.BAD, f"The choice of a layer of protection has {len(choice)} bytes")
        if choice[0] not in (1, 2, 4) or not choice[0] & self._offered:
            offered = ", ".join(name for name, layer in LAYERS.items() if layer & self._offered)
            raise NegotiationError(
                SaslStatus.BAD,
                f"The layer of protection {choice[0]} is not offered; offered is {offered} (kerberos_protection)",
            )
        layer = ProtectionLayer(choice[0])
        try:
            identity = choice[_CHOICE_BYTES_MIN:].decode()
        except UnicodeDecodeError as error:
            raise NegotiationError(SaslStatus.BAD, "The authorization identity is not UTF-8") from error
        principal = self._users.authorized(self._context.client, identity, self._peer)
        protection = None
        if layer is not ProtectionLayer.AUTHENTICATION:
            protection = GssapiProtection(self._context, encrypt=layer is ProtectionLayer.PRIVACY)
        return SaslSuccess(
            identity=_held(principal, self._users, self._context),
            protection=protection,
            seconds_max=self._context.seconds_left,
        )


class GssapiProtection:
    """Integrity of frames, and their confidentiality where it was chosen."""

    def __init__(self, context: AcceptedContext, *, encrypt: bool) -> None:
        self._context = context
        self._encrypt = encrypt

    def wrap(self, message: bytes) -> bytes:
        """Return the content of a frame with a message of the server."""
        return self._context.wrap(message, encrypt=self._encrypt)

    def unwrap(self, frame: bytes) -> bytes:
        """Return the message in the content of a client's frame. ProtectionError."""
        try:
            message, is_encrypted = self._context.unwrap(frame)
        except ValueError as error:
            raise ProtectionError(f"a protected frame is not accepted: {error}") from error
        if self._encrypt and not is_encrypted:
            raise ProtectionError("a frame is not encrypted, and privacy was negotiated")
        return message
