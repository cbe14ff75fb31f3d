"""Authentication of the loop's connections by SASL, within bounds of bytes, time and threads.

Bytes of a negotiation are read on the loop's thread. Responses that take time to evaluate, and verification that needs
the database or another server, run on a few threads of their own (auth/authentication.py). A connection that is not
authenticated ends after AUTHENTICATION_SECONDS_MAX, and its messages are short. Requests of a connection whose token
was revoked or has expired are refused, and those of a user that has left a group are served without it: an identity is
verified again with a request, once in CHECK_SECONDS.
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeVar

from interbed.catalog.server.auth.authentication import (
    PLAIN,
    Authentication,
    CertificateEnds,
    ClientIdentity,
    CredentialsIdentity,
    NegotiationError,
    PlainMechanism,
    SaslChallenge,
    SaslMechanisms,
    SaslStatus,
    SaslSuccess,
    VerificationQueue,
)
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    Credentials,
    Mechanism,
    Principal,
)
from interbed.catalog.server.thrift.edge.sockets import ConnectionWatcher
from interbed.catalog.server.thrift.edge.transport import (
    ClientConnection,
    FramedFraming,
    ProtectedFraming,
    SaslResponse,
    packed,
    send_some,
)

T = TypeVar("T")

logger = logging.getLogger(__name__)

AUTHENTICATION_SECONDS_MAX = 10.0
"""Time of a connection until it is authenticated."""

UNAUTHENTICATED_BYTES_MAX = 64 * 1024
"""The longest message of a connection that is not authenticated."""

CHECK_SECONDS = 0.25
"""Time for which the credentials of a connection are not verified again. With the time for which the answer about an
issued token is kept (issued_tokens.CHECKED_SECONDS), it is less than a second until a revocation is in force.
"""

WITHDRAWN_SECONDS = 1.0
"""Time of a connection whose credentials are not valid any more."""

_TEXT_BYTES_MAX = 1000
_INTERNAL = "The server cannot authenticate clients at present"

OFFERED_WITHOUT_AUTHENTICATION: SaslMechanisms = {PLAIN: PlainMechanism(None)}
"""The mechanisms of a server that authenticates no client: a client by PLAIN gets the reason."""


class AuthenticatingLoop(Protocol):
    """The loop, which owns the connections."""

    def call_soon(self, task: Callable[[], None]) -> None:
        """Run a function on the loop's thread; from any thread."""
        ...

    def reclaim(self, connection: ClientConnection) -> None:
        """Send the rest of a reply, and wait for the next request; on the loop's thread."""
        ...

    def closed(self, connection: ClientConnection) -> None:
        """Close a connection that is not watched."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PortAuthentication:
    """Mechanisms for clients, none where all are served, and for the optimizer beside the server on its own port.

    `authentication` has the limits of failures; `clock` is that of connections, whose identity is verified again.
    `certificates` are checked with each request, also where no client is authenticated.
    """

    clients: SaslMechanisms = field(default_factory=dict)
    optimizer: SaslMechanisms = field(default_factory=dict)
    authentication: Authentication | None = None
    certificates: CertificateEnds = field(default_factory=CertificateEnds)
    clock: Callable[[], float] = time.monotonic


class ConnectionAuthenticator:
    """Negotiates with the clients of a loop. For its thread."""

    def __init__(
        self,
        loop: AuthenticatingLoop,
        watcher: ConnectionWatcher,
        authentication: PortAuthentication | None,
        bytes_max: int,
    ) -> None:
        self._loop = loop
        self._watcher = watcher
        self._authentication = authentication or PortAuthentication()
        self._bytes_max = bytes_max
        self._clock = self._authentication.clock
        self._verifications = VerificationQueue(self._authentication.authentication, "sasl")

    def feed(self, connection: ClientConnection, data: bytes) -> bytes | None:
        """Take bytes of a connection that has sent no request yet. Return all of its bytes if it does not negotiate,
        None otherwise.
        """
        assert connection.negotiation is not None
        if connection.deadline is None:
            connection.deadline = time.monotonic() + AUTHENTICATION_SECONDS_MAX
            connection.too_late = "the SASL negotiation took too long"
        try:
            found = connection.negotiation.feed(data, self._offered(connection), connection.session.peer)
            if isinstance(found, bytes):
                connection.negotiation = None
                connection.deadline = connection.unauthenticated_until
                return found
            if found is not None:
                self._watcher.unwatch(connection)
                self._evaluate(connection, found)
        except NegotiationError as error:
            self._watcher.unwatch(connection)
            self._refuse(connection, error.status, str(error))
        return None

    def serve(self, connection: ClientConnection, serve: Callable[[], None]) -> None:
        """Call `serve` for the next request of a connection: at once, or on the loop's thread when the identity of the
        connection has been verified again.
        """
        identity = connection.identity or self._certified(connection)
        if identity is None:
            try:
                self._check_certificate(connection)
            except AuthenticationError as error:
                _withdraw(connection, str(error))
            serve()
            return
        if self._clock() - connection.checked_at < CHECK_SECONDS:
            serve()
            return
        known = None
        try:
            self._check_certificate(connection)
            known = identity.known()
            if known is None:
                self._watcher.unwatch(connection)
                self._verify(identity, partial(self._verified_again, connection, serve))
                connection.busy = True
        except AuthenticationUnavailableError as error:
            logger.info("connection from %s ended: %s", connection.session.peer, error)
            self._loop.closed(connection)
        except AuthenticationError as error:
            _withdraw(connection, str(error))
            serve()
        if known is not None:
            self._identify(connection, known)
            serve()

    def close(self) -> None:
        """End the threads that verify."""
        self._verifications.close()

    def _check_certificate(self, connection: ClientConnection) -> None:
        """Raise AuthenticationError for a connection whose certificate has ended, whatever its identity is."""
        self._authentication.certificates.check(connection.session.certificate)

    def _certified(self, connection: ClientConnection) -> ClientIdentity | None:
        """Return the identity of a connection that is authenticated by its certificate, None for another one."""
        principal, verifier = connection.session.principal, self._authentication.authentication
        if principal is None or principal.mechanism is not Mechanism.CERTIFICATE or verifier is None:
            return None
        connection.identity = CredentialsIdentity(
            verifier=verifier, credentials=Credentials(certificate=connection.session.certificate)
        )
        return connection.identity

    def _offered(self, connection: ClientConnection) -> SaslMechanisms:
        if connection.is_internal:
            return self._authentication.optimizer
        return self._authentication.clients or OFFERED_WITHOUT_AUTHENTICATION

    def _evaluate(self, connection: ClientConnection, response: SaslResponse) -> None:
        """Have a response evaluated, on this thread or another one. The connection is not watched."""
        evaluate = partial(response.exchange.respond, response.payload)
        try:
            if response.is_quick:
                self._answer(connection, evaluate())
            else:
                self._then(self._verifications.submit(evaluate), partial(self._evaluated, connection))
        except AuthenticationError as error:
            self._refuse_for(connection, error)

    def _answer(self, connection: ClientConnection, result: SaslChallenge | SaslSuccess) -> None:
        """Send a challenge, or verify the identity of a client that has given all responses. AuthenticationError."""
        if isinstance(result, SaslChallenge):
            if connection.unauthenticated_until is None:
                connection.unauthenticated_until = connection.deadline
            self._send(connection, packed(SaslStatus.OK, result.payload))
            return
        known = result.identity.known()
        if known is not None:
            self._admit(connection, result, known)
        else:
            self._verify(result.identity, partial(self._verified, connection, result))

    def _verify(self, identity: ClientIdentity, then: Callable[["Future[Principal]"], None]) -> None:
        """Verify an identity on a thread, and call `then` on the loop's thread. AuthenticationUnavailableError."""
        credentials = identity.credentials if isinstance(identity, CredentialsIdentity) else None
        self._then(self._verifications.submit(identity.verified, credentials), then)

    def _then(self, running: "Future[T]", then: Callable[["Future[T]"], None]) -> None:
        running.add_done_callback(lambda done: self._loop.call_soon(partial(then, done)))

    def _verified_again(
        self, connection: ClientConnection, serve: Callable[[], None], done: "Future[Principal]"
    ) -> None:
        connection.busy = False
        if done.cancelled():
            self._loop.closed(connection)
            return
        error = done.exception()
        if error is None:
            self._identify(connection, done.result())
        elif isinstance(error, AuthenticationError):
            _withdraw(connection, str(error))
        else:
            logger.error("an error of the server in an authentication", exc_info=error)
            _withdraw(connection, _INTERNAL)
        serve()

    def _evaluated(self, connection: ClientConnection, done: "Future[SaslChallenge | SaslSuccess]") -> None:
        if done.cancelled():
            self._loop.closed(connection)
            return
        error = done.exception()
        if error is not None:
            self._refuse_for(connection, error)
            return
        try:
            self._answer(connection, done.result())
        except AuthenticationError as refused:
            self._refuse_for(connection, refused)

    def _verified(self, connection: ClientConnection, success: SaslSuccess, done: "Future[Principal]") -> None:
        if done.cancelled():
            self._loop.closed(connection)
            return
        error = done.exception()
        if error is None:
            self._admit(connection, success, done.result())
        else:
            self._refuse_for(connection, error)

    def _admit(self, connection: ClientConnection, success: SaslSuccess, principal: Principal) -> None:
        connection.negotiation = None
        connection.identity = success.identity
        connection.unauthenticated_until = None
        if success.seconds_max is not None:
            connection.unauthenticated_until = time.monotonic() + success.seconds_max
        if success.protection is None:
            connection.framing = FramedFraming(self._bytes_max)
        else:
            connection.framing = ProtectedFraming(self._bytes_max, success.protection)
        self._identify(connection, principal)
        self._send(connection, packed(SaslStatus.COMPLETE, success.payload))

    def _send(self, connection: ClientConnection, message: bytes) -> None:
        """Send a message, and wait for the next one of the client."""
        try:
            unsent = send_some(connection.link, message)
        except OSError as error:
            logger.info("connection from %s ended: %s", connection.session.peer, error)
            self._loop.closed(connection)
            return
        if unsent is not None:
            connection.outgoing.append(unsent)
        self._loop.reclaim(connection)

    def _identify(self, connection: ClientConnection, principal: Principal) -> None:
        """Serve further requests of a connection as the principal's."""
        connection.checked_at = self._clock()
        connection.session = connection.session.of(principal)

    def _refuse_for(self, connection: ClientConnection, error: BaseException) -> None:
        """Refuse a client because of the error of an evaluation or a verification."""
        if isinstance(error, NegotiationError):
            self._refuse(connection, error.status, str(error))
        elif isinstance(error, AuthenticationUnavailableError):
            self._refuse(connection, SaslStatus.ERROR, str(error))
        elif isinstance(error, AuthenticationError):
            self._refuse(connection, SaslStatus.BAD, str(error))
        else:
            logger.error("an error of the server in an authentication", exc_info=error)
            self._refuse(connection, SaslStatus.ERROR, _INTERNAL)

    def _refuse(self, connection: ClientConnection, status: SaslStatus, reason: str) -> None:
        logger.info("connection from %s is not authenticated: %s", connection.session.peer, reason)
        try:
            # The client may read it or not: the connection ends.
            send_some(connection.link, packed(status, reason.encode()[:_TEXT_BYTES_MAX]))
        except OSError as error:
            logger.debug("the reason was not sent to %s: %s", connection.session.peer, error)
        self._loop.closed(connection)


def _withdraw(connection: ClientConnection, reason: str) -> None:
    """Refuse the present request of a connection, and let it end soon."""
    logger.info("connection from %s is not authenticated any more: %s", connection.session.peer, reason)
    connection.identity = None
    connection.session = replace(connection.session, principal=None, user=None, refusal=reason)
    connection.unauthenticated_until = time.monotonic() + WITHDRAWN_SECONDS


def await_authentication(connection: ClientConnection) -> None:
    """Bound the time and the messages of a new connection whose session is refused until it is authenticated."""
    if connection.session.refusal is None:
        return
    connection.unauthenticated_until = time.monotonic() + AUTHENTICATION_SECONDS_MAX
    connection.deadline = connection.unauthenticated_until
    connection.too_late = "it was not authenticated in time"
    connection.framing.bytes_max = min(connection.framing.bytes_max, UNAUTHENTICATED_BYTES_MAX)
