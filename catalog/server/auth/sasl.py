"""The contract of a SASL mechanism on Thrift's port (RFC 4422), by which a table of mechanisms is offered.

The port reads and writes the messages of a negotiation (`thrift/edge/sasl.py`). A mechanism evaluates the client's
responses one after the other, and answers each with a challenge or with success. Success has the identity of the
client, and may have a protection of all further frames.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from interbed.catalog.server.auth.principals import Credentials, Principal


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenIdentity:
    """Identity that the exchange itself has proven, for as long as the connection lasts."""

    principal: Principal

    def known(self) -> Principal:
        """Return the principal, without I/O."""
        return self.principal

    def verified(self) -> Principal:
        """Return the principal, without I/O."""
        return self.principal
