"""The contract of a SASL mechanism on Thrift's port (RFC 4422), by which a table of mechanisms is offered; and PLAIN.

The port reads and writes the messages of a negotiation (`thrift/edge/transport.py`). A mechanism evaluates the client's
responses one after the other, and answers each with a challenge or with success. Success has the identity of the
client, and may have a protection of all further frames.

PLAIN (RFC 4616) is a user with a password or a token, in one response: `authorization identity, NUL, user, NUL,
password`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Protocol

from interbed.catalog.server.auth.attempts import address_of
from interbed.catalog.server.auth.principals import AuthenticationError, Credentials, Principal, checked_name


class SaslStatus(IntEnum):
    """Status of a message, in Java's thrift."""

    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


class NegotiationError(Exception):
    """The negotiation has failed. `status` and the text are for the client: the text has no secret."""

    def __init__(self, status: SaslStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class ProtectionError(Exception):
    """A protected frame is not authentic, is repeated, or is out of order. The connection ends."""


class ClientIdentity(Protocol):
    """The client of a connection, which is verified again while the connection lasts. Safe for many threads."""

    def known(self) -> Principal | None:
        """Return the principal if that needs no I/O, None otherwise. AuthenticationError."""
        ...

    def verified(self) -> Principal:
        """Return the principal; may do I/O. AuthenticationError."""
        ...


class FrameProtection(Protocol):
    """Integrity or confidentiality of the frames of one connection. For one thread at a time."""

    def wrap(self, message: bytes) -> bytes:
        """Return the content of a frame with a message of the server."""
        ...

    def unwrap(self, frame: bytes) -> bytes:
        """Return the message in the content of a client's frame. ProtectionError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslChallenge:
    """A challenge, which the client answers with a further response."""

    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSuccess:
    """The end of an exchange: the client is authenticated if its identity can be verified.

    `payload` is sent with the status COMPLETE. Without `protection` further frames are sent as they are. A connection
    ends after `seconds_max`, None for never.
    """

    identity: ClientIdentity
    payload: bytes = b""
    protection: FrameProtection | None = None
    seconds_max: float | None = None


class SaslExchange(Protocol):
    """The server's side of one negotiation. For one thread at a time."""

    def respond(self, response: bytes) -> SaslChallenge | SaslSuccess:
        """Evaluate a response of the client. AuthenticationError, NegotiationError."""
        ...


class SaslMechanism(Protocol):
    """A mechanism that a server offers. Safe for many threads."""

    @property
    def response_bytes_max(self) -> int:
        """The longest response of a client, in bytes."""
        ...

    @property
    def is_quick(self) -> bool:
        """Whether responses are evaluated without I/O and in little time, on the thread of all connections."""
        ...

    def start(self, peer: str) -> SaslExchange:
        """Return a new exchange with a client at an address, `host:port`."""
        ...


SaslMechanisms = Mapping[str, SaslMechanism]
"""The mechanisms that a port offers, by their names in SASL, in the order of messages. Without one the port does not
authenticate its clients.
"""


class CredentialsVerifier(Protocol):
    """Verifies the credentials of a request. Safe for many threads."""

    def known(self, credentials: Credentials) -> Principal | None:
        """Return the principal if that needs no I/O, None otherwise. AuthenticationError."""
        ...

    def authenticate(self, credentials: Credentials) -> Principal:
        """Return the principal; may do I/O. AuthenticationError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialsIdentity:
    """Identity by credentials, which may be revoked or expire."""

    verifier: CredentialsVerifier
    credentials: Credentials

    def known(self) -> Principal | None:
        """Return the principal if that needs no I/O, None otherwise. AuthenticationError."""
        return self.verifier.known(self.credentials)

    def verified(self) -> Principal:
        """Return the principal; may do I/O. AuthenticationError."""
        return self.verifier.authenticate(self.credentials)


PLAIN = "PLAIN"
"""The name of the mechanism."""

RESPONSE_BYTES_MAX = 20 * 1024
"""The longest response: the longest JWT, and two names."""


class PlainMechanism:
    """PLAIN with a verifier of credentials; without one all clients are refused, because the server does not
    authenticate them.
    """

    response_bytes_max = RESPONSE_BYTES_MAX
    is_quick = True

    def __init__(self, verifier: CredentialsVerifier | None) -> None:
        self._verifier = verifier

    def start(self, peer: str) -> "PlainExchange":
        """Return a new exchange."""
        return PlainExchange(self._verifier, address_of(peer))


class PlainExchange:
    """The exchange of PLAIN, which has one response."""

    def __init__(self, verifier: CredentialsVerifier | None, address: str) -> None:
        self._verifier = verifier
        self._address = address

    def respond(self, response: bytes) -> SaslSuccess:
        """Return the identity by the credentials in the response. NegotiationError."""
        credentials = replace(plain_credentials(response), address=self._address)
        if self._verifier is None:
            raise NegotiationError(
                SaslStatus.ERROR,
                "This server does not authenticate its clients: connect without SASL "
                "(hive.metastore.client.auth.mode=NONE)",
            )
        return SaslSuccess(identity=CredentialsIdentity(verifier=self._verifier, credentials=credentials))


def plain_credentials(response: bytes) -> Credentials:
    """Return the credentials in a response of PLAIN. NegotiationError."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise NegotiationError(
            SaslStatus.BAD, f"The response of PLAIN has {len(parts)} parts; it is [identity] NUL user NUL password"
        )
    try:
        identity, user, password = (part.decode() for part in parts)
        checked_name(user, "The user")
    except UnicodeDecodeError as error:
        raise NegotiationError(SaslStatus.BAD, "The response of PLAIN is not UTF-8") from error
    except AuthenticationError as error:
        raise NegotiationError(SaslStatus.BAD, str(error)) from error
    if identity not in ("", user):
        raise NegotiationError(SaslStatus.BAD, "A user cannot act for another one")
    if not password:
        raise NegotiationError(SaslStatus.BAD, "The response of PLAIN has no password")
    return Credentials(user=user, password=password)
