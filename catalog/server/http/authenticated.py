"""Authentication of HTTP requests: before a request's body is read, and before any interface sees it.

It covers the whole port, so that no interface can be reached past it. Verification that needs the database or the
issuer of tokens runs on a few threads of its own (auth/verification.py).
"""

import asyncio
import base64
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interbed.catalog.server.auth.attempts import TooManyAttemptsError, address_of
from interbed.catalog.server.auth.authentication import Authentication
from interbed.catalog.server.auth.impersonation import Impersonation, ImpersonationError, no_groups
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    Credentials,
    Principal,
)
from interbed.catalog.server.auth.verification import VerificationQueue
from interbed.catalog.server.http.application import client_of, respond
from interbed.catalog.server.http.connection import AuthenticatedHeader, HttpClient

T = TypeVar("T")

logger = logging.getLogger(__name__)

DO_AS = "doas"
"""The parameter of a query that names the user that a service acts for, in any case; Hadoop writes `doAs`."""

_CHALLENGE = b"www-authenticate"


class AuthenticatedApplication:
    """An ASGI application that serves authenticated requests by another one."""

    def __init__(
        self, application: ASGIApp, authentication: Authentication, impersonation: Impersonation | None = None
    ) -> None:
        self._application = application
        self._authentication = authentication
        self._verifications = VerificationQueue(authentication, "authentication")
        self._impersonation = impersonation or Impersonation({}, no_groups)
        self._challenges = [(_CHALLENGE, b"Negotiate")] if authentication.negotiate is not None else []
        if authentication.takes_secrets or not self._challenges:
            self._challenges.append((_CHALLENGE, b'Bearer realm="interbed"'))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate a request, and serve it as its principal's. The application may raise AuthenticationError for
        credentials that are not valid any more, before its response.
        """
        client = client_of(scope)
        answer = None
        try:
            header = _authorization(scope["headers"])
            kept = client.authenticated
            if kept is not None and kept.value == header and self._authentication.now < kept.until:
                principal = kept.principal
                client.verify = kept.verify
            elif (token := _negotiate_token(header)) is None:
                principal = await self._presented(client, header)
            else:
                principal, answer = await self._negotiated(token)
                # A ticket is not revoked, and the next request has a new token.
                client.verify = None
            user = _acted_for(scope) if scope["query_string"] else None
            if user is not None:
                acting = partial(self._impersonation.acting, principal, user, client.session.peer)
                principal = await self._on_thread(acting)
            if client.session.principal is not principal and client.session.principal != principal:
                # The settings of a session are those of its principal.
                client.session = replace(client.session, principal=principal, user=principal.name, settings={})
            await self._application(scope, receive, send if answer is None else _with_answer(send, answer))
        except TooManyAttemptsError as error:
            logger.info("a request from %s is not authenticated: %s", client.session.peer, error)
            await self._refuse(send, HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequestsException", error)
        except ImpersonationError as error:
            logger.info("a request from %s may not act for another user: %s", client.session.peer, error)
            await self._refuse(send, HTTPStatus.FORBIDDEN, "ForbiddenException", error)
        except AuthenticationUnavailableError as error:
            await self._refuse(send, HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException", error)
        except AuthenticationError as error:
            logger.info("a request from %s is not authenticated: %s", client.session.peer, error)
            await self._refuse(send, HTTPStatus.UNAUTHORIZED, "NotAuthorizedException", error)

    async def _negotiated(self, token: str) -> tuple[Principal, str]:
        """Return the principal of a token of Kerberos, and the server's token. AuthenticationError."""
        if self._authentication.negotiate is None:
            raise AuthenticationError(f"Kerberos is not accepted here; accepted: {self._authentication.accepted}")
        return await self._on_thread(partial(self._authentication.negotiate.verify, token))

    async def _presented(self, client: HttpClient, header: bytes | None) -> Principal:
        """Return the principal of the credentials in a header, or of the client's certificate. AuthenticationError."""
        session = client.session
        credentials = _credentials(header)
        if session.common_names is not None:
            credentials = replace(credentials, common_names=session.common_names)
        client.verify = verify = partial(self._authentication.present, credentials)
        known = self._authentication.known_until(credentials)
        if known is None:
            placed = replace(credentials, address=address_of(session.peer))
            return await self._on_thread(partial(self._authentication.authenticate, placed), placed)
        principal, until = known
        client.authenticated = AuthenticatedHeader(value=header, principal=principal, until=until, verify=verify)
        return principal

    async def _on_thread(self, work: Callable[[], T], credentials: Credentials | None = None) -> T:
        """Run a function that does I/O on one of the threads. AuthenticationUnavailableError if too many wait."""
        return await asyncio.wrap_future(self._verifications.submit(work, credentials))

    async def _refuse(self, send: Send, status: HTTPStatus, kind: str, error: AuthenticationError) -> None:
        # One body for the clients of both REST catalogs: each reads its own fields.
        iceberg = {"message": str(error), "type": kind, "code": int(status)}
        body = {"error": iceberg, "message": str(error), "code": int(status)}
        further: Sequence[tuple[bytes, bytes]] = ()
        if status is HTTPStatus.UNAUTHORIZED:
            further = self._challenges
        elif status is not HTTPStatus.FORBIDDEN:
            wait = error.retry_seconds if isinstance(error, TooManyAttemptsError) else 1
            further = [(b"retry-after", b"%d" % wait)]
        await respond(send, status, "application/json", json.dumps(body).encode(), further=further, closes=True)


def _authorization(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the header Authorization, None without one. AuthenticationError for several."""
    found = None
    for name, value in headers:
        if name == b"authorization":
            if found is not None:
                raise AuthenticationError("The request has several Authorization headers")
            found = value
    return found


def _negotiate_token(header: bytes | None) -> str | None:
    """Return the token of the scheme Negotiate, None for another scheme or none."""
    if header is None:
        return None
    scheme, _, given = header.decode("latin-1").partition(" ")
    return given.strip() if scheme.lower() == "negotiate" else None


def _acted_for(scope: Scope) -> str | None:
    """Return the user of the parameter `doAs`, None without one. AuthenticationError for several."""
    if DO_AS.encode() not in scope["query_string"].lower():
        return None
    query = scope["query_string"].decode("latin-1")
    users = [value for name, value in parse_qsl(query, keep_blank_values=True) if name.lower() == DO_AS]
    if len(users) > 1:
        raise ImpersonationError("The request names several users to act for by doAs")
    return users[0] if users else None


def _with_answer(send: Send, answer: str) -> Send:
    """Return a function that sends a response with the server's token in it."""

    async def send_with_answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            header = (_CHALLENGE, f"Negotiate {answer}".encode("ascii"))
            message = {**message, "headers": [*message.get("headers", ()), header]}
        await send(message)

    return send_with_answer


def _credentials(header: bytes | None) -> Credentials:
    """Return the bearer token of a header, or its user and password. AuthenticationError for another scheme."""
    if header is None:
        return Credentials()
    scheme, _, given = header.decode("latin-1").partition(" ")
    given = given.strip()
    if scheme.lower() == "bearer" and given:
        return Credentials(bearer=given)
    if scheme.lower() == "basic" and given:
        try:
            user, colon, password = base64.b64decode(given, validate=True).decode().partition(":")
        except ValueError as error:
            raise AuthenticationError("The Authorization header is not of the form `Basic <base64>`") from error
        if colon and user and password:
            return Credentials(user=user, password=password)
    raise AuthenticationError("The Authorization header is not of the form `Bearer <token>`")
