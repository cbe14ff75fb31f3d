"""Authentication of HTTP requests: before a request's body is read, and before any interface sees it.

It covers the whole port, so that no interface can be reached past it. Verification that needs the database or the
issuer of tokens runs on a few threads of its own (auth/verification.py).
"""

import asyncio
import base64
import json
import logging
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from http import HTTPStatus

from starlette.types import ASGIApp, Receive, Scope, Send

from interbed.catalog.server.auth.attempts import TooManyAttemptsError, address_of
from interbed.catalog.server.auth.authentication import Authentication
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    Credentials,
    Principal,
)
from interbed.catalog.server.auth.verification import VerificationQueue
from interbed.catalog.server.http.application import client_of, respond

logger = logging.getLogger(__name__)

_CHALLENGE = (b"www-authenticate", b'Bearer realm="interbed"')


class AuthenticatedApplication:
    """An ASGI application that serves authenticated requests by another one."""

    def __init__(self, application: ASGIApp, authentication: Authentication) -> None:
        self._application = application
        self._authentication = authentication
        self._verifications = VerificationQueue(authentication, "authentication")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate a request, and serve it as its principal's. The application may raise AuthenticationError for
        credentials that are not valid any more, before its response.
        """
        client = client_of(scope)
        try:
            presented = _authorization(scope["headers"])
            if client.session.common_names is not None:
                presented = replace(presented, common_names=client.session.common_names)
            principal = await self._principal(presented, client.session.peer)
            client.verify = partial(self._authentication.present, presented)
            if client.session.principal != principal:
                # The settings of a session are those of its principal.
                client.session = replace(client.session, principal=principal, user=principal.name, settings={})
            await self._application(scope, receive, send)
        except TooManyAttemptsError as error:
            logger.info("a request from %s is not authenticated: %s", client.session.peer, error)
            await self._refuse(send, HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequestsException", error)
        except AuthenticationUnavailableError as error:
            await self._refuse(send, HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException", error)
        except AuthenticationError as error:
            logger.info("a request from %s is not authenticated: %s", client.session.peer, error)
            await self._refuse(send, HTTPStatus.UNAUTHORIZED, "NotAuthorizedException", error)

    async def _principal(self, credentials: Credentials, peer: str) -> Principal:
        known = self._authentication.known(credentials)
        if known is not None:
            return known
        placed = replace(credentials, address=address_of(peer))
        verified = self._verifications.submit(partial(self._authentication.authenticate, placed), placed)
        return await asyncio.wrap_future(verified)

    async def _refuse(self, send: Send, status: HTTPStatus, kind: str, error: AuthenticationError) -> None:
        # One body for the clients of both REST catalogs: each reads its own fields.
        iceberg = {"message": str(error), "type": kind, "code": int(status)}
        body = {"error": iceberg, "message": str(error), "code": int(status)}
        wait = error.retry_seconds if isinstance(error, TooManyAttemptsError) else 1
        further = [_CHALLENGE] if status is HTTPStatus.UNAUTHORIZED else [(b"retry-after", b"%d" % wait)]
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
