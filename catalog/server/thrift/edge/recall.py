"""Requests whose answers are in the cache, and the question to the database whether that is still true.

One question stands for all requests that came in before it was asked. Those that come in meanwhile wait for the next
one: a change that was acknowledged in between must show. Where nobody answers, requests go the long way.
"""

import logging
import selectors
import time
from collections.abc import Callable
from functools import partial

from interbed.catalog.server.database.generation import GenerationError, Generations
from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths
from interbed.catalog.server.thrift.edge.cache import AnswerCache, Entry
from interbed.catalog.server.thrift.edge.transport import ClientConnection

logger = logging.getLogger(__name__)

ASK_SECONDS_MAX = 5.0
"""How long the database may take to return its generation before requests are run in full."""

RECONNECT_SECONDS = 1.0
"""Time between two tries to reach a database that did not return its generation."""


class Hit:
    """A request whose answer is in the cache; it is true if the entry is still valid when it is given back."""

    __slots__ = ("connection", "entry", "message", "sequence", "started")

    def __init__(self, connection: ClientConnection, message: bytes, entry: Entry, sequence: bytes) -> None:
        self.connection = connection
        self.message = message
        self.entry = entry
        self.sequence = sequence
        self.started = time.monotonic()


class Recall:
    """Finds answers in a cache and brings that up to date; for the thread of a loop.

    `open_generations` is called on a thread of its own, for connecting may take long. `give_back` gets each hit when
    its entry is known to be valid or not; `park` gets the connections that have to wait until then. `call_soon` runs
    a function on the loop's thread.
    """

    def __init__(
        self,
        cache: AnswerCache,
        open_generations: Callable[[], Generations],
        *,
        selector: selectors.BaseSelector,
        deaths: ThreadDeaths,
        call_soon: Callable[[Callable[[], None]], None],
        give_back: Callable[[Hit], None],
        park: Callable[[ClientConnection], None],
    ) -> None:
        self.cache = cache
        self._open_generations = open_generations
        self._selector = selector
        self._deaths = deaths
        self._call_soon = call_soon
        self._give_back = give_back
        self._park = park
        self._generations: Generations | None = None
        self._asked_at: float | None = None
        self._is_connecting = False
        self._connect_at = 0.0
        self._is_closed = False
        self._waiting: list[Hit] = []
        self._next: list[Hit] = []

    def find(self, connection: ClientConnection, message: bytes) -> tuple[bytes | None, bool]:
        """The key under which an answer to the message may be kept, and whether there is one: then the hit comes back
        after the next `ask`.
        """
        split = connection.codec.split(message) if self._generations is not None else None
        if split is None:
            return None, False
        key, sequence = split
        entry = self.cache.find(key)
        if entry is None:
            return key, False
        self._next.append(Hit(connection, message, entry, sequence))
        return key, True

    def ask(self) -> None:
        """Ask for all hits that were found, unless a question is under way."""
        if not self._next or self._asked_at is not None:
            return
        self._waiting, self._next = self._next, []
        if self._generations is None:
            self._give_all_back()
        else:
            self._ask(self._generations)

    def look_after(self) -> None:
        """What is to be done every now and then: connect, and stop to wait."""
        now = time.monotonic()
        if self._asked_at is not None and self._asked_at + ASK_SECONDS_MAX < now:
            self._lose(GenerationError("the database does not answer"))
        if self._generations is None and not self._is_connecting and now >= self._connect_at:
            self._is_connecting = True
            SupervisedThread(self._connect, name="cache", deaths=self._deaths).start()

    def close(self) -> None:
        """Close the connection to the database."""
        self._is_closed = True
        if self._generations is not None:
            number = self._generations.fileno()
            if number is not None:
                self._selector.unregister(number)
            self._generations.close()
            self._generations = None

    def _ask(self, generations: Generations) -> None:
        try:
            generations.ask(self.cache.generation)
            if generations.fileno() is None:
                self._take(generations)
                return
        except GenerationError as error:
            self._lose(error)
            return
        self._asked_at = time.monotonic()
        for hit in self._waiting:
            self._park(hit.connection)

    def _told(self) -> None:
        """The database has said something."""
        assert self._generations is not None
        try:
            if self._asked_at is None:
                raise GenerationError("the database has closed the connection")
            self._take(self._generations)
        except GenerationError as error:
            self._lose(error)

    def _take(self, generations: Generations) -> None:
        changes = generations.answer()
        if changes is not None:
            self._asked_at = None
            self.cache.apply(changes)
            self._give_all_back()

    def _give_all_back(self) -> None:
        waiting, self._waiting = self._waiting, []
        for hit in waiting:
            self._give_back(hit)

    def _connect(self) -> None:
        """On a thread of its own."""
        try:
            opened = self._open_generations()
        except GenerationError as error:
            logger.warning("nothing is cached until the database says what has changed: %s", error)
            self._call_soon(self._connect_later)
        else:
            self._call_soon(partial(self._connected, opened))

    def _connect_later(self) -> None:
        self._is_connecting = False
        self._connect_at = time.monotonic() + RECONNECT_SECONDS

    def _connected(self, opened: Generations) -> None:
        self._is_connecting = False
        if self._is_closed:
            opened.close()
            return
        self._generations = opened
        number = opened.fileno()
        if number is not None:
            self._selector.register(number, selectors.EVENT_READ, self._told)
        # The first answer says where the cache begins.
        self._ask(opened)

    def _lose(self, error: GenerationError) -> None:
        logger.warning("nothing is cached until the database says what has changed: %s", error)
        self.close()
        self._is_closed = False
        self._asked_at = None
        self._connect_at = time.monotonic() + RECONNECT_SECONDS
        # All entries become invalid, so that those who wait are served the long way.
        self.cache.clear()
        self._give_all_back()
