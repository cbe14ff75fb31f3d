"""The mechanism GSSAPI of SASL (RFC 4752), with Kerberos.

The client and the server exchange the tokens of a context. Then the server offers layers of protection in a wrapped
message: a byte of flags, and the longest message that it takes in three bytes. The client chooses one layer in the same
form, and may add an authorization identity: the user that it acts for.
"""

from collections.abc import Collection
from enum import IntFlag

from interbed.catalog.server.auth.kerberos.acceptor import TOKEN_BYTES_MAX, AcceptedContext, Acceptor
from interbed.catalog.server.auth.kerberos.users import KerberosUsers
from interbed.catalog.server.auth.principals import AuthenticationError
from interbed.catalog.server.auth.sasl import (
    NegotiationError,
    ProtectionError,
    ProvenIdentity,
    SaslChallenge,
    SaslStatus,
    SaslSuccess,
)

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
            identity=ProvenIdentity(principal=principal),
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
