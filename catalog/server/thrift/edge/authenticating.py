"""Authentication of the loop's connections by SASL, within bounds of bytes, time and threads.

Bytes of a negotiation are read on the loop's thread. Verification that needs the database or another server runs on a
few threads of its own, with a short queue, because the clients are unknown until then. A connection that is not
authenticated ends after AUTHENTICATION_SECONDS_MAX, and its messages are short. Requests of a connection whose token
was revoked or has expired are refused: credentials are verified again with a request, once in CHECK_SECONDS.
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from interbed.catalog.server.auth.authentication import Authentication
from interbed.catalog.server.auth.own_optimizer import OptimizerIdentity
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    Credentials,
    Principal,
)
from interbed.catalog.server.thrift.edge.sasl import NegotiationError, SaslStatus, packed
from interbed.catalog.server.thrift.edge.transport import ClientConnection, FramedFraming, send_some
from interbed.catalog.server.thrift.edge.watching import ConnectionWatcher

logger = logging.getLogger(__name__)

THREADS = 2
WAITING_MAX = 64
"""Connections that wait for a thread; a further one is refused."""

AUTHENTICATION_SECONDS_MAX = 10.0
"""Time of a connection until it is authenticated."""

UNAUTHENTICATED_BYTES_MAX = 64 * 1024
"""The longest message of a connection that is not authenticated."""

CHECK_SECONDS = 1.0
"""Time for which the credentials of a connection are not verified again."""

_TEXT_BYTES_MAX = 1000
_INTERNAL = "The server cannot authenticate clients at present"


class AuthenticatingLoop(Protocol):
    """The loop, which owns the connections."""

    def call_soon(self, task: Callable[[], None]) -> None:
        """Run a function on the loop's thread; from any thread."""
        ...

    def received(self, connection: ClientConnection, data: bytes) -> None:
        """Serve bytes of a client; on the loop's thread."""
        ...

    def reclaim(self, connection: ClientConnection) -> None:
        """Send the rest of a reply, and wait for the next request; on the loop's thread."""
        ...

    def closed(self, connection: ClientConnection) -> None:
        """Close a connection that is not watched."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PortAuthentication:
    """Authentication of clients, None where all are served, and of the optimizer beside the server on its own port."""

    clients: Authentication | None = None
    optimizer: OptimizerIdentity | None = None


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
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sasl")
        self._waiting = 0

    def feed(self, connection: ClientConnection, data: bytes) -> bytes | None:
        """Take bytes of a connection that has sent no request yet. Return all of its bytes if it does not negotiate,
        None otherwise.
        """
        assert connection.negotiation is not None
        if connection.deadline is None:
            connection.deadline = time.monotonic() + AUTHENTICATION_SECONDS_MAX
            connection.too_late = "the SASL negotiation took too long"
        try:
            found = connection.negotiation.feed(data)
            if isinstance(found, bytes):
                connection.negotiation = None
                connection.deadline = connection.unauthenticated_until
                return found
            if found is not None:
                self._authenticate(connection, found)
        except NegotiationError as error:
            self._watcher.unwatch(connection)
            self._refuse(connection, error.status, str(error))
        return None

    def is_still_admitted(self, connection: ClientConnection, data: bytes) -> bool:
        """Return whether the client of an authenticated connection, which has sent `data`, is served at once. If its
        credentials have to be verified again, the loop gets the data when that is done.
        """
        assert connection.credentials is not None
        authentication = self._authentication_of(connection)
        assert authentication is not None
        if time.monotonic() - connection.checked_at < CHECK_SECONDS:
            return True
        try:
            known = authentication.known(connection.credentials)
        except AuthenticationError as error:
            _withdraw(connection, str(error))
            return True
        if known is not None:
            _identify(connection, known)
            return True
        self._watcher.unwatch(connection)
        if self._waiting >= WAITING_MAX:
            logger.info("connection from %s ended: too many clients wait", connection.session.peer)
            self._loop.closed(connection)
        else:
            connection.busy = True
            verify = partial(authentication.authenticate, connection.credentials)
            self._verify(verify, partial(self._verified_again, connection, data))
        return False

    def close(self) -> None:
        """End the threads that verify."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _authenticate(self, connection: ClientConnection, credentials: Credentials) -> None:
        authentication = self._authentication_of(connection)
        if authentication is None:
            raise NegotiationError(
                SaslStatus.ERROR,
                "This server does not authenticate its clients: connect without SASL "
                "(hive.metastore.client.auth.mode=NONE)",
            )
        self._watcher.unwatch(connection)
        try:
            known = authentication.known(credentials)
        except AuthenticationError as error:
            self._refuse(connection, SaslStatus.BAD, str(error))
            return
        if known is not None:
            self._admit(connection, credentials, known)
        elif self._waiting >= WAITING_MAX:
            self._refuse(connection, SaslStatus.ERROR, "Too many clients wait to be authenticated; try again")
        else:
            verify = partial(authentication.authenticate, credentials)
            self._verify(verify, partial(self._verified, connection, credentials))

    def _authentication_of(self, connection: ClientConnection) -> Authentication | OptimizerIdentity | None:
        return self._authentication.optimizer if connection.is_internal else self._authentication.clients

    def _verify(self, verify: Callable[[], Principal], then: Callable[["Future[Principal]"], None]) -> None:
        """Verify credentials on a thread, and call `then` on the loop's thread."""
        self._waiting += 1
        verified = self._threads.submit(verify)
        verified.add_done_callback(lambda done: self._loop.call_soon(partial(self._done, then, done)))

    def _done(self, then: Callable[["Future[Principal]"], None], done: "Future[Principal]") -> None:
        self._waiting -= 1
        then(done)

    def _verified_again(self, connection: ClientConnection, data: bytes, done: "Future[Principal]") -> None:
        connection.busy = False
        if done.cancelled():
            self._loop.closed(connection)
            return
        error = done.exception()
        if error is None:
            _identify(connection, done.result())
        elif isinstance(error, AuthenticationError):
            _withdraw(connection, str(error))
        else:
            logger.error("an error of the server in an authentication", exc_info=error)
            _withdraw(connection, _INTERNAL)
        self._loop.received(connection, data)

    def _verified(self, connection: ClientConnection, credentials: Credentials, done: "Future[Principal]") -> None:
        if done.cancelled():
            self._loop.closed(connection)
            return
        error = done.exception()
        if error is None:
            self._admit(connection, credentials, done.result())
        elif isinstance(error, AuthenticationUnavailableError):
            self._refuse(connection, SaslStatus.ERROR, f"{error}; try again")
        elif isinstance(error, AuthenticationError):
            self._refuse(connection, SaslStatus.BAD, str(error))
        else:
            logger.error("an error of the server in an authentication", exc_info=error)
            self._refuse(connection, SaslStatus.ERROR, _INTERNAL)

    def _admit(self, connection: ClientConnection, credentials: Credentials, principal: Principal) -> None:
        connection.negotiation = None
        connection.credentials = credentials
        connection.unauthenticated_until = None
        connection.framing = FramedFraming(self._bytes_max)
        _identify(connection, principal)
        try:
            unsent = send_some(connection.link, packed(SaslStatus.COMPLETE))
        except OSError as error:
            logger.info("connection from %s ended: %s", connection.session.peer, error)
            self._loop.closed(connection)
            return
        if unsent is not None:
            connection.outgoing.append(unsent)
        self._loop.reclaim(connection)

    def _refuse(self, connection: ClientConnection, status: SaslStatus, reason: str) -> None:
        logger.info("connection from %s is not authenticated: %s", connection.session.peer, reason)
        try:
            # The client may read it or not: the connection ends.
            send_some(connection.link, packed(status, reason.encode()[:_TEXT_BYTES_MAX]))
        except OSError as error:
            logger.debug("the reason was not sent to %s: %s", connection.session.peer, error)
        self._loop.closed(connection)


def _identify(connection: ClientConnection, principal: Principal) -> None:
    """Serve further requests of a connection as the principal's."""
    connection.checked_at = time.monotonic()
    if connection.session.principal != principal:
        # The settings of a session are those of its principal.
        connection.session = replace(
            connection.session, principal=principal, user=principal.name, refusal=None, settings={}
        )


def _withdraw(connection: ClientConnection, reason: str) -> None:
    """Refuse the present request of a connection, and let it end soon."""
    logger.info("connection from %s is not authenticated any more: %s", connection.session.peer, reason)
    connection.credentials = None
    connection.session = replace(connection.session, principal=None, user=None, refusal=reason)
    connection.unauthenticated_until = time.monotonic() + CHECK_SECONDS


def await_authentication(connection: ClientConnection) -> None:
    """Bound the time and the messages of a new connection whose session is refused until it is authenticated."""
    if connection.session.refusal is None:
        return
    connection.unauthenticated_until = time.monotonic() + AUTHENTICATION_SECONDS_MAX
    connection.deadline = connection.unauthenticated_until
    connection.too_late = "it was not authenticated in time"
    connection.framing.bytes_max = min(connection.framing.bytes_max, UNAUTHENTICATED_BYTES_MAX)
