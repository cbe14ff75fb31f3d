"""Applications: the interfaces of a port, what they have in common, and the authentication of their requests.

`application` makes one application of a port's interfaces: a route for each (Thrift over HTTP), or a mounted Starlette
application with routes of its own (`pages`). An endpoint finds its client, with the session and the share of the thread
pool, by `client_of`.

Answers are cached. An application finds the answer to a request by bytes that determine it. One query of the metadata's
generation serves all requests that came in before it, as for the clients of the process's other loop
(thrift/edge/cache.py).

Requests are authenticated before their body is read, and before any interface sees them. `AuthenticatedApplication`
covers the whole port, so that no interface can be reached past it, but for the console, which authenticates its
requests by cookies of its own (`beside`). Verification that needs the database or the issuer of tokens runs on a few
threads of its own (auth/authentication.py).
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, ExceptionHandler, Message, Receive, Scope, Send
from thrift.transport.TTransport import TTransportException

from interbed.catalog.server.auth.attempts import TooManyAttemptsError, address_of
from interbed.catalog.server.auth.authentication import Authentication, CertificateEnds, VerificationQueue
from interbed.catalog.server.auth.impersonation import Impersonation, ImpersonationError, no_groups
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    Credentials,
    Principal,
    VerifiedClient,
)
from interbed.catalog.server.http.connection import CLIENT_EXTENSION, AuthenticatedHeader, HttpClient
from interbed.catalog.server.threads import ThreadDeaths
from interbed.catalog.server.thrift.edge.cache import CacheEntry, CacheHit, CacheLookup
from interbed.catalog.server.thrift.edge.call import ClientSession
from interbed.catalog.server.thrift.edge.serving import SharedEdge
from interbed.storage.base.decoding import bytes_of_base64

_TICK_SECONDS = 1.0


class HttpAnswers:
    """The cache of a process for the thread of an HTTP server's loop. Its `lifespan` has to be that of the server."""

    def __init__(self, edge: SharedEdge, deaths: ThreadDeaths) -> None:
        self.edge = edge
        self._deaths = deaths
        self._lookup: CacheLookup[_WaitingRequest] | None = None
        self._is_asking = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_on(self) -> bool:
        """Whether answers are cached."""
        return self._lookup is not None

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Look answers up in the cache for as long as the server runs."""
        loop = self._loop = asyncio.get_running_loop()
        edge = self.edge
        if edge.cache is None or edge.generations is None:
            yield
            return
        self._lookup = CacheLookup(
            edge.cache,
            edge.generations,
            selector=_LoopReaders(loop),
            deaths=self._deaths,
            call_soon=self.call_soon,
            give_back=self._give_back,
            park=lambda request: None,
        )
        ticking = loop.create_task(self._tick(self._lookup))
        try:
            yield
        finally:
            ticking.cancel()
            self._lookup.close()

    def call_soon(self, task: Callable[[], None]) -> None:
        """Run a function on the loop's thread; from any thread."""
        assert self._loop is not None
        # The loop is closed when a server that stops has waited long enough.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(task)

    def key_of(self, call: bytes, session: ClientSession) -> bytes | None:
        """Return the key of a client's call; None if the answer must not be kept."""
        return None if self._lookup is None else self._lookup.cache.key_of(call, session)

    async def find(self, key: bytes) -> CacheEntry | None:
        """Return the answer of a key as of a time after the call, and count the hit; None if there is no answer."""
        lookup = self._lookup
        if lookup is None:
            return None
        assert self._loop is not None
        request = _WaitingRequest(self._loop.create_future())
        if not lookup.look_up(request, key):
            return None
        if lookup.answers_at_once:
            lookup.ask()
        else:
            self._ask_soon()
        entry = (await request.hit).entry
        if not entry.valid:
            return None
        lookup.cache.hits += 1
        return entry

    def _give_back(self, hit: "CacheHit[_WaitingRequest]") -> None:
        if not hit.connection.hit.done():
            hit.connection.hit.set_result(hit)
        if self._lookup is not None and self._lookup.has_next:
            # Requests that came during the query wait for the next one.
            self._ask_soon()

    def _ask_soon(self) -> None:
        assert self._loop is not None
        if not self._is_asking:
            self._is_asking = True
            self._loop.call_soon(self._ask)

    def _ask(self) -> None:
        self._is_asking = False
        if self._lookup is not None:
            self._lookup.ask()

    async def _tick(self, lookup: "CacheLookup[_WaitingRequest]") -> None:
        while True:
            lookup.on_tick()
            # A query that has ended since may have left requests for the next one.
            lookup.ask()
            await asyncio.sleep(_TICK_SECONDS)


class _WaitingRequest:
    """A request whose answer is in the cache, until it is known whether that is valid."""

    __slots__ = ("hit",)

    def __init__(self, hit: "asyncio.Future[CacheHit[_WaitingRequest]]") -> None:
        self.hit = hit


class _LoopReaders:
    """The sockets that a loop watches, with the interface of a selector."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def register(self, number: int, events: int, data: Callable[[], None]) -> Any:
        """Call a function whenever a socket is readable."""
        self._loop.add_reader(number, data)

    def unregister(self, number: int) -> Any:
        """Stop watching a socket."""
        self._loop.remove_reader(number)


class HttpError(TTransportException):  # type: ignore[misc]
    """A refused request; `status` is the HTTP status."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(TTransportException.UNKNOWN, message)
        self.status = status


def application(interfaces: Sequence[Route | Mount], *, missing: str) -> ASGIApp:
    """Return the application of a port; `missing` is the text for a path that no interface has.

    An interface has a path of its own, or all paths below one. They are found by two lookups, because Starlette's
    router and its handlers of errors take a notable part of the time of a cached answer.
    """
    exact = {each.path: each.app for each in interfaces if isinstance(each, Route)}
    below = {each.path: each.app for each in interfaces if isinstance(each, Mount)}

    async def found(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        app = exact.get(path)
        if app is None:
            first, slash, _ = path[1:].partition("/")
            app = below.get(f"/{first}") if slash else None
        if app is None:
            await refuse(send, HTTPStatus.NOT_FOUND, missing)
        else:
            await app(scope, receive, send)

    return found


def beside(mounted: Mount, others: ASGIApp) -> ASGIApp:
    """Return the application of a port with one mounted beside all others: it authenticates its requests itself, and
    these never get one below its path.
    """
    root, app = mounted.path, mounted.app
    below = f"{root}/"

    async def chosen(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        await (app if path == root or path.startswith(below) else others)(scope, receive, send)

    return chosen


def pages(routes: Sequence[BaseRoute], errors: Mapping[Any, ExceptionHandler]) -> Starlette:
    """Return an application with routes of its own; `errors` are handlers by status or by exception."""
    made = Starlette(routes=routes, exception_handlers=errors)
    made.router.redirect_slashes = False
    return made


def client_of(scope: Scope) -> HttpClient:
    """Return the client of a request."""
    client: HttpClient = scope["extensions"][CLIENT_EXTENSION]
    return client


def check_coding(coding: str) -> None:
    """Raise HttpError with status 415 for a packed body: the limits of messages are those of bytes as they are sent."""
    if coding.strip().lower() not in ("", "identity"):
        raise HttpError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content encoding {coding[:100]!r} is not read: send plain bodies"
        )


async def read_body(
    receive: Receive, length: int | None, bytes_max: int, too_large: Callable[[], HttpError]
) -> bytes | None:
    """Return the body of a request; None if the client has disconnected. Raises the error of `too_large` for a longer
    one; a body of known `length` has been checked.
    """
    part = await receive()
    if part["type"] == "http.disconnect":
        return None
    body: bytes = part.get("body", b"")
    if not part.get("more_body"):
        return body
    parts, size = [body], len(body)
    while part.get("more_body"):
        if length is None and size > bytes_max:
            raise too_large()
        part = await receive()
        if part["type"] == "http.disconnect":
            return None
        parts.append(part.get("body", b""))
        size += len(parts[-1])
    if size > bytes_max:
        raise too_large()
    return b"".join(parts)


async def refuse(send: Send, status: HTTPStatus, reason: str) -> None:
    """Send a response that describes an error, after which the connection closes."""
    await respond(send, status, "text/plain; charset=utf-8", f"{reason}\n".encode(errors="replace"), closes=True)


async def respond(
    send: Send,
    status: int,
    content_type: str,
    body: bytes,
    *,
    further: Iterable[tuple[bytes, bytes]] = (),
    closes: bool = False,
) -> None:
    """Send a response with a body of known length; `further` are headers."""
    headers = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body)), *further]
    if closes:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


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
            self._authentication.check_certificate(client.session.certificate)
            header = _authorization(scope["headers"])
            kept = client.authenticated
            if kept is not None and kept.value == header and self._authentication.now < kept.until:
                principal = kept.principal
                client.verify = kept.verify
            elif (token := _negotiate_token(header)) is None:
                principal = await self._presented(client, header)
            else:
                holder, answer = await self._negotiated(token)
                principal = await self._on_thread(holder.verified)
                client.verify = partial(self._verified_again, client.session, holder)
            user = _acted_for(scope) if scope["query_string"] else None
            if user is not None:
                peer, verify = client.session.peer, client.verify
                assert verify is not None
                principal = await self._on_thread(partial(self._impersonation.acting, principal, user, peer))
                client.verify = partial(self._acting_again, verify, user, peer)
            if client.session.principal is not principal:
                client.session = client.session.of(principal)
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

    def _acting_again(self, verify: Callable[[], Principal | None], user: str, peer: str) -> Principal:
        """Return the user for which a service acts, with its groups as of now; may do I/O. AuthenticationError."""
        principal = verify()
        assert principal is not None, "the client is authenticated"
        return self._impersonation.acting(principal, user, peer)

    def _verified_again(self, session: ClientSession, holder: VerifiedClient) -> Principal:
        """Return the client of a token of Kerberos as of now; may do I/O. AuthenticationError if that or its
        certificate has ended.
        """
        self._authentication.check_certificate(session.certificate)
        return holder.verified()

    async def _negotiated(self, token: str) -> tuple[VerifiedClient, str]:
        """Return the client of a token of Kerberos, and the server's token. AuthenticationError."""
        if self._authentication.negotiate is None:
            raise AuthenticationError(f"Kerberos is not accepted here; accepted: {self._authentication.accepted}")
        return await self._on_thread(partial(self._authentication.negotiate.verify, token))

    async def _presented(self, client: HttpClient, header: bytes | None) -> Principal:
        """Return the principal of the credentials in a header, or of the client's certificate. AuthenticationError."""
        session = client.session
        credentials = _credentials(header)
        if session.certificate is not None:
            credentials = replace(credentials, certificate=session.certificate)
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
        further: Sequence[tuple[bytes, bytes]] = ()
        if status is HTTPStatus.UNAUTHORIZED:
            further = self._challenges
        elif status is not HTTPStatus.FORBIDDEN:
            wait = error.retry_seconds if isinstance(error, TooManyAttemptsError) else 1
            further = [(b"retry-after", b"%d" % wait)]
        await respond(send, status, "application/json", _refusal(status, kind, error), further=further, closes=True)


class CertifiedApplication:
    """An ASGI application that serves every client by another one, until the certificate of its connection ends."""

    def __init__(self, application: ASGIApp, certificates: CertificateEnds) -> None:
        self._application = application
        self._certificates = certificates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it with status 401."""
        client = client_of(scope)
        try:
            self._certificates.check(client.session.certificate)
        except AuthenticationError as error:
            logger.info("a request from %s is not served: %s", client.session.peer, error)
            body = _refusal(HTTPStatus.UNAUTHORIZED, "NotAuthorizedException", error)
            await respond(send, HTTPStatus.UNAUTHORIZED, "application/json", body, closes=True)
            return
        client.verify = partial(self._certificates.check, client.session.certificate)
        await self._application(scope, receive, send)


def _refusal(status: HTTPStatus, kind: str, error: AuthenticationError) -> bytes:
    """Return one body for the clients of both REST catalogs: each reads its own fields."""
    iceberg = {"message": str(error), "type": kind, "code": int(status)}
    return json.dumps({"error": iceberg, "message": str(error), "code": int(status)}).encode()


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
            user, colon, password = bytes_of_base64(given).decode().partition(":")
        except ValueError as error:
            raise AuthenticationError("The Authorization header is not of the form `Basic <base64>`") from error
        if colon and user and password:
            return Credentials(user=user, password=password)
    raise AuthenticationError("The Authorization header is not of the form `Bearer <token>`")
