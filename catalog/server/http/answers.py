"""Cached answers for the applications of an HTTP server.

An application finds the answer to a request by bytes that determine it. One query of the metadata's generation serves
all requests that came in before it, as for the clients of the process's other loop (thrift/edge/cache.py).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

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
