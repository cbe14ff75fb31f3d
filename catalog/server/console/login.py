"""How clients log in to the console: verifications of tokens and sessions, on a few threads of their own.

Wrong tokens count as failed authentications, and further attempts wait (auth/attempts.py).
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from interbed.catalog.server.auth.attempts import address_of
from interbed.catalog.server.auth.authentication import Authentication, VerificationQueue
from interbed.catalog.server.auth.console_sessions import ConsoleSessions
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    ClientCertificate,
    Credentials,
    Mechanism,
    Principal,
)
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.thrift.edge.call import ClientSession

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOOKUPS_MAX = 16
"""Requests of one address that wait for a look at their sessions: forged cookies do not fill the queue of all."""


class ConsoleLogin:
    """How clients log in. `authentication` is that of the server, `sessions` are those of its database; None where the
    server accepts no tokens of its own.
    """

    def __init__(self, authentication: Authentication, sessions: ConsoleSessions | None) -> None:
        self._authentication = authentication
        self.sessions = sessions
        self._verifications = VerificationQueue(authentication, "console login")
        self._lookups = VerificationQueue(None, "console sessions")
        # Of the thread of the loop alone.
        self._waiting: Counter[str] = Counter()

    @property
    def accepted(self) -> str:
        """The mechanisms that the server accepts, for messages."""
        return self._authentication.accepted

    def check_certificate(self, certificate: ClientCertificate | None) -> None:
        """Raise AuthenticationError for the certificate of a connection that has ended."""
        self._authentication.check_certificate(certificate)

    async def principal(self, secret: str, peer: str) -> Principal | None:
        """Return the principal of a session, None if it has ended. AuthenticationUnavailableError, also if too many
        other requests from the address of the peer wait for a look at the database.
        """
        if self.sessions is None:
            return None
        address = address_of(peer)
        try:
            known = self.sessions.known(secret)
            if known is not None:
                return known
            if self._waiting[address] >= LOOKUPS_MAX:
                raise AuthenticationUnavailableError("Too many requests from this address wait for their sessions")
            self._waiting[address] += 1
            try:
                return await self._run(self._lookups, partial(self.sessions.verify, secret))
            finally:
                self._waiting[address] -= 1
                if not self._waiting[address]:
                    del self._waiting[address]
        except AuthenticationUnavailableError:
            raise
        except AuthenticationError as error:
            logger.info("a session of the console is not accepted: %s", error)
            return None

    async def begin(self, token: str, session: ClientSession) -> tuple[Principal, str]:
        """Return the principal of a token, and the secret of a new session. AuthenticationError."""
        assert self.sessions is not None, "there is a form for tokens"
        credentials = Credentials(bearer=token, certificate=session.certificate, address=address_of(session.peer))
        begin = partial(self._begin, self.sessions, credentials)
        return await self._run(self._verifications, begin, credentials)

    async def end(self, secret: str) -> None:
        """End a session. AuthenticationUnavailableError."""
        if self.sessions is not None:
            await self._run(self._lookups, partial(self._end, self.sessions, secret))

    def _begin(self, sessions: ConsoleSessions, credentials: Credentials) -> tuple[Principal, str]:
        principal = self._authentication.present(credentials)
        if principal.mechanism is not Mechanism.TOKEN:
            raise AuthenticationError(
                f"The console takes tokens that this server has issued, and no credentials of {principal.mechanism}: "
                "`interbed metastore token create` makes one"
            )
        try:
            return principal, sessions.begin(principal)
        except MetastoreError as error:
            raise AuthenticationUnavailableError("The server cannot store the session at present") from error

    def _end(self, sessions: ConsoleSessions, secret: str) -> None:
        try:
            sessions.end(secret)
        except MetastoreError as error:
            raise AuthenticationUnavailableError("The server cannot end the session at present") from error

    async def _run(self, queue: VerificationQueue, work: Callable[[], T], credentials: Credentials | None = None) -> T:
        return await asyncio.wrap_future(queue.submit(work, credentials))
