"""Cache of answers: encoded replies to reads of metadata, kept until a change invalidates them.

An answer is found by the bytes of the call without the sequence id. It is valid for the generation of metadata that the
cache is at (see database/session.py). Before answers are returned, the cache is brought to the present generation,
and the answers named by the events in between are dropped. So a read that begins after a change was acknowledged sees
the change, whichever process or server made it.

Each answer depends on a scope: a table, the names in a database, everything in a database, and so on. Calls that are
not listed here are never cached.

`CacheLookup` queries the generation for a loop. One query serves all requests that came in before it. Requests that
come in during a query wait for the next one, because a change that was acknowledged in between must be visible. When
the database does not answer, requests are run in full.
"""

import logging
import selectors
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from interbed.catalog.server.database.session import (
    ChangedObject,
    GenerationChanges,
    GenerationError,
    GenerationReader,
)
from interbed.catalog.server.service.access.guard import OPEN_ACCESS, AccessGuard
from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths
from interbed.catalog.server.thrift.edge.call import (
    NAMES,
    SCOPES,
    CallOutcome,
    ClientSession,
    Scope,
    caller_of,
    scopes_of_table,
    with_owners,
)
from interbed.catalog.server.thrift.edge.codec import Codec
from interbed.catalog.server.thrift.edge.dispatch import CallAnswer

ANSWER_BYTES_SHARE = 8
"""Divisor of the cache's size that limits one answer: a list of a million names must not evict all others."""

_ENTRY_OVERHEAD_BYTES = 600
"""Estimated memory of an entry besides its bytes: objects, keys, the index."""

logger = logging.getLogger(__name__)

ASK_SECONDS_MAX = 5.0
"""Time that the database has to return its generation before requests are run in full."""

RECONNECT_SECONDS = 1.0
"""Time between two attempts to connect to a database that did not return its generation."""


class CacheEntry:
    """A cached answer. `valid` becomes False when it is dropped. `head` is what an interface has besides bytes."""

    __slots__ = ("after", "before", "head", "key", "method", "outcome", "scope", "size", "valid")

    def __init__(
        self, key: bytes, method: str, outcome: CallOutcome, scope: Scope, before: bytes, after: bytes = b""
    ) -> None:
        self.key = key
        self.method = method
        self.outcome = outcome
        self.before = before
        self.after = after
        self.head: Any = None
        self.scope = scope
        self.size = len(key) + len(before) + len(after) + _ENTRY_OVERHEAD_BYTES
        self.valid = True


class AnswerCache:
    """LRU cache of answers by the bytes of their calls, limited by bytes.

    Safe for many threads: each loop of a process has a `CacheLookup` on it.
    """

    def __init__(self, bytes_max: int, access: AccessGuard = OPEN_ACCESS) -> None:
        self._bytes_max = bytes_max
        self._access = access
        self._entries: OrderedDict[bytes, CacheEntry] = OrderedDict()
        self._by_scope: dict[Scope, dict[bytes, CacheEntry]] = {}
        self._guard = threading.Lock()
        self._bytes = 0
        self.hits = 0
        """Answers that were given out, counted by the caller."""
        self.misses = 0
        """Answers offered to the cache after a full run."""
        self.generation = -1
        """The generation of the entries; -1 before the first query, when nothing is kept."""

    @property
    def size(self) -> int:
        """Approximate bytes in use."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._entries)

    def key_of(self, call: bytes, session: ClientSession) -> bytes | None:
        """Return the key of a client's call: its bytes, and where access is decided also the client and the generation
        of the grants. None if the answer must not be kept.
        """
        if self._access.authorizer is None:
            return call
        if session.principal is None:
            return None
        prefix = self._access.answers_key(caller_of(session))
        return None if prefix is None else prefix + call

    def find(self, key: bytes) -> CacheEntry | None:
        """Return the answer as of `generation`; the caller brings the cache up to date before it sends the answer."""
        with self._guard:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
            return entry

    def keep(self, key: bytes, answer: CallAnswer, generation: int) -> bool:
        """Keep an answer that was made after the cache had come to this generation; return whether it was kept.

        It is not kept if the cache has advanced since: the answer may be older than the change that advanced it.
        """
        finder = SCOPES.get(answer.method)
        if finder is None:
            return False
        entry = None
        if answer.lasting:
            scope = finder(answer.arguments)
            entry = CacheEntry(key, answer.method, answer.outcome, scope, answer.before, answer.after)
        return self.keep_entry(entry, generation)

    def keep_entry(self, entry: CacheEntry | None, generation: int) -> bool:
        """Keep an answer as `keep`; None counts one that does not last."""
        if entry is not None and self._access.authorizer is not None:
            entry.scope = with_owners(entry.scope)
        with self._guard:
            self.misses += 1
            if entry is None or entry.size * ANSWER_BYTES_SHARE > self._bytes_max:
                return False
            if generation != self.generation or generation < 0:
                return False
            key = entry.key
            old = self._entries.get(key)
            if old is not None:
                self._drop(old)
            while self._entries and self._bytes + entry.size > self._bytes_max:
                self._drop(next(iter(self._entries.values())))
            self._entries[key] = entry
            self._by_scope.setdefault(entry.scope, {})[key] = entry
            self._bytes += entry.size
        return True

    def apply(self, changes: GenerationChanges, since: int | None = None) -> None:
        """Advance to a generation, and drop the answers that the changes invalidate. `since` is the generation that was
        asked about: another lookup may have advanced the cache further meanwhile.
        """
        if changes.generation == self.generation:
            return
        with self._guard:
            if since is not None and since != self.generation and 0 <= changes.generation <= self.generation:
                return
            if changes.touched is None or changes.generation < self.generation or self.generation < 0:
                self._drop_all(list(self._by_scope))
            else:
                for touch in changes.touched:
                    self._drop_touched(touch)
            self.generation = changes.generation

    def clear(self) -> None:
        """Drop all answers and forget the generation."""
        with self._guard:
            self._drop_all(list(self._by_scope))
            self.generation = -1

    def _drop_touched(self, touch: ChangedObject) -> None:
        catalog, database, table = touch.catalog, touch.database, touch.table
        if catalog is None:
            self._drop_all(list(self._by_scope))
        elif database is None:
            self._drop_all([scope for scope in self._by_scope if scope[:1] in ((), (catalog,))])
        elif table is None:
            above: list[Scope] = [(), (catalog,), (catalog, NAMES)]
            self._drop_all([*above, *(scope for scope in self._by_scope if scope[:2] == (catalog, database))])
        else:
            self._drop_all(scopes_of_table(touch.type, catalog, database, table, renamed=touch.previous is not None))
            if touch.previous is not None:
                self._drop_all(scopes_of_table(touch.type, *touch.previous, renamed=True))

    def _drop_all(self, scopes: Iterable[Scope]) -> None:
        for scope in scopes:
            for entry in list(self._by_scope.get(scope, {}).values()):
                self._drop(entry)

    def _drop(self, entry: CacheEntry) -> None:
        entry.valid = False
        del self._entries[entry.key]
        self._bytes -= entry.size
        same = self._by_scope[entry.scope]
        del same[entry.key]
        if not same:
            del self._by_scope[entry.scope]


C = TypeVar("C")


class ReaderRegistry(Protocol):
    """The part of a selector that a lookup needs: `data` is called when the file is readable."""

    def register(self, fileobj: int, events: int, data: Callable[[], None], /) -> Any: ...

    def unregister(self, fileobj: int, /) -> Any: ...


class CacheHit(Generic[C]):
    """A request with an answer in the cache; the answer may be sent if the entry is still valid after the lookup."""

    __slots__ = ("connection", "entry", "message", "sequence", "started")

    def __init__(self, connection: C, entry: CacheEntry, message: bytes, sequence: bytes) -> None:
        self.connection = connection
        self.message = message
        self.entry = entry
        self.sequence = sequence
        self.started = time.monotonic()


class CacheLookup(Generic[C]):
    """Finds answers in a cache and brings that up to date; for the thread of a loop.

    `open_generation_reader` is called on a thread of its own, because connecting may take long. `give_back` gets each
    hit when the validity of its entry is known; `park` gets the connections that have to wait until then. `call_soon`
    runs a function on the loop's thread.
    """

    def __init__(
        self,
        cache: AnswerCache,
        open_generation_reader: Callable[[], GenerationReader],
        *,
        selector: ReaderRegistry,
        deaths: ThreadDeaths,
        call_soon: Callable[[Callable[[], None]], None],
        give_back: Callable[[CacheHit[C]], None],
        park: Callable[[C], None],
    ) -> None:
        self.cache = cache
        self._open_generation_reader = open_generation_reader
        self._selector = selector
        self._deaths = deaths
        self._call_soon = call_soon
        self._give_back = give_back
        self._park = park
        self._generations: GenerationReader | None = None
        self._asked = -1
        self._asked_at: float | None = None
        self._is_connecting = False
        self._connect_at = 0.0
        self._is_closed = False
        self._waiting: list[CacheHit[C]] = []
        self._next: list[CacheHit[C]] = []

    @property
    def answers_at_once(self) -> bool:
        """Whether `ask` gives the hits back before it returns."""
        return self._generations is None or self._generations.fileno() is None

    @property
    def has_next(self) -> bool:
        """Whether hits wait for the next `ask`."""
        return bool(self._next)

    def find(self, connection: C, codec: Codec, message: bytes, session: ClientSession) -> tuple[bytes | None, bool]:
        """Return the key under which an answer to the message may be kept, and whether there is one. If so, the hit is
        given back after the next `ask`.
        """
        split = codec.split(message) if self._generations is not None else None
        if split is None:
            return None, False
        call, sequence = split
        key = self.cache.key_of(call, session)
        if key is None:
            return None, False
        return key, self.look_up(connection, key, message, sequence)

    def look_up(self, connection: C, key: bytes, message: bytes = b"", sequence: bytes = b"") -> bool:
        """Return whether there is an answer of a key. If so, the hit is given back after the next `ask`."""
        entry = self.cache.find(key) if self._generations is not None else None
        if entry is None:
            return False
        self._next.append(CacheHit(connection, entry, message, sequence))
        return True

    def ask(self) -> None:
        """Query the generation for all hits that were found, unless a query is in progress."""
        if not self._next or self._asked_at is not None:
            return
        self._waiting, self._next = self._next, []
        if self._generations is None:
            self._give_all_back()
        else:
            self._ask(self._generations)

    def on_tick(self) -> None:
        """Reconnect, and end a query that has exceeded its deadline; called periodically."""
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

    def _ask(self, generations: GenerationReader) -> None:
        try:
            self._asked = self.cache.generation
            generations.ask(self._asked)
            if generations.fileno() is None:
                self._take(generations)
                return
        except GenerationError as error:
            self._lose(error)
            return
        self._asked_at = time.monotonic()
        for hit in self._waiting:
            self._park(hit.connection)

    def _on_readable(self) -> None:
        """Read the answer of the database, or notice that it has closed the connection."""
        assert self._generations is not None
        try:
            if self._asked_at is None:
                raise GenerationError("the database has closed the connection")
            self._take(self._generations)
        except GenerationError as error:
            self._lose(error)

    def _take(self, generations: GenerationReader) -> None:
        changes = generations.answer()
        if changes is not None:
            self._asked_at = None
            self.cache.apply(changes, self._asked)
            self._give_all_back()

    def _give_all_back(self) -> None:
        waiting, self._waiting = self._waiting, []
        for hit in waiting:
            self._give_back(hit)

    def _connect(self) -> None:
        """Connect to the database; runs on a thread of its own."""
        try:
            opened = self._open_generation_reader()
        except GenerationError as error:
            logger.warning("nothing is cached until the database says what has changed: %s", error)
            self._call_soon(self._connect_later)
        else:
            self._call_soon(partial(self._connected, opened))

    def _connect_later(self) -> None:
        self._is_connecting = False
        self._connect_at = time.monotonic() + RECONNECT_SECONDS

    def _connected(self, opened: GenerationReader) -> None:
        self._is_connecting = False
        if self._is_closed:
            opened.close()
            return
        self._generations = opened
        number = opened.fileno()
        if number is not None:
            self._selector.register(number, selectors.EVENT_READ, self._on_readable)
        # The first answer sets the generation of the cache.
        self._ask(opened)

    def _lose(self, error: GenerationError) -> None:
        logger.warning("nothing is cached until the database says what has changed: %s", error)
        self.close()
        self._is_closed = False
        self._asked_at = None
        self._connect_at = time.monotonic() + RECONNECT_SECONDS
        # All entries become invalid, so that waiting requests are run in full.
        self.cache.clear()
        self._give_all_back()
