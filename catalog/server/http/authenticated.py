"""Authentication of HTTP requests: before a request's body is read, and before any interface sees it.

It covers the whole port, so that no interface can be reached past it. Verification that needs the database or the
issuer of tokens runs on a few threads of its own, with a short queue, because the clients are unknown until then.
"""

import asyncio
import base64
import json
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http import HTTPStatus

from starlette.types import ASGIApp, Receive, Scope, Send

from interbed.catalog.server.auth.authentication import Authentication
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    Credentials,
    Principal,
)
from interbed.catalog.server.http.application import client_of, respond

logger = logging.getLogger(__name__)

THREADS = 2
WAITING_MAX = 64
"""Requests that wait for a thread; a further one is answered with status 503."""

_CHALLENGE = (b"www-authenticate", b'Bearer realm="interbed"')


class AuthenticatedApplication:
    """An ASGI application that serves authenticated requests by another one."""

    def __init__(self, application: ASGIApp, authentication: Authentication) -> None:
        self._application = application
        self._authentication = authentication
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="authentication")
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate a request, and serve it as its principal's."""
        client = client_of(scope)
        try:
            presented = _authorization(scope["headers"])
            principal = await self._principal(replace(presented, common_names=client.session.common_names))
        except AuthenticationUnavailableError as error:
            await self._refuse(send, HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException", error)
        except AuthenticationError as error:
            logger.info("a request from %s is not authenticated: %s", client.session.peer, error)
            await self._refuse(send, HTTPStatus.UNAUTHORIZED, "NotAuthorizedException", error)
        else:
            if client.session.principal != principal:
                # The settings of a session are those of its principal.
                client.session = replace(client.session, principal=principal, user=principal.name, settings={})
            await self._application(scope, receive, send)

    async def _principal(self, credentials: Credentials) -> Principal:
        known = self._authentication.known(credentials)
        if known is not None:
            return known
        if self._waiting >= WAITING_MAX:
            raise AuthenticationUnavailableError("Too many requests wait to be authenticated; try again")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._authentication.authenticate, credentials)
        finally:
            self._waiting -= 1

    async def _refuse(self, send: Send, status: HTTPStatus, kind: str, error: AuthenticationError) -> None:
        # One body for the clients of both REST catalogs: each reads its own fields.
        iceberg = {"message": str(error), "type": kind, "code": int(status)}
        body = {"error": iceberg, "message": str(error), "code": int(status)}
        further = [_CHALLENGE] if status is HTTPStatus.UNAUTHORIZED else [(b"retry-after", b"1")]
        await respond(send, status, "application/json", json.dumps(body).encode(), further=further, closes=True)


def _authorization(headers: Iterable[tuple[bytes, bytes]]) -> Credentials:
    """Return the bearer token of a request, or its user and password. AuthenticationError for another scheme."""
    found = [value for name, value in headers if name == b"authorization"]
    if not found:
        return Credentials()
    if len(found) > 1:
        raise AuthenticationError("The request has several Authorization headers")
    scheme, _, given = found[0].decode("latin-1").partition(" ")
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
