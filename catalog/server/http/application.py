"""Applications: the interfaces of a port, and what they have in common.

`application` makes one application of a port's interfaces: a route for each (Thrift over HTTP), or a mounted Starlette
application with routes of its own (`pages`). An endpoint finds its client, with the session and the share of the thread
pool, by `client_of`.

Answers are cached. An application finds the answer to a request by bytes that determine it. One query of the metadata's
generation serves all requests that came in before it, as for the clients of the process's other loop
(thrift/edge/cache.py).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, ExceptionHandler, Receive, Scope, Send
from thrift.transport.TTransport import TTransportException

from interbed.catalog.server.http.connection import CLIENT_EXTENSION, HttpClient
from interbed.catalog.server.threads import ThreadDeaths
from interbed.catalog.server.thrift.edge.cache import CacheEntry, CacheHit, CacheLookup
from interbed.catalog.server.thrift.edge.call import ClientSession
from interbed.catalog.server.thrift.edge.serving import SharedEdge

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
