"""Read an eventual log in Kafka: each record as soon as it is written, or those between two offsets.

`bounds_of` returns where the log's partitions begin and end. Its connections are kept for the next question, because a
connection takes many times as long to open as to answer, and a planner of Spark asks at every trigger of a query.
"""

import atexit
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock, Timer
from typing import Any, NamedTuple

from interbed.storage.base.errors import LogUnavailableError
from interbed.storage.log.kafka import LogConsumer
from interbed.storage.log.settings import LogSettings
from interbed.storage.log.written import WRITTEN_HEADER, WrittenBy, WrittenRange, WrittenRanges, WrittenRow

_STEP_SECONDS = 0.5


class KafkaWrittenReader:
    """A WrittenReader of a topic. Raises MissingExtraError; nothing is connected to before `open`."""

    def __init__(self, settings: LogSettings, *, request_seconds: float = 10.0) -> None:
        self._consumer = LogConsumer(settings, request_seconds=request_seconds)
        self._rows = _Rows(settings)
        self._partitions = 0

    @property
    def is_at_end(self) -> bool:
        """See WrittenReader."""
        return len(self._consumer.at_end) >= self._partitions

    def open(self, offsets: Mapping[int, int]) -> WrittenRange | None:
        """See WrittenReader."""
        partitions = self._consumer.partitions()
        if partitions is None:
            return None
        self._partitions = partitions
        begins, ends = self._consumer.begin(offsets, partitions)
        return WrittenRange(begins, ends)

    def poll(self, timeout_seconds: float) -> Sequence[WrittenRow]:
        """See WrittenReader."""
        return self._rows.of(self._consumer.take(timeout_seconds))

    def close(self) -> None:
        """See WrittenReader."""
        self._consumer.close()


class KafkaWrittenRanges:
    """A WrittenRanges of a topic. Raises MissingExtraError; nothing is connected to before the first question."""

    def __init__(self, settings: LogSettings, *, request_seconds: float = 10.0) -> None:
        self._settings = settings
        self._seconds = request_seconds
        self._consumer = LogConsumer(settings, request_seconds=request_seconds)
        self._rows = _Rows(settings)

    def bounds(self) -> WrittenRange | None:
        """See WrittenRanges."""
        self._consumer.log_what_waits()
        partitions = self._consumer.partitions()
        if partitions is None:
            return None
        return WrittenRange(self._consumer.lowest(range(partitions)), self._consumer.highest(range(partitions)))

    def between(self, partition: int, begin: int, end: int) -> Iterator[Sequence[WrittenRow]]:
        """See WrittenRanges."""
        if begin >= end:
            return
        self._consumer.assign({partition: begin})
        give_up = time.monotonic() + self._seconds
        while True:
            messages = self._consumer.take(_STEP_SECONDS)
            inside = [message for message in messages if message.offset() < end]
            if inside:
                yield self._rows.of(inside)
            # The last offset may be that of no record.
            if len(inside) < len(messages) or (messages and messages[-1].offset() >= end - 1):
                return
            if partition in self._consumer.at_end:
                return
            if messages:
                give_up = time.monotonic() + self._seconds
            elif time.monotonic() >= give_up:
                raise LogUnavailableError(
                    f"Records {begin} to {end} of partition {partition} of {self._settings.place} did not come within "
                    f"{self._seconds:g} s."
                )

    def close(self) -> None:
        """See WrittenRanges."""
        self._consumer.close()


class _Rows:
    """Makes rows of Kafka's messages."""

    def __init__(self, settings: LogSettings) -> None:
        self._place = settings.place
        self._known: dict[bytes, WrittenBy] = {}

    def of(self, messages: Sequence[Any]) -> Sequence[WrittenRow]:
        """The records; without those of no eventual log, as from when the log was a transactional one."""
        return [row for message in messages if (row := self._row(message)) is not None]

    def _row(self, message: Any) -> WrittenRow | None:
        by = next((content for name, content in message.headers() or () if name == WRITTEN_HEADER), None)
        key = message.key()
        if by is None or key is None:
            return None
        known = self._known.get(by)
        if known is None:
            place = f"partition {message.partition()} of {self._place}"
            known = self._known[by] = WrittenBy.from_json(by, place=place)
        return WrittenRow(key, message.value(), known, message.partition(), message.offset())


MOST_CONNECTIONS = 32
IDLE_SECONDS = 60.0


class _Kept(NamedTuple):
    log: WrittenRanges
    since: float


def _call_later(seconds: float, call: Callable[[], None]) -> None:
    timer = Timer(seconds, call)
    timer.name = "interbed-log-bounds"
    # A process that ends does not wait for it.
    timer.daemon = True
    timer.start()


class LogBounds:
    """Asks logs for their bounds, and keeps a connection to each of them. Safe for several threads, each of which has
    a connection alone while it asks, and for processes that are forked.

    A connection goes after an error, when it is not used for `idle_seconds` (at most as long again later), when more
    than `most` are kept (the one used least recently), and by `close`. `later` calls a function after some seconds.
    """

    def __init__(
        self,
        connect: Callable[[LogSettings], WrittenRanges] = KafkaWrittenRanges,
        *,
        most: int = MOST_CONNECTIONS,
        idle_seconds: float = IDLE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        later: Callable[[float, Callable[[], None]], None] = _call_later,
        process: Callable[[], int] = os.getpid,
    ) -> None:
        self._connect = connect
        self._most = most
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._later = later
        self._process = process
        self._owner = process()
        self._kept: OrderedDict[tuple[object, ...], _Kept] = OrderedDict()
        self._inherited: list[OrderedDict[tuple[object, ...], _Kept]] = []
        self._is_watched = False
        self._guard = Lock()

    def of(self, settings: LogSettings) -> WrittenRange | None:
        """Where a log begins and ends now; None for one that is not there. LogUnavailableError, MissingExtraError."""
        with self._guard:
            self._disown_inherited()
            kept = self._kept.pop(settings.identity, None)
        log = self._connect(settings) if kept is None else kept.log
        try:
            found = log.bounds()
        except BaseException:
            # The next question may be answered by a connection that knows of nothing.
            log.close()
            raise
        self._keep(settings, log)
        return found

    def close(self) -> None:
        """Let go of all connections that nobody uses now; they are made again when they are needed."""
        with self._guard:
            self._disown_inherited()
            gone, self._kept = self._kept, OrderedDict()
        _close(*gone.values())

    def _keep(self, settings: LogSettings, log: WrittenRanges) -> None:
        gone = []
        with self._guard:
            # Another thread may have asked at the same time.
            if settings.identity in self._kept:
                gone.append(self._kept.pop(settings.identity))
            self._kept[settings.identity] = _Kept(log, self._clock())
            while len(self._kept) > self._most:
                gone.append(self._kept.popitem(last=False)[1])
            self._watch()
        _close(*gone)

    def _watch(self) -> None:
        if self._kept and not self._is_watched:
            self._is_watched = True
            self._later(self._idle_seconds, self._let_go_of_idle)

    def _let_go_of_idle(self) -> None:
        with self._guard:
            self._disown_inherited()
            used = self._clock() - self._idle_seconds
            idle = [identity for identity, kept in self._kept.items() if kept.since <= used]
            gone = [self._kept.pop(identity) for identity in idle]
            self._is_watched = False
            self._watch()
        _close(*gone)

    def _disown_inherited(self) -> None:
        """After a fork, begin with nothing: connections are closed by threads that the child does not have, so that it
        must not even drop the last reference to one.
        """
        if self._owner != self._process():
            self._owner = self._process()
            self._inherited.append(self._kept)
            self._kept = OrderedDict()
            self._is_watched = False


def _close(*gone: _Kept) -> None:
    for each in gone:
        each.log.close()


_shared = LogBounds()
atexit.register(_shared.close)


def bounds_of(settings: LogSettings) -> WrittenRange | None:
    """Where a log begins and ends now, by the connections of this process; see LogBounds.of."""
    return _shared.of(settings)


def forget_bounds() -> None:
    """Let go of the connections of this process; they are made again when they are needed."""
    _shared.close()
